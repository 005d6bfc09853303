"""Spills and merges that a user has asked for by batch, whatever other policies say: `[[adapt.force]]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.adapt.decisions import Decision, MergeGroup, SpillGroups
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.spill import find_spill_policy
from watersmeet.adapt.settings import DEFAULT_POLICY, OFF, ForcedStep, LabelledGroup, MemorySettings
from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.ids import GroupKey
from watersmeet.plan.physical import PhysicalPlan


@dataclass(frozen=True)
class ForceSteps:
    steps: tuple[ForcedStep, ...]
    choice: str

    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.MEMORY})

    @classmethod
    def of(cls, settings: MemorySettings, plan: PhysicalPlan) -> ForceSteps:
        return cls(settings.forced, settings.spill if settings.spill != OFF else DEFAULT_POLICY)

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        for step in self.steps:
            if step.at_batch == outlook.next_batch:
                spilled = tuple(_keys(outlook.plan, step.spill))
                if step.spill_share is not None:
                    wanted = int(step.spill_share * outlook.active_bytes)
                    chosen = find_spill_policy(self.choice)(outlook.memory, wanted)
                    spilled += tuple(key for key in chosen.groups if key not in spilled)
                if spilled:
                    yield SpillGroups(spilled, "forced")
                for operator, group in _keys(outlook.plan, step.merge):
                    yield MergeGroup(operator, group, "forced")


def _keys(plan: PhysicalPlan, groups: Iterable[LabelledGroup]) -> Iterator[GroupKey]:
    for label, group in groups:
        yield plan.labels[label], group


def check_steps(settings: MemorySettings, plan: PhysicalPlan, groups: int) -> None:
    """Refuse forced steps that name what the plan does not have."""
    known = tuple(plan.labels)
    for step in settings.forced:
        for label, group in (*step.spill, *step.merge):
            if label not in known or group >= groups:
                near = None if label in known else did_you_mean(label, known)
                raise JobError(
                    f'[[adapt.force]] names "{label}:{group}", which the plan does not have',
                    detail=f"Its operators are {', '.join(known) or 'none that can spill'}, "
                    f"with groups 0 to {groups - 1}.",
                    hint=near or "`watersmeet explain` shows the operators; routed ones cannot be spilled.",
                )
