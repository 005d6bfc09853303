"""`watersmeet state compact`: unites small files of the state, between two runs, and says what that came to."""

from __future__ import annotations

import argparse

from watersmeet.cli.state.checkpoint import add_checkpoint, readable_versions
from watersmeet.cli.terminal import size_text
from watersmeet.runtime.compacting import Sizes, compact
from watersmeet.state.folders import CheckpointFolders


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    readable_versions(args.checkpoint)  # says what is missing, where there is no checkpoint
    done = compact(CheckpointFolders(args.checkpoint))
    print(f"state: {_text(done.before)} before, {_text(done.after)} after, in version {done.version}")
    print(f"deleted: {done.files_deleted:,} files that no version kept refers to")
    if done.files_kept:
        print(f"{done.files_kept:,} files stay for earlier versions, kept from {done.kept_from} on, and go as these do")
    return 0


def _text(sizes: Sizes) -> str:
    return f"{sizes.files:,} files with {size_text(sizes.bytes)} ({sizes.entries:,} entries)"
