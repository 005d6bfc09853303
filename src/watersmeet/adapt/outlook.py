"""What the controller shows to a policy: cheap facts at once, and the signals that the policy has said it needs.

A signal is worked out when it is first looked at, and then shared by all policies that are asked at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any

from watersmeet.adapt.view import MemoryView
from watersmeet.errors import InternalError
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Learned, Manifest

if TYPE_CHECKING:
    from watersmeet.adapt.policy import Moment


class Signal(Enum):
    MEMORY = auto()  # sizes and earnings of all groups, live and cold
    PARTS = auto()  # the segments that cold generations lie in


@dataclass(frozen=True)
class Facts:
    """What one moment looks like; `Outlook` is how much of it a policy sees."""

    moment: Moment
    plan: PhysicalPlan
    manifest: Manifest
    ledgers: Ledgers
    learned: Learned
    take_memory: Callable[[], MemoryView]

    @cached_property
    def memory(self) -> MemoryView:
        return self.take_memory()


@dataclass(frozen=True)
class Outlook:
    facts: Facts
    signals: frozenset[Signal]

    @property
    def moment(self) -> Moment:
        return self.facts.moment

    @property
    def next_batch(self) -> int:
        return self.facts.manifest.last_batch + 1

    @property
    def active_bytes(self) -> int:
        return self.facts.manifest.active_bytes

    @property
    def learned(self) -> Learned:
        return self.facts.learned

    @property
    def owes(self) -> bool:
        """Whether any group has two generations or more, the live one among them."""
        return any(bool(ledger.owing.any()) for ledger in self._ledgers.values())

    @property
    def has_mergeable(self) -> bool:
        """Whether any group has two closed generations or more."""
        return any(bool((ledger.count > 1).any()) for ledger in self._ledgers.values())

    @property
    def last_decision(self) -> Mapping[str, Any] | None:
        decisions = self.facts.manifest.decisions
        return decisions[-1] if decisions else None

    @property
    def unspillable(self) -> tuple[str, ...]:
        """What people call the joins that cannot be spilled."""
        spillable = {node.label for node in self.facts.plan.operators.values()}
        return tuple(dict.fromkeys(s.title for s in self.facts.plan.stages if s.title not in spillable))

    @property
    def memory(self) -> MemoryView:
        self._check(Signal.MEMORY)
        return self.facts.memory

    @property
    def manifest(self) -> Manifest:
        self._check(Signal.PARTS)
        return self.facts.manifest

    @property
    def plan(self) -> PhysicalPlan:
        return self.facts.plan

    @property
    def _ledgers(self) -> Mapping[Any, Any]:
        return self.facts.ledgers.at(self.facts.manifest)

    def _check(self, signal: Signal) -> None:
        if signal not in self.signals:
            raise InternalError(f"a policy looked at {signal.name}, which it does not say that it needs")
