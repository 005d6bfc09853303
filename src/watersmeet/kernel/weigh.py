"""Weighs rows: those of an input that agree in all that matters become one, with what they are together.

A combination counts at the boundaries t, multiples of the slide s, with ts_i <= t for all of its rows, and t < ts_i +
w_i for those that have a window; each w_i is a multiple of s. Let p be the least multiple of s with ts <= p. Then for
every boundary t

    ts <= t       if and only if  p <= t        since t is a multiple of s, and p the least one that is not before ts;
    t < ts + w    if and only if  t < p + w     since t - w is a multiple of s, too: t - w >= ts exactly if t - w >= p.

So p is all that matters of ts, and takes its place. A join that checks max p_i < min(p_i + w_i) drops the combinations
that count at no boundary, and keeps all others. No time becomes earlier: a row that is not late has p at or after the
watermark, and is kept for at least as long as it was needed. [The design
note](docs/design/2026-11-18-groups-below-joins.md) goes through holds, generations and changes of plan.

Invariant: what a set of weighed rows stands for is the same however many of those that agree are combined: a join is
linear in the weights of each input, and smallest and largest values do not mind being counted twice.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.kernel.aggregate import begin, combined
from watersmeet.kernel.pieces import Runs
from watersmeet.kernel.rows import Int64Array, int_column
from watersmeet.kernel.window import NEVER
from watersmeet.model.aggregates import COUNT, Partial
from watersmeet.model.weights import Likeness, Weighing
from watersmeet.plan.physical import Fields, State, is_time_field

_WEIGHT = Partial(COUNT, None, pa.int64())


def weigh(rows: pa.RecordBatch, weighing: Weighing, fields: Fields) -> pa.RecordBatch:
    """Rows of an input as weighed rows with these columns; one row for all that agree, if they are to be combined."""
    ones = pa.array(np.ones(rows.num_rows, dtype=np.int64))
    made = {weighing.weight.field_name: ones}
    made |= {column.field_name: begin(part, rows) for column, part in weighing.parts}
    arrays = []
    for name, _ in fields:
        if name in made:
            arrays.append(made[name])
        elif is_time_field(name) and weighing.slide_us is not None:
            arrays.append(pa.array(boundary_times(int_column(rows, name), weighing.slide_us)))
        else:
            arrays.append(rows.column(name))
    return combine_alike(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(fields))), weighing)


def combine_alike(rows: pa.RecordBatch, weighing: Weighing) -> pa.RecordBatch:
    """Weighed rows with one for all that agree, if they are to be combined; sorted by hash, if they have one."""
    if not weighing.combined:
        return rows
    parts = {weighing.weight.field_name: _WEIGHT}
    parts |= {column.field_name: part for column, part in weighing.parts}
    keys = tuple(name for name in rows.schema.names if name not in parts)
    return combined(rows, keys, list(parts.items()))


def boundary_times(times: Int64Array, slide_us: int) -> Int64Array:
    """The first boundary at or after each time; beyond the last one there is, the time itself.

    >>> boundary_times(np.array([-3, 0, 1, 5, 6]), 5)
    array([ 0,  0,  5,  5, 10])
    """
    steps = times // slide_us + (times % slide_us != 0)
    reached = steps <= NEVER // slide_us
    return np.where(reached, np.where(reached, steps, 0) * slide_us, times)


def count_left(rows: pa.RecordBatch, likeness: Likeness) -> int:
    """How many rows would be left if those that agree were combined."""
    columns = {name: rows.column(name) for name in likeness.fields}
    if likeness.slide_us is not None:
        for name in filter(is_time_field, likeness.fields):
            columns[name] = pa.array(boundary_times(int_column(rows, name), likeness.slide_us))
    found: int = pa.table(columns).group_by(likeness.fields, use_threads=False).aggregate([]).num_rows
    return found


def count_rows(runs: Runs, state: State, rows: int) -> int:
    """How many rows of its input these rows of a state stand for, `rows` as they are."""
    if state.weighing is None:
        return rows
    name = state.weighing.weight.field_name
    return sum(int(int_column(run.part, name).sum()) for run in runs)
