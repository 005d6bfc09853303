"""Where the work runs: the policies that a user can name, one a file.

A policy gets a view and a threshold, and returns a decision or none: groups that move, groups that are spilled to make
room, a group that is to be cut or spread. `policies/balance_slots.py` asks one of them from time to time.

Whole operators ([Zhu06] 19) move as their groups do: forced, or where a policy finds that each of these had better go.
The dissertation has two protocols for it, and chooses by bytes. One sends the states that both plans have to the other
machine; the other sends new rows to both for two windows, until the old machine has none left that count. Of the first
it is left that the receiver reads the rows, once and cold, from the table that all slots share; `time` weighs that
against what is gained (`READ_BYTES`). The second would have the rows of a window joined and kept twice, to save reading
them: with what one row takes to be inserted and joined (`optimize/choose.py`, 205 ns, and 35 ns to be sent) one of up
to 96 bytes has been read in that time, and there would be a window to wait for. So nothing is left to choose, and
nobody does.
"""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.adapt.decisions.place import DrawTogether, MoveGroups
from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.balance.active_disk import active_disk
from watersmeet.adapt.policies.balance.lazy_disk import lazy_disk
from watersmeet.adapt.policies.balance.load import BalanceView, CutWanted, SpreadWanted
from watersmeet.adapt.policies.balance.relocation import relocate
from watersmeet.adapt.policies.balance.time_of_slots import level_seconds
from watersmeet.settings.balance import TIME

__all__ = ["BALANCE_POLICIES", "BalancePolicy"]

Wanted = MoveGroups | SpillGroups | DrawTogether | CutWanted | SpreadWanted
BalancePolicy = Callable[[BalanceView, float], Wanted | None]

BALANCE_POLICIES: tuple[tuple[str, BalancePolicy], ...] = (
    ("relocate", relocate),
    ("lazy-disk", lazy_disk),
    ("active-disk", active_disk),
    (TIME, level_seconds),
)
