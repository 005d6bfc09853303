"""Decisions as data: plain JSON in the manifest, and with the labels of a plan for people."""

from __future__ import annotations

import json

import pytest

from watersmeet.adapt.decisions import (
    CannotSpill,
    CloseLive,
    Decision,
    ExpectResults,
    MergeGroup,
    SpillGroups,
    UniteParts,
    Work,
    for_people,
    to_json,
)
from watersmeet.model.ids import Generation, OperatorName, SegmentId, StateName

J1, J2 = OperatorName("A*B#1"), OperatorName("A+B*C#2")


@pytest.mark.parametrize(
    "decision",
    [
        SpillGroups(((J1, 17), (J2, 3)), "why"),
        CannotSpill("why"),
        MergeGroup(J2, 4, "why", (J1,), with_live=False),
        CloseLive(((J1, 0),), "why"),
        ExpectResults(J1, 12.5),
        UniteParts(StateName("A"), Generation(3), (SegmentId("a"), SegmentId("b"))),
    ],
    ids=lambda decision: type(decision).__name__,
)
def test_decisions_are_plain_json(decision: Decision) -> None:
    data = to_json(decision)
    assert json.loads(json.dumps(data)) == data
    assert data["decision"] == type(decision).__name__


def test_people_read_the_labels_of_a_plan() -> None:
    labels = {J1: "J1", J2: "J2"}
    spill = for_people(to_json(SpillGroups(((J1, 17), (J2, 3)), "why")), labels.__getitem__)
    origin = {"by": "policy", "name": ""}
    assert spill == {"decision": "SpillGroups", "groups": [["J1", 17], ["J2", 3]], "reason": "why", "origin": origin}
    merge = for_people(to_json(MergeGroup(J2, 4, "why", (J1,))), labels.__getitem__)
    assert (merge["operator"], merge["waiting"]) == ("J2", ["J1"])
    plan = {"decision": "plan", "plan": "(A B)", "version": 0}
    assert for_people(plan, labels.__getitem__) == plan


def test_work_that_is_none() -> None:
    assert not Work()
    assert Work(merges=((J1, 0),))
    assert Work(unites=(UniteParts(StateName("A"), Generation(3), ()),))
