"""What comes of decisions: updates of the manifest, and work for the tasks of the next batch or round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from watersmeet.adapt.decisions import (
    SHOWN,
    CannotForce,
    CannotSpill,
    ChangePlan,
    CloseLive,
    CountPushed,
    CutGroup,
    Decision,
    DrawTogether,
    ExpectResults,
    LookAtPlan,
    MergeGenerations,
    MergeGroup,
    MigrationAbandoned,
    Move,
    MoveGroups,
    Rescale,
    ResizeRing,
    ReviewMoves,
    ReviewPlan,
    ReviewRescale,
    ReviewRing,
    SpillAggregates,
    SpillGroups,
    SpreadGroup,
    UniteParts,
    Work,
    to_json,
)
from watersmeet.adapt.policies.ring.length import RING_SERIES
from watersmeet.adapt.policies.scale.seconds import SERIES
from watersmeet.model.ids import LIVE, GroupKey, OperatorName, Partitioning
from watersmeet.model.origin import Forced
from watersmeet.model.placement import Placement
from watersmeet.model.routing import GroupRange, intersect_ranges, subtract_ranges, union_ranges
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.state.ledger import Ledgers, as_ranges
from watersmeet.state.manifest import Learned, Manifest
from watersmeet.state.segment_table import next_generation
from watersmeet.state.taken import CUT, Taken
from watersmeet.state.updates import CloseGroups, CoolGroups, Learn, RecordDecision, SetLibrary, SetPlacement, Update

IN_VAIN = "in_vain"
_PLACES = (Rescale, ResizeRing, MoveGroups, SpreadGroup, DrawTogether)
_REVIEWS = (ReviewMoves, ReviewRescale, ReviewRing, ReviewPlan)
_PLACING = (*_PLACES, ReviewMoves, ReviewRescale, ReviewRing)


@dataclass(frozen=True)
class Effects:
    """`shown` are the decisions that users are told of, as in the manifest.

    What the files hold on both sides of a cut is not in the manifest: the runtime looks, and makes the update.
    """

    updates: tuple[Update, ...] = ()
    cuts: tuple[CutGroup, ...] = ()  # to be committed with them, the last groups first
    placed: bool = False  # slots or owners are others; nothing else goes with that
    change: ChangePlan | None = None  # of the plan; nothing else goes with it
    work: Work = Work()  # noqa: RUF009 - frozen and empty
    shown: tuple[dict[str, object], ...] = ()
    learned: Learned | None = None  # to be committed with whatever comes next


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
        decisions = [d for d in decisions if isinstance(d, (*_REVIEWS, LookAtPlan, ChangePlan)) or _undoes(d)]
    merged: dict[GroupKey, MergeGroup] = {}
    for decision in decisions:
        if isinstance(decision, MergeGroup):
            merged.setdefault((decision.operator, decision.group), decision)
    whole = {key for key, decision in merged.items() if decision.with_live}
    closing = bool(whole) or any(isinstance(decision, (SpillGroups, CloseLive)) for decision in decisions)
    taken: defaultdict[OperatorName, tuple[GroupRange, ...]] = defaultdict(tuple)
    for operator, group in merged:
        taken[operator] = union_ranges((*taken[operator], (group, group + 1)))
    places = _settle_places([decision for decision in decisions if isinstance(decision, _PLACES)], closing)
    left_out = [d.review for d in changes[1:] if d.review is not None and d.review != changes[0].review]
    notes = [note for note in places if isinstance(note, CannotForce)]
    result: list[Decision] = [decision for decision in decisions if isinstance(decision, _REVIEWS)]
    result += [*left_out, *(decision for decision in places if decision not in notes)]
    for decision in decisions:
        if isinstance(decision, (*_REVIEWS, *_PLACES, MergeGroup)):
            continue
        if isinstance(decision, ChangePlan) and decision is not changes[0]:
            continue
        if isinstance(decision, SpillGroups):
            decision = replace(decision, groups=tuple(key for key in decision.groups if key not in whole))
            if not decision.groups:
                continue
        if isinstance(decision, MergeGenerations):
            within = subtract_ranges(decision.within, taken[decision.operator])
            taken[decision.operator] = union_ranges((*taken[decision.operator], *within))
            if not within:
                continue
            decision = replace(decision, within=within)
        if isinstance(decision, UniteParts) and closing and decision.generation == LIVE:
            continue
        result.append(decision)
    return [*result, *notes, *merged.values()]


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


def place_first(
    decisions: Sequence[Decision], plan: PhysicalPlan, manifest: Manifest, ledgers: Ledgers, learned: Learned
) -> Effects | None:
    """What comes of those settled decisions that give groups to other slots, if any do; the others are made anew.

    For what a slot has too much of is known by its groups, and is to be spilled before a batch.
    """
    placing = [decision for decision in decisions if isinstance(decision, _PLACING)]
    effects = effects_of(placing, plan, manifest, ledgers, learned)
    changed = any(isinstance(update, SetPlacement) for update in effects.updates)
    return replace(effects, placed=True) if changed else None


def effects_of(
    decisions: Sequence[Decision], plan: PhysicalPlan, manifest: Manifest, ledgers: Ledgers, learned: Learned
) -> Effects:
    """What is to be committed for settled decisions, and what the tasks are to do."""
    closing: list[GroupKey] = []
    merges: list[GroupKey] = []
    partial_merges: list[MergeGenerations] = []
    unites: list[UniteParts] = []
    cuts: list[CutGroup] = []
    change: ChangePlan | None = None
    cooled: list[Update] = []
    placement, known = manifest.placement, learned
    decisions = [part for decision in decisions for part in _parts(decision)]
    for decision in decisions:
        match decision:
            case MergeGroup(operator, group) if not plan.has_group(operator, group):
                pass  # where shapes differ, the group is one of another operator
            case Rescale(slots=slots):
                placement = placement.rescale(slots)
                learned = _rescaled(learned, decision)
            case ReviewRescale(figures=figures):
                learned = replace(learned, scaled=_reviewed(figures, decision.no_use))
            case ResizeRing(slots=slots):
                placement = move(decision.moves, plan, placement.with_ring(slots))
                learned = _resized(learned, decision)
            case ReviewRing(figures=figures):
                learned = replace(learned, ring=_reviewed(figures, decision.no_use))
            case MoveGroups(moves, batch):
                placement = move(moves, plan, placement)
                moved = {"batch": batch, **in_vain(learned), **decision.figures}
                learned = replace(learned, moved=moved, placed_before=batch)
            case SpreadGroup() | DrawTogether():
                placement = spread(decision, plan, placement)
                moved = {"batch": decision.before_batch, **in_vain(learned), **decision.figures}
                learned = replace(learned, moved=moved, placed_before=decision.before_batch)
            case ReviewMoves(figures=figures):
                vain = {name: value for name, value in figures.items() if name == IN_VAIN and value}
                learned = replace(learned, moved={**(_kept_of_move(learned) or {}), **vain} or None)
            case CountPushed(bytes):
                learned = replace(learned, pushed_bytes=bytes)
            case CutGroup():
                cuts.append(decision)
                learned = replace(learned, placed_before=decision.before_batch)
            case ChangePlan():
                change = decision
            case SpillAggregates():
                cooled += cool_aggregates(plan, manifest)
            case SpillGroups(groups):
                closing += groups
                learned = replace(learned, cannot_spill=False)
            case CloseLive(groups):
                closing += groups
            case MergeGroup(operator, group):
                merges.append((operator, group))
                if decision.with_live:
                    closing.append((operator, group))
            case MergeGenerations(operator, within=within):
                if (own := plan.within[operator]) is not None:
                    within = intersect_ranges(within, own)
                if within:
                    partial_merges.append(replace(decision, within=within))
            case UniteParts():
                unites.append(decision)
            case ExpectResults(operator, results):
                learned = replace(learned, expected=(operator, results))
            case LookAtPlan(look, reviewed):
                seconds = learned.search_seconds if decision.search_seconds is None else decision.search_seconds
                review = None if reviewed else learned.review
                learned = replace(learned, look=look, review=review, search_seconds=seconds)
            case CannotSpill():
                learned = replace(learned, cannot_spill=True)
            case CannotForce() | MigrationAbandoned() | ReviewPlan():
                pass
    updates: list[Update] = list(close(closing, plan, manifest, ledgers))
    closed = bool(updates)
    updates += cooled
    if placement != manifest.placement:
        updates.append(SetPlacement(placement))
    recorded = [
        RecordDecision(to_json(decision), _taken(decision))
        for decision in decisions
        if isinstance(decision, SHOWN)
        and (closed or not isinstance(decision, SpillGroups))
        and (cooled or not isinstance(decision, SpillAggregates))
    ]
    updates += recorded
    if learned != known and not all(isinstance(decision, LookAtPlan) for decision in decisions):
        updates.append(Learn(learned))
    updates += [SetLibrary(d.library) for d in decisions if isinstance(d, LookAtPlan) and d.library is not None]
    work = Work(tuple(merges), tuple(unites), tuple(partial_merges))
    looked = any(isinstance(decision, LookAtPlan) for decision in decisions)
    told = learned if looked else None
    shown = tuple(dict(update.decision) for update in recorded)
    return Effects(tuple(updates), tuple(cuts), change=change, work=work, shown=shown, learned=told)


def _parts(decision: Decision) -> Iterator[Decision]:
    """A decision after the review that it follows from."""
    review = getattr(decision, "review", None)
    if review is not None:
        yield replace(review, origin=decision.origin)
    yield decision


def _taken(decision: Decision) -> Taken | None:
    """What is not to be done again before the same batch."""
    if not isinstance(decision, CutGroup):
        return None
    groups = ((decision.group, decision.group + 1),)
    return Taken(CUT, decision.before_batch, decision.origin, decision.operator, groups)


def _rescaled(learned: Learned, decision: Rescale) -> Learned:
    """With what is expected of other slots."""
    kept = of_other_slots(learned)
    told = {"batch": decision.before_batch, "from_slots": decision.from_slots, "slots": decision.slots}
    scaled = {**(kept.scaled or {}), **told, **decision.figures}
    return replace(kept, scaled=scaled, placed_before=decision.before_batch)


def of_other_slots(learned: Learned) -> Learned:
    """What is still true where slots have come or gone: what more of them are known to be of no use for, among others.

    What batches took before is no trend of these, and what was expected of a move, or of the last number, cannot come.
    """
    recent = {name: series for name, series in learned.recent.items() if name not in (*SERIES, *RING_SERIES)}
    scaled, ring = _of_no_use(learned.scaled), _of_no_use(learned.ring)
    return replace(learned, recent=recent, scaled=scaled, ring=ring, moved=_kept_of_move(learned))


def _of_no_use(known: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {name: value for name, value in (known or {}).items() if name.startswith("no_use")} or None


def _resized(learned: Learned, decision: ResizeRing) -> Learned:
    """With what is expected of a ring of another length. What its slots took before says nothing of these."""
    kept = of_other_slots(learned)
    told = {"batch": decision.before_batch, "from_slots": decision.from_slots, "slots": decision.slots}
    ring = {**(kept.ring or {}), **told, **decision.figures}
    moved = {**(kept.moved or {}), "batch": decision.before_batch}
    return replace(kept, ring=ring, moved=moved, placed_before=decision.before_batch)


def in_vain(learned: Learned) -> dict[str, Any]:
    """How many moves in a row have not brought what was expected of them, if any."""
    return {name: value for name, value in (learned.moved or {}).items() if name == IN_VAIN}


def _kept_of_move(learned: Learned) -> dict[str, Any] | None:
    """When the last move was, without what was expected of it."""
    return {name: value for name, value in (learned.moved or {}).items() if name in ("batch", "at_us")} or None


def _reviewed(figures: Mapping[str, Any], no_use: bool) -> dict[str, Any]:
    """What is still to be known of a change of slots once it has been told how it turned out."""
    kept = {name: figures[name] for name in ("batch", "no_use", "no_use_rows") if name in figures}
    return {**kept, **({"no_use": figures["from_slots"] + 1, "no_use_rows": figures["rows"]} if no_use else {})}


def move(moves: Iterable[Move], plan: PhysicalPlan, placement: Placement) -> Placement:
    """With groups where they are to go, as far as these and their slots are there."""
    wanted: dict[Partitioning, dict[int, int]] = {}
    for name, group, slot in moves:
        partitioning = plan.placed_on(name)
        if partitioning and group < placement.of(partitioning).groups and slot < placement.slots:
            wanted.setdefault(partitioning, {})[group] = slot
    for partitioning, owners in wanted.items():
        placement = placement.move(partitioning, owners)
    return placement


def spread(decision: SpreadGroup | DrawTogether, plan: PhysicalPlan, placement: Placement) -> Placement:
    """With a group spread, or drawn together, as far as it and its slots are there."""
    partitioning = plan.operators[decision.operator].partitioning
    if decision.group >= placement.of(partitioning).groups:
        return placement
    if isinstance(decision, DrawTogether):
        return placement.draw_together(partitioning, decision.group)
    slots = [slot for slot in decision.slots if slot < placement.slots]
    if len(slots) < 2:
        return placement
    return placement.spread(partitioning, decision.group, decision.alias, slots)


def cool_aggregates(plan: PhysicalPlan, manifest: Manifest) -> Iterable[CoolGroups]:
    """Updates that make all that a group-by keeps cold."""
    if plan.grouped is not None:
        for segment in manifest.segments.active(plan.grouped.name).entries.values():
            yield CoolGroups(segment.id, segment.state, segment.groups)


def close(
    groups: Iterable[GroupKey], plan: PhysicalPlan, manifest: Manifest, ledgers: Ledgers
) -> Iterable[CloseGroups]:
    """Updates that close the live generations of those of `groups` that have rows in them, as one for each operator."""
    wanted: dict[OperatorName, set[int]] = {}
    for operator, group in groups:
        wanted.setdefault(operator, set()).add(group)
    for operator, numbers in wanted.items():
        ledger = ledgers.at(manifest)[operator]
        live = ledger.live
        if live is None:
            continue
        chosen = np.zeros(ledger.groups, dtype=bool)
        chosen[list(numbers)] = True
        chosen &= live.there
        if chosen.any():
            states = plan.operators[operator].states
            yield CloseGroups(operator, states, as_ranges(chosen), next_generation(manifest.segments, states))
