"""`watersmeet state VERB`: shows, checks and looks after a checkpoint, one module a verb."""

from __future__ import annotations

import argparse
from importlib import import_module

from watersmeet.cli.command_parser import Command, add_commands

VERBS = {
    "ls": Command("the versions that can be read, newest last", lambda: import_module("watersmeet.cli.state.ls")),
    "show": Command(
        "one version: query, plan, placement, streams, states, segments",
        lambda: import_module("watersmeet.cli.state.show"),
    ),
    "verify": Command(
        "look through every file, whether it is there and as it was written",
        lambda: import_module("watersmeet.cli.state.verify"),
    ),
    "rollback": Command(
        "go back to an earlier version, between two runs", lambda: import_module("watersmeet.cli.state.rollback")
    ),
    "set-watermark": Command(
        "set the watermark of a stream back, after a row with a wrong time has moved it",
        lambda: import_module("watersmeet.cli.state.set_watermark"),
    ),
    "compact": Command(
        "unite small files of the state, between two runs", lambda: import_module("watersmeet.cli.state.compact")
    ),
    "backup": Command(
        "copy it, as it is at one version; only what is new is copied",
        lambda: import_module("watersmeet.cli.state.backup"),
    ),
    "backups": Command("the backups in a folder, newest last", lambda: import_module("watersmeet.cli.state.backups")),
    "restore": Command("make a checkpoint from a backup", lambda: import_module("watersmeet.cli.state.restore")),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_commands(parser, VERBS, title="what to do", metavar="VERB")
