"""`watersmeet state backups`: the backups in a folder, and with `--verify` whether all of their files are whole."""

from __future__ import annotations

import argparse

from watersmeet.cli.terminal import make_table, output_console, progress_bar, size_text
from watersmeet.state.backup.restore import choose
from watersmeet.state.backup.store import BackupStore
from watersmeet.state.backup.verify import wrong_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("backups", metavar="BACKUPS", help="the folder for backups")
    parser.add_argument("--verify", action="store_true", help="look through every file of each")
    parser.set_defaults(run=list_backups)


def list_backups(args: argparse.Namespace) -> int:
    store = BackupStore(args.backups)
    choose(store, None)  # says so if there is none
    whole = store.whole()
    console = output_console()
    columns = ("backup", "made", "version", "batch", "files", "size", "of")
    rows = [
        (
            str(index.number),
            index.made,
            str(index.version),
            "-" if index.batch < 0 else str(index.batch),
            f"{len(index.files):,}",
            size_text(index.bytes),
            index.source,
        )
        for index in whole
    ]
    console.print(make_table(columns, rows, right=("backup", "version", "batch", "files", "size")))
    if not args.verify:
        return 0
    with progress_bar("files") as progress:
        wrong = wrong_files(store, whole, progress)
    for file, what in wrong:
        console.print(f"damage: {file}: {what}", markup=False)
    console.print("all files are whole" if not wrong else f"{len(wrong)} files are damaged or missing")
    return 1 if wrong else 0
