"""The plan that a run starts with: asked for, or chosen from what is known of the streams."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.optimize import Limits, cost
from watersmeet.optimize.choose import STANDARD_MODEL, choose_plan
from watersmeet.optimize.query_graph import Statistics, graph_of
from watersmeet.plan.query import Query
from watersmeet.plan.tree import check_tree

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
STREAMS = {name: Stream(name, SCHEMA, lateness=timedelta(0)) for name in "ABCD"}
CHAIN = "SELECT A.v FROM A [RANGE 1 SECOND], B [RANGE 2 SECONDS], C WHERE A.x = B.x AND B.y = C.y"
ONE_KEY = "SELECT A.v FROM A, B, C WHERE A.x = B.x AND B.x = C.x"


def query_of(text: str) -> Query:
    return bind(text, STREAMS)


@pytest.mark.parametrize(
    "text, setting, tree",
    [
        pytest.param(ONE_KEY, "auto", "(A B C)", id="without statistics, one join where a key is shared"),
        pytest.param(CHAIN, "auto", "((A B) C)", id="without statistics, else two at a time"),
        pytest.param(CHAIN, "(A (B C))", "(A (B C))", id="as asked"),
    ],
)
def test_without_statistics(text: str, setting: str, tree: str) -> None:
    assert str(choose_plan(query_of(text), setting, Statistics()).tree) == tree


def test_a_selective_pair_is_joined_first() -> None:
    few_bc = Statistics({"A": 1000, "B": 1000, "C": 1000}, {"A B": 0.5, "B C": 1e-9})
    chosen = choose_plan(query_of(CHAIN), "bjtree-init", few_bc)
    assert str(chosen.tree) in ("(A (B C))", "((B C) A)")
    assert {"bjtree-init", "mjoin", "one join a key"} <= {entry.name for entry in chosen.alternatives}
    assert chosen.reason.startswith("bjtree-init: CPU")


def test_a_small_memory_leaves_no_intermediate_state() -> None:
    explosive = Statistics({"A": 10_000, "B": 10_000, "C": 10}, {"A B": 0.9, "B C": 0.001})
    query = query_of(CHAIN)
    graph = graph_of(query, explosive)
    mjoin = choose_plan(query, "mjoin").tree
    limits = Limits(memory=1.5 * cost(mjoin, graph, STANDARD_MODEL).memory)
    chosen = choose_plan(query, "auto", explosive, limits)
    assert cost(chosen.tree, graph, STANDARD_MODEL).memory <= limits.memory
    assert not next(entry for entry in chosen.alternatives if entry.plan == "((A B) C)").qualifies
    assert "within the limits" in chosen.reason


def test_what_is_chosen_can_run() -> None:
    # A cartesian product of A and C would be cheap here: both are tiny.
    query = query_of(CHAIN)
    tiny = Statistics({"A": 0.001, "B": 1_000_000, "C": 0.001}, {"A B": 1.0, "B C": 1.0})
    for setting in ("auto", "exhaustive", "mjoin-init", "bjtree-init"):
        check_tree(query, choose_plan(query, setting, tiny).tree)


def test_a_key_over_three_inputs_gives_two_edges() -> None:
    graph = graph_of(query_of(ONE_KEY), Statistics({}, {"A C": 0.25}))
    assert graph.selectivity("A", "C") == 0.25
    assert sorted(graph.selectivities.values()) == [pytest.approx(1 / 3_600_000), 0.25]


@pytest.mark.parametrize(
    "statistics, primary",
    [
        (Statistics({"X": 1}), 'rates in [stats] name unknown input "X"'),
        (Statistics({}, {"A X": 0.1}), 'selectivity in [stats] is for "A X"'),
        (Statistics({}, {"A": 0.1}), 'selectivity in [stats] is for "A"'),
        (Statistics({}, {"A A": 0.1}), 'selectivity in [stats] is for "A A"'),
        (Statistics({}, {"A B": 1.5}), "selectivity"),
        (Statistics({"A": 0}), "rate"),
    ],
)
def test_statistics_that_cannot_be(statistics: Statistics, primary: str) -> None:
    with pytest.raises(JobError) as caught:
        choose_plan(query_of(CHAIN), "auto", statistics)
    assert primary in caught.value.primary


def test_every_choice_gives_the_same_answer() -> None:
    def table(step: int) -> pa.Table:
        rows = range(200)
        return pa.table(
            {
                "x": [(row * step) % 17 for row in rows],
                "y": [(row * (step + 2)) % 13 for row in rows],
                "v": list(rows),
                "ts": pa.array(rows, pa.int64()),
            }
        )

    text = "SELECT A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE A.x = B.x AND B.y = C.y"
    tables = {"A": table(3), "B": table(5), "C": table(7)}
    plain = wm.sql(text, **tables).run(plan="left-deep")
    informed = wm.sql(text, rates={"A": 5, "C": 500}, selectivity={"A B": 0.5, "B C": 0.001}, **tables)
    assert "considered (estimates):" in informed.explain()
    for setting in ("auto", "mjoin-init", "bjtree-init", "exhaustive"):
        rows = informed.run(plan=setting, batch_rows=50)
        assert sorted(map(str, rows.to_pylist())) == sorted(map(str, plain.to_pylist()))
