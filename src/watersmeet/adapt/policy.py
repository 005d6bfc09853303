"""What a policy is: when it is asked, which signals it needs, and what it proposes.

A policy is pure: same view, same answer. It holds settings and nothing else; what it learns is in the manifest, and a
view shows it. To add one: a class here's protocol fits, in a file of its own under `policies/`, and its place in the
tuple that `policies/__init__.py` makes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import ClassVar, Protocol

from watersmeet.adapt.decisions import Decision
from watersmeet.adapt.outlook import Outlook, Signal


class Moment(Enum):
    """When policies are asked."""

    BEFORE_BATCH = auto()
    AFTER_BATCH = auto()
    IDLE = auto()  # the sources are silent
    DRAIN = auto()  # everything owed is to be emitted, and more rows may come afterwards
    END = auto()  # everything owed is to be emitted, and no more rows will come


class Policy(Protocol):
    moments: ClassVar[frozenset[Moment]]
    needs: ClassVar[frozenset[Signal]]  # the controller fetches, the policy does not

    def propose(self, outlook: Outlook) -> Iterable[Decision]: ...
