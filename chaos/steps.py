"""Entries of `[[adapt.force]]`: as they are drawn, and as a run gets them.

What a step names must be there when a run begins, and a plan may be another at the next start, groups may have been cut
and slots have come and gone. So groups and slots are drawn as shares of those that there are, and are given their names
before each run, as its user would see them then. Beside a change of the plan that is still to come, or is under way,
whose operators have other names, the number of slots alone is changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.config import Job
from watersmeet.lang.binder import bind
from watersmeet.model.ids import Label, Partitioning
from watersmeet.model.placement import Placement
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import spec_of
from watersmeet.plan.tree import choose_tree
from watersmeet.start.choosing import asked_plan
from watersmeet.state.manifest import Manifest


@dataclass(frozen=True)
class Step:
    """What is forced before a batch.

    >>> Step(5, {"slots": 3, "move": ["J1:2->1"]}).toml
    '{at_batch = 5, slots = 3, move = ["J1:2->1"]}'
    """

    at_batch: int
    values: Mapping[str, Any]

    @property
    def toml(self) -> str:
        entries = {"at_batch": self.at_batch, **self.values}
        return "{" + ", ".join(f"{name} = {json.dumps(value)}" for name, value in entries.items()) + "}"


@dataclass(frozen=True)
class Picked:
    """A group of an operator, and a slot for it: as shares of those that there are."""

    operator: float
    group: float
    slot: float = 0.0


@dataclass(frozen=True)
class Placed:
    """Other slots before a batch, and groups that are moved and cut."""

    at_batch: int
    slots: int | None = None
    moves: tuple[Picked, ...] = ()
    cut: Picked | None = None


def name_steps(placed: Sequence[Placed], forced: Sequence[Step], job: Job, manifest: Manifest) -> Iterator[Step]:
    """Those of `placed` that are still to come, for a run that begins now and is forced to this too."""
    coming = sorted((step for step in placed if step.at_batch > manifest.last_batch), key=lambda step: step.at_batch)
    if manifest.warming_up is not None or any(step.at_batch > manifest.last_batch for step in forced):
        yield from (Step(step.at_batch, {"slots": step.slots}) for step in coming if step.slots is not None)
        return
    plan = _plan_of(bind(job.query, job.streams()), job, manifest)
    placement = manifest.placement.asking(job.run.slots)
    for step in coming:
        values: dict[str, Any] = {}
        if step.cut is not None and plan.labels:
            label, partitioning, group = _named(step.cut, plan, placement)
            middle = placement.of(partitioning).bounds.middle(group)
            if middle is not None:
                placement = placement.cut(partitioning, group, middle)
                values["cut"] = [f"{label}:{group}"]
        if step.slots is not None:
            placement = placement.rescale(step.slots)
            values["slots"] = step.slots
        moves: dict[tuple[Partitioning, int], str] = {}
        for picked in step.moves if plan.labels else ():
            label, partitioning, group = _named(picked, plan, placement)
            moves.setdefault((partitioning, group), f"{label}:{group}->{int(picked.slot * placement.slots)}")
        if moves:
            values["move"] = list(moves.values())
        if values:
            yield Step(step.at_batch, values)


def _named(picked: Picked, plan: PhysicalPlan, placement: Placement) -> tuple[Label, Partitioning, int]:
    labels = sorted(plan.labels)
    label = labels[int(picked.operator * len(labels))]
    partitioning = plan.operators[plan.labels[label]].partitioning
    return label, partitioning, int(picked.group * placement.of(partitioning).groups)


def _plan_of(query: Query, job: Job, manifest: Manifest) -> PhysicalPlan:
    """That the run will have by its first batch."""
    asked = asked_plan(query, job.settings.plan, manifest)
    spec = manifest.answering.spec if asked is None else spec_of(query, choose_tree(query, asked))
    return lay_out_spec(query, spec)
