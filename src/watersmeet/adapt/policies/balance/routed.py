"""Groups of routed joins as pieces of work: what `time` may move beside the groups of other joins.

A routed join keeps a state for each key that it is probed on, so that its groups are those of partitionings, and a
piece of one is named by that. Its rows come by hash to whoever owns the group, hop by hop; so a move is as exact there
as anywhere.

Slices of time are groups like others, but for where they may lie: a ring has a length of its own, and does not become
longer because a slot outside of it has nothing to do.

Known limit: nobody counts what a routed join does for each group. What came to tasks and not to groups that are counted
came to it, and is shared out by the rows that it keeps; a hot key, which also makes more results, is taken to be less
hot than it is. What slots take then is measured, and the next look goes by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from watersmeet.adapt.outlook import Outlook
from watersmeet.adapt.policies.balance.load import Piece
from watersmeet.model.ids import OperatorName, Partitioning
from watersmeet.model.slices import BY_TIME

Pieces = Mapping[tuple[Partitioning, int], Piece]
Floats = npt.NDArray[np.float64]


def with_routed(pieces: Pieces, outlook: Outlook) -> Iterator[Piece]:
    """Those of other joins, and those of routed ones; a group that both kinds work on is one."""
    kept = dict(_kept(outlook))
    rows = sum(float(counts.sum()) for counts, _ in kept.values())
    came = sum(slot.rows_in for slot in outlook.learned.slots)
    work = max(0.0, came - sum(piece.work for piece in pieces.values()))
    found = dict(pieces)
    for partitioning, (counts, sizes) in kept.items():
        owners = outlook.placement.of(partitioning).owners
        for group in np.flatnonzero(counts).tolist():
            among = outlook.placement.ring_slots if partitioning == BY_TIME else None
            unseen = Piece(OperatorName(partitioning), partitioning, group, owners[group], among=among)
            known = found.get((partitioning, group), unseen)
            found[partitioning, group] = replace(
                known,
                bytes=known.bytes + int(sizes[group]),
                work=known.work + work * float(counts[group]) / rows,
            )
    yield from found.values()


def _kept(outlook: Outlook) -> Iterator[tuple[Partitioning, tuple[Floats, Floats]]]:
    """Rows and bytes that routed joins keep, by group of each of their partitionings."""
    plan, segments = outlook.plan, outlook.manifest.segments
    routed = [state for name, state in plan.states.items() if name not in plan.operators_of]
    for partitioning in dict.fromkeys(state.partitioning for state in routed):
        groups = outlook.placement.of(partitioning).groups
        rows, sizes = np.zeros(groups), np.zeros(groups)
        for state in routed:
            if state.partitioning == partitioning:
                held = segments.active(state.name).by_group(groups)
                rows, sizes = rows + held.rows, sizes + held.bytes
        yield partitioning, (rows, sizes)
