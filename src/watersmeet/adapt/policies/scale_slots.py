"""Asks `scale/seconds.py` how many slots there are to be, and says what came of the last change; before each batch.

Not while a change of the plan is under way, whose steps batches wait for, and never more slots than there are groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.adapt.decisions import Decision, Rescale, ReviewRescale
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.scale.seconds import Bounds, load_of, review, wanted
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.settings.scale import ScaleSettings


@dataclass(frozen=True)
class ScaleSlots:
    settings: ScaleSettings

    origin: ClassVar[Origin] = ByPolicy("scale-slots")
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset()

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        placement, scaled = outlook.placement, outlook.learned.scaled or {}
        load = load_of(placement.slots, outlook.learned.recent)
        if load is None or outlook.migrating or self.settings.seconds is None:
            return
        most = min(self.settings.most, placement.groups)
        least = min(self.settings.least, most)
        if (found := review(load, scaled, least)) is not None:
            reason = f"seconds: {found.reason}"
            told = ReviewRescale(reason, found.figures, found.back_to is not None)
            if found.back_to is not None:
                yield Rescale(placement.slots, found.back_to, outlook.next_batch, reason, review=told)
                return
            yield told
        bounds = Bounds(
            least,
            most,
            self.settings.seconds,
            scaled.get("no_use"),
            scaled.get("no_use_rows", 0.0),
        )
        if (change := wanted(load, bounds)) is not None:
            yield Rescale(placement.slots, change.slots, outlook.next_batch, change.reason, change.figures)
