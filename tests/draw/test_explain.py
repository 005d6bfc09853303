"""Explain: its text against golden files, its JSON against the plan."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from watersmeet.draw.explain import explain_json, explain_text
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.optimize.choose import explain_choice
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec
from watersmeet.plan.tree import choose_tree

STREAMS = {name: Stream(name, parse_schema("x BIGINT, y BIGINT, v BIGINT, ts TIMESTAMP")) for name in "ABCD"}
ONE_KEY = "SELECT A.v, C.y FROM A [RANGE 30 MINUTES], B [RANGE 1 SECOND], C WHERE A.x = B.x AND B.x = C.x AND A.v > 3"
TWO_KEYS = (
    "SELECT A.v, C.v AS w FROM A, B [RANGE 10 SECONDS], C "
    "WHERE A.x = B.x AND B.y + 1 = C.y AND A.v < C.v AND B.v BETWEEN 1 AND 9"
)
CHAIN = "SELECT A.v FROM A, B, C, D WHERE A.x = B.x AND B.y = C.y AND C.x = D.x"
SELF_JOIN = "SELECT l.v, r.v AS w FROM A l [RANGE 1 HOUR], A r [RANGE 1 HOUR] WHERE l.x = r.x AND l.y = r.y"
PAIRS = (
    "SELECT A.v FROM A, B, C [RANGE 1 HOUR] WHERE A.x = B.x AND B.y = C.y "
    "AND ABS(A.ts - B.ts) < INTERVAL 5 MINUTES AND B.ts >= C.ts + INTERVAL 1 MINUTE"
)
ROWS = (
    "SELECT A.v FROM A [ROWS 100], B [RANGE 10 MINUTES], C c [ROWS 1] WHERE A.x = B.x AND B.y = c.y "
    "AND A.ts >= B.ts - INTERVAL 1 MINUTE"
)
GROUPED = (
    "SELECT A.x % 3 AS g, COUNT(*) AS n, SUM(B.v) / COUNT(*) AS mean FROM A [RANGE 30 MINUTES SLIDE 5 MINUTES], "
    "B [RANGE 10 MINUTES] WHERE A.y = B.y GROUP BY g, B.x HAVING COUNT(*) > 1 AND B.x > 0"
)
ONE_STREAM = "SELECT COUNT(*) AS n FROM A WHERE A.v > 3"
# An alias spelled like the id of a node.
ALIAS_J1 = "SELECT J1.v FROM A J1, B, C WHERE J1.x = B.x AND B.y = C.y"


def planned(text: str, setting: str) -> tuple[Query, PhysicalPlan]:
    query = bind(text, STREAMS)
    return query, lay_out(query, choose_tree(query, setting))


@pytest.mark.parametrize(
    "name, text, setting",
    [
        ("mjoin", ONE_KEY, "mjoin"),
        ("left_deep", ONE_KEY, "left-deep"),
        ("two_keys", TWO_KEYS, "left-deep"),
        ("bushy", CHAIN, "((A B) (C D))"),
        ("self_join", SELF_JOIN, "mjoin"),
        ("alias_like_a_node", ALIAS_J1, "left-deep"),
        ("pair_windows", PAIRS, "left-deep"),
        ("count_windows", ROWS, "left-deep"),
        ("group_by", GROUPED, "left-deep"),
        ("group_by_below", GROUPED, "(A{} B{1})"),
        ("one_stream", ONE_STREAM, "mjoin"),
    ],
)
def test_text(name: str, text: str, setting: str, golden: Callable[[str, str], None]) -> None:
    _, plan = planned(text, setting)
    golden(f"explain_{name}", f"{text}\n----\n{explain_text(plan, explain_choice(setting))}")


def test_sizes_stand_beside_their_state() -> None:
    _, plan = planned(ONE_KEY, "mjoin")
    name = next(iter(plan.states))
    text = explain_text(plan, "", {name: {"rows": 1234, "bytes": 56789}})
    assert text.count("holds") == 1
    assert "holds 1,234 rows in 56,789 bytes" in text


def test_json_has_stages_with_exchanges() -> None:
    _, plan = planned(TWO_KEYS, "left-deep")
    data = explain_json(plan, "because")
    assert json.loads(json.dumps(data)) == data
    assert (data["plan"], data["why"]) == ("((A B) C)", "because")
    first, last = data["stages"]
    (exchange,) = first["exchanges"]
    assert exchange["to_stage"] == 1
    assert exchange["hashed_on"] == ["B.y + 1"]
    assert last["exchanges"] == []
    (node,) = last["nodes"]
    assert node["keys"] == ["B.y + 1 = C.y"]
    assert node["predicates"] == ["A.v < C.v"]
    assert [(entry["source"], entry["probes"]) for entry in node["inputs"]] == [("J1", ["C"]), ("C", ["J1"])]
    assert {entry["alias"]: entry["window"] for entry in data["inputs"]}["B"] == "[RANGE 10 SECONDS]"


def test_json_names_joins_by_content_and_has_the_spec() -> None:
    _, plan = planned(CHAIN, "((A B) (C D))")
    data = explain_json(plan, "because")
    assert [stage["wave"] for stage in data["stages"]] == [0, 0, 1]
    nodes = [node for stage in data["stages"] for node in stage["nodes"]]
    assert [(node["id"], node["name"]) for node in nodes] == [(n.label, name) for name, n in plan.operators.items()]
    assert PlanSpec.from_json(json.loads(json.dumps(data["spec"]))) == plan.spec


def test_a_routed_join_is_shown_once_in_text_and_in_json_with_each_hop() -> None:
    _, plan = planned(CHAIN, "mjoin")
    text = explain_text(plan, "because")
    assert text.count("J1 routed join, one stage a hop (stages 0 to 2)") == text.count("J1 ") == 1
    assert "probes B on A.x = B.x, then C on B.y = C.y, then D on C.x = D.x" in text
    stages = explain_json(plan, "because")["stages"]
    assert [(stage["wave"], node["id"], node["hop"]) for stage in stages for node in stage["nodes"]] == [
        (0, "J1", 0),
        (1, "J1", 1),
        (2, "J1", 2),
    ]
    assert len({node["name"] for stage in stages for node in stage["nodes"]}) == 1


def test_an_exchange_into_a_routed_join_names_every_key_that_rows_are_sent_on() -> None:
    _, plan = planned("SELECT A.v FROM A, B, C, D WHERE A.v = B.v AND B.x = C.x AND B.y = D.y", "((A B) C D)")
    assert "exchange from stage 0 to stage 1, hashed on B.x and on B.y" in explain_text(plan, "because")
