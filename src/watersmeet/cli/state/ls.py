"""`watersmeet state ls`: the versions that can be read. Reads manifests only; takes no lock and changes nothing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from watersmeet.cli.state.checkpoint import add_checkpoint, batch_text, readable_versions
from watersmeet.cli.terminal import make_table, output_console, size_text
from watersmeet.state.manifest import Manifest

if TYPE_CHECKING:
    from watersmeet.cli.terminal import SubParsers


def add_parser(subparsers: SubParsers) -> None:
    parser = subparsers.add_parser("ls", help="the versions that can be read, newest last")
    add_checkpoint(parser)
    parser.set_defaults(run=list_versions)


def list_versions(args: argparse.Namespace) -> int:
    manifests = readable_versions(args.checkpoint)
    console = output_console()
    columns = ("version", "batch", "state rows", "segments", "active", "rows in", "rows out", "rows late")
    console.print(make_table(columns, [_version_cells(manifest) for manifest in manifests], right=columns))
    last = manifests[-1]
    console.print(
        f"\n{len(manifests)} versions can be read; the newest, {last.version}, is the state after "
        f"{batch_text(last)}: {last.rows_in:,} rows in, {last.rows_out:,} out, {last.rows_late:,} late"
    )
    return 0


def _version_cells(manifest: Manifest) -> tuple[str, ...]:
    return (
        str(manifest.version),
        "-" if manifest.batch is None else str(manifest.batch.number),
        f"{manifest.state_rows:,}",
        f"{len(manifest.segments):,}",
        size_text(manifest.active_bytes),
        f"{manifest.rows_in:,}",
        f"{manifest.rows_out:,}",
        f"{manifest.rows_late:,}",
    )
