"""Rows of a spread group on their way to its slots: each of what is dealt to one of them, what is copied to all.

Invariant: which slot a row is dealt to depends on what is in the row, and on nothing else. A task that is tried again
may be handed the same rows in another order, and must not send one of them to a second slot.

Known limit: rows that are alike in all columns go to the same slot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.hashing import hash_keys
from watersmeet.kernel.rows import Int64Array, hash_slice, take
from watersmeet.model.spread import Share
from watersmeet.model.weights import is_weighed_name


def send_share(batch: pa.RecordBatch, share: Share, aliases: Collection[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a sorted batch over these inputs that are in a spread group, for each of its slots."""
    rows = hash_slice(batch, share.low, share.high)
    if not rows.num_rows:
        return
    if not share.deals(aliases):
        yield from ((slot, rows) for slot in share.slots)
        return
    places = places_of(rows, len(share.slots))
    for place, slot in enumerate(share.slots):
        mine = np.flatnonzero(places == place)
        if len(mine):
            yield slot, take(rows, mine)


def places_of(rows: pa.RecordBatch, slots: int) -> Int64Array:
    """For each row, the one of so many places that its content says; not what weighed rows add up, which may round.

    >>> rows = pa.RecordBatch.from_pydict({"k": [7, 7, 7, 7], "v": ["a", "b", None, "a"]})
    >>> places_of(rows, 2)
    array([1, 1, 0, 1])
    """
    told_apart = [
        column for name, column in zip(rows.schema.names, rows.columns, strict=True) if not is_weighed_name(name)
    ]
    columns = [column for column in map(_hashable, told_apart) if column is not None]
    return (hash_keys(columns) % np.uint64(slots)).astype(np.int64)


def _hashable(column: pa.Array) -> pa.Array | None:
    """A column without NULLs, of a type that can be hashed; None where that cannot be."""
    kind = column.type
    if pa.types.is_floating(kind):
        column, kind = column.cast(pa.float64()).view(pa.int64()), pa.int64()
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind):
        return None
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(_NOTHING.get(column.type, 0), column.type))
    return column


_NOTHING: dict[pa.DataType, object] = {
    **dict.fromkeys((pa.string(), pa.large_string()), ""),
    **dict.fromkeys((pa.binary(), pa.large_binary()), b""),
    pa.bool_(): False,
}
