"""Another number of groups for a state: its segments, described by the groups that there are then.

A group is a range of the hash, and files are sorted by hash, so no file says anything of groups: for most of them it is
enough to count their rows by the new ranges. Only where groups have left a file, and what is left of it does not begin
and end where new groups do, the rest is written down anew.

Nothing may be owed: then the rows of each group are one generation, and so are those of any other range of the hash.
All that was spilled is active again, as after a change of the plan; the policies see to the budget.

Reads files and writes some; the commit is the driver's. Works through a file in pieces, in the driver's own process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from watersmeet.kernel.pieces import merged_pieces
from watersmeet.kernel.rows import hashes
from watersmeet.model.bounds import Bounds
from watersmeet.model.ids import SegmentId
from watersmeet.model.routing import GroupRange, Slice, count_groups, union_ranges
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.runtime.stages.slot_state import slices_of
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_files import Pieces, Segments, count_by_group
from watersmeet.state.updates import Regroup


def regroup(plan: PhysicalPlan, manifest: Manifest, segments: Segments, groups: int) -> tuple[Regroup, list[Segment]]:
    """The update that gives a state so many groups, and the segments of it that were written for that."""
    placement = manifest.placement.regroup(groups)
    described: list[Segment] = []
    written: list[Segment] = []
    for state in plan.states.values():
        before = manifest.placement.of(state.partitioning).bounds
        after = placement.of(state.partitioning).bounds
        for segment in _whole_files(manifest.segments.of_state(state.name)):
            content = segments.read(segment)
            found = _described(segment, content, before, after)
            if found is None:
                found = _rewritten(segment, content, state, segments, before, after)
                written += [] if found is None else [found]
            described += [] if found is None else [found]
    return Regroup(placement, tuple(described)), written


def _whole_files(entries: Iterable[Segment]) -> list[Segment]:
    """One active entry for each file, with all the groups that any of its parts stands for."""
    parts: dict[SegmentId, list[Segment]] = {}
    for entry in entries:
        parts.setdefault(entry.file, []).append(entry)
    return [held[0].reopened(union_ranges(group for part in held for group in part.groups)) for held in parts.values()]


def _described(segment: Segment, content: Pieces, before: Bounds, after: Bounds) -> Segment | None:
    """The entry of a file by the new groups; None if it holds rows that would count and do not."""
    reached = _reached(segment.written, before, after)
    live = reached if segment.groups == segment.written else _exactly(segment.groups, before, after)
    if live is None:
        return None
    rows, keys = np.zeros(count_groups(reached), dtype=np.int64), np.zeros(count_groups(reached), dtype=np.int64)
    for piece in content:
        found = count_by_group(hashes(piece.rows), Slice(reached, after))
        rows += np.array(found[0], dtype=np.int64)
        keys += np.array(found[1], dtype=np.int64)
    return replace(
        segment, groups=live, written=reached, group_rows=tuple(rows.tolist()), group_keys=tuple(keys.tolist())
    )


def _rewritten(
    segment: Segment, content: Pieces, state: State, segments: Segments, before: Bounds, after: Bounds
) -> Segment | None:
    """A file of the rows alone that count; None if there are none."""
    runs = slices_of(content, segment, state, before)
    reached = Slice(_reached(segment.groups, before, after), after)
    made = segments.write(merged_pieces(runs, state.schema), state, reached, segment.batch)
    return None if made is None else replace(made, delivery=segment.delivery)


def _reached(groups: Iterable[GroupRange], before: Bounds, after: Bounds) -> tuple[GroupRange, ...]:
    """The new groups that hashes of former ones may lie in.

    >>> _reached([(1, 2)], Bounds(3), Bounds(2)), _reached([(1, 2)], Bounds(2), Bounds(4))
    (((0, 2),), ((2, 4),))
    """
    found = []
    for low, high in groups:
        first, last = before.hash_start(low), before.hash_start(high) - 1
        ends = after.groups_of(np.array([first, last], dtype=np.uint64))
        found.append((int(ends[0]), int(ends[1]) + 1))
    return union_ranges(found)


def _exactly(groups: Iterable[GroupRange], before: Bounds, after: Bounds) -> tuple[GroupRange, ...] | None:
    """The new groups that are the same hashes as former ones; None if there are none such.

    >>> _exactly([(1, 2)], Bounds(2), Bounds(4)), _exactly([(1, 2)], Bounds(3), Bounds(2))
    (((2, 4),), None)
    """
    groups = tuple(groups)
    reached = _reached(groups, before, after)

    def stretches(ranges: Iterable[GroupRange], bounds: Bounds) -> list[tuple[int, int]]:
        return [(bounds.hash_start(low), bounds.hash_start(high)) for low, high in ranges]

    return reached if stretches(reached, after) == stretches(union_ranges(groups), before) else None
