"""`watersmeet state VERB`: shows, checks and looks after a checkpoint, one module a verb."""

from __future__ import annotations

import argparse

from watersmeet.cli.command_parser import add_commands

VERBS = {
    "ls": "the versions that can be read, newest last",
    "show": "one version: query, plan, placement, streams, states, segments",
    "verify": "look through every file, whether it is there and as it was written",
    "rollback": "go back to an earlier version, between two runs",
    "set-watermark": "set the watermark of a stream back, after a row with a wrong time has moved it",
    "compact": "unite small files of the state, between two runs",
    "backup": "copy it, as it is at one version; only what is new is copied",
    "backups": "the backups in a folder, newest last",
    "restore": "make a checkpoint from a backup",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_commands(parser, VERBS, __name__, title="what to do", metavar="VERB")
