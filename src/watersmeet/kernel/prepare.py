"""From rows of a stream to rows of a port: filtered, keyed, hashed, sorted, cut by slot.

A row with a NULL key can never join and goes no further. Late rows (older than the watermark as of the batch before,
or without an event time) and rows that are ahead (later than a limit, where there is one) are split off before anything
else looks at them.

A row that fails a filter is in no result, wherever the filter stands. So where a key cannot be computed, the filters
that stand above joins are applied to the rows here already: what a filter keeps out of the query stops no run.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import UserError
from watersmeet.kernel.aggregate import partial_rows
from watersmeet.kernel.copying import copies_in_reach
from watersmeet.kernel.evaluate import evaluate, satisfied
from watersmeet.kernel.event_times import event_times
from watersmeet.kernel.hashing import UInt64Array, hash_keys
from watersmeet.kernel.look_ahead import HashFilter
from watersmeet.kernel.rows import Int64Array, int_column, sort_by_hash, take
from watersmeet.kernel.tally import FilterTally
from watersmeet.kernel.weigh import weigh
from watersmeet.kernel.window import NEVER
from watersmeet.model.aligned import segment_hashes
from watersmeet.model.coverage import copy_places
from watersmeet.model.expressions import Expr
from watersmeet.model.keys import BySlice, ByTimeSlot, Key
from watersmeet.model.slices import SliceReach, place_times
from watersmeet.model.time_units import TimeColumn
from watersmeet.plan.physical import HASH_FIELD, Fields, LeafPort, is_time_field, time_field


@dataclass(frozen=True)
class SplitRows:
    """A batch of one stream without the rows that are late or ahead, with what was seen on the way."""

    rows: pa.RecordBatch
    times: Int64Array
    late: pa.RecordBatch | None
    newest_us: int | None  # the largest event time, late rows included and those ahead not
    ahead: pa.RecordBatch | None = None
    furthest_us: int | None = None  # the largest event time of rows that are ahead

    @property
    def oldest_us(self) -> int | None:
        """The smallest event time among the rows that may join."""
        return int(self.times.min()) if len(self.times) else None


def split_late(
    batch: pa.RecordBatch, time: TimeColumn, watermark_us: int | None, limit_us: int | None = None
) -> SplitRows:
    """Split `batch` into rows that may join, rows that came too late, and rows that are later than `limit_us`."""
    column = batch.column(time.name)
    times = event_times(column, time)
    known = None if column.null_count == 0 else pc.is_valid(column).to_numpy(zero_copy_only=False)
    seen = times if known is None else times[known]
    oldest, newest = (int(seen.min()), int(seen.max())) if len(seen) else (None, None)
    late = np.zeros(len(times), dtype=bool) if known is None else ~known
    ahead = np.zeros(len(times), dtype=bool)
    if oldest is not None and watermark_us is not None and oldest < watermark_us:
        late = late | (times < watermark_us)
    if newest is not None and limit_us is not None and newest > limit_us:
        ahead = ~late & (
            times > limit_us
        )  # what is older than the watermark is late, even where the limit is older yet
        newest = _largest(seen[seen <= limit_us])
    if not late.any() and not ahead.any():
        return SplitRows(batch, times, None, newest)
    keep = np.flatnonzero(~(late | ahead))
    return SplitRows(
        rows=take(batch, keep),
        times=times[keep],
        late=_apart(batch, late),
        newest_us=newest,
        ahead=_apart(batch, ahead),
        furthest_us=_largest(times[ahead]),
    )


def _largest(times: Int64Array) -> int | None:
    return int(times.max()) if len(times) else None


def _apart(batch: pa.RecordBatch, chosen: npt.NDArray[np.bool_]) -> pa.RecordBatch | None:
    return take(batch, np.flatnonzero(chosen)) if chosen.any() else None


def prepare(split: SplitRows, leaf: LeafPort, tally: FilterTally | None = None) -> pa.RecordBatch:
    """The rows of `leaf`'s port, sorted by hash. `tally` is told what filters did."""
    return of_port(entering(split, leaf, tally or FilterTally()), leaf)


def of_port(rows: pa.RecordBatch, leaf: LeafPort) -> pa.RecordBatch:
    """Rows that have entered, as those of a port of their input: sorted by hash, or made into partial aggregates."""
    if leaf.state.partials is not None:
        return partial_rows(rows, leaf.state.partials)
    return keyed(rows, leaf.state.key, leaf.state.fields, copied=leaf.state.copied)


def entering(split: SplitRows, leaf: LeafPort, tally: FilterTally) -> pa.RecordBatch:
    """The rows that pass the filters of an input, with what is computed of them: the same for all of its ports.

    Where the input is weighed, as weighed rows.
    """
    batch = split.rows.rename_columns([f"{leaf.alias}.{name}" for name in split.rows.schema.names])
    names, arrays = list(batch.schema.names), list(batch.columns)
    names.append(time_field(leaf.alias))
    arrays.append(pa.array(split.times))
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    batch = _filtered(batch, leaf.alias, leaf.filters, tally)
    try:
        computed = _with_computed(batch, leaf)
    except UserError:
        if not leaf.raised:
            raise
        raised = tuple(each.expr for each in leaf.raised)
        computed = _with_computed(_filtered(batch, leaf.alias, raised, tally), leaf)
    weighing = leaf.state.weighing
    return computed if weighing is None else weigh(computed, weighing, leaf.state.fields)


def _filtered(batch: pa.RecordBatch, alias: str, filters: tuple[Expr, ...], tally: FilterTally) -> pa.RecordBatch:
    """The rows that pass. All filters are asked about all rows, unless none is left."""
    mask = np.ones(batch.num_rows, dtype=np.bool_)
    for expr in filters:
        if not mask.any():
            break
        mask &= tally.ask(alias, expr, functools.partial(satisfied, expr, batch))
    return batch if mask.all() else take(batch, np.flatnonzero(mask))


def _with_computed(batch: pa.RecordBatch, leaf: LeafPort) -> pa.RecordBatch:
    for name, expr in leaf.computed:
        batch = batch.append_column(name, evaluate(expr, batch))
    return batch


def keyed(
    batch: pa.RecordBatch,
    key: Key,
    fields: Fields,
    ahead: HashFilter | None = None,
    copied: SliceReach | None = None,
) -> pa.RecordBatch:
    """`fields` of the rows whose key has no NULL, with the hash of the key in front, sorted by it.

    Rows whose hash is not `ahead` are left out. Rows that are `copied` come once for each segment in reach, and those
    in slices as often as the key says.
    """
    if copied is not None:
        row, places = copies_in_reach(batch, copied)
        return _placed(take(batch, row), places, fields)
    match key:
        case BySlice(width_us, copies):
            places = place_times(_latest(batch, fields), width_us)
            if copies > 1:
                row, places = copy_places(places, copies)
                batch = take(batch, row)
            return _placed(batch, places, fields)
        case ByTimeSlot(width_us):
            return _placed(batch, segment_hashes(_latest(batch, fields) // width_us), fields)
    keys = [batch.column(name) for name in key.columns]
    if any(column.null_count for column in keys):
        valid = np.ones(batch.num_rows, dtype=bool)
        for column in keys:
            valid &= pc.is_valid(column).to_numpy(zero_copy_only=False)
        batch = take(batch, np.flatnonzero(valid))
        keys = [batch.column(name) for name in key.columns]
    columns = [batch.column(name) for name, _ in fields]
    values = hash_keys(keys)
    hashed = pa.RecordBatch.from_arrays(
        [pa.array(values), *columns],
        schema=pa.schema([(HASH_FIELD, pa.uint64()), *fields]),
    )
    if ahead is not None:
        hashed = take(hashed, np.flatnonzero(ahead.may_hold(values)))
    return sort_by_hash(hashed)


def _latest(batch: pa.RecordBatch, fields: Fields) -> Int64Array:
    """The latest time in each row, as lifetimes have it."""
    times = (int_column(batch, name) for name, _ in fields if is_time_field(name))
    return np.minimum(functools.reduce(np.maximum, times), NEVER - 1)


def _placed(batch: pa.RecordBatch, places: UInt64Array, fields: Fields) -> pa.RecordBatch:
    """The same with rows at these places, by their times."""
    columns = [batch.column(name) for name, _ in fields]
    schema = pa.schema([(HASH_FIELD, pa.uint64()), *fields])
    return sort_by_hash(pa.RecordBatch.from_arrays([pa.array(places), *columns], schema=schema))
