"""Asks the policies of `ring/` how long a ring is to be and how its rows are to lie, before each batch.

One thing at a time: a ring that is on its way to another length gets there first, then it is as long as it takes, and
where that is settled its rows are levelled, as often as `balance_every` says. Not while the plan is being changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from watersmeet.adapt.decisions import Decision, ResizeRing, ReviewMoves, ReviewRing
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.balance_slots import BATCHES_KNOWN, last_change
from watersmeet.adapt.policies.ring.length import limits, review, ring_load, wanted
from watersmeet.adapt.policies.ring.relocation import next_step
from watersmeet.adapt.policies.ring.smoothing import RingView, level_rows, named_moves, smooth
from watersmeet.model.bounds import HASH_END
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.model.slices import BY_TIME
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import TIME, BalanceSettings
from watersmeet.settings.ring import PASSIVE, RingSettings
from watersmeet.settings.words import AUTO

LEFT = "groups_left"  # of a change of length that is under way


@dataclass(frozen=True)
class AdaptRing:
    settings: RingSettings
    balance: BalanceSettings  # with the policy in force

    origin: ClassVar[Origin] = ByPolicy("adapt-ring")
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.PARTS})

    @classmethod
    def of(cls, settings: AdaptSettings) -> AdaptRing:
        return cls(settings.ring, replace(settings.balance, policy=settings.balancing))

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        if outlook.migrating or outlook.placement.slots < 2 or not outlook.plan.has_ring:
            return
        resized = outlook.learned.ring or {}
        if resized.get(LEFT):
            if resized.get("step", -1) < outlook.next_batch:
                yield self._go_on(outlook, resized)
            return
        changes = list(self._lengths(outlook, resized))
        yield from changes
        if not any(isinstance(change, ResizeRing) for change in changes):
            yield from self._smoothed(outlook)

    def _lengths(self, outlook: Outlook, resized: Mapping[str, Any]) -> Iterator[ReviewRing | ResizeRing]:
        """What came of the last length, and another one."""
        slots = outlook.placement.ring_slots
        load = ring_load(slots, outlook.learned.recent)
        if load is None or self.settings.policy != AUTO or self.settings.seconds is None:
            return
        if (found := review(load, resized)) is not None:
            told = ReviewRing(found.reason, found.figures, found.back_to is not None)
            if found.back_to is not None:
                yield replace(self._resize(outlook, found.back_to, found.reason, {}), review=told)
                return
            yield told
        change = wanted(load, limits(outlook.placement.slots, self.settings.seconds, resized))
        if change is not None:
            yield self._resize(outlook, change.slots, change.reason, change.figures)

    def _resize(self, outlook: Outlook, slots: int, reason: str, figures: Mapping[str, float]) -> ResizeRing:
        """At once, or as the first of several steps."""
        before = outlook.placement.ring_slots
        if self.settings.relocate == PASSIVE:
            return _step(outlook, before, slots, reason, figures)
        moves = level_rows(self._view(outlook), slots)
        return ResizeRing(before, slots, named_moves(moves), outlook.next_batch, reason, figures)

    def _go_on(self, outlook: Outlook, resized: Mapping[str, Any]) -> ResizeRing:
        """The next step to a length that was decided on."""
        figures = {name: value for name, value in resized.items() if name not in ("batch", "from_slots", "slots")}
        return _step(outlook, resized["from_slots"], resized["slots"], "the next groups", figures)

    def _smoothed(self, outlook: Outlook) -> Iterator[Decision]:
        every = self.balance.every
        if self.balance.policy == TIME or outlook.placement.ring_slots < 2:  # `time` levels the seconds of all joins
            return
        if outlook.next_batch < BATCHES_KNOWN or outlook.next_batch % every:
            return
        if outlook.next_batch - last_change(outlook) < every or len(outlook.learned.slots) != outlook.placement.slots:
            return
        view = self._view(outlook)
        moved = outlook.learned.moved or {}
        if "most_rows_expected" in moved:
            before, expected, now = moved["most_rows"], moved["most_rows_expected"], max(view.held)
            reason = f"the most rows of a slot were {before:,.0f}, {expected:,.0f} expected, and are {now:,}"
            yield ReviewMoves(reason, {**moved, "most_rows_found": float(now)})
        if (decision := smooth(view, self.balance.threshold)) is not None:
            yield decision

    def _view(self, outlook: Outlook) -> RingView:
        placement = outlook.placement
        routing, figures = placement.of(BY_TIME), outlook.learned.slots
        took = [slot.cpu_seconds if self.balance.by_cpu else slot.seconds for slot in figures]
        rows, bytes = _by_group(outlook)
        starts = [routing.bounds.hash_start(group) for group in range(routing.groups + 1)]
        widths = tuple((high - low) / HASH_END for low, high in itertools.pairwise(starts))
        seconds = (*took, *[0.0] * placement.slots)[: placement.ring_slots]
        return RingView(outlook.next_batch, seconds, routing.owners, rows, bytes, widths, self.balance.every)


def _step(outlook: Outlook, before: int, slots: int, reason: str, figures: Mapping[str, Any]) -> ResizeRing:
    """To a ring of so many slots, as far as it goes before the next batch."""
    placement = outlook.placement.with_ring(slots)
    moves, rows = placement.ring_moves(), _by_group(outlook)[0]
    chosen = next_step(moves, rows)
    left = len(moves) - len(chosen)
    told = {**figures, LEFT: left, "step": outlook.next_batch}
    reason = f"{PASSIVE}: {reason}; {left} groups are yet to go"
    return ResizeRing(before, slots, named_moves(chosen), outlook.next_batch, reason, told)


def _by_group(outlook: Outlook) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows and bytes of each group of the ring."""
    groups, segments = outlook.placement.of(BY_TIME).groups, outlook.manifest.segments
    rows, bytes = np.zeros(groups), np.zeros(groups)
    for state in outlook.plan.states.values():
        if state.partitioning == BY_TIME:
            held = segments.active(state.name).by_group(groups)
            rows, bytes = rows + held.rows, bytes + held.bytes
    return tuple(rows.astype(int).tolist()), tuple(bytes.astype(int).tolist())
