"""Making what is in memory cold, and that this cannot be done."""

from __future__ import annotations

from dataclasses import dataclass, replace

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Draft, carry_out
from watersmeet.adapt.trials import open_trial, trial_of
from watersmeet.model.ids import GroupKey
from watersmeet.state.learned import SPILL, Trial
from watersmeet.state.updates import CoolGroups

BYTES, RESULTS = "bytes", "results"  # the parts of a spill's trial: of memory at once, of results after a batch


@dataclass(frozen=True)
class SpillGroups(Decision):
    """Close the live generations of these groups and make them cold, the first one first. May be none.

    A policy says how many bytes this frees, and how many results of a batch it puts off until a merge.
    """

    groups: tuple[GroupKey, ...]
    reason: str
    bytes: int = 0
    results: float = 0.0


@dataclass(frozen=True)
class SpillAggregates(Decision):
    """Make all that a group-by keeps cold: so many bytes, which are read at boundaries and owe nothing."""

    bytes: int
    reason: str


@dataclass(frozen=True)
class CloseLive(Decision):
    """Close the live generations of these groups, to make room for merges of their operator."""

    groups: tuple[GroupKey, ...]
    reason: str


@dataclass(frozen=True)
class CannotSpill(Decision):
    """The budget is passed, and nothing can be done about it."""

    reason: str


@dataclass(frozen=True)
class CountPushed(Decision):
    """So much of what is cold a slot was made to spill for others, with what is decided along with this."""

    bytes: int


@carry_out.register
def _(decision: SpillGroups, draft: Draft) -> None:
    if not draft.close(decision.groups):
        return
    draft.learned = replace(draft.learned, cannot_spill=False)
    if decision.bytes:
        _expect(decision, draft)
    draft.record(decision.to_json())


def _expect(decision: SpillGroups, draft: Draft) -> None:
    """Open the trials of a spill, or add to those of another one that is decided with it."""
    last, what = draft.manifest.batch, f"{len(decision.groups)} groups"
    came = {"rows": 0.0, "rows_out": 0.0}
    if last is not None:
        came = {"rows": float(last.rows_in), "rows_out": float(last.rows_out)}
    for of, before, change in (
        (BYTES, {BYTES: float(draft.manifest.active_bytes)}, -float(decision.bytes)),
        (RESULTS, {RESULTS: 0.0, **came}, decision.results),
    ):
        known = trial_of(draft.learned, SPILL, of)
        same = known is not None and (known.at_batch, known.before) == (draft.next_batch, before)
        expected = known.expected[of] if known is not None and same else before[of]
        trial = Trial(SPILL, what, draft.next_batch, before, {of: max(0.0, expected + change)}, of)
        draft.learned = open_trial(draft.learned, trial)


@carry_out.register
def _(decision: SpillAggregates, draft: Draft) -> None:
    grouped = draft.plan.grouped
    held = [] if grouped is None else draft.manifest.segments.active(grouped.name).entries.values()
    cooled = [CoolGroups(segment.id, segment.state, segment.groups) for segment in held]
    if cooled:
        draft.updates += cooled
        draft.record(decision.to_json())


@carry_out.register
def _(decision: CloseLive, draft: Draft) -> None:
    draft.close(decision.groups)


@carry_out.register
def _(decision: CannotSpill, draft: Draft) -> None:
    draft.learned = replace(draft.learned, cannot_spill=True)
    draft.record(decision.to_json())


@carry_out.register
def _(decision: CountPushed, draft: Draft) -> None:
    draft.learned = replace(draft.learned, pushed_bytes=decision.bytes)
