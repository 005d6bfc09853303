"""Bands: whatever satisfies a predicate is proposed, however nasty the values are."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import UserError
from watersmeet.kernel.bands import Band, find_bands
from watersmeet.kernel.combine import Bench, Partial
from watersmeet.kernel.evaluate import satisfied
from watersmeet.kernel.orders import Met, Visitors, propose
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.expressions import Expr, describe
from watersmeet.model.ids import Partitioning, StateName
from watersmeet.model.streams import Stream
from watersmeet.plan.physical import State

SCHEMA = parse_schema(
    "i BIGINT, s INT, f DOUBLE, g FLOAT, d DECIMAL(38, 9), e DECIMAL(10, 2), t TIMESTAMP, n TIMESTAMP_NTZ, day DATE, "
    "z STRING, ts BIGINT"
)
STREAMS = {name: Stream(name, SCHEMA) for name in "ABC"}
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 0.30000000000000004, 1e308, -1e308, 1.7976931348623157e308, 5e-324, 1e16, 1e16 + 2]
INTEGERS = [0, 1, -1, 7, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1]
EPOCH = dt.datetime(1970, 1, 1)
MOMENTS = [dt.timedelta(0), dt.timedelta(microseconds=1), dt.timedelta(seconds=3), dt.timedelta(days=20_000)]
MOMENTS += [dt.timedelta(days=20_000, microseconds=-1), dt.timedelta(days=-700_000), dt.timedelta(days=2_900_000)]

VALUES: dict[str, list[Any]] = {
    "i": INTEGERS,
    "s": [0, 1, -1, 2**31 - 1, -(2**31)],
    "f": [*FLOATS, math.nan, math.inf, -math.inf],
    "g": [0.0, 0.10000000149011612, 16777216.0, 3.4e38, math.nan, math.inf, -math.inf],
    "d": [Decimal(text) for text in ("0", "0.1", "-0.000000001", "9" * 29 + ".999999999", "9007199254740993", "2.5")],
    "e": [Decimal(text) for text in ("0", "0.10", "0.30", "99999999.99", "-99999999.99", "2.50")],
    "t": [EPOCH.replace(tzinfo=dt.UTC) + each for each in MOMENTS],
    "n": [EPOCH + each for each in MOMENTS],
    "day": [(EPOCH + each).date() for each in MOMENTS],
}

PREDICATES = [
    "B.i < A.i",
    "A.i <= B.i",
    "B.s > A.i",
    "A.f >= B.f",
    "B.f = A.f",
    "ABS(A.f - B.f) < 3",
    "ABS(B.i - A.i) <= 1",
    "B.f BETWEEN A.f - 0.1 AND A.f + 0.2",
    "A.i - B.i <= 2",
    "A.i + B.i > A.s",
    "-(B.i) < A.i",
    "A.f - B.f * 3 < 1e16",
    "B.f / -4 + A.f <= A.g",
    "B.g <= A.g",
    "B.g < A.f",
    "ABS(A.d - B.d) < 0.5",
    "B.d <= A.e",
    "A.e + B.e >= 0.4",
    "A.d - B.i < 1.5",
    "B.i < A.d",
    "A.f < B.d",
    "B.t > A.t - INTERVAL 3 SECONDS",
    "A.t - B.t < INTERVAL 1 MINUTE",
    "B.n BETWEEN A.n - INTERVAL 1 DAY AND A.n",
    "B.day < A.t",
    "B.t - INTERVAL 1 DAY >= A.day",
    "(A.f - B.f) * (A.f - B.f) + (A.g - B.g) * (A.g - B.g) < 9",
    "SQRT(POWER(A.f - B.f, 2) + POWER(A.g - B.g, 2)) <= 2",
    "ABS(A.f - B.f) + ABS(A.i - B.i) < 4",
    "B.f + B.g < A.f",
    "CAST(A.i - B.i AS DOUBLE) < 2.5",
    "A.f > SQRT(B.f)",
    "(B.f - A.f) - A.g < 1",
    "-(ABS(A.i - B.i) + ABS(A.s - B.s)) > -4",
]

# Here NaN satisfies the comparison, and comes of numbers: no order of `f` shows which pairs do.
WITH_NAN_INSIDE = [
    "-(POWER(A.f - B.f, 2) + POWER(A.g - B.g, 2)) > -9",
    "5 < A.f - (B.f + ABS(A.g - B.g))",
    "-SQRT(A.f - B.f) >= -2",
]


def predicate(text: str) -> Expr:
    """The last of the conjuncts, which has the others beside it."""
    return bind(f"SELECT A.i FROM A, B WHERE {text}", STREAMS).predicates[-1]


def rows(alias: str, columns: dict[str, list[Any]]) -> pa.RecordBatch:
    count = max(len(values) for values in columns.values())
    arrays = {
        f"{alias}.{field.name}": pa.array(
            list(itertools.islice(itertools.cycle(columns.get(field.name, [None])), count)), field.type
        )
        for field in SCHEMA
    }
    return pa.record_batch(arrays)


def nasty(alias: str) -> pa.RecordBatch:
    """All values of each column, and NULL; in each column in another order."""
    found = {}
    for place, (name, values) in enumerate(VALUES.items()):
        turned = [*values, None][place % 5 :] + [*values, None][: place % 5]
        found[name] = turned
    return rows(alias, found)


def pairs(first: pa.RecordBatch, second: pa.RecordBatch, which: list[tuple[int, int]]) -> pa.RecordBatch:
    left, right = (pa.array([pair[place] for pair in which], pa.int64()) for place in (0, 1))
    taken = [*first.take(left).columns, *second.take(right).columns]
    return pa.RecordBatch.from_arrays(taken, names=[*first.schema.names, *second.schema.names])


def satisfying(expr: Expr, first: pa.RecordBatch, second: pa.RecordBatch) -> set[tuple[int, int]]:
    """The pairs that satisfy `expr`, each computed by itself where some cannot be."""
    every = list(itertools.product(range(first.num_rows), range(second.num_rows)))
    try:
        return {pair for pair, yes in zip(every, satisfied(expr, pairs(first, second, every)), strict=True) if yes}
    except UserError:
        return {pair for pair in every if _is_satisfied(expr, pairs(first, second, [pair]))}


def _is_satisfied(expr: Expr, pair: pa.RecordBatch) -> bool:
    try:
        return bool(satisfied(expr, pair)[0])
    except UserError:
        return False


def bench(of: pa.RecordBatch) -> Bench:
    return Bench(of, None, ())


def state(alias: str) -> State:
    fields = tuple((f"{alias}.{field.name}", field.type) for field in SCHEMA)
    return State(StateName("S"), (alias,), (), fields, (), (), Partitioning("time"))


def proposed(bands: list[Band], visiting: pa.RecordBatch, met: pa.RecordBatch) -> list[tuple[int, int]]:
    own = np.arange(visiting.num_rows)
    visitors = Visitors(bench(visiting), Partial.of_rows(bench(visiting), 0, own, own))
    found = propose(visitors, Met(bench(met), state("B")), bands, True)
    return [
        (visitor, int(row if each.rows is None else each.rows[row]))
        for each in found.stretches
        for visitor, (begin, count) in enumerate(zip(each.begins, each.counts, strict=True))
        for row in range(begin, begin + count)
    ]


@pytest.fixture(autouse=True)
def _sort_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.kernel.orders.SORT_CANDIDATES", -1)


@pytest.mark.parametrize("text", PREDICATES)
@pytest.mark.parametrize("visiting", "AB")
def test_what_satisfies_a_predicate_is_proposed_once(text: str, visiting: str) -> None:
    expr = predicate(text)
    met = "B" if visiting == "A" else "A"
    left, right = nasty(visiting), nasty(met)
    wanted = satisfying(expr, left, right)
    bands = list(find_bands(expr, met))
    assert bands or visiting == "B"  # A may stand in two places
    for band in bands:
        found = proposed([band], left, right)
        assert len(found) == len(set(found))
        assert wanted <= set(found), describe(band.value)


@pytest.mark.parametrize("text", WITH_NAN_INSIDE)
def test_nan_that_comes_of_numbers_is_proposed(text: str) -> None:
    expr, left, right = predicate(text), nasty("A"), nasty("B")
    wanted = satisfying(expr, left, right)
    for band in find_bands(expr, "B"):
        assert wanted <= set(proposed([band], left, right)), describe(band.value)


SEVERAL = [
    "B.f BETWEEN A.f - 0.1 AND A.f + 0.2",
    "B.i <= A.i AND ABS(B.i - A.s) <= 2**53",
    "B.d > A.e - 1 AND A.d >= B.d AND B.f <= A.f",
    "B.n BETWEEN A.n - INTERVAL 1 DAY AND A.n AND B.n <= A.t",
    "B.f < A.f AND B.f > A.g",
    "-(B.f) < A.f AND B.f + A.g <= 3",
]


@pytest.mark.parametrize("text", SEVERAL)
def test_what_satisfies_several_predicates_is_proposed_once(text: str) -> None:
    query = bind(f"SELECT A.i FROM A, B WHERE {text.replace('2**53', str(2**53))}", STREAMS)
    left, right = nasty("A"), nasty("B")
    wanted = set.intersection(*(satisfying(expr, left, right) for expr in query.predicates))
    found = proposed([band for expr in query.predicates for band in find_bands(expr, "B")], left, right)
    assert len(found) == len(set(found))
    assert wanted <= set(found)


@pytest.mark.parametrize(
    "text",
    ["B.i BETWEEN A.i - 1 AND A.i + 1", "A.i BETWEEN B.i - 1 AND B.i + 1", "2 * B.i < A.i * 2 + 3 AND A.i - 1 <= B.i"],
)
def test_bounds_on_both_sides_leave_what_is_between_them(text: str) -> None:
    query = bind(f"SELECT A.i FROM A, B WHERE {text}", STREAMS)
    bands = [band for expr in query.predicates for band in find_bands(expr, "B")]
    numbers = {"i": [10 * n for n in range(100)]}
    assert proposed(bands, rows("A", numbers), rows("B", numbers)) == [(n, n) for n in range(100)]


NUMBERS = st.one_of(
    st.sampled_from([*FLOATS, math.nan, math.inf, -math.inf, 2.0**53, 2.0**63]),
    st.floats(-20, 20),
    st.floats(),
    st.none(),
)
WHOLE = st.one_of(st.sampled_from(INTEGERS), st.integers(-20, 20), st.none())
EXACT = st.one_of(
    st.sampled_from([*VALUES["d"], None]), st.decimals(-20, 20, places=9), st.decimals(-(10**28), 10**28, places=9)
)
TERMS = ["A.f", "A.i", "A.d", "A.s", "1", "0.1", "2.5", "1e16", "-3"]
STEPS = ["{} + {}", "{} - {}", "{1} - {0}", "-({})", "ABS({})", "{} * 3", "{} / -7", "CAST({} AS DOUBLE)"]
STEPS += ["{0} + ABS(A.f - B.f)", "SQRT({})", "POWER({}, 2)"]


@st.composite
def random_predicates(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(["B.f", "B.i", "B.s", "B.d", "B.f + B.i"]))
    for _ in range(draw(st.integers(1, 4))):
        term = draw(st.sampled_from(TERMS))
        text = f"({draw(st.sampled_from(STEPS)).format(text, term)})"
    return f"{text} {draw(st.sampled_from(['<', '<=', '>', '>=', '=']))} {draw(st.sampled_from(TERMS[:-1]))}"


@settings(deadline=None)
@given(random_predicates(), st.data())
def test_so_is_what_satisfies_random_ones(text: str, data: st.DataObject) -> None:
    try:
        query = bind(f"SELECT A.i FROM A, B WHERE {text}", STREAMS)
    except UserError:
        return  # decimals of too many digits
    columns = st.fixed_dictionaries(
        {
            "f": st.lists(NUMBERS, min_size=1, max_size=5),
            "i": st.lists(WHOLE, min_size=1, max_size=5),
            "s": st.lists(st.integers(-5, 5), min_size=1, max_size=5),
            "d": st.lists(EXACT, min_size=1, max_size=5),
        }
    )
    left, right = rows("A", data.draw(columns)), rows("B", data.draw(columns))
    for expr in query.predicates:
        wanted = satisfying(expr, left, right)
        for band in find_bands(expr, "B"):
            assert wanted <= set(proposed([band], left, right)), describe(band.value)


@pytest.mark.parametrize(
    "text",
    [
        "A.z < B.z",
        "A.i < B.i OR A.f < 3",
        "NOT A.i < B.i",
        "A.i % 3 < B.i % A.s",
        "A.i <> B.i",
        "A.f * B.f < 3",
        "B.f - A.f < B.i",
        "A.f - CAST(B.f + A.f AS BIGINT) < 2",
    ],
)
def test_predicates_that_are_no_bands(text: str) -> None:
    assert not list(find_bands(predicate(text), "B"))


def test_a_band_leaves_what_is_far_from_it() -> None:
    (band,) = find_bands(predicate("ABS(A.f - B.f) < 3"), "B")
    left = rows("A", {"f": [0.0, 10.0, None]})
    right = rows("B", {"f": [-1.0, 2.0, 9.0, 13.5, None]})
    assert set(proposed([band], left, right)) == {(0, 0), (0, 1), (1, 2)}


def test_of_several_bands_the_one_is_used_that_leaves_least() -> None:
    expr = predicate("ABS(A.f - B.f) + ABS(A.i - B.i) < 1.5")
    left = rows("A", {"f": [0.0] * 5, "i": list(range(5))})
    right = rows("B", {"f": [0.0] * 5, "i": list(range(5))})
    bands = list(find_bands(expr, "B"))
    assert len(bands) == 2
    assert set(proposed(bands, left, right)) == {(a, b) for a in range(5) for b in range(5) if abs(a - b) < 2}


def test_infinities_are_met_by_everybody_and_null_by_nobody() -> None:
    (band,) = find_bands(predicate("B.f < A.f"), "B")
    left = rows("A", {"f": [0.0, math.nan, None]})
    right = rows("B", {"f": [math.nan, -math.inf, None, 5.0]})
    assert set(proposed([band], left, right)) == {(0, 0), (0, 1), (1, 0), (1, 1), (1, 3)}


def test_what_cannot_be_computed_for_a_side_alone_leaves_the_band_unused() -> None:
    (band,) = find_bands(predicate("A.i * A.i < B.f"), "B")
    assert band.bounds(rows("A", {"i": [2**62]})) is None
    assert len(proposed([band], rows("A", {"i": [2**62]}), rows("B", {"f": [1.0, 2.0]}))) == 2
