"""Asks the policies of `ring/` how long a ring is to be and how its rows are to lie, before each batch.

One thing at a time: a ring that is on its way to another length gets there first, then it is as long as it takes, and
where that is settled its rows are levelled, as often as `balance_every` says. Not while the plan is being changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.rescale import ResizeRing
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.balance_slots import BATCHES_KNOWN, last_change
from watersmeet.adapt.policies.ring.length import judge, limits, ring_load, wanted
from watersmeet.adapt.policies.ring.relocation import next_step
from watersmeet.adapt.policies.ring.smoothing import MOST_ROWS, ROWS, RingView, level_rows, named_moves, smooth
from watersmeet.adapt.policies.scale.seconds import too_soon
from watersmeet.adapt.trials import came_true, cools_down, learn, lesson_of, trial_of
from watersmeet.model.bounds import HASH_END
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.model.slices import BY_TIME
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import TIME, BalanceSettings
from watersmeet.settings.ring import PASSIVE, RingSettings
from watersmeet.settings.words import AUTO
from watersmeet.state.learned import BALANCE, RING, Figures, Resizing, Trial


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
        resizing = outlook.learned.resizing
        if resizing is not None:
            if resizing.at_batch < outlook.next_batch:
                yield self._go_on(outlook, resizing)
            return
        changes = list(self._lengths(outlook))
        yield from changes
        if not any(isinstance(change, ResizeRing) for change in changes):
            yield from self._smoothed(outlook)

    def _lengths(self, outlook: Outlook) -> Iterator[Review | ResizeRing]:
        """What came of the last length, and another one."""
        slots = outlook.placement.ring_slots
        load = ring_load(slots, outlook.learned.recent)
        if load is None or self.settings.policy != AUTO or self.settings.seconds is None:
            return
        learned, batch = outlook.learned, outlook.next_batch
        if (trial := trial_of(learned, RING)) is not None:
            found = judge(load, trial)
            review = Review(trial, found.found, found.paid, found.reason, found.useless_load)
            if found.back_to is not None:
                yield replace(self._resize(outlook, found.back_to, found.reason, None), review=review)
                return
            yield review
        change = wanted(load, limits(outlook.placement.slots, self.settings.seconds, lesson_of(learned, RING)))
        if change is not None and not too_soon(change, load, learned, RING, batch):
            trial = change.trial(RING, f"a ring of {change.slots} slots", slots, batch)
            yield self._resize(outlook, change.slots, change.reason, trial)

    def _resize(self, outlook: Outlook, slots: int, reason: str, trial: Trial | None) -> ResizeRing:
        """At once, or as the first of several steps."""
        before = outlook.placement.ring_slots
        if self.settings.relocate == PASSIVE:
            return _step(outlook, before, slots, reason, trial)
        moves = level_rows(self._view(outlook), slots)
        return ResizeRing(before, slots, named_moves(moves), outlook.next_batch, reason, trial)

    def _go_on(self, outlook: Outlook, resizing: Resizing) -> ResizeRing:
        """The next step to a length that was decided on. Its trial begins when the ring is there."""
        trial = trial_of(outlook.learned, RING)
        begins = None if trial is None else replace(trial, at_batch=outlook.next_batch)
        return _step(outlook, resizing.from_slots, resizing.slots, "the next groups", begins)

    def _smoothed(self, outlook: Outlook) -> Iterator[Decision]:
        every = self.balance.every
        if self.balance.policy == TIME or outlook.placement.ring_slots < 2:  # `time` levels the seconds of all joins
            return
        if outlook.next_batch < BATCHES_KNOWN or outlook.next_batch % every:
            return
        if outlook.next_batch - last_change(outlook) < every or len(outlook.learned.slots) != outlook.placement.slots:
            return
        view, learned = self._view(outlook), outlook.learned
        trial = trial_of(learned, BALANCE)
        if trial is not None and MOST_ROWS in trial.expected:
            before, expected, now = trial.before[MOST_ROWS], trial.expected[MOST_ROWS], max(view.held)
            reason = f"the most rows of a slot were {before:,.0f}, {expected:,.0f} expected, and are {now:,}"
            found = {MOST_ROWS: float(now), ROWS: float(sum(view.held))}
            review = Review(trial, found, came_true(trial, found, _times(trial, found)), reason)
            learned = learn(learned, trial, found, review.paid)
            yield review
        decision = smooth(view, self.balance.threshold)
        if decision is not None and not cools_down(learned, BALANCE, outlook.next_batch, every):
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


def _times(trial: Trial, found: Figures) -> float:
    """How many times as many rows there are as when groups were moved."""
    return found[ROWS] / trial.before[ROWS] if trial.before.get(ROWS) else 1.0


def _step(outlook: Outlook, before: int, slots: int, reason: str, trial: Trial | None) -> ResizeRing:
    """To a ring of so many slots, as far as it goes before the next batch."""
    placement = outlook.placement.with_ring(slots)
    moves, rows = placement.ring_moves(), _by_group(outlook)[0]
    chosen = next_step(moves, rows)
    left = len(moves) - len(chosen)
    reason = f"{PASSIVE}: {reason}; {left} groups are yet to go"
    batch, named = outlook.next_batch, named_moves(chosen)
    return ResizeRing(before, slots, named, batch, reason, trial, groups_left=left)


def _by_group(outlook: Outlook) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows and bytes of each group of the ring."""
    groups, segments = outlook.placement.of(BY_TIME).groups, outlook.manifest.segments
    rows, bytes = np.zeros(groups), np.zeros(groups)
    for state in outlook.plan.states.values():
        if state.partitioning == BY_TIME:
            held = segments.active(state.name).by_group(groups)
            rows, bytes = rows + held.rows, bytes + held.bytes
    return tuple(rows.astype(int).tolist()), tuple(bytes.astype(int).tolist())
