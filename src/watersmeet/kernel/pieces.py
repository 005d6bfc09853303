"""Sorted runs of rows, worked through in pieces: stretches of the hash that hold no more than so many bytes.

Whatever is sorted by hash can be joined, merged and written down one stretch after the other, so that what is copied on
the way is one piece, however many rows there are. A *run* is some rows in order of their hash; what a state or a port
has may be in many runs. Pieces come in order of the hash, and all rows of one hash are in one piece.

Known limit: a piece has at least one hash, so the rows of a hot key are one piece, of whatever size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.kernel.hashing import UInt64Array
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.rows import hashes, merge_sorted, rows_between
from watersmeet.model.bounds import HASH_END

# What is read, sorted and written at once.
PIECE_BYTES = 32 << 20
# New rows that are joined at once. What a join makes for each row and key takes some six times that.
JOINED_BYTES = 8 << 20
# Hashes that are looked at to find where pieces end: so many for a piece, but some of each run. Of many runs each is
# looked at in few places, and in others than the rest: to look at a hash of a file maps a stretch of it.
SAMPLES_A_PIECE = 8
SAMPLES_A_RUN = 4

Runs = Sequence[Indexed]
HashRange = tuple[int, int]


def is_piece(rows: Iterable[pa.RecordBatch]) -> bool:
    """Whether so many rows are as many as are worked on at once, or more."""
    rows = list(rows)
    return not surely_within(PIECE_BYTES, rows) and bool(sum(batch.nbytes for batch in rows) >= PIECE_BYTES)


def surely_within(limit: int, rows: Iterable[pa.RecordBatch]) -> bool:
    """Whether batches take less than so many bytes, even if each is a slice of a whole that counts.

    A hundredth of the time of `nbytes`, which has a batch of few rows wait for it.
    """
    return bool(sum(batch.get_total_buffer_size() for batch in rows) < limit)


def sliced(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows in any order, some `PIECE_BYTES` at once."""
    if surely_within(PIECE_BYTES, [rows]):
        if rows.num_rows:
            yield rows
        return
    count = max(1, rows.nbytes // PIECE_BYTES)
    each = max(1, -(-rows.num_rows // count))
    yield from (rows.slice(start, each) for start in range(0, rows.num_rows, each))


def piece_ranges(runs: Runs, piece_bytes: int) -> list[HashRange]:
    """The stretches of the hash, all of them together, that hold some `piece_bytes` of the runs each."""
    if surely_within(piece_bytes, (run.rows for run in runs)):
        return [(0, HASH_END)]
    sizes = [run.nbytes for run in runs]
    wanted = -(-sum(sizes) // piece_bytes)
    if wanted < 2:
        return [(0, HASH_END)]
    values, weights = [], []
    each = max(SAMPLES_A_RUN, -(-SAMPLES_A_PIECE * wanted // len(runs)))
    for place, (run, size) in enumerate(zip(runs, sizes, strict=True)):
        if size:
            sample = _sample(run, each, (place + 0.5) / len(runs))
            values.append(sample)
            weights.append(np.full(len(sample), size / len(sample)))
    sampled = np.concatenate(values)
    order = np.argsort(sampled)
    before = np.cumsum(np.concatenate(weights)[order])
    places = np.searchsorted(before, before[-1] * np.arange(1, wanted) / wanted)
    starts = [0, *(int(value) + 1 for value in np.unique(sampled[order][places])), HASH_END]
    return [(low, high) for low, high in itertools.pairwise(starts) if low < high]


def _sample(run: Indexed, count: int, shift: float) -> UInt64Array:
    """Hashes of a run at even distances, the first one a share `shift` of these from its beginning."""
    values = hashes(run.rows)
    first, last = rows_between(values, run.low, run.high)
    count = min(count, last - first)
    places = ((np.arange(count) + shift) * ((last - first) / count)).astype(np.int64)
    result: UInt64Array = values[first + np.minimum(places, last - first - 1)]
    return result


def merged(runs: Runs, schema: pa.Schema, within: HashRange = (0, HASH_END)) -> pa.RecordBatch:
    """The rows of all runs in a stretch of the hash, in order; equal hashes in the order of the runs."""
    if within == (0, HASH_END):
        return merge_sorted([run.part for run in runs], schema)
    return merge_sorted([run.clipped(*within).part for run in runs], schema)


def merged_pieces(runs: Runs, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of all runs in order, in pieces."""
    for within in piece_ranges(runs, PIECE_BYTES):
        yield merged(runs, schema, within)
