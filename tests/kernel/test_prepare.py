"""From rows of a stream to rows of a port: late rows apart, filters, NULL keys, hashes, slices for slots."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.kernel.hashing import hash_keys
from watersmeet.kernel.prepare import keyed, prepare, split_late
from watersmeet.kernel.rows import hash_slice, merge_sorted, sort_by_hash
from watersmeet.kernel.to_slots import cut
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.bounds import Bounds
from watersmeet.model.keys import ByHash
from watersmeet.model.routing import Routing
from watersmeet.model.streams import Stream
from watersmeet.model.time_units import TimeColumn
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import LeafPort
from watersmeet.plan.tree import choose_tree

LOW, HIGH = -(2**63), 2**63 - 1


def batch(schema: str, *rows: tuple[Any, ...]) -> pa.RecordBatch:
    fields = parse_schema(schema)
    return pa.RecordBatch.from_pylist([dict(zip(fields.names, row, strict=True)) for row in rows], schema=fields)


def leaf_of(schema: str, condition: str, select: str = "A.v") -> LeafPort:
    streams = {name: Stream(name, parse_schema(schema)) for name in ("A", "B")}
    query = bind(f"SELECT {select} FROM A [RANGE 10 SECONDS], B WHERE {condition}", streams)
    return next(leaf for leaf in lay_out(query, choose_tree(query, "mjoin")).leaves if leaf.alias == "A")


@pytest.mark.parametrize(
    ("times", "watermark", "on_time", "late", "newest"),
    [
        ([5, 1, 9], None, [5, 1, 9], [], 9),
        ([5, 1, 9], 5, [5, 9], [1], 9),
        ([5, 1, 9], 1, [5, 1, 9], [], 9),
        ([1, 2], 3, [], [1, 2], 2),
        ([None, 4], None, [4], [None], 4),
        ([None, 4, 1], 2, [4], [None, 1], 4),
        ([None], 2, [], [None], None),
        ([], 2, [], [], None),
        ([-5, -7], -6, [-5], [-7], -5),
        ([LOW, HIGH], LOW - 1, [LOW, HIGH], [], HIGH),
        ([None, LOW, HIGH], LOW - 1, [LOW, HIGH], [None], HIGH),
        ([LOW, HIGH], HIGH, [HIGH], [LOW], HIGH),
    ],
    ids=[
        "nothing is late before there is a watermark",
        "older than the watermark is late",
        "as old as the watermark is not",
        "all late",
        "no time is late",
        "no time and old",
        "only rows without a time",
        "no rows",
        "negative times",
        "a watermark below 64 bits",
        "a watermark below 64 bits and a row without a time",
        "the ends of time",
    ],
)
def test_split_late(
    times: list[int | None], watermark: int | None, on_time: list[int], late: list[int | None], newest: int | None
) -> None:
    rows = pa.record_batch({"ts": pa.array(times, pa.int64())})
    found = split_late(rows, TimeColumn("ts"), watermark)
    assert found.rows.column("ts").to_pylist() == on_time == found.times.tolist()
    assert ([] if found.late is None else found.late.column("ts").to_pylist()) == late
    assert found.newest_us == newest


@pytest.mark.parametrize(
    ("times", "watermark", "limit", "on_time", "late", "ahead", "newest", "furthest"),
    [
        ([5, 1, 9], None, 9, [5, 1, 9], [], [], 9, None),
        ([5, 1, 9], None, 8, [5, 1], [], [9], 5, 9),
        ([5, 1, 9, 7], 4, 6, [5], [1], [9, 7], 5, 9),
        ([8, 9], None, 7, [], [], [8, 9], None, 9),
        ([None, 8, 3], None, 7, [3], [None], [8], 3, 8),
        ([None, 8, 3], 9, 7, [], [None, 8, 3], [], 3, None),
        ([5, 12], 10, 7, [], [5], [12], 5, 12),
        ([LOW, HIGH], None, HIGH + 9, [LOW, HIGH], [], [], HIGH, None),
        ([LOW, HIGH], None, LOW - 9, [], [], [LOW, HIGH], None, HIGH),
        ([], 3, 7, [], [], [], None, None),
    ],
    ids=[
        "as late as the limit is not ahead",
        "later than the limit is, and does not count for the newest",
        "late rows and rows ahead",
        "all ahead",
        "no time is not ahead",
        "what is older than the watermark is late first",
        "a watermark beyond the limit",
        "a limit above 64 bits",
        "a limit below 64 bits",
        "no rows",
    ],
)
def test_rows_later_than_a_limit_are_ahead(
    times: list[int | None],
    watermark: int | None,
    limit: int,
    on_time: list[int],
    late: list[int | None],
    ahead: list[int],
    newest: int | None,
    furthest: int | None,
) -> None:
    rows = pa.record_batch({"ts": pa.array(times, pa.int64())})
    found = split_late(rows, TimeColumn("ts"), watermark, limit)
    assert found.rows.column("ts").to_pylist() == on_time == found.times.tolist()
    assert ([] if found.late is None else found.late.column("ts").to_pylist()) == late
    assert ([] if found.ahead is None else found.ahead.column("ts").to_pylist()) == ahead
    assert (found.newest_us, found.furthest_us) == (newest, furthest)


def test_times_of_timestamps_are_microseconds() -> None:
    rows = batch("ts TIMESTAMP", (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),), (datetime(1969, 12, 31, tzinfo=UTC),))
    found = split_late(rows, TimeColumn("ts"), 0)
    assert (found.times.tolist(), found.newest_us) == ([1_000_000], 1_000_000)
    assert found.late is not None and found.late.num_rows == 1


def test_a_slice_is_split_as_its_own_rows() -> None:
    rows = pa.record_batch({"ts": pa.array([1, 2, None, 8, 3], pa.int64())}).slice(1, 3)
    found = split_late(rows, TimeColumn("ts"), 5)
    assert found.rows.column("ts").to_pylist() == [8]
    assert found.late is not None and found.late.column("ts").to_pylist() == [2, None]


SCHEMA = "k STRING, v BIGINT, ts BIGINT"


@pytest.mark.parametrize(
    ("condition", "rows", "kept"),
    [
        ("A.k = B.k", [("x", 1, 5), (None, 2, 6), ("", 3, 7)], {1, 3}),
        ("A.k = B.k", [(None, 1, 5), (None, 2, 6)], set()),
        ("A.k = B.k", [], set()),
        ("A.k = B.k AND A.v > 1", [("x", 1, 5), ("x", 2, 6), ("y", None, 7)], {2}),
        ("A.v = B.v AND A.k = B.k", [("x", None, 5), (None, 2, 6), ("ä🙂", 3, 7)], {3}),
        ("upper(A.k) = B.k", [("x", 1, 5), (None, 2, 5)], {1}),
        ("A.k = B.k AND A.v / 0 = 1", [("x", 1, 5)], set()),
    ],
    ids=[
        "NULL keys go",
        "all NULL keys",
        "no rows",
        "filters",
        "a NULL in any key column",
        "a computed key",
        "a filter that is NULL",
    ],
)
def test_prepare(condition: str, rows: list[tuple[Any, ...]], kept: set[int]) -> None:
    leaf = leaf_of(SCHEMA, condition)
    found = prepare(split_late(batch(SCHEMA, *rows), TimeColumn("ts"), None), leaf)
    assert found.schema == leaf.state.schema
    assert set(found.column("A.v").to_pylist()) == kept
    assert found.column("#h").to_pylist() == sorted(found.column("#h").to_pylist())
    by_value = {v: ts for _, v, ts in rows}
    assert [by_value[v] for v in found.column("A.v").to_pylist()] == found.column("@A").to_pylist()


def test_rows_are_hashed_by_the_type_of_the_key_class() -> None:
    streams = {
        "A": Stream("A", parse_schema("k INT, ts BIGINT")),
        "B": Stream("B", parse_schema("k DECIMAL(12, 2), ts BIGINT")),
    }
    query = bind("SELECT A.k FROM A, B WHERE A.k = B.k", streams)
    a, b = lay_out(query, choose_tree(query, "mjoin")).leaves
    left = prepare(split_late(batch("k INT, ts BIGINT", (7, 0)), TimeColumn("ts"), None), a)
    right = prepare(split_late(batch("k DECIMAL(12, 2), ts BIGINT", (Decimal("7.00"), 0)), TimeColumn("ts"), None), b)
    assert left.column("#h").to_pylist() == right.column("#h").to_pylist()


def test_keyed_takes_slices() -> None:
    whole = pa.record_batch({"A.k": pa.array([4, None, 2, 9]), "A.v": pa.array(["a", "b", "c", "d"])})
    found = keyed(whole.slice(1, 2), ByHash(("A.k",)), (("A.v", pa.string()),))
    assert found.column("A.v").to_pylist() == ["c"]
    assert found.column("#h").to_pylist() == hash_keys([pa.array([2])]).tolist()


@pytest.mark.parametrize(("groups", "slots"), [(1, 1), (3, 2), (20, 4), (300, 7)])
def test_cut_sends_every_row_to_the_slot_that_owns_it(groups: int, slots: int) -> None:
    values = np.sort(np.concatenate([hash_keys([pa.array(range(500))]), np.array([0, 2**64 - 1], np.uint64)]))
    rows = pa.record_batch({"#h": pa.array(values)})
    routing = Routing.even(Bounds(groups), slots)
    seen: list[int] = []
    for slot, piece in cut(rows, routing):
        for value in piece.column("#h").to_pylist():
            assert routing.owners[value * groups >> 64] == slot
            seen.append(value)
    assert sorted(seen) == values.tolist()


def test_cut_gives_a_slot_with_scattered_groups_all_of_its_pieces() -> None:
    rows = pa.record_batch({"#h": pa.array([n << 60 for n in range(16)], pa.uint64())})
    pieces = list(cut(rows, Routing(2, (0, 1, 0, 1), Bounds(4))))
    assert [(slot, piece.num_rows) for slot, piece in pieces] == [(0, 4), (0, 4), (1, 4), (1, 4)]


def test_cut_puts_many_pieces_of_a_slot_together() -> None:
    rows = pa.record_batch({"#h": pa.array([n << 60 for n in range(16)], pa.uint64())})
    pieces = dict(cut(rows, Routing(2, (0, 1) * 8, Bounds(16))))
    assert [value >> 60 for value in pieces[0].column("#h").to_pylist()] == list(range(0, 16, 2))
    assert [value >> 60 for value in pieces[1].column("#h").to_pylist()] == list(range(1, 16, 2))


def test_slices_by_hash_reach_both_ends() -> None:
    rows = pa.record_batch({"#h": pa.array([0, 5, 5, 2**64 - 1], pa.uint64())})
    assert hash_slice(rows, 0, 2**64).num_rows == 4
    assert hash_slice(rows, 5, 6).num_rows == 2
    assert hash_slice(rows, 6, 2**64 - 1).num_rows == 0
    assert hash_slice(rows, 2**64 - 1, 2**64).num_rows == 1
    assert hash_slice(rows.slice(0, 0), 0, 2**64).num_rows == 0


def test_merge_sorted_keeps_the_order_of_equal_hashes() -> None:
    schema = pa.schema([("#h", pa.uint64()), ("v", pa.string())])

    def piece(*rows: tuple[int, str]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{"#h": h, "v": v} for h, v in rows], schema=schema)

    merged = merge_sorted([piece((1, "a"), (4, "b")), piece(), piece((1, "c"), (2, "d")), piece((4, "e"))], schema)
    assert merged.column("v").to_pylist() == ["a", "c", "d", "b", "e"]
    assert merge_sorted([], schema).num_rows == 0
    assert merge_sorted([piece(), piece()], schema).schema == schema
    assert sort_by_hash(piece((3, "x"), (0, "y"))).column("v").to_pylist() == ["y", "x"]
