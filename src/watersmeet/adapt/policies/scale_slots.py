"""Asks `scale/seconds.py` how many slots there are to be, and says what came of the last change; before each batch.

Not while a change of the plan is under way, whose steps batches wait for, and never more slots than there are groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.rescale import Rescale
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.scale.seconds import bounds_after, judge, load_of, too_soon, wanted
from watersmeet.adapt.trials import lesson_of, trial_of
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.settings.scale import ScaleSettings
from watersmeet.state.learned import SLOTS


@dataclass(frozen=True)
class ScaleSlots:
    settings: ScaleSettings

    origin: ClassVar[Origin] = ByPolicy("scale-slots")
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset()

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        placement, learned, batch = outlook.placement, outlook.learned, outlook.next_batch
        load = load_of(placement.slots, outlook.learned.recent)
        if load is None or outlook.migrating or self.settings.seconds is None:
            return
        most = min(self.settings.most, placement.groups)
        least = min(self.settings.least, most)
        if (trial := trial_of(learned, SLOTS)) is not None:
            found = judge(load, trial, least)
            reason = f"seconds: {found.reason}"
            review = Review(trial, found.found, found.paid, reason, found.useless_load)
            if found.back_to is not None:
                yield Rescale(placement.slots, found.back_to, batch, reason, review=review)
                return
            yield review
        change = wanted(load, bounds_after(least, most, self.settings.seconds, lesson_of(learned, SLOTS)))
        if change is not None and not too_soon(change, load, learned, SLOTS, batch):
            trial = change.trial(SLOTS, f"{change.slots} slots", placement.slots, batch)
            yield Rescale(placement.slots, change.slots, batch, change.reason, trial)
