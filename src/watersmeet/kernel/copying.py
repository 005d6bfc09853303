"""Rows that are kept more than once: where their copies lie, and which of them stands for the row.

Rows that are aligned with a master (`model/aligned.py`) have a copy in every segment in reach, those in slices with
copies (`model/coverage.py`) a set number of them. Whoever counts rows, or takes them from one state to another, takes
the *home* copies alone: of each row one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from watersmeet.kernel.hashing import UInt64Array
from watersmeet.kernel.indexed import BoolArray, Indexed
from watersmeet.kernel.pieces import Runs
from watersmeet.kernel.probe import expand
from watersmeet.kernel.rows import Int64Array, hash_slice, hashes, take
from watersmeet.kernel.visiting import slices_in_reach
from watersmeet.kernel.window import lifetimes
from watersmeet.model.aligned import segment_hashes
from watersmeet.model.coverage import copy_step, cover, turns_of
from watersmeet.model.keys import BySlice
from watersmeet.model.routing import Routing
from watersmeet.model.slices import SliceReach
from watersmeet.plan.physical import State


def copies_in_reach(batch: pa.RecordBatch, copied: SliceReach) -> tuple[Int64Array, UInt64Array]:
    """The row and the hash of each copy of these rows. Rows whose own windows have closed have none."""
    life = lifetimes(batch, copied)
    assert life is not None, "rows that are aligned carry their times"
    first, last = slices_in_reach(life.newest, life.expiry, copied)
    counts = np.where(life.newest < life.expiry, last - first + 1, 0)
    row, number = expand(first, counts)
    return row, segment_hashes(number)


def home_rows(rows: pa.RecordBatch, state: State) -> pa.RecordBatch:
    """Of rows of a state, each once: their home copies."""
    if state.copies == 1:
        return rows
    keep = np.flatnonzero(_is_home(rows, state))
    return rows if len(keep) == rows.num_rows else take(rows, keep)


def count_home(runs: Iterable[Indexed], state: State) -> int:
    """How many rows of a state these are, each counted once."""
    if state.copies == 1:
        return sum(run.count for run in runs)
    return sum(int(np.count_nonzero(_is_home(run.part, state))) for run in runs)


def _is_home(rows: pa.RecordBatch, state: State) -> BoolArray:
    if isinstance(state.key, BySlice):
        return np.asarray(hashes(rows) < np.uint64(copy_step(state.key.copies)))
    life = lifetimes(rows, state)
    assert life is not None and state.copied is not None, "rows that are aligned carry their times"
    return np.asarray(hashes(rows) == segment_hashes(life.newest // state.copied.slice_us))


def in_turns(
    partial: Runs, kept: Runs, visiting: State, visited: State, routing: Routing
) -> Iterator[tuple[Runs, Runs]]:
    """Partial results that visit slices with copies, those of each turn together, and the rows that serve it here."""
    assert isinstance(visited.key, BySlice), "rows that are visited in turns lie in slices"
    width_us, copies = visited.key.width_us, visited.key.copies
    arrived = [run.part for run in partial if run.count]
    turns = [turns_of(_newest(rows, visiting) // width_us, routing.slots) for rows in arrived]
    held = [run.part for run in kept if run.count]
    for turn in sorted({turn for each in turns for turn in np.unique(each).tolist()}):
        mine = (take(rows, np.flatnonzero(each == turn)) for rows, each in zip(arrived, turns, strict=True))
        serving = cover(routing, copies, turn).serving
        served = (hash_slice(rows, *stretch) for rows in held for stretch in serving)
        yield _runs(mine), _runs(served)


def _newest(rows: pa.RecordBatch, state: State) -> Int64Array:
    life = lifetimes(rows, state)
    assert life is not None, "rows that visit slices carry their times"
    return life.newest


def _runs(batches: Iterable[pa.RecordBatch]) -> Runs:
    return [Indexed.run(rows) for rows in batches if rows.num_rows]
