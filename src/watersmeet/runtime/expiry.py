"""When rows may go: no future row needs them, and no result that is owed does.

Future rows are those of streams, which are no older than their watermark, and results that an operator below still
owes, which are no older than what it holds back. A segment that no future row needs is released, except
- in groups with a closed generation: there it goes cold with its own generation, as results with that one are owed;
- if it is cold already: once everything else in its groups is too young to be joined with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.kernel.window import NEVER
from watersmeet.model.routing import intersect_ranges, subtract_ranges
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.runtime.generations import closed_groups, holds
from watersmeet.state.manifest import Manifest
from watersmeet.state.updates import CoolGroups, ReleaseGroups, Update

Watermarks = Mapping[str, int | None]


def horizon(plan: PhysicalPlan, state: State, watermarks: Watermarks, held: Mapping[str, int]) -> int | None:
    """The time up to which rows of `state` may expire unseen; None before every stream outside has shown a row."""
    marks = [watermarks[stream] for stream in state.outside]
    marks += [held[operator] for operator in plan.feeders[state.name] if operator in held]
    known = [mark for mark in marks if mark is not None]
    # Short of NEVER, the expiry of rows that nothing limits: they stay even when a watermark reaches the end of time.
    return min(*known, NEVER - 1) if known and len(known) == len(marks) else None


def expire(plan: PhysicalPlan, manifest: Manifest, watermarks: Watermarks) -> list[Update]:
    """The updates that let go of the segments of `manifest` that have expired."""
    held = holds(plan, manifest)
    horizons = {name: horizon(plan, state, watermarks, held) for name, state in plan.states.items()}
    result: list[Update] = []
    for segment in manifest.segments.values():
        until = horizons.get(segment.state)
        if until is None or segment.max_expiry > until:
            continue
        operator = plan.operator_of.get(segment.state)
        if segment.tier == "cold":
            if operator is not None and segment.max_expiry <= _oldest_partner(plan, manifest, operator, segment):
                result.append(ReleaseGroups(segment.id, segment.groups))
            continue
        owing = () if operator is None else closed_groups(manifest, operator)
        if dropped := subtract_ranges(segment.groups, owing):
            result.append(ReleaseGroups(segment.id, dropped))
        if operator is not None and (cooled := intersect_ranges(segment.groups, owing)):
            result.append(CoolGroups(operator, segment.id, cooled))
    return result


def _oldest_partner(plan: PhysicalPlan, manifest: Manifest, operator: str, cold: Segment) -> int:
    """The oldest time among rows of other generations in the groups of a cold segment."""
    states = plan.operators[operator].states
    times = (
        other.min_time
        for other in manifest.segments.values()
        if other.state in states
        and (other.tier == "active" or other.generation != cold.generation)
        and intersect_ranges(other.groups, cold.groups)
    )
    return min(times, default=NEVER)
