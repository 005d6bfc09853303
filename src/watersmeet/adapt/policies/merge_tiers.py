"""Merges closed generations of like age into one, so that there are few of them however long a query runs.

Each spill leaves one more generation, and without windows none ever passes. What a batch costs grows with their number:
entries of the manifest, buckets of the ledger, files of a merge. So they are merged in tiers, as segments are in
compaction: spills number them one after the other, and as soon as the last of `FANOUT` consecutive numbers is there,
those become one; then `FANOUT` of these, and so on. After n spills there are about (FANOUT - 1) * log_FANOUT(n) of them
and each row was rewritten log_FANOUT(n) times. What a merge emits is owed anyway.

A tier is merged group by group, no more in a batch than `AT_ONCE` of the budget, and more as generations grow many, so
that it keeps up with spills. Nothing has to be remembered in between: a tier that has more than one generation left is
gone on with. Few generations are left alone: where windows make them pass, or merges pay, they go by themselves.

Known limits: numbers stand for sizes, since spills are of about one size. Generation 0, in which merges of whole groups
leave what they have united, is of no tier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.merge import MergeGenerations
from watersmeet.adapt.estimates import kept_bytes, owed_between
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.trials import come_true
from watersmeet.model.ids import UNITED, Generation
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.model.routing import union_ranges

GENERATIONS = 8  # of an operator, more than which are merged
FANOUT = 4
# Of the budget: what merges of a batch may read and leave in memory above, at `GENERATIONS`. In pieces of a quarter,
# 40 batches of `tests/regressions/test_what_a_budget_costs.py` took 2.0 s of CPU first and 4.1 s in the end, for the
# parts that pieces leave have to be united; in pieces of one budget 1.9 and 2.4 s.
AT_ONCE = 1.0


@dataclass(frozen=True)
class MergeTiers:
    budget_bytes: int | None

    origin: ClassVar[Origin] = ByPolicy("merge-tiers")
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH, Moment.IDLE})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.GENERATIONS, Signal.MEMORY})

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        for operator, ledger in outlook.ledgers.items():
            numbers = sorted(number for number in ledger.closed if number != UNITED)
            tier = full_tier(numbers) if len(numbers) > GENERATIONS else ()
            if not tier:
                continue
            older = np.any([ledger.closed[number].there for number in tier[:-1]], axis=0)
            groups = np.flatnonzero(older)
            emitted = kept_bytes(outlook.memory, operator) * come_true(outlook.learned, operator)
            read = sum(ledger.closed[number].bytes for number in tier)
            cost = np.cumsum((read + owed_between(ledger, tier) * emitted)[groups])
            limit = AT_ONCE * (self.budget_bytes or 0) * len(numbers) / GENERATIONS
            chosen = groups[: max(1, int(np.searchsorted(cost, limit, side="right")))]
            within = union_ranges((group, group + 1) for group in chosen.tolist())
            share = f"in {len(chosen)} of {len(groups)} groups"
            yield MergeGenerations(operator, tier, within, f"{len(numbers)} have grown many; {share} at once")


def full_tier(numbers: Sequence[Generation]) -> tuple[Generation, ...]:
    """Of these ascending numbers, those that are to become one: of the lowest tier that is full, the oldest of them.

    >>> full_tier([Generation(number) for number in (4, 5, 6, 7, 8, 9)])
    (5, 6, 7, 8)
    >>> full_tier([Generation(number) for number in (4, 8, 12, 16, 17)])
    (4, 8, 12, 16)
    >>> full_tier([Generation(number) for number in (4, 8, 9, 10, 11)])
    ()
    """
    width = FANOUT
    while numbers and width <= numbers[-1]:
        blocks: dict[int, list[Generation]] = {}
        for number in numbers:
            blocks.setdefault((number - 1) // width, []).append(number)
        for block, members in blocks.items():
            if len(members) > 1 and (block + 1) * width <= numbers[-1]:
                return tuple(members)
        width *= FANOUT
    return ()
