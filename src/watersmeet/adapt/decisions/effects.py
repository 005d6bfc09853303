"""What comes of decisions: updates of the manifest, and work that the runtime does.

`carry_out` is a `singledispatch`: the effect of a decision stands in its file. It writes to a draft, so that several
decisions become one placement, and one closed generation for each operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple, TypeVar

import numpy as np

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.errors import InternalError
from watersmeet.model.ids import GroupKey, OperatorName
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.state.learned import Learned
from watersmeet.state.ledger import Ledger, Ledgers, as_ranges
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_table import next_generation
from watersmeet.state.taken import Taken
from watersmeet.state.updates import CloseGroups, Learn, RecordDecision, SetPlacement, Update

DecisionT = TypeVar("DecisionT", bound=Decision)


class Known(NamedTuple):
    """What decisions are carried out on."""

    plan: PhysicalPlan
    manifest: Manifest
    ledgers: Ledgers
    learned: Learned


@dataclass(frozen=True)
class Effects:
    """`work` is what tasks are to do, and what the runtime must do itself: cuts to count, and a plan to change to.

    What was learned alone is no reason for a commit: it goes with the next one, whatever that is for.
    """

    updates: tuple[Update, ...] = ()
    work: tuple[Decision, ...] = ()

    def work_of(self, kind: type[DecisionT]) -> list[DecisionT]:
        return [item for item in self.work if isinstance(item, kind)]

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The decisions that users are shown, as in the manifest."""
        return [dict(update.decision) for update in self.updates if isinstance(update, RecordDecision)]

    @property
    def learned(self) -> Learned | None:
        return next((update.learned for update in self.updates if isinstance(update, Learn)), None)

    @property
    def placed(self) -> bool:
        """Whether slots or owners change. Then policies are asked again before anything else is done."""
        return any(isinstance(update, SetPlacement) for update in self.updates)


class Draft:
    """Effects while they are put together."""

    def __init__(self, known: Known) -> None:
        self.plan, self.manifest, self.ledgers, self.learned = known
        self.placement = self.manifest.placement
        self.updates: list[Update] = []
        self.work: list[Decision] = []
        self.merging: dict[OperatorName, float] = {}  # results that are expected of merges
        self._known = known
        self._closing: dict[OperatorName, set[int]] = {}
        self._records: list[Update] = []

    @property
    def next_batch(self) -> int:
        return self.manifest.last_batch + 1

    def ledger(self, operator: OperatorName) -> Ledger:
        return self.ledgers.at(self.manifest)[operator]

    def record(self, decision: Mapping[str, Any], taken: Taken | None = None) -> None:
        """Show a decision to users."""
        self._records.append(RecordDecision(decision, taken))

    def close(self, groups: Iterable[GroupKey]) -> bool:
        """Close the live generations of those of `groups` that have rows in them; whether any has."""
        found = False
        for operator, group in groups:
            live = self.ledger(operator).live
            if live is not None and live.there[group]:
                self._closing.setdefault(operator, set()).add(group)
                found = True
        return found

    def finish(self) -> Effects:
        updates: list[Update] = [*self._closed(), *self.updates]
        if self.placement != self.manifest.placement:
            updates.append(SetPlacement(self.placement))
        updates += self._records
        if self.learned != self._known.learned:
            updates.append(Learn(self.learned))
        return Effects(tuple(updates), tuple(self.work))

    def _closed(self) -> Iterable[CloseGroups]:
        """One update for each operator."""
        for operator, numbers in self._closing.items():
            chosen = np.zeros(self.ledger(operator).groups, dtype=bool)
            chosen[list(numbers)] = True
            states = self.plan.operators[operator].states
            yield CloseGroups(operator, states, as_ranges(chosen), next_generation(self.manifest.segments, states))


@singledispatch
def carry_out(decision: Any, draft: Draft) -> None:
    raise InternalError(f"nobody says what comes of a {type(decision).__name__}")


def effects_of(decisions: Iterable[Decision], known: Known) -> Effects:
    """What is to be committed for settled decisions, and what is to be done."""
    draft = Draft(known)
    for decision in decisions:
        carry_out(decision, draft)
    return draft.finish()
