"""Laying out: names by content, waves, and where rows are hashed."""

from __future__ import annotations

import itertools

import pytest

from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.ids import Alias, OperatorName
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import FromInput, FromOperator, PhysicalPlan, State
from watersmeet.plan.tree import parse_tree

STREAMS = {name: Stream(name, parse_schema("w BIGINT, x BIGINT, y BIGINT, z BIGINT, ts TIMESTAMP")) for name in "ABCDE"}
ONE_KEY = "SELECT A.w, C.w AS c FROM A, B, C WHERE A.x = B.x AND B.x = C.x"
CHAIN = "SELECT A.w FROM A, B, C, D WHERE A.x = B.x AND B.y = C.y AND C.z = D.z"
FIVE = "SELECT A.w FROM A, B, C, D, E WHERE A.x = B.x AND B.y = C.y AND C.z = D.z AND D.w = E.w"
TRIANGLE = "SELECT A.w FROM A, B, C WHERE A.x = B.x AND B.y = C.y AND A.z = C.z"
TWO_COLUMNS = "SELECT A.w FROM A, B, C WHERE A.x = B.x AND A.y = B.y AND B.z = C.z"
PLANS = [
    (ONE_KEY, "(A B C)"),
    (ONE_KEY, "((A B) C)"),
    (CHAIN, "(((A B) C) D)"),
    (CHAIN, "((A B) (C D))"),
    (CHAIN, "(A B C D)"),
    (CHAIN, "((A B C) D)"),
    (CHAIN, "((A B) C D)"),
    (FIVE, "((A B) C (D E))"),
    (FIVE, "(((A B) C) (D E))"),
    (TRIANGLE, "(A B C)"),
    (TRIANGLE, "((A B) C)"),
    (TWO_COLUMNS, "((A B) C)"),
]


def plan_of(text: str, tree: str, lineage: bool = False) -> PhysicalPlan:
    query = bind(text, STREAMS)
    return lay_out(query, parse_tree(tree, query), lineage=lineage)


def states_of(plan: PhysicalPlan, aliases: str) -> list[State]:
    return [state for state in plan.states.values() if state.aliases == tuple(aliases)]


def operator_of(plan: PhysicalPlan, aliases: str) -> OperatorName:
    return next(name for name, node in plan.operators.items() if node.aliases == frozenset(aliases))


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, one, other, shared",
    [
        pytest.param(ONE_KEY, "(A B C)", "((A B) C)", ["A", "B", "C"], id="one join, or two on the same key"),
        pytest.param(CHAIN, "(((A B) C) D)", "((A B) (C D))", ["A", "B", "AB", "D"], id="the upper joins differ"),
        pytest.param(CHAIN, "((A B) (C D))", "((D C) (B A))", ["A", "B", "AB", "C", "D", "CD"], id="in another order"),
        pytest.param(CHAIN, "((A B) C D)", "((A B) (C D))", ["A", "B", "AB"], id="a routed join above"),
        pytest.param(CHAIN, "(A B C D)", "((A B) (C D))", ["A", "D"], id="routed, or not"),
    ],
)
def test_what_two_trees_both_keep_has_one_name(text: str, one: str, other: str, shared: list[str]) -> None:
    plans = plan_of(text, one), plan_of(text, other)
    both = plans[0].states.keys() & plans[1].states.keys()
    for aliases in shared:
        assert both & {state.name for state in states_of(plans[0], aliases)}, aliases
    for name in both:
        assert plans[0].states[name] == plans[1].states[name]


def test_a_join_of_the_same_states_has_one_name_wherever_it_stands() -> None:
    deep, bushy, turned = (plan_of(CHAIN, tree) for tree in ("(((A B) C) D)", "((A B) (C D))", "((D C) (B A))"))
    assert operator_of(deep, "AB") == operator_of(bushy, "AB") == operator_of(turned, "AB")
    assert operator_of(bushy, "CD") == operator_of(turned, "CD")
    assert operator_of(bushy, "ABCD") == operator_of(turned, "ABCD")
    assert operator_of(deep, "ABCD") != operator_of(bushy, "ABCD")
    assert [bushy.operators[operator_of(bushy, "AB")].label, turned.operators[operator_of(turned, "AB")].label] == [
        "J1",
        "J2",
    ], "labels are by place"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("SELECT A.w, B.w AS b FROM A, B WHERE A.x = B.x AND A.w > 3", id="a filter"),
        pytest.param("SELECT A.w, B.w AS b FROM A [RANGE 1 HOUR], B WHERE A.x = B.x", id="a window"),
        pytest.param("SELECT A.w, A.y, B.w AS b FROM A, B WHERE A.x = B.x", id="another column"),
        pytest.param("SELECT A.w, B.w AS b FROM A, B WHERE A.y = B.x", id="another key"),
        pytest.param("SELECT A.w, B.w AS b FROM C A, B WHERE A.x = B.x", id="another stream"),
    ],
)
def test_a_state_that_holds_something_else_has_another_name(text: str) -> None:
    (plain,) = states_of(plan_of("SELECT A.w, B.w AS b FROM A, B WHERE A.x = B.x", "(A B)"), "A")
    (other,) = states_of(plan_of(text, "(A B)"), "A")
    assert plain.name != other.name


def test_an_intermediate_state_is_named_by_the_predicates_that_its_rows_passed() -> None:
    text = "SELECT A.w, B.w AS b FROM A, B, C WHERE A.x = B.x AND B.y = C.y"
    (plain,) = states_of(plan_of(text, "((A B) C)"), "AB")
    (checked,) = states_of(plan_of(f"{text} AND A.w < B.w", "((A B) C)"), "AB")
    assert plain.fields == checked.fields
    assert plain.name != checked.name


@pytest.mark.parametrize("text, tree", PLANS)
def test_lineage_is_no_part_of_a_name(text: str, tree: str) -> None:
    plain, watched = plan_of(text, tree), plan_of(text, tree, lineage=True)
    assert list(plain.states) == list(watched.states)
    assert list(plain.operators) == list(watched.operators)


def test_rows_carry_the_lineage_of_joins_below() -> None:
    plan = plan_of(CHAIN, "(((A B) C) D)", lineage=True)
    assert [node.lineage for node in plan.operators.values()] == ["#A+B", "#A+B+C", None]
    (state,) = states_of(plan, "ABC")
    assert {"#A+B", "#A+B+C"} <= {name for name, _ in state.fields}
    assert not [name for s in plan_of(CHAIN, "(((A B) C) D)").states.values() for name, _ in s.fields if name[0] == "#"]


@pytest.mark.parametrize("text, tree", PLANS)
def test_names_are_each_given_once(text: str, tree: str) -> None:
    plan = plan_of(text, tree)
    states = [state.name for stage in plan.stages for state in stage.states]
    operators = [node.name for stage in plan.stages for node in stage.operators]
    assert len(set(states)) == len(states)
    assert len(set(operators)) == len(operators)
    assert plan.labels == {node.label: name for name, node in plan.operators.items()}
    assert [plan.label(name) for name in operators] == list(plan.labels)
    assert plan.label(OperatorName("elsewhere")) == "elsewhere"


def test_where_rows_come_from_is_told_apart_by_type() -> None:
    plan = plan_of("SELECT J1.w FROM A J1, B, C WHERE J1.x = B.x AND B.y = C.y", "((J1 B) C)")
    lower, upper = plan.operators.values()
    assert [entry.source for entry in lower.inputs] == [FromInput(Alias("J1")), FromInput(Alias("B"))]
    assert [entry.source for entry in upper.inputs] == [FromOperator(lower.name, lower.label), FromInput(Alias("C"))]
    assert [str(entry.source) for entry in upper.inputs] == ["J1", "C"]


# --- waves ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, tree, waves",
    [
        pytest.param(ONE_KEY, "((A B) C)", [["J2"]], id="joins on one key are one stage"),
        pytest.param(CHAIN, "(((A B) C) D)", [["J1"], ["J2"], ["J3"]], id="each feeds the next"),
        pytest.param(CHAIN, "((A B) (C D))", [["J1", "J2"], ["J3"]], id="two that do not feed each other"),
        pytest.param(CHAIN, "(A B C D)", [["J1"], ["J1"], ["J1"]], id="a wave for each hop"),
        pytest.param(CHAIN, "((A B C) D)", [["J1"], ["J1"], ["J2"]], id="after all hops"),
        pytest.param(FIVE, "((A B) C (D E))", [["J1", "J2"], ["J3"], ["J3"]], id="hops after all that feed them"),
        pytest.param(FIVE, "(((A B) C) (D E))", [["J1", "J3"], ["J2"], ["J4"]], id="as early as can be"),
    ],
)
def test_stages_that_do_not_feed_each_other_share_a_wave(text: str, tree: str, waves: list[list[str]]) -> None:
    plan = plan_of(text, tree)
    assert [[stage.title for stage in wave] for wave in plan.waves] == waves


@pytest.mark.parametrize("text, tree", PLANS)
def test_rows_go_to_a_later_wave(text: str, tree: str) -> None:
    plan = plan_of(text, tree)
    assert [stage.index for stage in plan.stages] == list(range(len(plan.stages)))
    for stage in plan.stages:
        for exchange in stage.exchanges:
            assert plan.stages[plan.port_stage[exchange.port]].wave > stage.wave
    assert [stage for stage in plan.stages if not stage.exchanges] == [plan.stages[-1]]
    assert plan.waves[-1] == (plan.stages[-1],)


# --- where rows are hashed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, tree", PLANS)
def test_rows_arrive_hashed_as_they_are_kept(text: str, tree: str) -> None:
    plan = plan_of(text, tree)
    arriving = {port: state for stage in plan.stages for port, state in stage.ports.items()}
    assert sorted(arriving) == list(range(len(plan.port_stage)))
    for stage in plan.stages:
        assert {plan.port_stage[port] for port in stage.ports} == {stage.index}
    sent = [exchange for stage in plan.stages for exchange in stage.exchanges]
    for exchange in sent:
        state = arriving[exchange.port]
        assert (exchange.partitioning, exchange.key) == (state.partitioning, state.key)
        assert exchange.meets is None or exchange.meets.partitioning == exchange.partitioning
    for leaf in plan.leaves:
        assert arriving[leaf.port] == leaf.state
    assert sorted({exchange.port for exchange in sent} | {leaf.port for leaf in plan.leaves}) == sorted(arriving)


@pytest.mark.parametrize("text, tree", PLANS)
def test_states_that_meet_are_hashed_alike(text: str, tree: str) -> None:
    for node in plan_of(text, tree).operators.values():
        assert {entry.state.partitioning for entry in node.inputs} == {node.partitioning}
        kinds = [[dict(e.state.fields)[key] for key in e.state.key.columns] for e in node.inputs]
        assert all(one == other for one, other in itertools.pairwise(kinds))


@pytest.mark.parametrize(
    "text, tree, partitionings",
    [
        pytest.param(ONE_KEY, "((A B) C)", {"A": ["k0"], "B": ["k0"], "AB": ["k0"], "C": ["k0"]}, id="one key"),
        pytest.param(CHAIN, "((A B) (C D))", {"A": ["k0"], "AB": ["k1"], "C": ["k2"], "CD": ["k1"]}, id="chain"),
        pytest.param(TWO_COLUMNS, "((A B) C)", {"A": ["k0+k1"], "AB": ["k2"]}, id="a key of two columns"),
        pytest.param(CHAIN, "(A B C D)", {"A": ["k0"], "B": ["k0", "k1"], "C": ["k1", "k2"]}, id="routed"),
    ],
)
def test_a_state_knows_its_partitioning(text: str, tree: str, partitionings: dict[str, list[str]]) -> None:
    plan = plan_of(text, tree)
    for aliases, expected in partitionings.items():
        assert sorted(state.partitioning for state in states_of(plan, aliases)) == expected


# --- what the plan knows of its joins ---------------------------------------------------------------------------------


def test_feeders_are_the_joins_whose_results_come_to_meet_a_state() -> None:
    plan = plan_of(CHAIN, "((A B) (C D))")
    left, right = operator_of(plan, "AB"), operator_of(plan, "CD")
    fed = {"".join(plan.states[name].aliases): feeders for name, feeders in plan.feeders.items()}
    assert fed == {"A": (), "B": (), "C": (), "D": (), "AB": (right,), "CD": (left,)}


def test_feeders_of_a_routed_join_meet_all_its_other_states() -> None:
    plan = plan_of(CHAIN, "((A B) C D)")
    left = operator_of(plan, "AB")
    fed = {"".join(plan.states[name].aliases): feeders for name, feeders in plan.feeders.items()}
    assert fed == {"A": (), "B": (), "AB": (), "C": (left,), "D": (left,)}


def test_states_of_a_routed_join_belong_to_no_operator() -> None:
    plan = plan_of(CHAIN, "((A B C) D)")
    (upper,) = plan.operators
    assert {"".join(plan.states[state].aliases) for state in plan.operators_of} == {"ABC", "D"}
    assert set(plan.operators_of.values()) == {(upper,)}
    assert len(plan.states) == 2 + 4


def test_a_stage_reads_what_it_keeps_what_it_probes_and_what_it_looks_ahead_at() -> None:
    plan = plan_of(CHAIN, "(A B C D)")
    first, second, last = plan.stages
    assert {state.name for state in first.states} == set(plan.states)
    assert second.states == last.states == ()
    for stage in plan.stages:
        met = {exchange.meets.name for exchange in stage.exchanges if exchange.meets is not None}
        assert met <= {state.name for state in stage.reads}
    assert {state.name for state in last.reads} <= set(plan.states)
