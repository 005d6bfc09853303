"""Sorted runs are worked through in stretches of the hash: every row once, all of a hash together, none too large."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.kernel import pieces
from watersmeet.kernel.indexed import Indexed, Stretches
from watersmeet.kernel.pieces import merged, merged_pieces, piece_ranges, sliced
from watersmeet.kernel.rows import hashes
from watersmeet.model.bounds import HASH_END

SCHEMA = pa.schema([("#h", pa.uint64()), ("n", pa.int64())])
ROW = 16


def run(values: list[int], first: int = 0) -> Indexed:
    """A run with these hashes, its rows numbered."""
    columns = [pa.array(sorted(values), pa.uint64()), pa.array(range(first, first + len(values)), pa.int64())]
    return Indexed.run(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def numbers(batch: pa.RecordBatch) -> list[int]:
    found: list[int] = batch.column("n").to_pylist()
    return found


def random_run(rows: int, seed: int, first: int = 0) -> Indexed:
    return run(np.random.default_rng(seed).integers(0, HASH_END, rows, dtype=np.uint64).tolist(), first)


hashed = st.lists(st.one_of(st.integers(0, HASH_END - 1), st.integers(0, 3), st.just(HASH_END - 1)), max_size=30)


@settings(deadline=None)
@given(st.lists(hashed, max_size=6), st.integers(1, 20))
def test_every_row_is_in_one_piece_and_every_hash_too(drawn: list[list[int]], rows: int) -> None:
    runs = [run(values, 100 * place) for place, values in enumerate(drawn)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_BYTES", rows * ROW)
        ranges = piece_ranges(runs, rows * ROW)
        found = list(merged_pieces(runs, SCHEMA))
    assert (ranges[0][0], ranges[-1][1]) == (0, HASH_END)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
    whole = merged(runs, SCHEMA)
    assert [number for piece in found for number in numbers(piece)] == numbers(whole), "in order, equal hashes too"
    kept = [set(hashes(piece).tolist()) for piece in found]
    assert sum(map(len, kept)) == len(set().union(*kept))


@pytest.mark.parametrize("runs", [1, 3, 200])
def test_pieces_are_no_larger_than_they_should_be(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 2_000 * ROW)
    many = [random_run(100_000 // runs, seed, 1_000_000 * seed) for seed in range(runs)]
    sizes = [piece.num_rows for piece in merged_pieces(many, SCHEMA)]
    assert len(sizes) == 50
    assert max(sizes) < 1.5 * 2_000


def test_few_rows_are_one_piece() -> None:
    assert piece_ranges([run([1, 2]), run([3])], 1000) == [(0, HASH_END)]
    assert piece_ranges([], 1) == [(0, HASH_END)]


def test_a_hot_key_is_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 10 * ROW)
    runs = [run([7] * 100), run([7] * 50 + [8] * 50, 1000)]
    assert [Counter(hashes(piece).tolist()) for piece in merged_pieces(runs, SCHEMA) if piece.num_rows] == [
        Counter({7: 150}),
        Counter({8: 50}),
    ]


def test_only_the_rows_that_are_meant_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file that other slots have groups of."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 5 * ROW)
    every = run(list(range(100)))
    some = every.among(Stretches.of([(10, 20), (40, 50), (90, HASH_END)]))
    found = [number for piece in merged_pieces([some], SCHEMA) for number in numbers(piece)]
    assert found == [*range(10, 20), *range(40, 50), *range(90, 100)]
    assert some.count == 30
    assert some.clipped(15, 45).count == 10 == some.clipped(15, 45).part.num_rows
    assert some.clipped(95, HASH_END).count == 5
    assert some.clipped(20, 40).count == 0
    assert (some.nbytes, some.clipped(15, 45).nbytes) == (30 * ROW, 10 * ROW)


def test_rows_in_any_order_are_sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 10 * ROW)
    rows = random_run(95, 0).rows
    found = list(sliced(rows))
    assert [piece.num_rows for piece in found] == [11] * 8 + [7]
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([rows]))
    assert list(sliced(rows.slice(0, 0))) == []
