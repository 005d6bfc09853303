"""Where the work runs is changed: other slots, groups that move and are cut, at batches that the job file names.

What a step names must be there when a run begins, so that groups are drawn as shares of those that there are then. Next
to a change of the plan that is still to come, whose operators have other names, the number of slots alone is changed.
Policies that do all of this by themselves are settings of a restart (`ordinary.CHOICES`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from chaos.ground import Ground, Step
from chaos.mortal import Blow
from chaos.shapes import Shape
from chaos.world import World
from watersmeet.config import Job
from watersmeet.lang.binder import bind
from watersmeet.model.placement import Placement
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import spec_of
from watersmeet.plan.tree import choose_tree
from watersmeet.runtime.opening import settings_of
from watersmeet.runtime.planning import asked_plan
from watersmeet.state.manifest import Manifest

SLOTS = (1, 2, 3, 4)
BATCHES = 4
# Around the commits that change placement, and those next to them.
POINTS = ("before-spill", "after-spill", "before-commit", "in-commit", "after-commit")


@dataclass(frozen=True)
class Picked:
    """A group of an operator, and a slot for it: as shares of those that there are."""

    operator: float
    group: float
    slot: float = 0.0


@dataclass(frozen=True)
class Placed:
    """A step: after so many batches, other slots, and groups that are moved and cut."""

    after: int
    slots: int | None = None
    moves: tuple[Picked, ...] = ()
    cut: Picked | None = None


@dataclass(frozen=True)
class ForcePlacement:
    """The next run has other slots and owners, after so many batches, beside what else it is forced to."""

    steps: tuple[Placed, ...]
    running: ClassVar[bool] = False

    def apply(self, world: Ground) -> str:
        versions = world.versions()
        first = world.next_batch
        plans = tuple(step for step in world.settings.forced if "plan" in step.values and step.at_batch >= first)
        steps = tuple(_slots_alone(self.steps, first))
        if not plans and versions:
            steps = tuple(_resolve(self.steps, first, world.job(), versions[-1]))
        world.settings = replace(world.settings, forced=(*plans, *steps))
        return "forced"


@dataclass(frozen=True)
class DiePlacing:
    """A run changes its placement, and dies at a point of that, or close to it."""

    change: ForcePlacement
    point: str
    nth: int
    running: ClassVar[bool] = False

    def apply(self, world: World) -> str:
        world.settings = replace(world.settings, max_files=1)
        self.change.apply(world)
        for _ in range(BATCHES):
            world.arrive()
        world.try_fault(f"dies {self.point}, placing", Blow(self.nth, self.point))
        return world.run_to_end()


def _slots_alone(steps: tuple[Placed, ...], first: int) -> Iterator[Step]:
    return (Step(first + step.after, {"slots": step.slots}) for step in steps if step.slots is not None)


def _resolve(steps: tuple[Placed, ...], first: int, job: Job, manifest: Manifest) -> Iterator[Step]:
    """With the names of groups that there are by then, as far as steps alone decide it."""
    plan = _plan_of(bind(job.query, job.streams()), job, manifest)
    placement = manifest.placement
    if job.run.slots != placement.asked_slots:
        placement = placement.evenly(job.run.slots)
    labels = sorted(plan.labels)
    for step in steps:
        values: dict[str, Any] = {}
        if step.cut is not None and labels:
            label, partitioning, group = _named(step.cut, labels, plan, placement)
            middle = placement.of(partitioning).bounds.middle(group)
            if middle is not None:
                placement = placement.cut(partitioning, group, middle)
                values["cut"] = [f"{label}:{group}"]
        if step.slots is not None:
            placement = placement.rescale(step.slots)
            values["slots"] = step.slots
        moves: dict[tuple[str, int], str] = {}
        for picked in step.moves if labels else ():
            label, partitioning, group = _named(picked, labels, plan, placement)
            moves.setdefault((partitioning, group), f"{label}:{group}->{int(picked.slot * placement.slots)}")
        if moves:
            values["move"] = list(moves.values())
        if values:
            yield Step(first + step.after, values)


def _named(picked: Picked, labels: list[Any], plan: PhysicalPlan, placement: Placement) -> tuple[str, Any, int]:
    label = labels[int(picked.operator * len(labels))]
    partitioning = plan.operators[plan.labels[label]].partitioning
    return label, partitioning, int(picked.group * placement.of(partitioning).groups)


def _plan_of(query: Query, job: Job, manifest: Manifest) -> PhysicalPlan:
    """That the run will have by its first batch."""
    asked = asked_plan(query, settings_of(job).plan, manifest)
    spec = manifest.answering.spec if asked is None else spec_of(query, choose_tree(query, asked))
    return lay_out_spec(query, spec)


def draw_force_placement(draw: random.Random, shape: Shape) -> ForcePlacement:
    return ForcePlacement(tuple(_draw_step(draw, after) for after in sorted(draw.sample(range(6), 3))))


def draw_die_placing(draw: random.Random, shape: Shape) -> DiePlacing:
    first = replace(_draw_step(draw, 0), slots=draw.choice(SLOTS))
    return DiePlacing(ForcePlacement((first, _draw_step(draw, 1))), draw.choice(POINTS), draw.choice((1, 1, 2)))


def _draw_step(draw: random.Random, after: int) -> Placed:
    slots = draw.choice((None, None, *SLOTS))
    moves = tuple(Picked(draw.random(), draw.random(), draw.random()) for _ in range(draw.choice((0, 1, 3))))
    return Placed(after, slots, moves, Picked(draw.random(), draw.random()) if draw.random() < 0.15 else None)
