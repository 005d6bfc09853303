"""Whether the steps of `[[adapt.force]]` can be taken when their batches come, as far as that is known beforehand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from watersmeet.adapt.policies.force_steps import (
    can_move,
    group_keys,
    has_group,
    is_changed,
    is_cut,
    move_title,
    single_moves,
)
from watersmeet.adapt.policies.migrate import check_road
from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.bounds import NARROWEST
from watersmeet.model.ids import OperatorName, Partitioning
from watersmeet.model.placement import Placement, check_slots
from watersmeet.model.routing import groups_text, intersect_ranges
from watersmeet.optimize.strategies import STRATEGIES
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.layout.shapes import check_groups
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import spec_of, way_of
from watersmeet.plan.spreading import dealt_inputs
from watersmeet.plan.tree import choose_tree
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.forced_step import ForcedStep, LabelledGroup, LabelledMove, LabelledSpread
from watersmeet.state.manifest import Manifest, Track
from watersmeet.state.shapes import plan_of, with_shape


def check_steps(
    settings: AdaptSettings, plan: PhysicalPlan, manifest: Manifest, note: Callable[[str], None] | None = None
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
        if note is None or not manifest.has_decided:
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
    lengths = sorted({step.ring for step in together if step.ring is not None})
    if len(lengths) > 1:
        raise JobError(
            f"[[adapt.force]] asks for rings of {lengths[0]} and of {lengths[1]} slots before batch "
            f"{together[0].at_batch}"
        )
    if lengths and len(query.parts) < 2:
        raise JobError(
            "[[adapt.force]] resizes a ring, and the query has none",
            detail="A ring joins inputs that no equality connects, and equalities connect all of these.",
            hint='Leave "ring" out; "slots" is for how many slots all joins run in.',
        )


def _check_fit(steps: Sequence[Sequence[ForcedStep]], plan: PhysicalPlan, manifest: Manifest) -> None:
    """Refuse what does not fit the plan, the groups and the slots that there will be: of steps by batch."""
    placement, tracks = manifest.placement, manifest.shapes
    for index, together in enumerate(steps):
        changes = [step for step in together if step.plan is not None]
        if not any(is_changed(step, manifest.taken) for step in changes):
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
        _check_ring(together, placement)
        if not plan.has_ring and any(step.ring is not None for step in together):
            batch = together[0].at_batch
            raise JobError(
                f"[[adapt.force]] resizes a ring before batch {batch}, and the plan {plan.tree} has none",
                detail='Where ring = "atr" rows lie in segments, which are placed as keys are.',
                hint='Leave "ring" out, or move groups of "segment".',
            )
        moves = [move for step in together for move in step.move]
        _check_named([named for step in together for named in step.named], plan, placement)
        for move in moves:
            _check_moved(move, plan, placement)
        _check_moves(moves, plan, placement)
        _check_spreads([entry for step in together for entry in step.spread], plan, placement)
        _check_spread_once(together, plan)


def _check_plans(
    steps: Sequence[ForcedStep], plan: PhysicalPlan, placement: Placement, tracks: tuple[Track, ...]
) -> tuple[Track, ...] | None:
    """The tracks after forced changes of the plan; None where an optimiser will say. Refuses groups that cannot be."""
    known = True
    for step in steps:
        assert step.plan is not None
        plans = [lay_out_spec(plan.query, track.spec) for track in tracks]
        if known := known and step.plan not in dict(STRATEGIES):
            spec = spec_of(plan.query, choose_tree(plan.query, step.plan), ring=way_of(plan.spec))
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


def _check_ring(together: Sequence[ForcedStep], placement: Placement) -> None:
    for step in together:
        if step.ring is not None and step.ring > placement.slots:
            raise JobError(
                f"[[adapt.force]] asks for a ring of {step.ring} slots before batch {step.at_batch}",
                detail=f"There are {placement.slots} slots by then.",
            )


def _check_slots_alone(steps: Iterable[Sequence[ForcedStep]], placement: Placement) -> None:
    """Refuse moves to slots that will not be there, whatever the plan is."""
    for together in steps:
        placement = _rescaled(together, placement)
        _check_ring(together, placement)
        for move in (move for step in together for move in step.move):
            _check_slot(move, placement)


def _check_slot(move: LabelledMove, placement: Placement) -> None:
    slot = move[2]
    if slot >= placement.slots:
        raise JobError(
            f'[[adapt.force]] moves "{move_title(move)}" to slot {slot}, which is not there',
            detail=f"The last one that there is by then is {placement.slots - 1}; the first is 0.",
        )


def _check_moves(moves: Iterable[LabelledMove], plan: PhysicalPlan, placement: Placement) -> None:
    owners: dict[tuple[Partitioning | None, int], int] = {}
    for move in moves:
        slot = move[2]
        _check_slot(move, placement)
        for name, group, _ in single_moves(move, plan, placement):
            other = owners.setdefault((plan.placed_on(name), group), slot)
            if other != slot:
                what = f"{plan.label(OperatorName(name))}:{group}"
                raise JobError(
                    f'[[adapt.force]] moves "{what}" to slot {slot} and to slot {other}',
                    detail="Groups of operators on one key are moved together.",
                )


def _check_moved(move: LabelledMove, plan: PhysicalPlan, placement: Placement) -> None:
    if can_move(move, plan, placement):
        return
    name, known = move[0], plan.partitionings
    placed = known.get(name, ())
    if len(placed) > 1:
        raise JobError(
            f'[[adapt.force]] moves "{move_title(move)}", and {name} is routed over several keys',
            detail=f"Each of {', '.join(placed)} has groups of its own.",
            hint=f'For example "{placed[0]}:0->1", or all of them: "{name}:*->1".',
        )
    there = placement.of(placed[0]).groups if placed else placement.groups
    raise JobError(
        f'[[adapt.force]] names "{move_title(move)}", which the plan does not have',
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


def _check_spread_once(together: Iterable[ForcedStep], plan: PhysicalPlan) -> None:
    """Refuse to have one group spread in two ways, or spread and drawn together, before one batch."""
    spread: dict[tuple[Partitioning, int], tuple[frozenset[int], str]] = {}
    for label, group, slots, alias in (entry for step in together for entry in step.spread):
        wanted = frozenset(slots), alias
        if spread.setdefault((plan.operators[plan.labels[label]].partitioning, group), wanted) != wanted:
            raise JobError(
                f'[[adapt.force]] spreads "{label}:{group}" in two ways before one batch',
                detail="Groups of operators on one key are spread together.",
            )
    for label, group in (named for step in together for named in step.draw_together):
        if (plan.operators[plan.labels[label]].partitioning, group) in spread:
            raise JobError(
                f'[[adapt.force]] spreads "{label}:{group}" and draws it together before one batch',
                detail="Groups of operators on one key are spread and drawn together as one.",
            )


def _check_named(groups: Iterable[LabelledGroup], plan: PhysicalPlan, placement: Placement) -> None:
    known = tuple(plan.labels)
    for label, group in groups:
        there = placement.groups
        if label in known:
            there = placement.of(plan.operators[plan.labels[label]].partitioning).groups
        if label not in known or not has_group(plan, placement, plan.labels[label], group):
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
    keys = [(key, step) for step in steps for key in group_keys(plan, step.cut)]
    cuts = {
        (plan.operators[operator].partitioning, group): plan.label(operator)
        for (operator, group), step in keys
        if not is_cut(operator, group, step, manifest.taken)
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
