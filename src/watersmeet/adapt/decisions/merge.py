"""Emitting what closed generations owe each other, and writing parts of one down together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Draft, carry_out
from watersmeet.adapt.estimates import owed_between, owed_by_group
from watersmeet.adapt.trials import open_trial
from watersmeet.model.ids import Generation, OperatorName, SegmentId, StateName
from watersmeet.model.routing import GroupRange, expand_ranges, intersect_ranges
from watersmeet.state.learned import MERGE, Trial


@dataclass(frozen=True)
class MergeGroup(Decision):
    """Emit what the closed generations of a group owe each other, with the live one closed first if `with_live`.

    `waiting` are the operators that a paper would have wait meanwhile; see `policies/merge/state_manager.py`.
    """

    operator: OperatorName
    group: int
    reason: str
    waiting: tuple[OperatorName, ...] = ()
    with_live: bool = True


@dataclass(frozen=True)
class MergeGenerations(Decision):
    """Emit what these closed generations owe each other in groups of an operator; they become part of the newest."""

    operator: OperatorName
    generations: tuple[Generation, ...]
    within: tuple[GroupRange, ...]
    reason: str


@dataclass(frozen=True)
class UniteParts(Decision):
    """Write these parts of a cold generation down as one. Nothing is emitted: they are complete among themselves."""

    state: StateName
    generation: Generation
    parts: tuple[SegmentId, ...]


@carry_out.register
def _(decision: MergeGroup, draft: Draft) -> None:
    if draft.plan.has_group(decision.operator, decision.group):  # where shapes differ, it may be another operator's
        if decision.with_live:
            draft.close([(decision.operator, decision.group)])
        owed = owed_by_group(draft.ledger(decision.operator), decision.group, decision.with_live)
        _expect(draft, decision.operator, owed)
        draft.work.append(decision)
    draft.record(decision.to_json())


@carry_out.register
def _(decision: MergeGenerations, draft: Draft) -> None:
    within = decision.within
    if (own := draft.plan.within[decision.operator]) is not None:
        within = intersect_ranges(within, own)
    if within:
        owed = owed_between(draft.ledger(decision.operator), decision.generations)[expand_ranges(within)]
        _expect(draft, decision.operator, float(owed.sum()))
        draft.work.append(replace(decision, within=within))
    draft.record(decision.to_json())


@carry_out.register
def _(decision: UniteParts, draft: Draft) -> None:
    draft.work.append(decision)


def _expect(draft: Draft, operator: OperatorName, results: float) -> None:
    """Results that merges of one operator, which are decided together, are to emit."""
    draft.merging[operator] = draft.merging.get(operator, 0.0) + results
    what = f"merges of {draft.plan.label(operator)}"
    trial = Trial(MERGE, what, draft.next_batch, {}, {"results": draft.merging[operator]}, operator)
    draft.learned = open_trial(draft.learned, trial)
