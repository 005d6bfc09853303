"""Which slots rows visit that probe slices of time: those that own a slice within reach, or a copy that serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.hashing import UInt64Array
from watersmeet.kernel.rows import Int64Array, take
from watersmeet.kernel.window import LONG_AGO, NEVER, lifetimes
from watersmeet.model.coverage import cover, folded, turns_of
from watersmeet.model.routing import Routing
from watersmeet.model.slices import SliceReach, slice_ends, slice_starts

# Slices looked at one by one. Where rows reach over more, all slots have some.
MOST_SLICES = 1 << 16

BoolArray = npt.NDArray[np.bool_]


def cut_by_reach(batch: pa.RecordBatch, routing: Routing, reach: SliceReach) -> Iterator[tuple[int, pa.RecordBatch]]:
    """For each slot, the rows that have to visit it. Rows whose own windows have closed visit none."""
    life = lifetimes(batch, reach)
    assert life is not None, "rows that visit slices carry their times"
    alive = np.flatnonzero(life.newest < life.expiry)
    if not len(alive):
        return
    newest, expiry = life.newest[alive], life.expiry[alive]
    first, last = slices_in_reach(newest, expiry, reach)
    for some, line in _lines(newest, routing, reach):
        mine = alive if some is None else alive[some]
        for slot, wanted in _visited(*((first, last) if some is None else (first[some], last[some])), line):
            rows = mine if wanted is None else mine[wanted]
            if len(rows):
                yield slot, batch if len(rows) == batch.num_rows else take(batch, rows)


def slices_in_reach(newest: Int64Array, expiry: Int64Array, reach: SliceReach) -> tuple[Int64Array, Int64Array]:
    """The first and the last slice that each row reaches."""
    if reach.back_us is None or reach.back_us > NEVER:
        oldest = np.full(len(newest), LONG_AGO, dtype=np.int64)
    else:
        oldest = np.where(newest < LONG_AGO + reach.back_us, LONG_AGO, newest - reach.back_us + 1)
    return oldest // reach.slice_us, (expiry - 1) // reach.slice_us


@dataclass(frozen=True)
class _Line:
    """The line that slices lie on, as visits see it: in stretches, the owner of each, and the stretches of places."""

    owners: Int64Array
    stretches_of: Callable[[UInt64Array], Int64Array]


def _lines(newest: Int64Array, routing: Routing, reach: SliceReach) -> Iterator[tuple[Int64Array | None, _Line]]:
    """The line that rows of these times see, for those that see the same; None: all."""
    if reach.copies == 1:
        yield None, _Line(np.array(routing.owners), routing.bounds.groups_of)
        return
    turns = turns_of(newest // reach.slice_us, routing.slots)
    for turn in np.unique(turns).tolist():
        covered = cover(routing, reach.copies, turn)

        def stretches_of(places: UInt64Array, starts: UInt64Array = covered.starts) -> Int64Array:
            return np.searchsorted(starts, folded(places, reach.copies), side="right") - 1

        yield np.flatnonzero(turns == turn), _Line(covered.slots, stretches_of)


def _visited(first: Int64Array, last: Int64Array, line: _Line) -> Iterator[tuple[int, BoolArray | None]]:
    """For each slot of the line, which rows reach a slice of it; None: all of them."""
    owners = line.owners
    slots = np.unique(owners).tolist()
    low, high = int(first.min()), int(last.max())
    if len(slots) == 1 or high - low >= MOST_SLICES:
        yield from ((slot, None) for slot in slots)
        return
    numbers = np.arange(low, high + 1)
    begin = line.stretches_of(slice_starts(numbers))
    end = line.stretches_of(slice_ends(numbers))
    whole = np.flatnonzero(begin == end)
    for slot in slots:
        owned = np.zeros(len(numbers), dtype=np.int64)
        owned[whole] = owners[begin[whole]] == slot
        for place in np.flatnonzero(begin != end).tolist():  # a group was cut within a slice
            owned[place] = (owners[begin[place] : end[place] + 1] == slot).any()
        before = np.concatenate([[0], np.cumsum(owned)])
        reached = before[last - low + 1] > before[first - low]
        yield slot, None if reached.all() else reached
