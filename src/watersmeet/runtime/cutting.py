"""What a cut of a group leaves on each side of it, counted in the files: segments are sorted, so by binary search.

Reads the files that have rows of the group, and changes nothing: what is found is an update, to be committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.kernel.hashing import UInt64Array
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.rows import hashes
from watersmeet.model.ids import SegmentId
from watersmeet.plan.physical import Node, PhysicalPlan
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_files import Segments
from watersmeet.state.updates import CutRange

Counts = Mapping[SegmentId, tuple[int, int]]  # rows and distinct keys, by file


def count_cut(cut: CutGroup, plan: PhysicalPlan, manifest: Manifest, segments: Segments) -> CutRange:
    """The update that cuts a group in two, in all states of the plan that are hashed on its partitioning."""
    states = tuple(name for name, state in plan.states.items() if state.partitioning == cut.partitioning)
    begin = manifest.placement.of(cut.partitioning).bounds.hash_start(cut.group)
    files = {entry.file: entry for state in states for entry in manifest.segments.of_state(state)}
    first = {
        file: _count(segments.read(entry), begin, cut.at_hash)
        for file, entry in files.items()
        if any(entry.count_of(cut.group) or ())
    }
    operators = [node for node in plan.operators.values() if node.partitioning == cut.partitioning]
    shares = {node.name: _share(node, cut.group, manifest, first) for node in operators}
    return CutRange(cut.partitioning, cut.group, cut.at_hash, states, first, shares)


def _count(pieces: Sequence[Indexed], begin: int, end: int) -> tuple[int, int]:
    """As `count_between`, of the pieces of a file, each of which has hashes of its own."""
    counts = [count_between(hashes(piece.rows), begin, end) for piece in pieces]
    return sum(rows for rows, _ in counts), sum(keys for _, keys in counts)


def count_between(values: UInt64Array, begin: int, end: int) -> tuple[int, int]:
    """How many of the sorted `values` are at least `begin` and less than `end`, and how many distinct ones.

    >>> count_between(np.array([1, 3, 3, 4, 9], np.uint64), 3, 9)
    (3, 2)
    """
    low, high = np.searchsorted(values, np.array([begin, end], dtype=np.uint64)).tolist()
    inside = values[low:high]
    return len(inside), int(np.count_nonzero(inside[1:] != inside[:-1])) + bool(len(inside))


def _share(node: Node, group: int, manifest: Manifest, first: Counts) -> float:
    """The share of an operator's active rows of a group that is in the first half: its figures go by these."""
    rows = before = 0
    for state in node.states:
        for entry in manifest.segments.active(state).entries.values():
            if entry.file in first and (held := entry.rows_by_group.get(group, 0)):
                rows += held
                before += first[entry.file][0]
    return before / rows if rows else 0.5
