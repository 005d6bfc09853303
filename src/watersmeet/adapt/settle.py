"""Conflicts of decisions, settled in one place; and what goes before everything else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from watersmeet.adapt.decisions.cannot_force import CannotForce
from watersmeet.adapt.decisions.change_plan import ChangePlan, LookAtPlan
from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Effects, Known, effects_of
from watersmeet.adapt.decisions.merge import MergeGenerations, MergeGroup, UniteParts
from watersmeet.adapt.decisions.place import DrawTogether, MoveGroups, SpreadGroup
from watersmeet.adapt.decisions.rescale import Rescale, ResizeRing
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.decisions.spill import CloseLive, SpillGroups
from watersmeet.model.ids import LIVE, GroupKey, OperatorName
from watersmeet.model.origin import Forced
from watersmeet.model.routing import GroupRange, subtract_ranges, union_ranges
from watersmeet.state.learned import BALANCE, RING, SLOTS

_PLACES = (Rescale, ResizeRing, MoveGroups, SpreadGroup, DrawTogether)


def settle(decisions: Iterable[Decision]) -> list[Decision]:
    """The decisions of all policies without those that do not go together: the one place for conflicts.

    Decisions of people go before those of policies. A policy whose decision is left out is asked again.

    - A group is cut once, whichever operator on its partitioning it was named by. Nothing else goes with cuts: they
      give other numbers to groups and other names to parts, and everybody is asked again.
    - One change of the plan goes with the reviews and the look that were due, and with decisions that undo others.
    - Reviews are never left out: a change that follows would close the trial that they are about. A decision that
      undoes another carries its review, and is left out for a decision of the same kind by people alone.
    - A group is merged once, whoever asked first. One that is merged with its live generation needs no spill, which
      would close the same rows, and has no generations left that could be merged apart.
    - Parts that have cooled are not united where anything is closed, which would take them along.
    - Of groups and slots see `_settle_places`.
    """
    decisions = sorted(decisions, key=lambda decision: decision.by_policy)  # stable
    if cuts := {(cut.partitioning, cut.group): cut for cut in reversed(decisions) if isinstance(cut, CutGroup)}:
        return [cuts[key] for key in sorted(cuts, reverse=True)]
    changes = [decision for decision in decisions if isinstance(decision, ChangePlan)]
    if changes:
        decisions = [d for d in decisions if isinstance(d, (Review, LookAtPlan)) or d is changes[0] or _undoes(d)]
    merges = _merged_once(decisions)
    whole = {(merge.operator, merge.group) for merge in merges if merge.with_live}
    closing = bool(whole) or any(isinstance(decision, (SpillGroups, CloseLive)) for decision in decisions)
    placed = _settle_places([decision for decision in decisions if isinstance(decision, _PLACES)], closing)
    notes = [decision for decision in placed if isinstance(decision, CannotForce)]
    reviews: list[Decision] = [decision for decision in decisions if isinstance(decision, Review)]
    reviews += [change.review for change in changes[1:] if change.review not in (None, changes[0].review)]
    others = [decision for decision in decisions if not isinstance(decision, (Review, *_PLACES, MergeGroup))]
    left = _without_closed(_merged_apart(others, merges), whole, closing)
    return [*reviews, *(decision for decision in placed if decision not in notes), *left, *notes, *merges]


def _merged_once(decisions: Iterable[Decision]) -> list[MergeGroup]:
    """The merges of whole groups, the first of each."""
    merged: dict[GroupKey, MergeGroup] = {}
    for decision in decisions:
        if isinstance(decision, MergeGroup):
            merged.setdefault((decision.operator, decision.group), decision)
    return list(merged.values())


def _merged_apart(decisions: Iterable[Decision], merges: Iterable[MergeGroup]) -> Iterator[Decision]:
    """With merges of some generations only in groups that are not merged anyway."""
    taken: defaultdict[OperatorName, tuple[GroupRange, ...]] = defaultdict(tuple)
    for merge in merges:
        taken[merge.operator] = union_ranges((*taken[merge.operator], (merge.group, merge.group + 1)))
    for decision in decisions:
        if isinstance(decision, MergeGenerations):
            within = subtract_ranges(decision.within, taken[decision.operator])
            taken[decision.operator] = union_ranges((*taken[decision.operator], *within))
            if within:
                yield replace(decision, within=within)
        else:
            yield decision


def _without_closed(decisions: Iterable[Decision], whole: set[GroupKey], closing: bool) -> Iterator[Decision]:
    """Without spills of what merges close, and unions of what spills close."""
    for decision in decisions:
        if isinstance(decision, SpillGroups):
            groups = tuple(key for key in decision.groups if key not in whole)
            if groups:
                yield decision if groups == decision.groups else replace(decision, groups=groups)
        elif not (isinstance(decision, UniteParts) and closing and decision.generation == LIVE):
            yield decision


def _settle_places(decisions: Sequence[Decision], closing: bool) -> list[Decision]:
    """Those of these decisions about slots and owners that go together, and the reviews of those that do not.

    Of several numbers of slots, or lengths of a ring, the first holds; groups are moved and spread among those. Where
    people place groups, or a decision is undone, no policy places others, since it went by what there was before. It
    moves and spreads none beside another number of slots either, nor where generations are closed. A ring that is to
    use more of the slots that there are goes before more slots, which a policy has no reason for until that was tried.
    """
    first = [decision for decision in decisions if not decision.by_policy or _undoes(decision)]
    plain = [] if first else list(decisions)
    if any(isinstance(decision, ResizeRing) and decision.slots > decision.from_slots for decision in plain):
        plain = [decision for decision in plain if not isinstance(decision, Rescale)]
    slots = [decision for decision in (*first, *plain) if isinstance(decision, Rescale)]
    if slots or closing:
        plain = []
    rest = [decision for decision in (*first, *plain) if not isinstance(decision, Rescale)]
    rings = [decision for decision in rest if isinstance(decision, ResizeRing)]
    others = [decision for decision in rest if not isinstance(decision, ResizeRing)]
    left_out = [*_left_out(slots), *_left_out(rings)]
    return [*left_out, *slots[:1], *rings[:1], *others]


def _left_out(decisions: Sequence[Rescale | ResizeRing]) -> Iterator[Decision]:
    """What is said of those of one kind, of which the first holds, in the place of the others."""
    for decision in decisions[1:]:
        if isinstance(decision.origin, Forced) and decision.slots != decisions[0].slots:
            what = "slots" if isinstance(decision, Rescale) else "slots for the ring"
            yield CannotForce(decision.before_batch, f"another number was asked for first: {decision.slots} {what}")
        elif decision.review is not None:
            yield decision.review


def _undoes(decision: Decision) -> bool:
    """Whether it undoes what did not pay, and would not be proposed again."""
    return isinstance(decision, (Rescale, ResizeRing)) and decision.review is not None


def place_first(decisions: Sequence[Decision], known: Known) -> Effects | None:
    """What comes of those settled decisions that give groups to other slots, if any do; the others are made anew.

    For what a slot has too much of is known by its groups, and is to be spilled before a batch.
    """
    effects = effects_of([decision for decision in decisions if _is_of_places(decision)], known)
    return effects if effects.placed else None


def _is_of_places(decision: Decision) -> bool:
    if isinstance(decision, Review):
        return decision.trial.kind in (SLOTS, RING, BALANCE)
    return isinstance(decision, _PLACES)
