"""When the plan is looked at again while a query runs, and how it is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from watersmeet.errors import JobError, did_you_mean
from watersmeet.settings.words import AUTO, OFF

BY_QUERY, BY_SLOT = "query", "slot"
REPLAN_SCOPES = (BY_QUERY, BY_SLOT)
REPLAN = (AUTO, OFF, "data-driven", "memory-driven", "refined")
BY = (AUTO, "seeded", "moving-state", "parallel-track")  # the roads of `adapt/policies/migrate/`


@dataclass(frozen=True)
class ReplanSettings:
    """When the plan is looked at again (`policies/replan/`): for what reason, how often, and the way to another one."""

    trigger: str = OFF  # AUTO: not known before the plan is, see `for_plan`
    every: int = 10  # batches
    threshold: float = 0.2  # by which figures must have changed
    by: str = AUTO
    quota: float = 0.02  # of the time between two looks, that a search for a plan may take; 0: none is made
    scope: str = BY_QUERY  # what gets another plan: all groups together, or those of each slot by what it has measured

    def __post_init__(self) -> None:
        if self.trigger not in REPLAN:
            raise JobError(
                f'unknown replan "{self.trigger}"',
                detail=f"There are {', '.join(REPLAN)}.",
                hint=did_you_mean(self.trigger, REPLAN),
            )
        if self.scope not in REPLAN_SCOPES:
            raise JobError(
                f'unknown replan_scope "{self.scope}"',
                detail=f"There are {', '.join(REPLAN_SCOPES)}.",
                hint=did_you_mean(self.scope, REPLAN_SCOPES),
            )
        check_by(self.by)
        if self.every < 1:
            raise JobError(f'"replan_every" is {self.every}', detail="It is a number of batches, from 1.")
        if not 0 <= self.threshold <= 1:
            raise JobError(f'"replan_threshold" is {self.threshold:g}', detail="It is a share: from 0 to 1.")
        if not 0 <= self.quota <= 1:
            raise JobError(
                f'"replan_quota" is {self.quota:g}',
                detail="It is a share of the time between two looks: from 0 to 1.",
            )

    @property
    def is_by_slot(self) -> bool:
        return self.trigger != OFF and self.scope == BY_SLOT

    def for_plan(self, plan: str) -> ReplanSettings:
        """With `AUTO` made out: who leaves the choice of a plan to us leaves it to us later on as well.

        >>> ReplanSettings(AUTO).for_plan("auto").trigger, ReplanSettings(AUTO).for_plan("mjoin").trigger
        ('refined', 'off')
        """
        return replace(self, trigger="refined" if plan == AUTO else OFF) if self.trigger == AUTO else self


def check_by(by: str) -> None:
    if by not in BY:
        raise JobError(
            f'unknown way to change the plan "{by}"',
            detail=f"There are {', '.join(BY)}.",
            hint=did_you_mean(by, BY),
        )
