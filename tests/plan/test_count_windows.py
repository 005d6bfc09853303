"""Windows of rows as predicates: which columns rows get, what is compared, and what a changed query may not change."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from watersmeet.lang.binder import bind
from watersmeet.model.expressions import describe
from watersmeet.model.streams import Rows, Stream
from watersmeet.plan.changed_query import compare_queries
from watersmeet.plan.count_windows import count_columns, counted_streams, own_predicates
from watersmeet.plan.layout import lay_out
from watersmeet.plan.query import Query
from watersmeet.plan.tree import choose_tree

SCHEMA = pa.schema([("x", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])


def query_of(windows: str, more: str = "", schema: pa.Schema = SCHEMA) -> Query:
    streams = {name: Stream(name, schema, "ts", timedelta(0)) for name in "ABC"}
    return bind(f"SELECT A.v FROM {windows} WHERE A.x = B.x AND B.x = C.x{more}", streams)


def test_each_other_input_is_compared_with_the_end_of_a_row() -> None:
    query = query_of("A [ROWS 5], B, C [ROWS 2]", " AND A.v < B.v")
    assert query.inputs[0].window == Rows(5)
    assert counted_streams(query) == ("A", "C")
    assert [describe(expr) for expr in query.predicates] == [
        "less(A.v, B.v)",
        "less(B.#n0, A.#e5)",
        "less(C.#n0, A.#e5)",
        "less(A.#n1, C.#e2)",
        "less(B.#n1, C.#e2)",
    ]
    assert [describe(expr) for expr in own_predicates(query)] == ["less(A.v, B.v)"]


def test_aliases_of_one_stream_have_ends_of_their_own() -> None:
    streams = {name: Stream(name, SCHEMA) for name in "AB"}
    query = bind("SELECT l.v FROM A l [ROWS 3], A r [ROWS 7], B WHERE l.x = r.x AND r.x = B.x", streams)
    columns = count_columns(query)
    assert columns["A"].counts == (("#n0", "A"),)
    assert columns["A"].ends == (("#e3", 3), ("#e7", 7))
    assert columns["B"].ends == ()


def test_columns_of_users_are_left_alone() -> None:
    schema = pa.schema([*SCHEMA, ("#n0", pa.string()), ("#e5", pa.string())])
    query = query_of("A [ROWS 5], B, C", " AND A.`#e5` = 'x' AND B.`#n0` = 'y'", schema=schema)
    assert describe(query.predicates[0]) == "less(B.##n0, A.##e5)"
    beside = query_of("A [ROWS 5], B, C", schema=schema)
    assert describe(beside.predicates[0]) == "less(B.#n0, A.#e5)", "nobody reads those"


def test_states_know_the_ends_of_their_rows() -> None:
    query = query_of("A [ROWS 5], B [RANGE 9 SECONDS], C [ROWS 2]")
    states = {state.aliases: state for state in lay_out(query, choose_tree(query, "((A B) C)")).states.values()}
    assert states["A",].ranks == (("A.#e5", "A"),)
    assert states["B",].ranks == ()
    assert states["A", "B"].ranks == (("A.#e5", "A"),)
    assert states["A", "B"].stays == (("@B", 9_000_000),)
    assert "A.#e5" in dict(states["A", "B"].fields)
    assert "B.#n0" not in dict(states["A", "B"].fields), "it has been compared"


def test_a_changed_query_has_the_same_windows_of_rows() -> None:
    former = query_of("A [ROWS 5], B, C")
    same = compare_queries(former, query_of("A [ROWS 5], B, C", " AND A.v < B.v"))
    assert not same.refused
    for other in ("A [ROWS 4], B, C", "A, B, C", "A [RANGE 1 SECOND], B, C", "A [ROWS 5], B [ROWS 1], C"):
        found = compare_queries(former, query_of(other))
        assert len(found.refused) == 1
        assert "rows are not counted as" in found.refused[0]
