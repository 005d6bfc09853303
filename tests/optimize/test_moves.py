"""What it costs to move rows between slots, worked out by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.optimize.estimates import CostConstants, Estimates, HashProbes
from watersmeet.optimize.moves import price_moves
from watersmeet.optimize.query_graph import Statistics, graph_of
from watersmeet.plan.tree import parse_tree

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
WINDOWS = "FROM A [RANGE 1 SECOND], B [RANGE 1 SECOND], C [RANGE 1 SECOND]"
CHAIN = f"SELECT A.v {WINDOWS} WHERE A.x = B.x AND B.y = C.y"
ONE_KEY = f"SELECT A.v {WINDOWS} WHERE A.x = B.x AND B.x = C.x"
STATISTICS = Statistics({"A": 100, "B": 200, "C": 50}, {"A B": 0.01, "B C": 0.02})


def moves(text: str, tree: str) -> tuple[float, float]:
    query = bind(text, {name: Stream(name, SCHEMA) for name in "ABC"})
    model = HashProbes(CostConstants(insert=10, delete=5, send=1))
    estimates = Estimates(graph_of(query, STATISTICS), model)
    price = price_moves(query, parse_tree(tree, query), {}, lambda join: estimates)
    return price.cpu, price.memory


def test_streams_move_once() -> None:
    assert moves(ONE_KEY, "(A B C)") == (350, 0)


def test_a_join_on_the_same_key_stays_where_it_is() -> None:
    assert moves(ONE_KEY, "((A B) C)") == (350, 0)


def test_a_join_on_another_key_moves_what_comes_from_below() -> None:
    # A and B meet 2 * 100 * 200 * 0.01 times a second.
    assert moves(CHAIN, "((A B) C)") == (350 + 400, 0)


def test_a_routed_join_keeps_a_stream_for_each_key_and_moves_partial_results() -> None:
    cpu, memory = moves(CHAIN, "(A B C)")
    # B is probed on x and on y: 200 rows a second more to send, insert and delete, of 32 bytes.
    copies = 200 * 1 + 200 * 15
    # A row meets 2 of B, then C; B meets A (1) or C (1) first; C meets 4 of B.
    partial = 100 * 2 + 200 * 1 + 50 * 4
    assert (cpu, memory) == (pytest.approx(350 + copies + partial), 200 * 32)
