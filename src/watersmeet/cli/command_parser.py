"""A parser of a command, which imports the command's module when the command is used, and not before.

To import every command takes several times as long as `watersmeet --help` or a refused job file.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from importlib import import_module
from typing import Any


class CommandParser(argparse.ArgumentParser):
    """A parser that `module` completes: its `add_arguments(parser)` leaves the command's function in `run`."""

    module: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.module is not None:
            module, self.module = self.module, None
            import_module(module).add_arguments(self)
        return super().parse_known_args(args, namespace)


def add_commands(
    parser: argparse.ArgumentParser, commands: Mapping[str, str], package: str, title: str, metavar: str
) -> None:
    """Give `parser` the `commands`, each with the sentence that `--help` shows, and with its module in `package`."""
    entries = parser.add_subparsers(title=title, metavar=metavar, required=True, parser_class=CommandParser)
    for name, sentence in commands.items():
        entries.add_parser(name, help=sentence).module = f"{package}.{name.replace('-', '_')}"
