"""Decisions as data: plain JSON in the manifest, and with the labels of a plan for people."""

from __future__ import annotations

import json

import pytest

from watersmeet.adapt.decisions.decision import Decision, for_people
from watersmeet.adapt.decisions.merge import MergeGroup, UniteParts
from watersmeet.adapt.decisions.spill import CannotSpill, CloseLive, SpillGroups
from watersmeet.adapt.decisions.work import Work
from watersmeet.model.ids import Generation, OperatorName, SegmentId, StateName

J1, J2 = OperatorName("A*B#1"), OperatorName("A+B*C#2")


@pytest.mark.parametrize(
    "decision",
    [
        SpillGroups(((J1, 17), (J2, 3)), "why"),
        CannotSpill("why"),
        MergeGroup(J2, 4, "why", (J1,), with_live=False),
        CloseLive(((J1, 0),), "why"),
        UniteParts(StateName("A"), Generation(3), (SegmentId("a"), SegmentId("b"))),
    ],
    ids=lambda decision: type(decision).__name__,
)
def test_decisions_are_plain_json(decision: Decision) -> None:
    data = decision.to_json()
    assert json.loads(json.dumps(data)) == data
    assert data["decision"] == type(decision).__name__


def test_people_read_the_labels_of_a_plan() -> None:
    labels = {J1: "J1", J2: "J2"}
    spill = for_people(SpillGroups(((J1, 17), (J2, 3)), "why").to_json(), labels.__getitem__)
    origin = {"by": "policy", "name": ""}
    assert spill["groups"] == [["J1", 17], ["J2", 3]]
    assert (spill["decision"], spill["reason"], spill["origin"]) == ("SpillGroups", "why", origin)
    merge = for_people(MergeGroup(J2, 4, "why", (J1,)).to_json(), labels.__getitem__)
    assert (merge["operator"], merge["waiting"]) == ("J2", ["J1"])
    plan = {"decision": "plan", "plan": "(A B)", "version": 0}
    assert for_people(plan, labels.__getitem__) == plan


def test_work_that_is_none() -> None:
    assert not Work()
    assert Work(merges=((J1, 0),))
    assert Work(unites=(UniteParts(StateName("A"), Generation(3), ()),))
