"""Batches of rows as the kernel knows them: Arrow record batches sorted by `#h`.

Helpers that gather, concatenate and slice such batches. All of them are pure and none loops over rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import ResourceError
from watersmeet.kernel.hashing import UInt64Array
from watersmeet.plan.physical import HASH_FIELD

Int64Array = npt.NDArray[np.int64]

# What the 32-bit offsets of a text or binary column can address.
MAX_TEXT_BYTES = 2**31 - 1
_WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_NARROW = {wide: plain for plain, wide in _WIDE.items()}


def hashes(batch: pa.RecordBatch) -> UInt64Array:
    """The hash column as an array that shares the batch's memory."""
    result: UInt64Array = batch.column(HASH_FIELD).to_numpy()
    return result


def int_column(batch: pa.RecordBatch, name: str) -> Int64Array:
    """A column of 64-bit integers without NULLs as an array that shares the batch's memory."""
    result: Int64Array = batch.column(name).to_numpy()
    return result


def take(batch: pa.RecordBatch, rows: Int64Array) -> pa.RecordBatch:
    return batch.take(pa.array(rows))


def concat(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All rows of `batches`, in order, as one batch."""
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    if len(batches) == 1:
        return batches[0]
    try:
        return pa.concat_batches(batches)
    except pa.ArrowInvalid as error:
        if "overflow" not in str(error):
            raise
        raise _too_much_text(batches) from None


def _too_much_text(batches: Sequence[pa.RecordBatch]) -> ResourceError:
    sizes = {name: sum(batch.column(name).nbytes for batch in batches) for name in batches[0].schema.names}
    widest = max(sizes, key=sizes.__getitem__)
    return ResourceError(
        f'column "{widest}" has too much text for one batch',
        detail=f"{sum(batch.num_rows for batch in batches)} rows hold {sizes[widest]} bytes of it; "
        f"what is joined at once can hold {MAX_TEXT_BYTES}.",
        hint="Use smaller batches (max_batch_bytes, maxFilesPerTrigger) or more slots, or select less of the text.",
    )


def gather(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All rows of `batches` as one batch, with text in 64-bit layout where there is too much of it for 32 bits."""
    try:
        return concat(batches, schema)
    except ResourceError:
        wide = pa.schema([(field.name, _WIDE.get(field.type, field.type)) for field in batches[0].schema])
        return pa.concat_batches([batch.cast(wide) for batch in batches])


def narrow(column: pa.Array) -> pa.Array:
    """A column of `gather`, of which few enough rows were taken, in 32-bit layout."""
    return column.cast(_NARROW[column.type]) if column.type in _NARROW else column


def merge_sorted(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All rows of `batches`, each sorted by hash, as one batch sorted by hash; equal hashes keep their order.

    A stable sort finds the sorted runs and merges them, so the cost is linear in the rows.
    """
    batches = [batch for batch in batches if batch.num_rows]
    whole = concat(batches, schema)
    if len(batches) < 2:
        return whole
    return take(whole, np.argsort(hashes(whole), kind="stable"))


def sort_by_hash(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of `batch` in order of their hash."""
    values = hashes(batch)
    if len(values) < 2 or bool(np.all(values[1:] >= values[:-1])):
        return batch
    return take(batch, np.argsort(values))


def hash_slice(batch: pa.RecordBatch, low: int, high: int) -> pa.RecordBatch:
    """The rows whose hash lies in [low, high); `high` may be 2**64. No row is copied."""
    start, end = rows_between(hashes(batch), low, high)
    return batch.slice(start, end - start)


def rows_between(values: UInt64Array, low: int, high: int) -> tuple[int, int]:
    """The first of the sorted `values` in [low, high), and the one after the last; `high` may be 2**64."""
    start = int(np.searchsorted(values, np.uint64(low))) if low > 0 else 0
    end = int(np.searchsorted(values, np.uint64(high))) if high < 1 << 64 else len(values)
    return start, max(start, end)
