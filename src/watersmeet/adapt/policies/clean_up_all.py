"""Merges what is owed until nothing is, at the end of the input or on request, in the order of `merge/clean_up.py`.

Groups of one operator at a time, the lowest first, and no more at once than fits into the budget: what is read, and
what should be emitted into the states above. What those of its groups that owe have in memory is merged too, sooner or
later: it goes cold at once, and makes room. Where the input has ended, nothing more will come to that operator, so all
that it has in memory does. How many of the results expected really come is learned from round to round: estimates know
no windows and no predicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.decisions.spill import CloseLive
from watersmeet.adapt.estimates import kept_bytes, owed_by
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.merge.clean_up import clean_up
from watersmeet.adapt.trials import come_true
from watersmeet.model.origin import ByPolicy, Origin

CLEAN_UP_BYTES = 256 << 20  # in the place of a budget, where there is none


@dataclass(frozen=True)
class CleanUpAll:
    budget_bytes: int | None

    origin: ClassVar[Origin] = ByPolicy("clean-up-all")
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.DRAIN, Moment.END})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.MEMORY})

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        if not outlook.owes:
            return
        view = outlook.memory
        wanted = clean_up(view)
        operator = wanted[0].operator
        lowest = [entry for entry in wanted if entry.operator == operator]
        live = [group for group in view.groups if group.operator == operator and group.size_bytes]
        if outlook.moment is not Moment.END:
            owing = {entry.group for entry in lowest}
            live = [group for group in live if group.group in owing]
        if live:
            yield CloseLive(tuple(group.key for group in live), "to make room for merges")
        active = outlook.active_bytes - sum(group.size_bytes for group in live)
        budget = self.budget_bytes or CLEAN_UP_BYTES
        left: float = max(budget - active, budget // 4)
        cold = {entry.key: entry for entry in view.cold}
        # What a merge emits goes into memory above it, beside what it reads.
        kept = kept_bytes(view, operator) * come_true(outlook.learned, operator)
        chosen: list[MergeGroup] = []
        for entry in lowest:
            found = cold[entry.operator, entry.group]
            whole = found.and_live(view.live(*found.key))
            left -= whole.bytes + kept * owed_by(whole)
            if chosen and left < 0:
                break
            chosen.append(entry)
        yield from chosen
