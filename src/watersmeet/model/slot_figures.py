"""What slots do: seconds, rows and results of their tasks in a batch, and what batches come to lately. Plain JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

WEIGHT = 0.5  # of the last batch in what batches come to lately


@dataclass(frozen=True)
class SlotFigures:
    """Of one slot, over all stages of a batch."""

    seconds: float = 0.0  # that its tasks took
    cpu_seconds: float = 0.0
    rows_in: float = 0.0  # that came to its tasks, from streams and from other tasks
    rows_out: float = 0.0  # results of the query

    def plus(self, other: SlotFigures) -> SlotFigures:
        return SlotFigures(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def then(self, batch: SlotFigures) -> SlotFigures:
        """After another batch, which weighs as much as all before it.

        >>> SlotFigures(rows_in=100.0).then(SlotFigures(rows_in=50.0)).rows_in
        75.0
        """
        pairs = zip(astuple(self), astuple(batch), strict=True)
        return SlotFigures(*(round(before + WEIGHT * (now - before), 6) for before, now in pairs))

    def shown(self) -> dict[str, float]:
        """As events have them."""
        return {entry.name: round(getattr(self, entry.name), 6) for entry in fields(self)}


Slots = tuple[SlotFigures, ...]  # by number


def add_up(tasks: Iterable[tuple[int, SlotFigures]], slots: int) -> Slots:
    """What the tasks of a batch come to, by slot."""
    total = [SlotFigures()] * slots
    for slot, figures in tasks:
        total[slot] = total[slot].plus(figures)
    return tuple(total)


def follow(before: Slots, batch: Slots) -> Slots:
    """What batches come to lately, after another one. Where slots have come or gone, all of them begin anew.

    >>> follow((SlotFigures(4.0),), (SlotFigures(2.0),))[0].seconds, follow((SlotFigures(4.0),), ())
    (3.0, ())
    """
    if len(before) != len(batch):
        return batch
    return tuple(old.then(now) for old, now in zip(before, batch, strict=True))
