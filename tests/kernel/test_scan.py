"""A visit to slices of time: each pair that is in time and satisfies the predicates, once, however it is found."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_steps import Row, plan_of, rows_of
from watersmeet.kernel.combine import Bench, Partial
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.orders import Stretch
from watersmeet.kernel.scan import scan_pieces
from watersmeet.kernel.tally import Tally
from watersmeet.kernel.tiles import cut_tiles
from watersmeet.plan.hop import HopStage
from watersmeet.plan.physical import Node, PhysicalPlan

SCHEMA = "k BIGINT, x DOUBLE, ts BIGINT"
WINDOWED = "SELECT A.k AS a, B.k AS b FROM A [RANGE 5 MICROSECONDS], B [RANGE 3 MICROSECONDS]"
PRODUCT = "SELECT A.k AS a, B.k AS b FROM A, B"
BAND = "ABS(A.x - B.x) < 2 AND B.x <> 7"


planned = functools.cache(functools.partial(plan_of, schema=SCHEMA))


def node_of(plan: PhysicalPlan) -> Node:
    """The join of visiting rows of A with kept rows of B."""
    stage = plan.stages[0]
    assert isinstance(stage, HopStage)
    return next(probe.node for probe in stage.probes if probe.state.aliases == ("B",))


def visit(text: str, visiting: list[Row], kept: list[list[Row]], tally: Tally | None = None) -> Counter[Row]:
    plan = planned(text)
    runs = [Indexed.of(rows_of(plan, "B", rows, SCHEMA)) for rows in kept]
    partial = [Indexed.of(rows_of(plan, "A", visiting, SCHEMA))]
    pieces = scan_pieces(node_of(plan), partial, runs, tally or Tally())
    names = ("A.k", "B.k")
    return Counter(row for piece in pieces for row in zip(*(piece.column(n).to_pylist() for n in names), strict=True))


def in_time(a: Row, b: Row) -> bool:
    return bool(max(a[2], b[2]) - a[2] < 5 and max(a[2], b[2]) - b[2] < 3)


def near(a: Row, b: Row) -> bool:
    if a[1] is None or b[1] is None or b[1] == 7:
        return False
    return bool(abs(a[1] - b[1]) < 2)  # False for NaN, and for two infinities of one sign


X = st.one_of(st.none(), st.sampled_from([math.nan, math.inf, -math.inf, 7.0]), st.floats(-5, 5))
ROWS = st.lists(st.tuples(st.integers(0, 9), X, st.integers(-6, 6)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    ROWS,
    st.lists(ROWS, max_size=3),
    st.sampled_from([1, 3, 8, 1000]),
    st.sampled_from([1, 2, 16]),
    st.sampled_from([-1, 3, 1000]),
    st.sampled_from([1, 200, 1 << 20]),
)
def test_each_pair_that_is_in_time_and_satisfies_the_predicates_comes_out_once(
    visiting: list[Row], kept: list[list[Row]], pairs: int, together: int, sort_candidates: int, block_bytes: int
) -> None:
    with (
        mock.patch("watersmeet.kernel.scan.CHUNK_PAIRS", pairs),
        mock.patch("watersmeet.kernel.scan.BLOCK_BYTES", block_bytes),
        mock.patch("watersmeet.kernel.tiles.TOGETHER", together),
        mock.patch("watersmeet.kernel.orders.SORT_CANDIDATES", sort_candidates),
    ):
        windowed = visit(WINDOWED, visiting, kept)
        banded = visit(f"{PRODUCT} WHERE {BAND}", visiting, kept)
        both = visit(f"{WINDOWED} WHERE {BAND}", visiting, kept)
        product = visit(PRODUCT, visiting, kept)
    every = list(itertools.product(visiting, itertools.chain.from_iterable(kept)))
    assert windowed == Counter((a[0], b[0]) for a, b in every if in_time(a, b))
    assert banded == Counter((a[0], b[0]) for a, b in every if near(a, b))
    assert both == Counter((a[0], b[0]) for a, b in every if in_time(a, b) and near(a, b))
    assert product == Counter((a[0], b[0]) for a, b in every)


def test_rows_at_the_ends_of_time_meet() -> None:
    ends = [-(2**63), 2**63 - 1]
    rows: list[Row] = [(place, 0.0, time) for place, time in enumerate(ends)]
    with mock.patch("watersmeet.kernel.orders.SORT_CANDIDATES", -1):
        found = visit(WINDOWED, rows, [rows])
    assert found == Counter([(0, 0), (1, 1)])


def test_a_band_spares_candidates() -> None:
    rows: list[Row] = [(place, float(place), 0) for place in range(100)]
    tally = Tally()
    found = visit(f"{PRODUCT} WHERE ABS(A.x - B.x) < 1", rows, [rows], tally)
    assert found == Counter((place, place) for place in range(100))
    possible, candidates = tally.met[0, 1]
    assert possible == 10_000
    assert candidates < 400


STRETCHES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted), min_size=1, max_size=20)


@given(STRETCHES, st.integers(1, 100), st.booleans(), st.sampled_from([1, 3, 16]), st.sampled_from([0, 1, 4]))
def test_tiles_and_the_rest_have_each_pair_once(
    ends: list[list[int]], at_once: int, turned: bool, together: int, least: int
) -> None:
    begins, counts = np.array([low for low, _ in ends]), np.array([high - low for low, high in ends])
    order = np.arange(30)[::-1] if turned else None
    with (
        mock.patch("watersmeet.kernel.tiles.TOGETHER", together),
        mock.patch("watersmeet.kernel.tiles.LEAST_TILES", least),
    ):
        tiles, rest = cut_tiles(Stretch(order, begins, counts), 30, at_once)
    found: Counter[Any] = Counter()
    for tile in tiles:
        assert len(tile.rows) * tile.together <= max(at_once, len(tile.rows))
        found.update((int(visitor), int(row)) for visitor in tile.visitors for row in tile.rows)
    for each in rest:
        found.update(pairs_of(each))
    assert found == Counter(pairs_of(Stretch(order, begins, counts)))


def pairs_of(stretch: Stretch) -> list[tuple[int, int]]:
    return [
        (visitor, int(row if stretch.rows is None else stretch.rows[row]))
        for visitor, (begin, count) in enumerate(zip(stretch.begins, stretch.counts, strict=True))
        for row in range(begin, begin + count)
    ]


@pytest.mark.parametrize("pairs", [10, 1 << 16])
def test_columns_that_no_predicate_reads_are_copied_for_results_alone(pairs: int) -> None:
    schema = "k BIGINT, x DOUBLE, payload BINARY, ts BIGINT"
    plan = plan_of("SELECT A.payload AS a, B.payload AS b FROM A, B WHERE A.x + B.x = 3", schema)
    left: list[Row] = [(0, 1.0, b"a", 0)] * 20
    right: list[Row] = [(0, float(place), b"b", 0) for place in range(50)]
    runs = ([Indexed.of(rows_of(plan, alias, rows, schema))] for alias, rows in (("A", left), ("B", right)))
    copied: Counter[str] = Counter()
    columns = Partial.columns

    def note(self: Partial, benches: Sequence[Bench], names: Sequence[str]) -> pa.RecordBatch:
        copied.update(dict.fromkeys(names, len(self.key)))
        return columns(self, benches, names)

    with mock.patch("watersmeet.kernel.scan.CHUNK_PAIRS", pairs), mock.patch.object(Partial, "columns", note):
        found = sum(piece.num_rows for piece in scan_pieces(node_of(plan), *runs, Tally()))
    assert found == 20
    assert copied["A.payload"] == copied["B.payload"] == 20
    assert copied["A.x"] >= 20
