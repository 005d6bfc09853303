"""`watersmeet state ls`: the versions that can be read. Reads manifests only; takes no lock and changes nothing."""

from __future__ import annotations

import argparse

from watersmeet.cli.state.checkpoint import add_checkpoint, batch_text, readable_versions
from watersmeet.cli.terminal import make_table, output_console, size_text
from watersmeet.model.quantities import time_text
from watersmeet.state.manifest import Manifest

COLUMNS = (
    "version",
    "committed",
    "batch",
    "state rows",
    "segments",
    "active",
    "rows in",
    "rows out",
    "rows late",
    "go back",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint(parser)
    parser.set_defaults(run=list_versions)


def list_versions(args: argparse.Namespace) -> int:
    manifests = readable_versions(args.checkpoint)
    console = output_console()
    last = manifests[-1]
    rows = [_version_cells(manifest, last) for manifest in manifests]
    console.print(make_table(COLUMNS, rows, right=[name for name in COLUMNS if name not in ("committed", "go back")]))
    console.print(
        f"\n{len(manifests)} versions can be read; the newest, {last.version}, is the state after "
        f"{batch_text(last)}: {last.rows_in:,} rows in, {last.rows_out:,} out, {last.rows_late:,} late"
    )
    return 0


def _version_cells(manifest: Manifest, last: Manifest) -> tuple[str, ...]:
    return (
        str(manifest.version),
        time_text(manifest.committed_us).partition(".")[0],
        "-" if manifest.last_batch < 0 else str(manifest.last_batch),
        f"{manifest.state_rows:,}",
        f"{len(manifest.segments):,}",
        size_text(manifest.active_bytes),
        f"{manifest.rows_in:,}",
        f"{manifest.rows_out:,}",
        f"{manifest.rows_late:,}",
        "yes" if last.can_go_back_to(manifest.version) else "",
    )
