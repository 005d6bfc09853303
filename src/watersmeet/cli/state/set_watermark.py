"""`watersmeet state set-watermark`: sets the watermark of a stream back between two runs. One commit, with the lock."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from watersmeet.cli.state.checkpoint import add_checkpoint, readable_versions
from watersmeet.model.quantities import time_text
from watersmeet.runtime.set_watermark import set_watermark
from watersmeet.state.folders import CheckpointFolders

# What it brings back, and what not.
CONSEQUENCES = """\
rows of "{stream}" from {after} on that are read from now on are not late, and join with what the state still holds
what is gone stays gone: rows of other streams that no row of "{stream}" seemed to need any more, and the rows of \
"{stream}" that came late in the meantime, which are in the late output if the job has one"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint(parser)
    parser.add_argument("--stream", required=True, help="the name of the stream")
    parser.add_argument(
        "--to",
        required=True,
        metavar="TIME",
        help='the new watermark, such as "2026-11-17 09:30:00", in UTC unless it says otherwise; for a stream whose '
        "event time is a BIGINT also a number of microseconds",
    )
    parser.add_argument(
        "--take-over", action="store_true", help="also where no lock says whether a run is using the checkpoint"
    )
    parser.add_argument("--json", action="store_true", help="what was changed as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    readable_versions(args.checkpoint)  # before anything is made, a lock for example
    done = set_watermark(CheckpointFolders(args.checkpoint), args.stream, args.to, args.take_over)
    before, after = time_text(done.before_us), time_text(done.after_us)
    if args.json:
        print(json.dumps({**asdict(done), "before": before, "after": after}))
        return 0
    print(f'watermark of stream "{done.stream}" set back from {before} to {after}, with version {done.version}')
    print(CONSEQUENCES.format(stream=done.stream, after=after))
    return 0
