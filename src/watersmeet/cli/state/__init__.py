"""`watersmeet state VERB`: what is done with a checkpoint, one module a verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watersmeet.cli.state import backup, backups, compact, ls, restore, rollback, set_watermark, show, verify

if TYPE_CHECKING:
    from watersmeet.cli.terminal import SubParsers

# Each has add_parser(subparsers), which leaves the verb's function in `run` of the parsed arguments.
VERBS = (ls, show, verify, rollback, set_watermark, compact, backup, backups, restore)


def add_parser(subparsers: SubParsers) -> None:
    parser = subparsers.add_parser("state", help="show what a checkpoint holds, and look after it")
    verbs = parser.add_subparsers(title="what to do", metavar="VERB", required=True)
    for verb in VERBS:
        verb.add_parser(verbs)
