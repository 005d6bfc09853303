"""Groups rows: partial aggregates of some rows, of all rows at a boundary, and what a user sees of them.

A *partial row* stands for some rows of one group: the columns of the group, the run of boundaries that they count at
(where there are windows), and what is kept of each aggregate. Partial rows of the same group and run combine into one,
in any order and any number of steps, so that they can be kept, merged and sent like all other rows: sorted by the hash
of their group. NULL is a value of a group column; a group column or value has one NaN and one zero.

A row counts at the boundaries t, multiples of the slide, with T <= t < E: a run without gaps, from the first multiple
at or after T to the last one before E. Rows that count at none are dropped at once.

Everything is done in array passes, but for AVG of decimals that are too large for 64 bits: their quotients are worked
out one by one, as they are emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import InputError
from watersmeet.kernel.evaluate import evaluate
from watersmeet.kernel.hashing import hash_groups
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.probe import expand
from watersmeet.kernel.rows import Int64Array, concat, hashes, int_column, sort_by_hash, take
from watersmeet.kernel.whole_numbers import EXACT, decimals, digits, multiplied
from watersmeet.kernel.window import LONG_AGO, NEVER, lifetimes_by
from watersmeet.model.aggregates import (
    AVG,
    COUNT,
    FIRST,
    MAX,
    MIN,
    OLDEST,
    SUM,
    Aggregate,
    GroupBy,
    Panes,
    Partial,
    Partials,
    aggregate_column,
    end_column,
    partials_of,
)
from watersmeet.model.time_units import microseconds_in
from watersmeet.model.weights import Weighing
from watersmeet.plan.physical import HASH_FIELD

# Rows, one for each boundary that a partial row counts at, that are put together at once.
AT_ONCE = 1 << 20

_END = "#end"
_NEW, _OLD = "#new", "#old"
_COMBINED = {COUNT: "sum", SUM: "sum", MIN: "min", MAX: "max"}
_HALF = 1 << 61  # of what is added up here in 64 bits
_IF_ANY = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)


def partial_rows(rows: pa.RecordBatch, partials: Partials, weighed: Sequence[Weighing] = ()) -> pa.RecordBatch:
    """The partial rows of joined rows, whose columns are named "alias.name", sorted by hash.

    Rows of inputs that are `weighed` stand for as many as their weight says.
    """
    group_by = partials.group_by
    groups = [_normal(evaluate(expr, rows)) for expr in group_by.groups]
    columns = [pa.array(hash_groups(groups, rows.num_rows)), *groups]
    counted: Int64Array | None = None
    if partials.panes is not None:
        first, oldest, counted = runs_of(rows, partials.panes)
        columns += [pa.array(first), pa.array(oldest)]
    columns += [_weighted(part, rows, weighed) for part in group_by.partials]
    whole = pa.RecordBatch.from_arrays(columns, schema=pa.schema([(HASH_FIELD, pa.uint64()), *partials.fields]))
    return combine(whole if counted is None else take(whole, counted), partials)


def runs_of(rows: pa.RecordBatch, panes: Panes) -> tuple[Int64Array, Int64Array, Int64Array | None]:
    """For each row the first boundary that it counts at and what stands for the last; which rows count at any.

    None: all do.
    """
    life, slide = lifetimes_by(rows, panes.times, panes.windows), panes.slide_us
    steps = life.newest // slide + (life.newest % slide != 0)  # rounded up; the first of all times has no negative
    reached = steps <= NEVER // slide  # beyond, a boundary is no time any more
    first = np.where(reached, steps, 0) * slide
    last = (life.expiry - 1) // slide * slide
    counted = reached & (first <= last)
    oldest = last - (panes.width_us - 1)
    return first, oldest, None if counted.all() else np.flatnonzero(counted)


def _weighted(part: Partial, rows: pa.RecordBatch, weighed: Sequence[Weighing]) -> pa.Array:
    """What is kept of an aggregate for each joined row, which stands for as many as the weights in it say."""
    own = next((each for each in weighed if each.column_of(part) is not None), None)
    column = None if own is None else own.column_of(part)
    value = begin(part, rows) if column is None else rows.column(column.field_name)
    if part.function in (MIN, MAX):
        return value
    try:
        return multiplied(value, [int_column(rows, e.weight.field_name) for e in weighed if e is not own])
    except pa.ArrowInvalid as error:
        raise _too_large(part, error) from error


def begin(part: Partial, rows: pa.RecordBatch) -> pa.Array:
    """What is kept of an aggregate for each single row."""
    if part.arg is None:
        return pa.array(np.ones(rows.num_rows, dtype=np.int64))
    value = evaluate(part.arg, rows)
    if part.function == COUNT:
        return value.is_valid().cast(pa.int64())
    return (_normal(value) if part.function in (MIN, MAX) else value).cast(part.type)


def _too_large(part: Partial, error: Exception) -> InputError:
    return InputError(
        f"{part.text} of a group is too large",
        detail=f"{str(error).rstrip('.')}.",
        hint="Take narrower windows, or smaller groups.",
    )


def _normal(column: pa.Array) -> pa.Array:
    """Numbers with a point with one NaN and one zero."""
    if not pa.types.is_floating(column.type):
        return column
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    values = np.where(np.isnan(values), np.array(np.nan, dtype=values.dtype), values)
    return _masked(values, column)


def _masked(values: npt.NDArray[Any], like: pa.Array) -> pa.Array:
    """Values, with NULL where another column has it."""
    mask = like.is_null().to_numpy(zero_copy_only=False) if like.null_count else None
    return pa.array(values, mask=mask)


def combine(rows: pa.RecordBatch, partials: Partials) -> pa.RecordBatch:
    """Partial rows with one for each group and run of boundaries, sorted by hash."""
    return _combine(rows, partials, (HASH_FIELD, *partials.group_fields, *partials.pane_fields))


def _combine(
    rows: pa.RecordBatch, partials: Partials, keys: tuple[str, ...], flags: Sequence[str] = ()
) -> pa.RecordBatch:
    return combined(rows, keys, list(zip(partials.part_fields, partials.group_by.partials, strict=True)), flags)


def combined(
    rows: pa.RecordBatch, keys: Sequence[str], parts: Sequence[tuple[str, Partial]], flags: Sequence[str] = ()
) -> pa.RecordBatch:
    """One row for each value of `keys`, with what its rows have of each of `parts` together.

    Flags are set where they are in any of the rows. Sorted by hash, if rows have one.
    """
    if rows.num_rows < 2:
        return rows
    ordered = [name for name, part in parts if _is_ordered(part)]
    large = [name for name, part in parts if part.function == COUNT and _may_overflow(rows.column(name))]
    table = pa.Table.from_batches([_with(_with(rows, ordered, _as_order), large, _as_decimal)])
    wanted = [(name, _COMBINED[part.function], _IF_ANY) for name, part in parts]
    grouped = table.group_by(keys, use_threads=False).aggregate([*wanted, *((flag, "max") for flag in flags)])
    names = {f"{name}_{function}": name for name, function, _ in wanted} | {f"{flag}_max": flag for flag in flags}
    grouped = grouped.rename_columns([names.get(name, name) for name in grouped.schema.names])
    kept = {*keys, *names.values()}
    schema = pa.schema([pa.field(f.name, pa.int64()) if f.name in large else f for f in table.schema if f.name in kept])
    try:
        grouped = grouped.select(schema.names).cast(schema)
    except pa.ArrowInvalid as error:
        if not large:
            raise
        raise _too_large(next(part for name, part in parts if name in large), error) from error
    batch = _with(concat(grouped.to_batches(), schema), ordered, _from_order)
    return sort_by_hash(batch) if HASH_FIELD in keys else batch


def _may_overflow(counts: pa.Array) -> bool:
    """Whether counts could add up to more than 64 bits hold. None is NULL, or below zero."""
    values = counts.to_numpy()
    return int(values.max()) > NEVER // len(values)


def _as_decimal(column: pa.Array) -> pa.Array:
    return column.cast(pa.decimal128(38, 0))


def _is_ordered(part: Partial) -> bool:
    """Whether Arrow has another order for its values than SQL: there NaN is larger than all other numbers."""
    return part.function in (MIN, MAX) and bool(pa.types.is_floating(part.type))


def _with(rows: pa.RecordBatch, names: Sequence[str], change: Callable[[pa.Array], pa.Array]) -> pa.RecordBatch:
    for name in names:
        rows = rows.set_column(rows.schema.get_field_index(name), name, change(rows.column(name)))
    return rows


def _as_order(column: pa.Array) -> pa.Array:
    """Numbers with a point as integers in the same order, NaN last."""
    return _masked(_flip(column.fill_null(0.0).to_numpy(zero_copy_only=False).view(np.int64)), column)


def _from_order(column: pa.Array) -> pa.Array:
    return _masked(_flip(column.fill_null(0).to_numpy(zero_copy_only=False)).view(np.float64), column)


def _flip(bits: Int64Array) -> Int64Array:
    """The bits of a negative number but for its sign; done twice, it is the number again."""
    return np.asarray(bits ^ ((bits >> 63) & np.int64(NEVER)))


# --- what is emitted -------------------------------------------------------------------------------------------------


def at_boundaries(
    parts: Sequence[pa.RecordBatch], partials: Partials, after_us: int | None, until_us: int
) -> Iterator[pa.RecordBatch]:
    """The groups at each boundary after the one and up to the other, as users see them.

    `parts` are all partial rows of their groups, in any order.
    """
    assert partials.panes is not None, "running totals have no boundaries"
    slide, width = partials.panes.slide_us, partials.panes.width_us
    low = LONG_AGO if after_us is None else after_us + slide
    found: list[tuple[pa.RecordBatch, Int64Array, Int64Array]] = []
    for rows in parts:
        first = np.maximum(int_column(rows, FIRST), low)
        last = np.minimum(int_column(rows, OLDEST) + (width - 1), until_us)
        there = np.flatnonzero(first <= last)
        if len(there):
            found.append((take(rows, there), first[there], last[there]))
    if found:
        rows = concat([rows for rows, _, _ in found], found[0][0].schema)
        first, last = (np.concatenate([entry[place] for entry in found]) for place in (1, 2))
        yield from _spelled_out(rows, first, last, partials)


def _spelled_out(
    rows: pa.RecordBatch, first: Int64Array, last: Int64Array, partials: Partials
) -> Iterator[pa.RecordBatch]:
    """The groups of partial rows at each boundary from the first to the last of each row."""
    assert partials.panes is not None
    slide = partials.panes.slide_us
    counts = (last - first) // slide + 1
    begin, end = int(first.min()), int(last.max())
    if counts.sum() <= AT_ONCE or begin == end:
        place, step = expand(np.zeros(len(counts), dtype=np.int64), counts)
        spelled = take(rows, place).append_column(_END, pa.array(first[place] + step * slide))
        yield finished(_combine(spelled, partials, (HASH_FIELD, *partials.group_fields, _END)), partials)
        return
    middle = begin + (end - begin) // slide // 2 * slide
    for low, high in ((begin, middle), (middle + slide, end)):
        here = np.flatnonzero((first <= high) & (last >= low))
        if len(here):
            yield from _spelled_out(
                take(rows, here), np.maximum(first[here], low), np.minimum(last[here], high), partials
            )


def changed_totals(new: pa.RecordBatch, kept: Sequence[Indexed], partials: Partials) -> pa.RecordBatch:
    """The groups of new partial rows with those that are kept of them, as users see them.

    Without aggregates, a group is what it was however many rows it has: then only those that nothing is kept of.
    """
    wanted = np.unique(hashes(new))
    pieces = [_flagged(new, is_new=1)]
    for run in kept:
        _, start, count = run.find(wanted)
        _, places = expand(start, count)
        if len(places):
            pieces.append(_flagged(take(run.rows, places), is_new=0))
    whole = concat(pieces, pieces[0].schema)
    totals = _combine(whole, partials, (HASH_FIELD, *partials.group_fields), (_NEW, _OLD))
    chosen = totals.column(_NEW).to_numpy() > 0
    if not partials.group_by.aggregates:
        chosen &= totals.column(_OLD).to_numpy() == 0
    return finished(totals if chosen.all() else take(totals, np.flatnonzero(chosen)), partials)


def total_of_nothing(partials: Partials) -> pa.RecordBatch:
    """The aggregates of no rows, where there is one group: COUNT is 0, all others are NULL."""
    assert partials.group_by.is_one_total
    counts = [part.function == COUNT for part in partials.group_by.partials]
    fields = dict(partials.fields)
    kept = {
        name: pa.array([0 if is_count else None], fields[name])
        for name, is_count in zip(partials.part_fields, counts, strict=True)
    }
    return finished(pa.RecordBatch.from_pydict({HASH_FIELD: pa.array(hash_groups([], 1)), **kept}), partials)


def _flagged(rows: pa.RecordBatch, is_new: int) -> pa.RecordBatch:
    flags = np.full(rows.num_rows, is_new, dtype=np.int8)
    return rows.append_column(_NEW, pa.array(flags)).append_column(_OLD, pa.array(1 - flags))


def _boundary(ends: pa.Array, group_by: GroupBy) -> pa.Array:
    """Boundaries in the type and the unit of event times. A slide is a whole number of units; years are in reach."""
    size = microseconds_in(group_by.time_unit)
    if size < 1:
        ends = pc.multiply_checked(ends, size.denominator)
    elif size > 1:
        ends = pc.divide(ends, int(size))
    return ends.view(group_by.time_type)


def finished(rows: pa.RecordBatch, partials: Partials) -> pa.RecordBatch:
    """Grouped rows: the columns of the group, the value of each aggregate, and the boundary."""
    group_by = partials.group_by
    fields = dict(zip(group_by.partials, partials.part_fields, strict=True))
    columns = {name: rows.column(name) for name in (HASH_FIELD, *partials.group_fields)}
    for place, aggregate in enumerate(group_by.aggregates):
        kept = [rows.column(fields[part]) for part in partials_of(aggregate)]
        columns[aggregate_column(place, aggregate).field_name] = _value(aggregate, kept)
    if partials.panes is not None:
        columns[end_column(group_by.time_type).field_name] = _boundary(rows.column(_END), group_by)
    return pa.RecordBatch.from_pydict(columns)


def _value(aggregate: Aggregate, kept: Sequence[pa.Array]) -> pa.Array:
    if aggregate.function == AVG:
        return _average(aggregate, *kept)
    if aggregate.function != SUM or kept[0].type == aggregate.type:
        return kept[0].cast(aggregate.type)
    try:
        return kept[0].cast(aggregate.type)
    except pa.ArrowInvalid as error:
        raise _does_not_fit(
            aggregate,
            kept[0].to_pylist(),
            "Add up values of a wider type, such as CAST(.. AS DECIMAL(38, 0)) or DOUBLE.",
        ) from error


def _does_not_fit(aggregate: Aggregate, values: Sequence[Decimal | None], hint: str) -> InputError:
    largest = max((value for value in values if value is not None), key=abs)
    return InputError(
        f"{aggregate.text} of a group is too large",
        detail=f"It is {largest}, which does not fit {_name(aggregate.type)}.",
        hint=hint,
    )


def _name(kind: pa.DataType) -> str:
    return "a BIGINT" if pa.types.is_integer(kind) else f"a DECIMAL({kind.precision}, {kind.scale})"


def _average(aggregate: Aggregate, total: pa.Array, count: pa.Array) -> pa.Array:
    """The quotient; NULL where there is no value. Of decimals it is rounded half up, as in Spark."""
    rows = count.to_numpy()
    some = np.maximum(rows, 1)
    if pa.types.is_floating(aggregate.type):
        sums = total.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return pa.array(sums / some, mask=rows == 0)
    kind = aggregate.type
    factor = 10 ** (kind.scale - total.type.scale)
    whole = digits(total)
    if whole is not None and bool(np.all((np.abs(whole) < _HALF // factor) & (some < _HALF))):
        doubled = 2 * np.abs(whole) * factor
        return decimals(np.sign(whole) * ((doubled + some) // (2 * some)), kind, rows == 0)
    quotients = [
        None if value is None else EXACT.divide(value, Decimal(n)).quantize(_unit(kind.scale), ROUND_HALF_UP, EXACT)
        for value, n in zip(total.to_pylist(), rows.tolist(), strict=True)
    ]
    try:
        return pa.array(quotients, type=kind)
    except pa.ArrowInvalid as error:
        hint = "Average values with fewer digits, such as CAST(.. AS DECIMAL(34, 0)) or DOUBLE."
        raise _does_not_fit(aggregate, quotients, hint) from error


def _unit(scale: int) -> Decimal:
    return Decimal(1).scaleb(-scale)
