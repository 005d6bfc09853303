"""From a manifest to what is to go where: what `time` is shown of a hot group, and what comes of what it wants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapt.asking import J1, PLAN, Asked, entry
from small_plans import GROUPS, manifest_of
from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.place import DrawTogether, MoveGroups, SpreadGroup
from watersmeet.adapt.policies.balance_slots import BalanceSlots
from watersmeet.adapt.trials import figures_of
from watersmeet.model.group_figures import GroupFigures, GroupObservation
from watersmeet.model.placement import Placement
from watersmeet.model.slot_figures import SlotFigures
from watersmeet.model.smoothing import find_smoothing
from watersmeet.settings.balance import BalanceSettings
from watersmeet.state.learned import Learned
from watersmeet.state.manifest import BatchRecord

K0 = PLAN.operators[J1].partitioning
HOT = 2
POLICY = BalanceSlots(BalanceSettings("time", every=1), None, None)


def propose(
    arrivals: tuple[dict[int, float], ...],
    keys: int,
    seconds: tuple[float, float],
    placement: Placement = Placement(2, GROUPS),  # noqa: B008 - frozen
) -> list[Decision]:
    """Of rows that come by group, by each input of J1, where segments have so many keys in a group."""
    groups = placement.of(K0).groups
    seen = GroupObservation.nothing(2, groups)
    for values, wanted in zip(seen.arrivals, arrivals, strict=True):
        for group, rows in wanted.items():
            values[group] = rows
    figures = GroupFigures.nothing(2, groups).then(4, seen, find_smoothing("ewma").then)
    written = [entry(name.lower(), name, rows=9, groups=((0, groups),)) for name in "AB"]
    held = [replace(segment, group_keys=(keys,) * groups) for segment in written]
    manifest = replace(
        manifest_of(PLAN, *held), placement=placement, figures={J1: figures}, batch=BatchRecord(4, 0, 0, 0)
    )
    learned = Learned(slots=tuple(SlotFigures(took) for took in seconds))
    return Asked(manifest, learned=learned).propose(POLICY)


def even(rows: float) -> dict[int, float]:
    return dict.fromkeys(range(GROUPS), rows)


@pytest.mark.parametrize("hot", ["A", "B"])
def test_a_hot_key_is_spread_by_the_input_that_most_rows_come_by(hot: str) -> None:
    more, fewer = even(1.0) | {HOT: 1000.0}, even(1.0) | {HOT: 40.0}
    (found,) = propose((more, fewer) if hot == "A" else (fewer, more), 1, (3.0, 0.03))
    assert isinstance(found, SpreadGroup)
    assert (found.operator, found.group, found.alias, found.slots) == (J1, HOT, hot, (0, 1))
    assert (found.before_batch, figures_of(found.trial)["seconds"]) == (5, 3.0)
    assert found.reason.startswith("time: it takes 99% of the 3 s of slot 0 and is hardly more than one key: ")


def test_a_hot_group_is_cut_once_in_vain_and_then_spread() -> None:
    came = even(1.0) | {HOT: 1000.0}
    (cut,) = propose((came, even(1.0)), 5, (3.0, 0.03))
    assert isinstance(cut, CutGroup)
    assert cut.group == HOT
    placement = Placement(2, GROUPS).cut(K0, HOT, cut.at_hash)
    later = {group + (group > HOT): rows for group, rows in came.items()} | {HOT + 1: 3.0}
    (spread,) = propose((later, even(1.0)), 5, (3.0, 0.03), placement)
    assert isinstance(spread, SpreadGroup)
    assert spread.group == HOT
    shared_out = later | {HOT: 500.0, HOT + 1: 500.0}
    (moved,) = propose((shared_out, even(1.0)), 5, (3.0, 0.03), placement)
    assert isinstance(moved, MoveGroups), "a cut that has shared it out has groups to move"


def test_one_that_has_cooled_is_drawn_together() -> None:
    placement = Placement(2, GROUPS).spread(K0, HOT, "A", (0, 1))
    assert propose((even(1.0) | {HOT: 1000.0}, even(1.0)), 1, (1.6, 1.5), placement) == []
    (found,) = propose((even(2.0) | {HOT: 1.0}, even(0.0)), 1, (1.6, 1.5), placement)
    assert isinstance(found, DrawTogether)
    assert (found.operator, found.group) == (J1, HOT)
    assert found.reason.startswith("time: all of it takes ")
    assert np.isclose(figures_of(found.trial)["seconds_taken"], 3.1 / 15, rtol=0.1)
