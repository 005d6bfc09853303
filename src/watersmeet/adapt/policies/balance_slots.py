"""Asks a policy of `balance/` what is to go where: before every so many batches, and not soon after a change.

At the first look after a move it says what came of it, compared with what was expected. Moves by seconds that do not
bring half of that are in vain: what slots take is not of their groups then, but of merges, or the load goes elsewhere
sooner than it is seen. After each one in a row it waits twice as long for the next, up to a bound; cuts and spreads do
not wait. A look at all groups takes some
milliseconds for hundreds of them, so that there is none before most batches, nor where policies that level memory need
none: what slots hold says whether they are out of balance, and takes a tenth of that.

Slots that `allocate = "fewest"` has left without any group stay so: policies that level memory do not see them, until
one of the others has had to spill. `time` sees all slots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.place import DrawTogether, MoveGroups, SpreadGroup
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.decisions.spill import CountPushed
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.balance import BALANCE_POLICIES
from watersmeet.adapt.policies.balance.load import BalanceView, CutWanted, Piece, Slot, SpreadWanted
from watersmeet.adapt.policies.balance.relocation import BYTES, MOST_BYTES, Load, bytes_of, out_of_balance
from watersmeet.adapt.policies.balance.routed import with_routed
from watersmeet.adapt.policies.balance.time_of_slots import SECONDS
from watersmeet.adapt.trials import came_true, cools_down, learn, trial_of
from watersmeet.model.bounds import Bounds
from watersmeet.model.ids import GroupKey, Partitioning
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.model.placement import Placement
from watersmeet.model.quantities import microseconds
from watersmeet.optimize.allocate import FEWEST
from watersmeet.plan.spreading import heaviest_input
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import TIME, BalanceSettings
from watersmeet.state.learned import BALANCE

BATCHES_KNOWN = 2  # that must have been measured before anything is decided
ABOUT_ONE = 1.5  # keys, which are estimated where several files have rows
# Cuts for each group that a user has set. Nothing unites what was cut while a run goes on, and each group has its cost:
# where hot keys wander there would be more of them without end. After that hot groups are spread, which ends by itself.
MOST_CUTS = 0.5
ONE_KEY = 0.9  # a group with so much of what cuts have parted it from is not worth another cut: it is one key's
# What policies that level memory, and do nothing else, go by.
LEVELS_MEMORY: Mapping[str, Callable[[BalanceView], Load]] = {
    "relocate": lambda view: bytes_of,
    "lazy-disk": lambda view: view.wanted_bytes,
}


@dataclass(frozen=True)
class BalanceSlots:
    settings: BalanceSettings
    budget_bytes: int | None  # of all slots
    slot_bytes: int | None  # of each

    origin: ClassVar[Origin] = ByPolicy("balance-slots")
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.MEMORY, Signal.GENERATIONS, Signal.PARTS})

    @classmethod
    def of(cls, settings: AdaptSettings) -> BalanceSlots:
        asked = replace(settings.balance, policy=settings.balancing)
        return cls(asked, settings.budget_bytes, settings.slot_bytes)

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        if outlook.placement.slots < 2 or outlook.next_batch < BATCHES_KNOWN:
            return
        if len(outlook.learned.slots) != outlook.placement.slots:  # no batch has been measured with these
            return
        if outlook.migrating:  # one change at a time: a cut would be the end of that of the plan
            return
        if outlook.next_batch % self.settings.every:
            return
        if outlook.next_batch - last_change(outlook) < self.settings.every:
            return
        moved_us = outlook.learned.moved_us
        if moved_us is not None and outlook.now_us - moved_us < microseconds(self.settings.span):
            return
        name, threshold = self.settings.policy, self.settings.threshold
        at_a_glance = self.view(outlook, ())
        learned = outlook.learned
        if (review := _review(outlook, at_a_glance)) is not None:
            learned = learn(learned, review.trial, review.found, review.paid)
            yield review
        if name in LEVELS_MEMORY and not out_of_balance(at_a_glance, threshold, LEVELS_MEMORY[name](at_a_glance)):
            return
        held = _pieces(outlook)
        # Memory is levelled by spills too, and routed joins cannot be spilled.
        view = self.view(outlook, tuple(with_routed(held, outlook) if name == TIME else held.values()))
        decision = dict(BALANCE_POLICIES)[name](view, threshold)
        if isinstance(decision, CutWanted):
            yield from _cut(decision, outlook)
        elif isinstance(decision, SpreadWanted):
            yield _spread(decision, outlook, name)
        elif isinstance(decision, MoveGroups) and cools_down(learned, BALANCE, outlook.next_batch, self.settings.every):
            return
        elif isinstance(decision, (MoveGroups, DrawTogether)):
            yield self._noted(replace(decision, reason=f"{name}: {decision.reason}"), outlook.now_us)
        elif decision is not None:
            chosen = [piece for piece in view.pieces if piece.key in decision.groups]
            groups = tuple(_spilled(chosen, outlook))
            yield replace(decision, groups=groups, reason=f"{name}: {decision.reason}")
            yield CountPushed(view.pushed_bytes + sum(piece.bytes for piece in chosen))

    def _noted(self, decision: MoveGroups | DrawTogether, now_us: int) -> MoveGroups | DrawTogether:
        """With the time, if the next one has to wait for some of it."""
        if not self.settings.span or decision.trial is None:
            return decision
        trial = replace(decision.trial, notes={**decision.trial.notes, "at_us": float(now_us)})
        return replace(decision, trial=trial, at_us=now_us)

    def view(self, outlook: Outlook, pieces: tuple[Piece, ...]) -> BalanceView:
        """With these pieces of work; none are needed for what slots hold and take."""
        placement = outlook.placement
        held, cold = outlook.slot_bytes, outlook.cold_slot_bytes
        figures = outlook.learned.slots
        weights = [*self.settings.weights, *[1.0] * placement.slots][: placement.slots]
        slots = tuple(
            Slot(
                number=slot,
                bytes=held[slot],
                seconds=figures[slot].cpu_seconds if self.settings.by_cpu else figures[slot].seconds,
                output=sum(piece.output for piece in pieces if piece.slot == slot),
                groups=sum(piece.slot == slot for piece in pieces),
                weight=weights[slot],
                cold_bytes=cold[slot],
            )
            for slot in range(placement.slots)
        )
        left_out = self._left_out(outlook, slots)
        return BalanceView(
            outlook.next_batch,
            tuple(slot for slot in slots if slot.number not in left_out),
            pieces,
            self._capacity(placement.slots),
            self.settings.least_bytes,
            # A query without windows is taken to be at half of its time.
            outlook.state_bytes * (2 if outlook.window_seconds is None else 1),
            min(outlook.learned.pushed_bytes, outlook.state_bytes - outlook.active_bytes),
            self.settings.rates,
            tuple((node.name, node.label) for node in outlook.plan.operators.values()),
            self.settings.every,
        )

    def _left_out(self, outlook: Outlook, slots: Sequence[Slot]) -> Collection[int]:
        """The slots that are to have no groups."""
        limit = self.budget_bytes if self.slot_bytes is None else self.slot_bytes
        over = limit is not None and any(slot.bytes + slot.cold_bytes > limit for slot in slots)
        if self.settings.allocate != FEWEST or self.settings.policy == TIME or over:
            return ()
        partitionings = {state.partitioning for state in outlook.plan.states.values()}
        used = {owner for name in partitionings for owner in outlook.placement.of(name).owners}
        return {slot.number for slot in slots} - used

    def _capacity(self, slots: int) -> int | None:
        if self.slot_bytes is not None:
            return self.slot_bytes
        return None if self.budget_bytes is None else self.budget_bytes // slots


def last_change(outlook: Outlook) -> float:
    """The batch before which groups were last moved, spread or cut, or slots came: what these take is not known."""
    before = outlook.learned.placed_before
    return -math.inf if before is None else float(before)


def _spilled(pieces: Iterable[Piece], outlook: Outlook) -> Iterator[GroupKey]:
    """The groups of all operators that pieces stand for."""
    for piece in pieces:
        for node in outlook.plan.operators.values():
            if node.partitioning == piece.partitioning:
                yield node.name, piece.group


def _pieces(outlook: Outlook) -> dict[tuple[Partitioning, int], Piece]:
    """Groups with rows, or with closed generations, of each partitioning."""
    held: dict[tuple[Partitioning, int], Piece] = {}
    ledgers = outlook.ledgers
    for group in outlook.memory.groups:
        partitioning = outlook.plan.operators[group.operator].partitioning
        known = held.get((partitioning, group.group), Piece(group.operator, partitioning, group.group, group.slot))
        held[partitioning, group.group] = Piece(
            known.operator,
            partitioning,
            group.group,
            group.slot,
            known.bytes + group.size_bytes,
            known.work + sum(group.arrivals) + group.recent_local,
            known.output + group.recent_global,
            known.cold or bool(ledgers[group.operator].closed_groups[group.group]),
            max(known.keys, group.unique),
        )
    return {key: _described(piece, held, outlook.placement) for key, piece in held.items()}


def _described(piece: Piece, held: Mapping[tuple[Partitioning, int], Piece], placement: Placement) -> Piece:
    """With what else there is to know of a group: who works on it, and whether it is worth a cut."""
    spread = placement.spreads.get(piece.partitioning, {}).get(piece.group)
    bounds = placement.of(piece.partitioning).bounds
    enough = len(bounds.cuts) >= MOST_CUTS * placement.groups
    narrow = enough or piece.keys < ABOUT_ONE or _cut_in_vain(piece, held, bounds)
    return replace(piece, narrow=narrow, spread=() if spread is None else spread.slots)


def _cut_in_vain(piece: Piece, held: Mapping[tuple[Partitioning, int], Piece], bounds: Bounds) -> bool:
    """Whether a group is too narrow for a cut, or has nearly all of what former cuts were to share out."""
    if bounds.middle(piece.group) is None:
        return True
    below = bounds.hash_start(piece.group) in bounds.cuts
    above = bounds.hash_start(piece.group + 1) in bounds.cuts
    if not below and not above:
        return False
    beside = [held.get((piece.partitioning, n)) for n in (piece.group - below, piece.group + above) if n != piece.group]
    return piece.work >= ONE_KEY * (piece.work + sum(other.work for other in beside if other is not None))


def _review(outlook: Outlook, view: BalanceView) -> Review | None:
    """What came of the last move, once."""
    trial = trial_of(outlook.learned, BALANCE)
    if trial is None:
        return None
    slots, times = view.slots, 1.0
    if SECONDS in trial.expected:
        name, unit, found = SECONDS, "s", {SECONDS: max(slot.seconds for slot in slots)}
    elif MOST_BYTES in trial.expected:
        name, unit = MOST_BYTES, "bytes"
        found = {MOST_BYTES: float(max(slot.bytes for slot in slots)), BYTES: float(sum(slot.bytes for slot in slots))}
        times = found[BYTES] / trial.before[BYTES] if trial.before.get(BYTES) else 1.0
    else:  # rows of a ring, which somebody else compares
        return None
    before, expected = trial.before[name], trial.expected[name]
    reason = f"the most of a slot was {before:.3g} {unit}, {expected:.3g} expected, and is {found[name]:.3g}"
    return Review(trial, found, came_true(trial, found, times), reason)


def _cut(wanted: CutWanted, outlook: Outlook) -> Iterator[CutGroup]:
    """In the middle of its hashes, if it is wide enough."""
    partitioning = outlook.plan.operators[wanted.operator].partitioning
    at_hash = outlook.placement.of(partitioning).bounds.middle(wanted.group)
    if at_hash is not None:
        yield CutGroup(wanted.operator, wanted.group, partitioning, at_hash, outlook.next_batch, wanted.reason)


def _spread(wanted: SpreadWanted, outlook: Outlook, policy: str) -> SpreadGroup:
    """By the input with most rows coming there: the others' are copied to all slots."""
    partitioning = outlook.plan.operators[wanted.operator].partitioning
    arrivals = {group.operator: group.arrivals for group in outlook.memory.groups if group.group == wanted.group}
    alias = heaviest_input(outlook.plan, partitioning, arrivals)
    reason = f"{policy}: {wanted.reason}"
    return SpreadGroup(wanted.operator, wanted.group, alias, wanted.slots, outlook.next_batch, reason, wanted.trial)
