"""What a user has asked for by batch, whatever other policies say: the steps of `[[adapt.force]]`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from watersmeet.adapt.decisions import (
    BeginMigration,
    CannotForce,
    ChangePlan,
    CutGroup,
    Decision,
    DrawTogether,
    MergeGroup,
    MigrationAbandoned,
    Move,
    MoveGroups,
    Rescale,
    SpillGroups,
    SpreadGroup,
)
from watersmeet.adapt.effects import move as apply_moves
from watersmeet.adapt.effects import spread as apply_spread
from watersmeet.adapt.forced_step import ForcedStep, LabelledGroup, LabelledMove, LabelledSpread
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.migrate import check_road
from watersmeet.adapt.policies.spill import find_spill_policy
from watersmeet.adapt.settings import DEFAULT_POLICY, OFF, MemorySettings
from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.bounds import NARROWEST
from watersmeet.model.ids import GroupKey, OperatorName, Partitioning
from watersmeet.model.placement import Placement, check_slots
from watersmeet.model.routing import groups_text, intersect_ranges
from watersmeet.optimize.strategies import STRATEGIES
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.layout.shapes import check_groups
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import spec_of
from watersmeet.plan.spreading import dealt_inputs
from watersmeet.plan.tree import choose_tree
from watersmeet.state.manifest import Manifest, Track
from watersmeet.state.shapes import plan_of, with_shape

FORCED = "forced"  # what the reason of such a decision begins with


@dataclass(frozen=True)
class ForceSteps:
    steps: tuple[ForcedStep, ...]
    choice: str

    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.MEMORY})

    @classmethod
    def of(cls, settings: MemorySettings) -> ForceSteps:
        return cls(settings.forced, settings.spill if settings.spill != OFF else DEFAULT_POLICY)

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        steps = [step for step in self.steps if step.at_batch == outlook.next_batch]
        changes = [step for step in steps if step.plan is not None]  # one for each group at most: two are refused
        waiting = [step for step in changes if not _is_changed(step, outlook.decisions)]
        if waiting or not changes:  # groups to cut are named by the plan that is there before
            for step in steps:
                yield from _cuts(step, outlook)
        for step in waiting:
            assert step.plan is not None
            yield ChangePlan(step.plan, step.by, step.at_batch, FORCED, within=step.groups)
        if not waiting:
            slots = next((step.slots for step in steps if step.slots is not None), outlook.placement.slots)
            for step in steps:
                yield from _placed(step, slots, outlook)
                yield from self._spills_and_merges(step, outlook, () if changes else step.cut)

    def _spills_and_merges(
        self, step: ForcedStep, outlook: Outlook, cut: Sequence[LabelledGroup]
    ) -> Iterator[Decision]:
        narrow = [named for named in cut if _is_narrow(named, step, outlook)]
        if narrow:
            names = ", ".join(f"{label}:{group}" for label, group in narrow)
            yield CannotForce(step.at_batch, f"too narrow to be cut: {names}")
        unknown = [named for named in (*cut, *step.named) if not _is_there(named, outlook)]
        unmoved = [_title(move) for move in step.move if not _can_move(move, outlook.plan, outlook.placement)]
        if unknown or unmoved:
            names = ", ".join([*(f"{label}:{group}" for label, group in unknown), *unmoved])
            yield CannotForce(step.at_batch, f"the plan {outlook.plan.tree} does not have {names}")
        spilled = tuple(_keys(outlook.plan, [named for named in step.spill if named not in unknown]))
        if step.spill_share is not None:
            wanted = int(step.spill_share * outlook.active_bytes)
            chosen = find_spill_policy(self.choice)(outlook.memory, wanted)
            spilled += tuple(key for key in chosen.groups if key not in spilled)
        if spilled:
            yield SpillGroups(spilled, FORCED)
        for operator, group in _keys(outlook.plan, [named for named in step.merge if named not in unknown]):
            yield MergeGroup(operator, group, FORCED)


def _is_there(named: LabelledGroup, outlook: Outlook) -> bool:
    """Whether there is a group of this name.

    One that was promised when the run began need not be: an optimiser, or somebody by hand, may have changed the plan
    to another than was thought of, and a change of it may have come to nothing.
    """
    label, group = named
    operator = outlook.plan.labels.get(label)
    return operator is not None and _has_group(outlook.plan, outlook.placement, operator, group)


def _has_group(plan: PhysicalPlan, placement: Placement, operator: OperatorName, group: int) -> bool:
    there = placement.of(plan.operators[operator].partitioning).groups
    return group < there and plan.has_group(operator, group)


def _placed(step: ForcedStep, slots: int, outlook: Outlook) -> Iterator[Decision]:
    """Other slots and owners, as far as they are not as the step has them; there are to be so many slots."""
    plan, placement = outlook.plan, outlook.placement
    if step.slots not in (None, placement.slots):
        assert step.slots is not None
        yield Rescale(placement.slots, step.slots, step.at_batch, FORCED)
    able = [move for move in step.move if _can_move(move, plan, placement) and move[2] < slots]
    moves = tuple(single for move in able for single in _single_moves(move, plan, placement))
    if moves and (slots != placement.slots or not all(_is_owner(outlook, *move) for move in moves)):
        yield MoveGroups(moves, step.at_batch, FORCED)
    gone = [f"{_title(move)}->{move[2]}" for move in step.move if move[2] >= slots]
    gone += [
        f"{label}:{group}->{','.join(map(str, over))}" for label, group, over, _ in step.spread if max(over) >= slots
    ]
    elsewhere = [f"{entry[0]}:{entry[1]}, dealing {entry[3]}" for entry in step.spread if not _is_dealt(entry, outlook)]
    if elsewhere:
        yield CannotForce(step.at_batch, f"inputs that do not come there: {'; '.join(elsewhere)}")
    if gone:
        titles = ", ".join(gone)
        yield CannotForce(step.at_batch, f"there are {slots} slots now, the last of which is {slots - 1}: {titles}")
    before = apply_moves(moves, plan, placement if step.slots is None else placement.rescale(step.slots))
    yield from (d for d in _spreads(step, slots, outlook) if apply_spread(d, plan, before) != before)


def _spreads(step: ForcedStep, slots: int, outlook: Outlook) -> Iterator[SpreadGroup | DrawTogether]:
    labels = outlook.plan.labels
    for label, group, over, alias in step.spread:
        if max(over) < slots and _is_there((label, group), outlook) and _is_dealt((label, group, over, alias), outlook):
            yield SpreadGroup(labels[label], group, alias, over, step.at_batch, FORCED)
    for label, group in step.draw_together:
        if _is_there((label, group), outlook):
            yield DrawTogether(labels[label], group, step.at_batch, FORCED)


def _is_dealt(spread: LabelledSpread, outlook: Outlook) -> bool:
    """Whether the input that is to be dealt comes to the group, as far as that is there."""
    label, group, _, alias = spread
    if not _is_there((label, group), outlook):
        return True
    return alias in dealt_inputs(outlook.plan, outlook.plan.operators[outlook.plan.labels[label]].partitioning)


def _is_owner(outlook: Outlook, name: OperatorName | Partitioning, group: int, slot: int) -> bool:
    partitioning = outlook.plan.placed_on(name)
    assert partitioning is not None
    return outlook.placement.of(partitioning).owners[group] == slot


def _can_move(move: LabelledMove, plan: PhysicalPlan, placement: Placement) -> bool:
    """Whether what is to be moved is there. Single groups of a routed join are named by one of its keys."""
    name, groups, _ = move
    placed = plan.partitionings.get(name, ())
    if groups is None or len(placed) != 1:
        return groups is None and bool(placed)
    return groups[1] <= placement.of(placed[0]).groups


def _single_moves(move: LabelledMove, plan: PhysicalPlan, placement: Placement) -> Iterator[Move]:
    """Group by group, under the name that a manifest has for it."""
    name, groups, slot = move
    for partitioning in plan.partitionings[name]:
        for group in range(*(groups or (0, placement.of(partitioning).groups))):
            yield plan.labels.get(name, partitioning), group, slot


def _title(move: LabelledMove) -> str:
    """
    >>> _title(("J1", (3, 4), 1)), _title(("J1", (0, 10), 1)), _title(("k0", None, 1))
    ('J1:3', 'J1:0-9', 'k0:*')
    """
    name, groups, _ = move
    if groups is None:
        return f"{name}:*"
    low, high = groups
    return f"{name}:{low}" if high == low + 1 else f"{name}:{low}-{high - 1}"


def _cuts(step: ForcedStep, outlook: Outlook) -> Iterator[CutGroup]:
    """The cuts of a step that are not made yet: a cut is made once, whoever asks again or starts again."""
    for operator, group in _keys(outlook.plan, [named for named in step.cut if _is_there(named, outlook)]):
        if not _is_made(operator, group, step, outlook.decisions):
            partitioning = outlook.plan.operators[operator].partitioning
            at_hash = outlook.placement.of(partitioning).bounds.middle(group)
            if at_hash is not None:
                reason = f"forced: group {group} of {outlook.plan.label(operator)}, in the middle of its hashes"
                yield CutGroup(operator, group, partitioning, at_hash, step.at_batch, reason)


def _is_narrow(named: LabelledGroup, step: ForcedStep, outlook: Outlook) -> bool:
    """Whether a group that is to be cut cannot be: a policy has cut it since, or the plan was not known in advance."""
    label, group = named
    if not _is_there(named, outlook):
        return False
    operator = outlook.plan.labels[label]
    bounds = outlook.placement.of(outlook.plan.operators[operator].partitioning).bounds
    return bounds.middle(group) is None and not _is_made(operator, group, step, outlook.decisions)


def _is_changed(step: ForcedStep, decisions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a change of the plan was made, or tried in vain: it is tried once.

    Not whether there was another before the same batch: at the start of a run, or by hand.
    """
    kinds = (BeginMigration.__name__, ChangePlan.__name__, MigrationAbandoned.__name__)
    within = None if step.groups is None else [list(groups) for groups in step.groups]
    return any(
        entry["decision"] in kinds
        and entry.get("before_batch") == step.at_batch
        and entry.get("within") == within
        and entry["reason"].startswith(FORCED)
        for entry in decisions
    )


def _is_made(operator: OperatorName, group: int, step: ForcedStep, decisions: Sequence[Mapping[str, Any]]) -> bool:
    wanted = (CutGroup.__name__, operator, group, step.at_batch)
    names = ("decision", "operator", "group", "before_batch")
    return any(tuple(map(entry.get, names)) == wanted for entry in decisions)


def _keys(plan: PhysicalPlan, groups: Iterable[LabelledGroup]) -> Iterator[GroupKey]:
    for label, group in groups:
        yield plan.labels[label], group


def check_steps(
    settings: MemorySettings, plan: PhysicalPlan, manifest: Manifest, note: Callable[[str], None] | None = None
) -> None:
    """Refuse forced steps to come that name what the plan does not have, or will not have when they are taken.

    Once a run has decided anything, its plan, groups and slots need not be those that the steps were written for: then
    `note` is told what does not fit, and the run passes it over (`CannotForce`). What no plan could have is refused.
    """
    to_come = (step for step in settings.forced if step.at_batch > manifest.last_batch)
    batches = itertools.groupby(sorted(to_come, key=lambda step: step.at_batch), key=lambda step: step.at_batch)
    steps = [list(together) for _, together in batches]
    for together in steps:
        _check_whatever_the_plan(together, plan.query, manifest.placement.groups)
    try:
        _check_fit(steps, plan, manifest)
    except JobError as error:
        if note is None or not any(
            entry["version"] for entry in manifest.decisions
        ):  # 0 has the plan that it began with
            raise
        note(f"a forced step to come does not fit what this run has changed to, and is passed over: {error.primary}")


def _check_whatever_the_plan(together: Sequence[ForcedStep], query: Query, groups: int) -> None:
    """Refuse what cannot be in any plan of the query: of steps that are taken together."""
    changes = [step for step in together if step.plan is not None]
    for one, other in itertools.combinations(changes, 2):
        if one.groups is None or other.groups is None or intersect_ranges(one.groups, other.groups):
            raise JobError(
                f"[[adapt.force]] asks for two plans before batch {one.at_batch}",
                detail=f"They are {one.plan} and {other.plan}.",
            )
    for step in changes:
        assert step.plan is not None
        check_road(step.by, query)
        if step.plan not in dict(STRATEGIES):
            choose_tree(query, step.plan)
    wanted = sorted({step.slots for step in together if step.slots is not None})
    if len(wanted) > 1:
        raise JobError(
            f"[[adapt.force]] asks for {wanted[0]} and for {wanted[1]} slots before batch {together[0].at_batch}"
        )
    for slots in wanted:
        check_slots(slots, groups)


def _check_fit(steps: Sequence[Sequence[ForcedStep]], plan: PhysicalPlan, manifest: Manifest) -> None:
    """Refuse what does not fit the plan, the groups and the slots that there will be: of steps by batch."""
    placement, tracks = manifest.placement, manifest.shapes
    for index, together in enumerate(steps):
        changes = [step for step in together if step.plan is not None]
        if not any(_is_changed(step, manifest.decisions) for step in changes):
            _check_named([named for step in together for named in step.cut], plan, placement)
            for partitioning, group, at_hash in _cuts_of(together, plan, manifest, placement):
                placement = placement.cut(partitioning, group, at_hash)
                tracks = tuple(track.cut(group) for track in tracks)
            following = _check_plans(changes, plan, placement, tracks)
            if following is None:  # what an optimiser will find is not known, but how many slots there are is
                _check_slots_alone(steps[index:], placement)
                return
            tracks = following
            plan = plan_of(plan.query, replace(manifest, tracks=tracks))
        placement = _rescaled(together, placement)
        moves = [move for step in together for move in step.move]
        _check_named([named for step in together for named in step.named], plan, placement)
        for move in moves:
            _check_moved(move, plan, placement)
        _check_moves(moves, plan, placement)
        _check_spreads([entry for step in together for entry in step.spread], plan, placement)


def _check_plans(
    steps: Sequence[ForcedStep], plan: PhysicalPlan, placement: Placement, tracks: tuple[Track, ...]
) -> tuple[Track, ...] | None:
    """The tracks after forced changes of the plan; None where an optimiser will say. Refuses groups that cannot be."""
    known = True
    for step in steps:
        assert step.plan is not None
        plans = [lay_out_spec(plan.query, track.spec) for track in tracks]
        if known := known and step.plan not in dict(STRATEGIES):
            spec = spec_of(plan.query, choose_tree(plan.query, step.plan))
            plans.append(lay_out_spec(plan.query, spec))
        there = 0
        if step.groups is not None:
            check_groups(step.groups, plans, placement)
            there = placement.of(plans[0].stages[0].operators[0].partitioning).groups
        if known:
            tracks = with_shape(tracks, Track(spec, within=step.groups), there)
    return tracks if known else None


def _rescaled(together: Sequence[ForcedStep], placement: Placement) -> Placement:
    """With the slots that there are after these steps."""
    wanted = next((step.slots for step in together if step.slots is not None), None)
    return placement if wanted is None else placement.rescale(wanted)


def _check_slots_alone(steps: Iterable[Sequence[ForcedStep]], placement: Placement) -> None:
    """Refuse moves to slots that will not be there, whatever the plan is."""
    for together in steps:
        placement = _rescaled(together, placement)
        for move in (move for step in together for move in step.move):
            _check_slot(move, placement)


def _check_slot(move: LabelledMove, placement: Placement) -> None:
    slot = move[2]
    if slot >= placement.slots:
        raise JobError(
            f'[[adapt.force]] moves "{_title(move)}" to slot {slot}, which is not there',
            detail=f"The last one that there is by then is {placement.slots - 1}; the first is 0.",
        )


def _check_moves(moves: Iterable[LabelledMove], plan: PhysicalPlan, placement: Placement) -> None:
    owners: dict[tuple[Partitioning | None, int], int] = {}
    for move in moves:
        slot = move[2]
        _check_slot(move, placement)
        for name, group, _ in _single_moves(move, plan, placement):
            other = owners.setdefault((plan.placed_on(name), group), slot)
            if other != slot:
                what = f"{plan.label(OperatorName(name))}:{group}"
                raise JobError(
                    f'[[adapt.force]] moves "{what}" to slot {slot} and to slot {other}',
                    detail="Groups of operators on one key are moved together.",
                )


def _check_moved(move: LabelledMove, plan: PhysicalPlan, placement: Placement) -> None:
    if _can_move(move, plan, placement):
        return
    name, known = move[0], plan.partitionings
    placed = known.get(name, ())
    if len(placed) > 1:
        raise JobError(
            f'[[adapt.force]] moves "{_title(move)}", and {name} is routed over several keys',
            detail=f"Each of {', '.join(placed)} has groups of its own.",
            hint=f'For example "{placed[0]}:0->1", or all of them: "{name}:*->1".',
        )
    there = placement.of(placed[0]).groups if placed else placement.groups
    raise JobError(
        f'[[adapt.force]] names "{_title(move)}", which the plan does not have',
        detail=f"What can be moved is {', '.join(known)}, with groups 0 to {there - 1}.",
        hint=None if placed else did_you_mean(name, tuple(known)) or "`watersmeet explain` shows the operators.",
    )


def _check_spreads(spreads: Iterable[LabelledSpread], plan: PhysicalPlan, placement: Placement) -> None:
    for label, group, slots, alias in spreads:
        if max(slots) >= placement.slots:
            raise JobError(
                f'[[adapt.force]] spreads "{label}:{group}" to slot {max(slots)}, which is not there',
                detail=f"The last one that there is by then is {placement.slots - 1}; the first is 0.",
            )
        known = dealt_inputs(plan, plan.operators[plan.labels[label]].partitioning)
        if alias not in known:
            raise JobError(
                f'[[adapt.force]] spreads "{label}:{group}" dealing "{alias}", which does not come there',
                detail=f"The inputs that are joined on its key are {', '.join(known)}.",
                hint=did_you_mean(alias, known),
            )


def _check_named(groups: Iterable[LabelledGroup], plan: PhysicalPlan, placement: Placement) -> None:
    known = tuple(plan.labels)
    for label, group in groups:
        there = placement.groups
        if label in known:
            there = placement.of(plan.operators[plan.labels[label]].partitioning).groups
        if label not in known or not _has_group(plan, placement, plan.labels[label], group):
            near = None if label in known else did_you_mean(label, known)
            own = plan.within[plan.labels[label]] if label in known else None
            numbers = f"groups 0 to {there - 1}"
            raise JobError(
                f'[[adapt.force]] names "{label}:{group}", which the plan does not have',
                detail=f"Its operators are {', '.join(known) or 'none that can spill'}, with {numbers}."
                if own is None
                else f"{label} is in the shape of groups {groups_text(own)} alone.",
                hint=near or "`watersmeet explain` shows the operators; routed ones have no groups.",
            )


def _cuts_of(
    steps: Iterable[ForcedStep], plan: PhysicalPlan, manifest: Manifest, placement: Placement
) -> Iterator[tuple[Partitioning, int, int]]:
    """The groups that the steps, which are taken together, will cut, the last first, and where."""
    keys = [(key, step) for step in steps for key in _keys(plan, step.cut)]
    cuts = {
        (plan.operators[operator].partitioning, group): plan.label(operator)
        for (operator, group), step in keys
        if not _is_made(operator, group, step, manifest.decisions)
    }
    for (partitioning, group), label in sorted(cuts.items(), reverse=True):
        bounds = placement.of(partitioning).bounds
        middle = bounds.middle(group)
        if middle is None:
            raise JobError(
                f'[[adapt.force]] cuts "{label}:{group}", which is too narrow for it',
                detail=f"It has {bounds.hash_start(group + 1) - bounds.hash_start(group):,} of 2**64 hashes, "
                f"and a cut must leave {NARROWEST:,} to each half.",
            )
        yield partitioning, group, middle
