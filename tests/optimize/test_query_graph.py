"""The join graph of a query: measured statistics before given ones, given ones before assumed ones."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.lang.binder import bind
from watersmeet.model.statistics import Measured, PairCounts
from watersmeet.model.streams import Stream
from watersmeet.optimize.query_graph import PREDICATE_SELECTIVITY, RATE, Statistics, graph_of, row_bytes
from watersmeet.plan.query import Query

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("s", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])
CHAIN = "SELECT A.v FROM A [RANGE 2 SECONDS], B [RANGE 1 SECOND], C [RANGE 1 SECOND] WHERE A.x = B.x AND B.y = C.y"
TRIANGLE = f"{CHAIN} AND A.y = C.x"


def query_of(text: str) -> Query:
    return bind(text, {name: Stream(name, SCHEMA) for name in "ABC"})


def measured(*pairs: PairCounts) -> Statistics:
    return Statistics({"A": 7}, {"A B": 0.5}, Measured(2.0, {"A": 20, "B": 40}, pairs))


def test_nothing_known() -> None:
    graph = graph_of(query_of(CHAIN), Statistics())
    assert dict(graph.rates) == {"A": RATE, "B": RATE, "C": RATE}
    # One partner in the larger window.
    assert graph.selectivity("A", "B") == pytest.approx(1 / (2 * RATE))
    assert graph.selectivity("B", "C") == pytest.approx(1 / RATE)
    assert graph.hash_share("A", "B") == graph.selectivity("A", "B")


def test_a_predicate_is_checked_on_pairs_with_the_same_key() -> None:
    graph = graph_of(query_of(f"{CHAIN} AND A.v < B.v"), Statistics())
    assert graph.hash_share("A", "B") == pytest.approx(1 / (2 * RATE))
    assert graph.selectivity("A", "B") == pytest.approx(PREDICATE_SELECTIVITY / (2 * RATE))


def test_rows_are_kept_for_as_long_as_windows_for_pairs_say() -> None:
    pairs = "ABS(A.ts - B.ts) < 2000000 AND C.ts BETWEEN B.ts - 1000000 AND B.ts"
    graph = graph_of(query_of(f"SELECT A.v FROM A, B, C WHERE A.x = B.x AND B.y = C.y AND {pairs}"), Statistics())
    assert {name: round(graph.width(name), 3) for name in "ABC"} == {"A": 2, "B": 2, "C": 3}
    # Rows of A and B are there together for 4 seconds in all, which is what their window leaves; those of B and C for
    # 2 and 3 seconds, of which theirs leaves one.
    assert graph.selectivity("A", "B") == pytest.approx(1 / (2 * RATE))
    assert graph.selectivity("B", "C") == pytest.approx(1 / (3 * RATE) / 5, rel=1e-5)
    unbounded = graph_of(query_of("SELECT A.v FROM A, B WHERE A.x = B.x AND A.ts >= B.ts"), Statistics())
    assert (unbounded.windows["A"], unbounded.windows["B"]) == (1e-6, None)
    assert unbounded.selectivity("A", "B") == pytest.approx(1 / unbounded.width("B") / RATE)


def test_a_window_of_rows_is_as_long_as_its_rows_take_to_come() -> None:
    query = query_of("SELECT A.v FROM A [ROWS 500], B [ROWS 80], C [RANGE 1 SECOND] WHERE A.x = B.x AND B.y = C.y")
    graph = graph_of(query, Statistics({"A": 100.0, "B": 40.0}))
    assert {name: graph.width(name) for name in "ABC"} == {"A": 5.0, "B": 2.0, "C": 1.0}
    assert graph.selectivity("A", "B") == graph.hash_share("A", "B"), "it is no predicate that passes one in three"


def test_a_given_selectivity_is_of_key_and_predicates_together() -> None:
    graph = graph_of(query_of(f"{CHAIN} AND A.v < B.v AND A.s < C.s"), Statistics({}, {"A B": 0.01, "A C": 0.25}))
    assert graph.selectivity("A", "B") == pytest.approx(0.01)
    assert graph.hash_share("A", "B") == pytest.approx(0.03)
    assert (graph.selectivity("A", "C"), graph.hash_share("A", "C")) == (0.25, 1.0)


def test_measured_goes_before_given() -> None:
    graph = graph_of(query_of(CHAIN), measured(PairCounts(("A",), ("B",), 1000, 20)))
    assert (graph.rates["A"], graph.rates["B"]) == (10, 20)
    assert graph.selectivity("A", "B") == pytest.approx(0.02, rel=0.05)


def test_a_silent_stream_has_a_small_rate() -> None:
    assert graph_of(query_of(CHAIN), measured()).rates["C"] == 0.25


def test_nothing_seen_is_rare_not_impossible() -> None:
    graph = graph_of(query_of(CHAIN), measured(PairCounts(("A",), ("B",), 1_000_000, 0)))
    assert 0 < graph.selectivity("A", "B") < 1e-6


def test_a_set_of_streams_measures_the_edge_that_crosses() -> None:
    graph = graph_of(query_of(CHAIN), measured(PairCounts(("A", "B"), ("C",), 10_000, 2000)))
    assert graph.selectivity("B", "C") == pytest.approx(0.2, rel=0.01)
    assert graph.selectivity("A", "B") == 0.5


def test_several_edges_that_cross_share_what_is_seen() -> None:
    graph = graph_of(query_of(TRIANGLE), measured(PairCounts(("A", "B"), ("C",), 10_000, 100)))
    assert graph.selectivity("B", "C") * graph.selectivity("A", "C") == pytest.approx(0.01, rel=0.01)


def test_an_edge_seen_alone_is_not_changed_by_one_seen_with_others() -> None:
    alone = PairCounts(("B",), ("C",), 10_000, 1000)
    graph = graph_of(query_of(TRIANGLE), measured(PairCounts(("A", "B"), ("C",), 10_000, 100), alone))
    assert graph.selectivity("B", "C") == pytest.approx(0.1, rel=0.01)
    assert graph.selectivity("A", "C") == pytest.approx(0.1, rel=0.05)


def test_rows_hold_what_joins_carry() -> None:
    sizes = row_bytes(query_of("SELECT A.s FROM A [RANGE 1 SECOND], B, C WHERE A.x = B.x AND B.y = C.y AND A.v > 3"))
    # Hash and time of 8 bytes each; A has x and s (a filter keeps nothing), B x and y, C y.
    assert sizes == {"A": 8 + 8 + 8 + 24, "B": 8 + 8 + 16, "C": 8 + 8 + 8}
