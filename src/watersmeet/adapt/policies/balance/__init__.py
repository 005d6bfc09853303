"""Where the work runs: the policies that a user can name, one a file.

A policy gets a view and a threshold, and returns a decision or none: groups that move, groups that are spilled to make
room, a group that is to be cut. `policies/balance_slots.py` asks one of them from time to time.
"""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.adapt.decisions import MoveGroups, SpillGroups
from watersmeet.adapt.policies.balance.active_disk import active_disk
from watersmeet.adapt.policies.balance.lazy_disk import lazy_disk
from watersmeet.adapt.policies.balance.load import BalanceView, CutWanted
from watersmeet.adapt.policies.balance.relocation import relocate
from watersmeet.adapt.policies.balance.time_of_slots import level_seconds

__all__ = ["BALANCE_POLICIES", "TIME", "BalancePolicy"]

TIME = "time"

BalancePolicy = Callable[[BalanceView, float], MoveGroups | SpillGroups | CutWanted | None]

BALANCE_POLICIES: tuple[tuple[str, BalancePolicy], ...] = (
    ("relocate", relocate),
    ("lazy-disk", lazy_disk),
    ("active-disk", active_disk),
    (TIME, level_seconds),
)
