"""When rows may go: no future row needs them, and no result that is owed does.

Future rows are those of streams, which are no older than their watermark, and results that an operator below still
owes, which are no older than what it holds back. A segment that no future row needs is released, except
- in groups with a closed generation: there it goes cold with its own generation, as results with that one are owed;
- if it is cold already: in the groups where everything of other generations is too young to be joined with it.
What a group-by keeps is owed nothing, cold or not.

Costs in proportion to the active segments, which compaction keeps few, and to the cold generations of windowed states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from watersmeet.kernel.window import NEVER
from watersmeet.model.ids import OperatorName, StateName
from watersmeet.model.routing import Groups, intersect_ranges, subtract_ranges
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.state.ledger import Ledger, Ledgers, as_ranges
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_table import SegmentTable
from watersmeet.state.updates import CoolGroups, ReleaseGroups, Update

Watermarks = Mapping[str, int | None]  # by stream, in microseconds


def horizon_us(
    plan: PhysicalPlan, state: State, watermarks: Watermarks, held: Mapping[OperatorName, int]
) -> int | None:
    """The time up to which rows of `state` may expire unseen; None before every stream outside has shown a row."""
    leads = state.leads or (0,) * len(state.outside)
    outside = ((watermarks[stream], lead) for stream, lead in zip(state.outside, leads, strict=True))
    marks = [None if mark is None else mark + lead for mark, lead in outside]
    # What is owed has a time that nothing in it is older than, and no lead: it may have rows of any stream outside.
    marks += [held[operator] for operator in plan.feeders[state.name] if operator in held]
    known = [mark for mark in marks if mark is not None]
    # Short of NEVER, the expiry of rows that nothing limits: they stay even when a watermark reaches the end of time.
    return min(*known, NEVER - 1) if known and len(known) == len(marks) else None


def emitted_until_us(state: State, manifest: Manifest, due_us: int | None = None) -> int | None:
    """The time up to which partial aggregates may go: they are not of later boundaries than those emitted, or `due`."""
    if not state.expires:  # as running totals do not
        return None
    emitted = manifest.emitted.get(state.name) if due_us is None else due_us
    return None if emitted is None else emitted + 1


def expire(plan: PhysicalPlan, manifest: Manifest, watermarks: Watermarks, ledgers: Ledgers) -> list[Update]:
    """The updates that let go of what has expired in `manifest`."""
    held = ledgers.holds_us(manifest)
    result: list[Update] = []
    for state in plan.states.values():
        if state.partials is not None:
            until = emitted_until_us(state, manifest)
        else:
            until = horizon_us(plan, state, watermarks, held)
        if until is None or not state.expires:
            continue
        operators = plan.operators_of.get(state.name)
        if operators is None:
            gone = (entry for entry in manifest.segments.of_state(state.name) if entry.max_expiry_us <= until)
            result += [ReleaseGroups(entry.id, entry.groups) for entry in gone]
        for ledger in map(ledgers.at(manifest).__getitem__, operators or ()):
            result += _expire_active(manifest.segments, state, until, ledger)
            result += _expire_cold(manifest.segments, state, until, ledger)
    return result


def expire_made(
    plan: PhysicalPlan,
    names: Iterable[StateName],
    manifest: Manifest,
    watermarks: Watermarks,
    within: Groups | None = None,
) -> list[Update]:
    """The same for states that are being made for a plan which is to take over, of these groups, and owes nothing."""
    result: list[Update] = []
    for state in map(plan.states.__getitem__, names):
        until = horizon_us(plan, state, watermarks, {})
        if until is not None and state.expires:
            gone = _of_groups(manifest.segments.of_state(state.name), within)
            result += [ReleaseGroups(entry.id, entry.groups) for entry in gone if entry.max_expiry_us <= until]
    return result


def _of_groups(segments: Iterable[Segment], within: Groups | None) -> Iterator[Segment]:
    """What these have of some groups."""
    for segment in segments:
        found = segment if within is None else segment.only(within)
        if found.groups:
            yield found


def _expire_active(segments: SegmentTable, state: State, until: int, ledger: Ledger) -> Iterator[Update]:
    owing = ledger.closed_ranges
    for segment in _of_groups(segments.active(state.name).entries.values(), ledger.within):
        if segment.max_expiry_us <= until:
            if dropped := subtract_ranges(segment.groups, owing):
                yield ReleaseGroups(segment.id, dropped)
            if cooled := intersect_ranges(segment.groups, owing):
                yield CoolGroups(segment.id, state.name, cooled)


def _expire_cold(segments: SegmentTable, state: State, until: int, ledger: Ledger) -> Iterator[Update]:
    for generation, bucket in segments.cold(state.name).items():
        if bucket.first_expiry_us > until:
            continue
        partners = ledger.partner_times_us(generation)
        for segment in _of_groups(bucket.entries.values(), ledger.within):
            if segment.max_expiry_us <= until:
                alone = np.zeros(ledger.groups, dtype=bool)
                held = segment.held_groups
                alone[held] = partners[held] >= segment.max_expiry_us
                if gone := intersect_ranges(as_ranges(alone), segment.groups):
                    yield ReleaseGroups(segment.id, gone)
