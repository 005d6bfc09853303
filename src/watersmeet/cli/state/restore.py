"""`watersmeet state restore`: makes a checkpoint from a backup, and says what follows from that before a run does."""

from __future__ import annotations

import argparse

from rich.console import Console

from watersmeet.cli.terminal import output_console, progress_bar, size_text
from watersmeet.state.backup.index import BackupIndex
from watersmeet.state.backup.restore import (
    Delivered,
    choose,
    delivered_since,
    outputs_of,
    put_back,
    restore,
    set_aside,
    withdrawn_since,
)
from watersmeet.state.backup.store import BackupStore
from watersmeet.state.folders import CheckpointFolders


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("backups", metavar="BACKUPS", help="the folder for backups")
    parser.add_argument("checkpoint", help="the checkpoint folder to make; there must be none")
    parser.add_argument("--number", type=int, help="the backup to restore (default: the newest)")
    parser.add_argument(
        "--set-aside",
        action="store_true",
        help="have the output as it was: move results that were delivered after the backup out of the way, since they "
        "will be delivered once more, and those back that a rollback has taken out since",
    )
    parser.set_defaults(run=restore_checkpoint)


def restore_checkpoint(args: argparse.Namespace) -> int:
    store = BackupStore(args.backups)
    index = choose(store, args.number)
    folders = CheckpointFolders(args.checkpoint)
    with progress_bar("bytes") as progress:
        restore(store, index, folders, progress)
    console = output_console()
    batch = "no batch yet" if index.batch < 0 else f"batch {index.batch}"
    console.print(
        f"restored backup {index.number} of {index.made}: version {index.version}, after {batch}, "
        f"{len(index.files):,} files, {size_text(index.bytes)}"
    )
    _say_what_follows(console, index)
    for output in outputs_of(index, folders.home):
        if output.local and not output.is_there:
            console.print(
                f"warning: {output.path()}, where its results went, is not there. If they lie elsewhere now, take out "
                f"those that are later than the backup before the next run: their names have -d{index.next_delivery}- "
                "or a higher number."
            )
    delivered = delivered_since(index, folders.home)
    withdrawn = withdrawn_since(index, folders.home)
    if args.set_aside:
        for entry, aside in zip(delivered, set_aside(delivered, index), strict=True):
            console.print(f"moved {len(entry.names):,} files that were delivered since to {aside.path()}")
        for entry, output in zip(withdrawn, put_back(withdrawn), strict=True):
            console.print(f"moved {len(entry.names):,} files that were delivered before the backup to {output.path()}")
    else:
        _warn(console, delivered, withdrawn)
    return 0


def _say_what_follows(console: Console, index: BackupIndex) -> None:
    console.print(
        f"The next run goes on from there: what came after {index.made} is read, joined and delivered once more, in "
        f"files of other names, and foreachBatch gets ids from {index.next_delivery} on, with other rows than before."
    )


def _warn(console: Console, delivered: list[Delivered], withdrawn: list[Delivered]) -> None:
    for entry in delivered:
        console.print(
            f"warning: {entry.folder.path()} holds {len(entry.names):,} files that are later than the backup, such as "
            f"{entry.names[0]}: their rows will be there twice. Remove them before the next run; --set-aside moves "
            "them out of the way."
        )
    for entry in withdrawn:
        console.print(
            f"warning: {entry.folder.path()} holds {len(entry.names):,} files that were delivered before the backup, "
            f"and taken out since, such as {entry.names[0]}: their rows are missing from the output, and do not come "
            "again. Move them back before the next run; --set-aside does so."
        )
