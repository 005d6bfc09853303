"""A parser of a command, which imports the command's module when the command is used, and not before.

To import every command takes several times as long as `watersmeet --help` or a refused job file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command: the sentence that `--help` shows, and how its module is imported."""

    sentence: str
    load: Callable[[], ModuleType]


class CommandParser(argparse.ArgumentParser):
    """A parser that a module completes: its `add_arguments(parser)` leaves the command's function in `run`."""

    load: Callable[[], ModuleType] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.load is not None:
            load, self.load = self.load, None
            load().add_arguments(self)
        return super().parse_known_args(args, namespace)


def add_commands(parser: argparse.ArgumentParser, commands: Mapping[str, Command], title: str, metavar: str) -> None:
    """Give `parser` the commands by their names."""
    entries = parser.add_subparsers(title=title, metavar=metavar, required=True, parser_class=CommandParser)
    for name, command in commands.items():
        entries.add_parser(name, help=command.sentence).load = command.load
