"""`watersmeet state verify`: looks through a checkpoint, while its query runs or not. Changes nothing.

Exit code 0 if it is sound, 1 if it is damaged.
"""

from __future__ import annotations

import argparse
import json

from rich.text import Text

from watersmeet.cli.state.checkpoint import add_checkpoint, no_checkpoint
from watersmeet.cli.terminal import output_console, progress_bar, size_text
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.verify.findings import DAMAGE, DOUBT, ORPHAN, Finding, Report
from watersmeet.state.verify.walk import verify

SHOWN = 20  # orphans, more than which are counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint(parser)
    parser.add_argument("--json", action="store_true", help="what was found as JSON")
    parser.set_defaults(run=verify_checkpoint)


def verify_checkpoint(args: argparse.Namespace) -> int:
    with progress_bar("files") as progress:
        report = verify(CheckpointFolders(args.checkpoint), progress)
    if report is None:
        raise no_checkpoint(args.checkpoint)
    if args.json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        _show(report)
    return 0 if report.sound else 1


def _show(report: Report) -> None:
    console = output_console()
    for finding in (*report.of(DAMAGE), *report.of(DOUBT), *report.of(ORPHAN)[:SHOWN]):
        console.print(Text(_finding_text(finding)))
    if len(report.of(ORPHAN)) > SHOWN:
        console.print(f"{ORPHAN}: and {len(report.of(ORPHAN)) - SHOWN} more")
    counts = [f"{count:,} {_plural(what, count)}" for what, count in sorted(report.checked.items()) if what != "bytes"]
    console.print(f"looked at {', '.join(counts)}; {size_text(report.checked['bytes'])} in all")
    if report.collected:
        console.print(f"{report.collected} files were deleted meanwhile by the run that is at work, as they may be")
    judged = "sound" if report.sound else f"damaged in {len(report.of(DAMAGE))} places"
    where = "" if report.version is None else f" at version {report.version}"
    doubts = f", with {len(report.of(DOUBT))} doubts" if report.of(DOUBT) else ""
    console.print(f"the checkpoint{where} is {judged}{doubts}")


def _finding_text(finding: Finding) -> str:
    return f"{finding.kind}: {finding.what} {finding.file}: {finding.wrong}\n  to do: {finding.to_do}"


def _plural(what: str, count: int) -> str:
    """
    >>> _plural("note of Spark's", 2), _plural("segment", 1), _plural("rows", 3)
    ("notes of Spark's", 'segment', 'rows')
    """
    first, space, rest = what.partition(" of ")
    return what if count == 1 or first.endswith("s") else f"{first}s{space}{rest}"
