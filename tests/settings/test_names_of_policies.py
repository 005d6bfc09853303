"""The names that a setting may have are those of the policies that there are."""

from __future__ import annotations

from watersmeet.adapt.policies.balance import BALANCE_POLICIES
from watersmeet.adapt.policies.migrate import ROADS
from watersmeet.adapt.policies.spill import SPILL_POLICIES
from watersmeet.settings.adapt import SPILL
from watersmeet.settings.balance import BALANCE, BALANCE_BY
from watersmeet.settings.replan import BY
from watersmeet.settings.words import AUTO, OFF


def test_each_name_has_its_policy() -> None:
    assert (*dict(SPILL_POLICIES), OFF) == SPILL
    assert (AUTO, OFF, *dict(BALANCE_POLICIES)) == BALANCE
    assert (AUTO, *(road.name for road in ROADS)) == BY
    assert set(BALANCE_BY) <= set(BY)
