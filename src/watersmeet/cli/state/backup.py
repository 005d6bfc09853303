"""`watersmeet state backup`: copies a checkpoint, while its query runs or not. Changes nothing in it."""

from __future__ import annotations

import argparse
import json

from watersmeet.cli.notes import tell
from watersmeet.cli.state.checkpoint import add_checkpoint, no_checkpoint
from watersmeet.cli.terminal import output_console, progress_bar, size_text
from watersmeet.errors import JobError
from watersmeet.runtime.clock import utc_text
from watersmeet.state.backup.make import Made, back_up
from watersmeet.state.backup.store import BackupStore
from watersmeet.state.folders import CheckpointFolders

KEPT = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint(parser)
    parser.add_argument("to", help="the folder for backups")
    parser.add_argument(
        "--keep", type=int, default=KEPT, help=f"backups to keep there, with this one (default: {KEPT})"
    )
    parser.add_argument("--json", action="store_true", help="what was copied as JSON")
    parser.set_defaults(run=back_up_checkpoint)


def back_up_checkpoint(args: argparse.Namespace) -> int:
    if args.keep < 1:
        raise JobError(f"--keep {args.keep} would leave no backup", hint="Give a number above zero.")
    store = BackupStore(args.to)
    with progress_bar("bytes") as progress:
        made = back_up(CheckpointFolders(args.checkpoint), store, utc_text(), args.keep, progress)
    if made is None:
        raise no_checkpoint(args.checkpoint)
    if made.unknown:
        tell(
            f"{len(made.unknown)} files of results are not known to be delivered, and the checkpoint does not say "
            "where they wait: they are not in the backup. Run its job once with this version, which notes it down."
        )
    if args.json:
        print(json.dumps(_json(made), indent=2))
    else:
        _show(made)
    return 0


def _json(made: Made) -> dict[str, object]:
    index = made.index
    return {
        "backup": index.number,
        "version": index.version,
        "batch": index.batch,
        "made": index.made,
        "files": len(index.files),
        "bytes": index.bytes,
        "copied_files": made.copied_files,
        "copied_bytes": made.copied_bytes,
        "deleted_files": made.deleted_files,
        "turns": made.turns,
    }


def _show(made: Made) -> None:
    index = made.index
    console = output_console()
    batch = "no batch yet" if index.batch < 0 else f"batch {index.batch}"
    console.print(
        f"backup {index.number} is version {index.version}, after {batch}: {len(index.files):,} files, "
        f"{size_text(index.bytes)}"
    )
    console.print(
        f"copied {made.copied_files:,} files, {size_text(made.copied_bytes)}; {made.kept_files:,} were there already; "
        f"{made.deleted_files:,} were deleted that no backup needs"
    )
