"""Inputs that are weighed: how a plan says so, what is refused, and what becomes of states and their names."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import InputError, JobError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.expressions import Call, Cast, Column, Expr, Literal
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out, lay_out_spec
from watersmeet.plan.matching import match_plans
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec, spec_of
from watersmeet.plan.tree import choose_tree, marks_of, parse_tree, still_weighed
from watersmeet.plan.weighing import cannot_fail

STREAMS = {name: Stream(name, parse_schema("k BIGINT, y BIGINT, v BIGINT, d DOUBLE, ts BIGINT")) for name in "ABC"}
WINDOW = "[RANGE 10 SECONDS SLIDE 5 SECONDS]"
JOINED = "A.k = B.k AND B.y = C.y"
TEXT = f"SELECT A.y, COUNT(*) AS n, SUM(B.v) AS s FROM A {WINDOW}, B {WINDOW}, C WHERE {JOINED} GROUP BY A.y"


@pytest.fixture(scope="module")
def query() -> Query:
    return bind(TEXT, STREAMS)


@pytest.mark.parametrize("plan", ["((A{} B{}) C)", "(A B{1} C{})", "((A B) C)"])
def test_a_plan_and_its_text(query: Query, plan: str) -> None:
    tree = choose_tree(query, plan)
    assert str(tree) == plan
    spec = spec_of(query, tree)
    assert PlanSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    "text, plan, said",
    [
        (f"SELECT A.v FROM A, B, C WHERE {JOINED}", "((A{} B) C)", "Only rows of a query with GROUP BY or DISTINCT"),
        ("SELECT COUNT(*) AS n FROM A", "A{}", "There is one stream"),
        (f"SELECT COUNT(*) AS n FROM A {WINDOW}, B {WINDOW} WHERE A.k < B.k", "(A{} B)", "slices of event time"),
        (
            "SELECT COUNT(*) AS n FROM A [RANGE 10 SECONDS SLIDE 5 SECONDS], B WHERE A.k = B.k "
            "AND B.ts >= A.ts AND B.ts - A.ts < 5000000",
            "(A{} B)",
            "compare the event time of each row",
        ),
    ],
)
def test_what_is_refused(text: str, plan: str, said: str) -> None:
    with pytest.raises(JobError, match='puts rows of "A" together') as error:
        parse_tree(plan, bind(text, STREAMS))
    assert said in str(error.value)


def test_a_mark_that_is_none(query: Query) -> None:
    with pytest.raises(JobError, match=r'has "A\{2\}", which is neither A\{\} nor A\{1\}'):
        choose_tree(query, "((A{2} B) C)")


def test_rows_that_a_filter_above_a_join_tells_apart_are_not_combined() -> None:
    query = bind(TEXT.replace("WHERE", "WHERE A.v > 3 AND"), STREAMS)
    plan = lay_out(query, choose_tree(query, "((A{} B)[A] C)"))
    (state,) = (state for state in plan.states.values() if state.aliases == ("A",))
    assert "A.v" in dict(state.fields)
    assert plan.tree == "((A{} B)[A] C)"


def states(query: Query, plan: str) -> set[str]:
    return set(lay_out(query, choose_tree(query, plan)).states)


def test_a_weighed_state_is_another_and_the_same_whether_rows_are_combined(query: Query) -> None:
    raw, combined, single = (states(query, f"((A{mark} B) C)") for mark in ("", "{}", "{1}"))
    assert combined == single
    # What B, C and the groups have is the same; what A has, and A with B, is not.
    assert len(raw & combined) == 3
    assert len(raw - combined) == len(combined - raw) == 2


def test_what_is_carried(query: Query) -> None:
    plan = lay_out(query, choose_tree(query, "((A{} B{}) C)"))
    fields = {state.aliases: [name for name, _ in state.fields] for state in plan.states.values()}
    assert fields["A",] == ["@A", "A.#wn5000000", "A.k", "A.y"]
    kept = next(name for name in fields["B",] if name.startswith("B.#wsum"))
    assert fields["B",] == ["@B", "B.#wn5000000", kept, "B.k", "B.y"], "its values are not: they are added up"
    assert fields["A", "B"] == ["@A", "@B", "A.#wn5000000", "A.y", "B.#wn5000000", kept, "B.y"]


def test_a_column_of_that_name_is_left_alone() -> None:
    streams = {name: Stream(name, pa.schema([*STREAMS[name].schema, ("#wn5000000", pa.int64())])) for name in "ABC"}
    for text, name in (
        (TEXT, "#wn5000000"),
        (TEXT.replace(" GROUP BY", " AND A.`#wn5000000` > 0 GROUP BY"), "##wn5000000"),
    ):
        plan = lay_out(query := bind(text, streams), choose_tree(query, "((A{} B) C)"))
        (state,) = (state for state in plan.states.values() if state.aliases == ("A",))
        assert state.weighing is not None
        assert state.weighing.weight.name == name, "columns that nobody reads are not in the way"


def test_rows_are_weighed_on_their_way_to_a_plan_that_weighs_them(query: Query) -> None:
    raw, weighed = (lay_out_spec(query, spec_of(query, choose_tree(query, p))) for p in ("((A B) C)", "((A{} B) C)"))
    matching = match_plans(raw, weighed)
    (port,) = matching.ports
    assert port.state.weighing is not None
    assert port.source.weighing is None
    assert not port.stuffed
    again = match_plans(weighed, lay_out_spec(query, spec_of(query, choose_tree(query, "((A{1} B) C)"))))
    assert not again.made
    assert not again.dropped


def test_what_was_weighed_stays_so(query: Query) -> None:
    former, asked = choose_tree(query, "((A{} B) C)"), choose_tree(query, "(A (B C{}))")
    assert str(still_weighed(asked, former)) == "(A{1} (B C{}))"
    assert marks_of(still_weighed(former, asked)) == {"A": True, "C": False}


V, D, T = Column("A", "v", pa.int64()), Column("A", "d", pa.float64()), Column("A", "t", pa.string())
SMALL = Column("A", "e", pa.decimal128(10, 2))


@pytest.mark.parametrize(
    "expr, total",
    [
        (V, True),
        (Call("add", (V, V), pa.int64()), False),
        (Call("multiply", (D, Cast(V, pa.float64())), pa.float64()), True),
        (Call("multiply_decimal", (SMALL, SMALL), pa.decimal128(21, 4)), True),
        (Call("multiply_decimal", (SMALL, SMALL), pa.decimal128(38, 4)), False),
        (Cast(T, pa.int64()), False),
        (Cast(V, pa.decimal128(20, 0)), True),
        (Cast(V, pa.decimal128(10, 0)), False),
        (Cast(D, pa.int64()), False),
        (Call("case", (Call("less", (V, Literal(3, V.type)), pa.bool_()), V, V), pa.int64()), True),
        (Call("case", (Call("less", (Cast(T, V.type), V), pa.bool_()), V, V), pa.int64()), False),
    ],
)
def test_what_has_a_value_for_every_row(expr: Expr, total: bool) -> None:
    assert cannot_fail(expr) == total


def test_an_argument_that_may_fail_is_computed_of_joined_rows() -> None:
    """A row that joins with nothing stops no run, wherever the group-by stands."""
    a = pa.table({"k": [1, 1, 2], "v": [4, 4, 2**62], "ts": [1, 1, 1]})
    b = pa.table({"k": [1], "v": [5], "ts": [1]})
    text = "SELECT SUM(A.v * 4) AS s, COUNT(*) AS n FROM A, B WHERE A.k = B.k"
    for plan in ("(A B)", "(A{} B{})"):
        found = wm.sql(text, A=a, B=b).run(plan=plan, output_mode="update").to_pylist()
        assert found[-1] == {"s": 32, "n": 2}, plan


def test_counts_that_do_not_fit_are_an_error_and_never_wrap_round() -> None:
    many = 2_500_000
    rows = {
        name: pa.table({"k": pa.repeat(1, many), "v": pa.repeat(3, many), "ts": pa.repeat(5, many)}) for name in "ABC"
    }
    text = "SELECT COUNT(*) AS n, SUM(A.v) AS s FROM A, B, C WHERE A.k = B.k AND B.k = C.k"
    with pytest.raises(InputError, match=r"COUNT\(\*\) of a group is too large"):
        wm.sql(text, **rows).run(plan="(A{} B{} C{})", output_mode="update")
    fewer = {name: table.slice(0, 2_000_000) for name, table in rows.items()}
    with pytest.raises(InputError, match=r"SUM\(A.v\) of a group is too large"):
        wm.sql(text, **fewer).run(plan="(A{} B{} C{})", output_mode="update")
    found = wm.sql(text.replace("SUM(A.v)", "AVG(A.v)"), **fewer).run(plan="(A{} B{} C{})", output_mode="update")
    assert found.to_pylist()[-1] == {"n": 8 * 10**18, "s": 3.0}
