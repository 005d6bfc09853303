"""Partial aggregates: the worked example of the papers, values that are hard to add up, and runs of boundaries."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from watersmeet.errors import InputError
from watersmeet.kernel.aggregate import at_boundaries, combine, finished, partial_rows
from watersmeet.kernel.hashing import hash_groups
from watersmeet.lang.binder import bind
from watersmeet.model.aggregates import Partials
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.tree import Leaf

NAN = float("nan")


def partials_of(text: str, schema: pa.Schema) -> Partials:
    state = lay_out(bind(text, {"A": Stream("A", schema)}), Leaf("A")).grouped
    assert state is not None
    assert state.partials is not None
    return state.partials


def aggregate(values: pa.Array, what: str, pieces: int = 1) -> list[Any]:
    """An aggregate of a column, by way of partial rows of so many pieces of it."""
    schema = pa.schema([("x", values.type), ("ts", pa.int64())])
    partials = partials_of(f"SELECT {what} FROM A", schema)
    rows = pa.record_batch({"A.x": values, "A.ts": pa.array(range(len(values)), pa.int64())})
    step = max(1, -(-len(values) // pieces))
    parts = [partial_rows(rows.slice(start, step), partials) for start in range(0, len(values), step)]
    done = finished(combine(pa.concat_batches(parts), partials), partials)
    return done.column("#g.a0").to_pylist()


def test_the_worked_example_of_the_papers() -> None:
    """A sum over the rows of the last window for each group: 10 and 22, and with (1, 3), when (1, 4) has left, 9."""
    rows = {"c1": [1, 2, 1, 1, 2, 1], "c2": [4, 10, 2, 4, 12, 3], "ts": [1, 2, 3, 4, 5, 11]}
    window = "[RANGE 10 MICROSECONDS SLIDE 1 MICROSECOND]"
    query = wm.sql(f"SELECT c1, SUM(c2) AS total FROM C {window} GROUP BY c1", C=pa.table(rows))
    found = {(row["window_end"], row["c1"]): row["total"] for row in query.run().to_pylist()}
    assert (found[5, 1], found[5, 2]) == (10, 22)
    assert (found[10, 1], found[11, 1]) == (10, 9)
    assert found[11, 2] == 22


@pytest.mark.parametrize(
    ("values", "what", "expected"),
    [
        (pa.array([1.5, NAN, -0.0]), "MAX(x)", NAN),
        (pa.array([1.5, NAN, None]), "MIN(x)", 1.5),
        (pa.array([NAN, NAN]), "MIN(x)", NAN),
        (pa.array([-math.inf, 2.0]), "MIN(x)", -math.inf),
        (pa.array([-1.5, -2.5], pa.float32()), "MAX(x)", -1.5),
        (pa.array([None, None], pa.float64()), "MAX(x)", None),
        (pa.array(["b", None, "a€", "a"]), "MIN(x)", "a"),
        (pa.array([b"\xff", b"\x01"]), "MAX(x)", b"\xff"),
        (pa.array([True, False]), "MIN(x)", False),
        (pa.array([None, None], pa.int64()), "SUM(x)", None),
        (pa.array([None, None], pa.int64()), "AVG(x)", None),
        (pa.array([None, None], pa.int64()), "COUNT(x)", 0),
        (pa.array([None, None], pa.int64()), "COUNT(*)", 2),
        (pa.array([2**63 - 1, 1, -1]), "SUM(x)", 2**63 - 1),
        (pa.array([2**63 - 1, 2**63 - 1]), "AVG(x)", float(2**63)),
        (pa.array([-(2**63), -(2**63), 2**63 - 1, 2**63 - 1]), "SUM(x)", -2),
        (pa.array([Decimal("0.01")] * 2 + [Decimal("0.02")]), "AVG(x)", Decimal("0.013333")),
        (pa.array([Decimal("-0.01"), Decimal("-0.02")]), "AVG(x)", Decimal("-0.015")),
        (pa.array([Decimal("0.000005"), Decimal("0"), Decimal("0")]), "AVG(x)", Decimal("0.0000016667")),
        (pa.array([Decimal("1e28"), Decimal("1")], pa.decimal128(30, 1)), "AVG(x)", Decimal("5" + "0" * 27 + ".5")),
        (pa.array([Decimal("9" * 37), Decimal("1")], pa.decimal128(38, 0)), "SUM(x)", Decimal("1" + "0" * 37)),
    ],
)
@pytest.mark.parametrize("pieces", [1, 2])
def test_values_that_are_hard_to_add_up(values: pa.Array, what: str, expected: Any, pieces: int) -> None:
    (found,) = aggregate(values, what, pieces)
    assert math.isnan(found) if isinstance(expected, float) and math.isnan(expected) else found == expected


@pytest.mark.parametrize(
    ("values", "fits"),
    [
        (pa.array([2**63 - 1, 1]), "9223372036854775808, which does not fit a BIGINT"),
        (pa.array([Decimal("9" * 38)] * 2, pa.decimal128(38, 0)), "does not fit a DECIMAL(38, 0)"),
    ],
)
def test_a_sum_that_is_too_large_is_an_error(values: pa.Array, fits: str) -> None:
    with pytest.raises(InputError) as caught:
        aggregate(values, "SUM(x)")
    assert caught.value.primary == "SUM(A.x) of a group is too large"
    assert fits in (caught.value.detail or "")


@pytest.mark.parametrize("missing", [[], [None]])
def test_an_average_that_does_not_fit_is_an_error(missing: list[None]) -> None:
    values = pa.array([*missing, Decimal("1e35"), Decimal("-1e35"), Decimal("3e35")], pa.decimal128(38, 2))
    with pytest.raises(InputError) as caught:
        aggregate(values, "AVG(x)")
    assert caught.value.primary == "AVG(A.x) of a group is too large"
    assert "does not fit a DECIMAL(38, 6)" in (caught.value.detail or "")


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(st.lists(st.decimals("-99999999.99", "99999999.99", places=2), min_size=1, max_size=12), st.integers(1, 4))
def test_averages_of_decimals_are_rounded_half_up(values: list[Decimal], pieces: int) -> None:
    (found,) = aggregate(pa.array(values, pa.decimal128(10, 2)), "AVG(x)", pieces)
    exact = sum(value * 1_000_000 for value in values) / 1  # in millionths
    quotient = (2 * abs(int(exact)) + len(values)) // (2 * len(values))
    assert found == (Decimal(quotient) if exact >= 0 else -Decimal(quotient)).scaleb(-6)


def test_null_and_equal_numbers_are_one_group() -> None:
    values = pa.array([0.0, -0.0, NAN, -NAN, None, None])
    schema = pa.schema([("x", pa.float64()), ("ts", pa.int64())])
    partials = partials_of("SELECT x, COUNT(*) FROM A GROUP BY x", schema)
    rows = finished(partial_rows(pa.record_batch({"A.x": values}), partials), partials)
    assert sorted(map(str, zip(rows.column("#g.0").to_pylist(), rows.column("#g.a0").to_pylist(), strict=True))) == [
        "(0.0, 2)",
        "(None, 2)",
        "(nan, 2)",
    ]


@pytest.mark.parametrize("kind", [pa.int8(), pa.bool_(), pa.string(), pa.decimal128(25, 2), pa.float32(), pa.date32()])
def test_the_hash_of_a_group_is_that_of_its_values(kind: pa.DataType) -> None:
    values = pa.array([0, 1, None, 0, None]).cast(pa.int32() if pa.types.is_date(kind) else kind).cast(kind)
    found = hash_groups([values, pa.array(["a"] * 5)], 5)
    assert found[0] == found[3] != found[2]
    assert found[2] == found[4]
    assert len(set(found.tolist())) == 3


@settings(max_examples=80, derandomize=True, deadline=None, database=None)
@given(
    st.lists(st.integers(-40, 40), min_size=1, max_size=8),
    st.sampled_from([(6, 2), (6, 3), (5, 5), (8, 1), (12, 4)]),
    st.integers(-50, 60),
    st.integers(1, 7),
)
def test_a_row_counts_at_the_boundaries_in_its_window(
    times: list[int], window: tuple[int, int], after: int, at_once: int
) -> None:
    width, slide = window
    text = f"SELECT COUNT(*) FROM A [RANGE {width} MICROSECONDS SLIDE {slide} MICROSECONDS]"
    partials = partials_of(text, pa.schema([("ts", pa.int64())]))
    rows = partial_rows(pa.record_batch({"@A": pa.array(times, pa.int64())}), partials)
    after = after // slide * slide
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("watersmeet.kernel.aggregate.AT_ONCE", at_once)
        chunks = list(at_boundaries([rows], partials, after, after + 5 * slide))
    names = ("#g.window_end", "#g.a0")
    columns = [[chunk.column(name).to_pylist() for name in names] for chunk in chunks]
    found = {end: n for ends, counts in columns for end, n in zip(ends, counts, strict=True)}
    wanted = {t: sum(ts <= t < ts + width for ts in times) for t in range(after + slide, after + 5 * slide + 1, slide)}
    assert found == {t: n for t, n in wanted.items() if n}


def test_times_at_the_ends_of_64_bits() -> None:
    partials = partials_of("SELECT COUNT(*) FROM A [RANGE 10 DAYS SLIDE 5 DAYS]", pa.schema([("ts", pa.int64())]))
    ends = np.iinfo(np.int64)
    rows = partial_rows(pa.record_batch({"@A": pa.array([ends.max, ends.max - 1, 0, ends.min + 10**13])}), partials)
    assert sum(rows.column("#p.0").to_pylist()) == 2, "beyond the last boundary of 64 bits there is none"
