"""Spills and merges that a user has asked for by batch."""

from __future__ import annotations

import pytest

from adapt.asking import HELD, J1, J2, PLAN, Asked
from small_plans import GROUPS, manifest_of
from watersmeet.adapt.controller import Controller
from watersmeet.adapt.decisions import MergeGroup, SpillGroups
from watersmeet.adapt.policies.force_steps import ForceSteps
from watersmeet.adapt.settings import ForcedStep, LabelledGroup, MemorySettings
from watersmeet.errors import JobError
from watersmeet.model.ids import Label

L1, L2 = Label("J1"), Label("J2")


def forced(*steps: ForcedStep, spill: str = "largest") -> list[object]:
    """Before batch 1."""
    settings = MemorySettings(forced=steps, spill=spill)
    return list(Asked(manifest_of(PLAN, *HELD), settings=settings).propose(ForceSteps.of(settings, PLAN)))


def test_steps_are_taken_at_their_batch() -> None:
    step = ForcedStep(1, spill=((L1, 3), (L2, 1)), merge=((L1, 5), (L2, 0)))
    assert forced(ForcedStep(0, spill=((L1, 0),)), step, ForcedStep(2, merge=((L1, 0),))) == [
        SpillGroups(((J1, 3), (J2, 1)), "forced"),
        MergeGroup(J1, 5, "forced"),
        MergeGroup(J2, 0, "forced"),
    ]


@pytest.mark.parametrize(
    "spill, share, groups",
    [
        ((), 0.5, [0, 1, 2, 3]),
        (((L1, 7),), 0.25, [7, 0, 1]),
        (((L1, 0),), 0.25, [0, 1]),
        ((), 1.0, list(range(8))),
    ],
    ids=["half of it", "beside those that are named", "among which may be some of them", "all of it"],
)
def test_a_share_of_what_is_active(spill: tuple[LabelledGroup, ...], share: float, groups: list[int]) -> None:
    for policy in ("largest", "off"):  # where spills are off, the usual policy chooses
        (decision,) = forced(ForcedStep(1, spill, share), spill=policy)
        assert isinstance(decision, SpillGroups)
        if policy == "largest":
            assert [group for _, group in decision.groups] == groups
        assert len(decision.groups) == len(groups)


def test_a_step_must_name_what_the_plan_has() -> None:
    for step in (ForcedStep(0, spill=((Label("J9"), 0),)), ForcedStep(0, merge=((L1, GROUPS),))):
        with pytest.raises(JobError) as caught:
            Controller(PLAN, manifest_of(PLAN), MemorySettings(forced=(step,)))
        assert caught.value.detail == "Its operators are J1, J2, with groups 0 to 7."
    Controller(PLAN, manifest_of(PLAN), MemorySettings(forced=(ForcedStep(0, spill=((L2, GROUPS - 1),)),)))
