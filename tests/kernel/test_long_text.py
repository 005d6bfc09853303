"""Long text: what is copied at once is bounded in bytes, and what Arrow cannot address is said plainly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from small_steps import plan_of, step, step_by_step
from watersmeet.errors import ResourceError
from watersmeet.kernel import combine
from watersmeet.kernel.hashing import hash_keys
from watersmeet.kernel.rows import concat, gather, narrow

SCHEMA = "k BIGINT, s STRING, ts BIGINT"
TEXT_KEYS = "SELECT A.s AS a, B.s AS b, C.ts AS c FROM A, B, C WHERE A.s = B.s AND B.s = C.s AND A.k < B.k + C.k"
HALF = 1 << 30


def text_of(chunk: pa.RecordBatch) -> int:
    return sum(column.nbytes for column in chunk.columns if pa.types.is_string(column.type))


def rows_of(chunks: Iterable[pa.RecordBatch]) -> list[Any]:
    return sorted(tuple(row.values()) for chunk in chunks for row in chunk.drop_columns(["#h"]).to_pylist())


def test_one_long_text_that_meets_many_rows_comes_out_in_pieces() -> None:
    plan = plan_of("SELECT A.s AS long, B.k AS k FROM A, B WHERE A.k = B.k", SCHEMA)
    partners = [(1, "", n) for n in range(30_000)]
    count = size = 0
    for chunk in step_by_step(plan, {"A": [(1, "x" * 90_000, 0)]}, {"B": [partners]}, SCHEMA):
        count += chunk.num_rows
        size += text_of(chunk)
        assert text_of(chunk) < 2 * combine.CHUNK_BYTES
    assert count == 30_000
    assert size > 2**31  # more than one array can hold


texts = st.sampled_from(["", "a", "bb", "x" * 40, "y" * 300])
rows = st.lists(st.tuples(st.integers(0, 2), texts, st.just(0)), max_size=7)


@settings(deadline=None, max_examples=25)
@given(new=st.fixed_dictionaries(dict.fromkeys("ABC", rows)), kept=st.fixed_dictionaries(dict.fromkeys("ABC", rows)))
@pytest.mark.parametrize(
    "text",
    [
        TEXT_KEYS,
        "SELECT A.s AS a, B.s AS b, C.s AS c FROM A, B, C WHERE A.k = B.k AND B.k = C.k AND A.s || B.s <> C.s",
    ],
)
def test_pieces_say_nothing_about_the_answer(text: str, new: dict[str, Any], kept: dict[str, Any]) -> None:
    plan = plan_of(text, SCHEMA)
    before = {alias: [segment] for alias, segment in kept.items() if segment}
    whole = step(plan, new, before, SCHEMA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(combine, "CHUNK_BYTES", 50)
        pieces = step(plan, new, before, SCHEMA)
    assert rows_of(pieces) == rows_of(whole)
    # 50 bytes of text, or one row; an array of n texts also has n + 1 offsets of 4 bytes
    for chunk in pieces:
        columns = [column for column in chunk.columns if pa.types.is_string(column.type)]
        overhead = len(columns) * 4 * (chunk.num_rows + 1)
        assert chunk.num_rows == 1 or text_of(chunk) <= 50 + overhead


def test_a_row_with_many_partners_is_cut_into_chunks_as_well() -> None:
    plan = plan_of("SELECT A.s AS a, B.ts AS b FROM A, B WHERE A.k = B.k", SCHEMA)
    chunks = step(plan, {"A": [(1, "x", 0)]}, {"B": [[(1, "", n) for n in range(25)]]}, SCHEMA, chunk_rows=10)
    assert [chunk.num_rows for chunk in chunks] == [9, 9, 7]  # at most 10, and alike
    assert sorted(value for chunk in chunks for value in chunk.column("B.ts").to_pylist()) == list(range(25))


def blank(size: int) -> pa.RecordBatch:
    """A row whose text has `size` bytes, of memory that nobody has touched."""
    offsets = pa.py_buffer(np.array([0, size], dtype=np.int32))
    column = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(np.zeros(size, dtype=np.uint8))])
    return pa.record_batch({"#h": pa.array([1], pa.uint64()), "A.s": column})


def test_text_beyond_what_arrow_addresses_is_refused_with_its_size() -> None:
    piece = blank(HALF)
    with pytest.raises(ResourceError, match=r'column "A\.s" has too much text') as caught:
        concat([piece, piece], piece.schema)
    assert caught.value.detail is not None and "2 rows hold 21474836" in caught.value.detail
    assert caught.value.hint is not None


def test_other_complaints_of_arrow_are_not_taken_for_it() -> None:
    with pytest.raises(pa.ArrowInvalid):
        concat([pa.record_batch({"x": [1]}), pa.record_batch({"y": [1]})], pa.schema([]))


@pytest.mark.slow
def test_rows_of_many_segments_are_gathered_beyond_it() -> None:
    piece = blank(HALF)
    whole = gather([piece, piece, blank(3)], piece.schema).column("A.s")
    assert whole.type == pa.large_string()
    assert pc.binary_length(whole).to_pylist() == [HALF, HALF, 3]
    assert narrow(whole.take(pa.array([2, 2]))) == pa.array(["\0\0\0"] * 2)


def test_long_keys_are_hashed_a_stretch_at_a_time() -> None:
    generator = np.random.default_rng(5)
    lengths = [0, 1, 9_000_000, 3, 0, 5_000_000, 0, 0, 2]
    values = [generator.integers(97, 123, n, dtype=np.uint8).tobytes().decode() for n in lengths]
    column = pa.array(["skipped", *values]).slice(1)
    alone = [int(hash_keys([pa.array([value])])[0]) for value in values]
    assert hash_keys([column]).tolist() == alone


def test_a_table_with_too_much_text_for_one_batch_is_refused_and_loses_no_row() -> None:
    column = pa.chunked_array([blank(HALF).column("A.s")] * 3)
    table = pa.table({"k": pa.chunked_array([[1], [2], [3]]), "s": column, "ts": pa.chunked_array([[1], [2], [3]])})
    query = wm.sql("SELECT A.k, A.ts, B.ts AS other FROM A, B WHERE A.k = B.k", A=table, B=table.select(["k", "ts"]))
    with pytest.raises(ResourceError, match='column "s" has too much text'):
        query.run()
    assert query.run(batch_rows=1).num_rows == 3
