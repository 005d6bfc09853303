"""Workload smoothing by count: as many rows in each slot of a ring, by moving the owners of groups. Pure.

After [Wang09] 6.1, where a slot that holds more rows than its share hands its oldest slices on to the next. Here slots
hold sets of slices, so that only what is too much goes, and to whoever has least (`optimize/ring_slices.py`, `level`).

What is levelled is what groups hold and, as much again, what is to come to them: a group gets its share of the slices
of the next window whatever it holds now, and one that is levelled by what it holds alone would be out of balance a
window later. Slices are dealt out so that each slot has its share of any stretch of time (`model/slices.py`), so there
is something to level where groups were moved, or where rows come in bursts that are shorter than a slice.

Rows alone are no reason: a slot with fewer rows may be a slow one. The one that has most must also be the one that
takes longest, by as much, and what is saved in the batches that figures are expected to last more than reading the rows
elsewhere takes. `balance = "time"` levels seconds for rings as for all other joins; then this is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from watersmeet.adapt.decisions.place import MoveGroups
from watersmeet.adapt.policies.balance.time_of_slots import LEAST, LEAST_SECONDS, READ_BYTES
from watersmeet.model.ids import OperatorName
from watersmeet.model.slices import BY_TIME
from watersmeet.optimize.ring_slices import level, rows_held
from watersmeet.state.learned import BALANCE, Trial

MOST_ROWS, ROWS = "most_rows", "rows"  # of one slot, and of all

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RingView:
    """A ring over the first `len(seconds)` slots, between two batches."""

    next_batch: int
    seconds: tuple[float, ...]  # that each slot takes of a batch
    owners: tuple[int, ...]  # of each group; some may lie outside of the ring
    rows: tuple[int, ...]  # that each group holds
    bytes: tuple[int, ...]
    widths: tuple[float, ...]  # of each group: its share of all slices that come
    batches: int = 1  # that what is measured is expected to last

    @property
    def slots(self) -> int:
        return len(self.seconds)

    @property
    def held(self) -> tuple[int, ...]:
        """Rows in each slot of the ring."""
        return _held(self.rows, self.owners, self.slots)


def level_rows(view: RingView, slots: int) -> dict[int, int]:
    """The groups that change slots where the ring is to lie over so many, and where they go: few do."""
    after = level(_burdens(view), view.owners, slots)
    pairs = enumerate(zip(view.owners, after, strict=True))
    return {group: slot for group, (before, slot) in pairs if before != slot}


def smooth(view: RingView, threshold: float) -> MoveGroups | None:
    """Level the rows of a ring that is out of balance."""
    held, longest = view.held, max(view.seconds)
    fullest = max(range(view.slots), key=lambda slot: (held[slot], -slot))
    if longest < LEAST_SECONDS or min(held) >= threshold * held[fullest]:
        return None
    if view.seconds[fullest] < longest or min(view.seconds) >= threshold * longest:
        return None
    moves = level_rows(view, view.slots)
    owners = tuple(moves.get(group, slot) for group, slot in enumerate(view.owners))
    most = max(_held(view.rows, owners, view.slots))
    saved = 1 - most / held[fullest]
    price = sum(view.bytes[group] for group in moves) / READ_BYTES
    gained = saved * longest * view.batches
    if saved < LEAST or gained <= price:
        return None
    reason = (
        f"smoothing: slot {fullest} holds {held[fullest]:,} rows of the ring and another {min(held):,}: {len(moves)} "
        f"groups go over, and the most is {most:,}; that saves {gained:.3g} s in the {view.batches} batches expected, "
        f"and costs {price:.2g} s"
    )
    before = {MOST_ROWS: float(held[fullest]), ROWS: float(sum(held))}
    what = f"{len(moves)} groups of the ring"
    trial = Trial(BALANCE, what, view.next_batch, before, {MOST_ROWS: float(most)})
    return MoveGroups(named_moves(moves), view.next_batch, reason, trial)


def named_moves(moves: dict[int, int]) -> tuple[tuple[OperatorName, int, int], ...]:
    """Moves of groups of slices, as decisions have them."""
    return tuple((OperatorName(BY_TIME), group, slot) for group, slot in sorted(moves.items()))


def _burdens(view: RingView) -> list[int]:
    """Rows that groups hold, and are to hold a window later."""
    total = sum(view.rows)
    to_come = (round(total * width) for width in view.widths)
    return [rows + more for rows, more in zip(view.rows, to_come, strict=True)]


def _held(rows: Sequence[int], owners: tuple[int, ...], slots: int) -> tuple[int, ...]:
    """Of the slots of a ring, without what lies outside."""
    inside = [(count, slot) for count, slot in zip(rows, owners, strict=True) if slot < slots]
    return rows_held([count for count, _ in inside], tuple(slot for _, slot in inside), slots)
