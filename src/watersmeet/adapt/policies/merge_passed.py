"""Merges groups of which a closed generation has outlived its windows, so that what is cold and owed stays bounded.

No new row will ever join with such a generation: all that it is kept for is what it owes to its neighbours, and to wait
would not make that cheaper. A merge emits it, and drops what has expired by then. Each row is read about twice for it:
a generation that a merge has united is younger than one window, and is merged again one window later. Without windows
nothing ever passes, and this does nothing.

The live generation of such a group is merged too where so many of its rows have expired and gone cold that they are
most of what waits, or where there is nothing else to merge: nothing else would end it where the budget is not passed
any more, and all that ever came to the group would stay. Otherwise it is left alone, for new rows to find partners in.

Groups are merged together, for most of what a merge costs is to read files that all of them lie in. So it waits until
there is enough of it, or until one of them has waited for as long as a window is wide. What waits longest goes first:
the oldest result that is owed, in whatever group, is what all above wait for.

How much is merged before a batch is limited, by the budget, and by what comes: where a batch brings more than a small
budget lets in, all of that goes cold and has to be read about twice, or it would pile up.

Why it is needed: an operator that owes results holds back the time up to which those above it may let go of rows, and a
group-by its boundaries. What is owed for ever would hold that back for ever, and everything above would grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.estimates import arriving_bytes, kept_bytes, owed_by
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.trials import come_true
from watersmeet.model.origin import ByPolicy, Origin

# What the merges of one batch may read and leave in memory above: a share of the budget, or what comes so many times.
AT_ONCE = 0.25
TIMES = 3.0


@dataclass(frozen=True)
class MergePassed:
    budget_bytes: int | None

    origin: ClassVar[Origin] = ByPolicy("merge-passed")
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH, Moment.IDLE})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.MEMORY})

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        if not outlook.has_passed:
            return
        view = outlook.memory
        left = max(AT_ONCE * (self.budget_bytes or 0), TIMES * arriving_bytes(view))
        passed = [cold for cold in view.cold if cold.passed and (cold.generations > 1 or any(cold.cooled))]
        enough = sum(cold.bytes for cold in passed) >= left or any(cold.overdue for cold in passed)
        if not enough and outlook.moment is not Moment.IDLE:
            return
        # Lower operators first: what they emit is what those above wait for.
        passed.sort(key=lambda cold: (view.operator(cold.operator).level, cold.owed_since_us, cold.key))
        for place, cold in enumerate(passed):
            whole = any(cold.cooled) and (cold.generations == 1 or cold.cooled_bytes >= cold.bytes)
            read = cold.and_live(view.live(*cold.key)) if whole else cold
            emitted = owed_by(read) * come_true(outlook.learned, cold.operator)
            left -= read.bytes + emitted * kept_bytes(view, cold.operator)
            if left < 0 and place:
                return
            reason = f"a generation of {read.generations} has outlived its windows, and {read.bytes} bytes wait for it"
            yield MergeGroup(cold.operator, cold.group, reason, with_live=whole)
