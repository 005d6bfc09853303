"""What a user asks for in the way of memory: a budget, who chooses what to spill and to merge, and forced steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.adapt.policies.migrate import AUTO, BY, find_road
from watersmeet.adapt.policies.spill import SPILL_POLICIES, find_spill_policy
from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.ids import Label
from watersmeet.model.smoothing import SMOOTHINGS, find_smoothing

OFF = "off"
MERGE_POLICIES = ("state-manager", OFF)
REPLAN = (OFF, "data-driven", "memory-driven", "refined")
DEFAULT_POLICY = SPILL_POLICIES[0][0]
# Shares of the active state that one spill takes, as the papers have them.
SHARE = 0.3
FLUSH_SHARE = 0.05  # of adaptive-global-flush
LabelledGroup = tuple[Label, int]  # a group as people name it, such as J1:17
STEP_KEYS = ("at_batch", "cut", "plan", "by", "spill", "spill_share", "merge")


@dataclass(frozen=True)
class ForcedStep:
    """Cuts, another plan, spills and merges that take place before batch `at_batch`, or in it, whatever policies say.

    Cuts come first, then the plan: the groups to spill and to merge are those that there are after both.
    """

    at_batch: int
    spill: tuple[LabelledGroup, ...] = ()
    spill_share: float | None = None
    merge: tuple[LabelledGroup, ...] = ()
    cut: tuple[LabelledGroup, ...] = ()
    plan: str | None = None
    by: str = AUTO  # the way to that plan


@dataclass(frozen=True)
class ReplanSettings:
    """When the plan is looked at again (`policies/replan/`): for what reason, how often, and the way to another one."""

    trigger: str = OFF
    every: int = 10  # batches
    threshold: float = 0.2  # by which figures must have changed
    by: str = AUTO
    quota: float = 0.02  # of the time between two looks, that a search for a plan may take; 0: none is made

    def __post_init__(self) -> None:
        if self.trigger not in REPLAN:
            raise JobError(
                f'unknown replan "{self.trigger}"',
                detail=f"There are {', '.join(REPLAN)}.",
                hint=did_you_mean(self.trigger, REPLAN),
            )
        find_road(self.by)
        if self.every < 1:
            raise JobError(f'"replan_every" is {self.every}', detail="It is a number of batches, from 1.")
        if not 0 <= self.threshold <= 1:
            raise JobError(f'"replan_threshold" is {self.threshold:g}', detail="It is a share: from 0 to 1.")
        if not 0 <= self.quota <= 1:
            raise JobError(
                f'"replan_quota" is {self.quota:g}',
                detail="It is a share of the time between two looks: from 0 to 1.",
            )


@dataclass(frozen=True)
class MemorySettings:
    """`budget_bytes` None is no limit. A spill begins when the active state passes `spill_at` of the budget."""

    budget_bytes: int | None = None
    spill: str = DEFAULT_POLICY
    spill_at: float = 1.0
    spill_share: float | None = None  # None: the policy's own
    merge: str = MERGE_POLICIES[0]
    smoothing: str = SMOOTHINGS[0].name
    forced: tuple[ForcedStep, ...] = ()
    replan: ReplanSettings = ReplanSettings()

    def __post_init__(self) -> None:
        if self.spill != OFF:
            find_spill_policy(self.spill)
        if self.merge not in MERGE_POLICIES:
            raise JobError(
                f'unknown merge policy "{self.merge}"',
                detail=f"There are {', '.join(MERGE_POLICIES)}.",
                hint=did_you_mean(self.merge, MERGE_POLICIES),
            )
        find_smoothing(self.smoothing)
        for name, value in (("spill_at", self.spill_at), ("spill_share", self.spill_share)):
            if value is not None and not 0 < value <= 1:
                raise JobError(f'"{name}" is {value:g}', detail="It is a share: above 0 and at most 1.")

    @property
    def share(self) -> float:
        """The share of the active state that one spill takes."""
        if self.spill_share is not None:
            return self.spill_share
        return FLUSH_SHARE if self.spill == "adaptive-global-flush" else SHARE

    @property
    def watched(self) -> bool:
        """Whether figures of groups are kept: a policy may have to choose by them."""
        limited = self.budget_bytes is not None and self.spill != OFF
        return limited or any(step.spill_share is not None for step in self.forced)


def parse_step(data: Mapping[str, Any]) -> ForcedStep:
    """An entry of `[[adapt.force]]`.

    >>> parse_step({"at_batch": 5, "spill": ["J1:17", "J2:3"]})
    ForcedStep(at_batch=5, spill=(('J1', 17), ('J2', 3)), spill_share=None, merge=(), cut=(), plan=None, by='auto')
    """
    for key in data:
        if key not in STEP_KEYS:
            raise JobError(
                f'unknown key "{key}" in [[adapt.force]]',
                detail=f"Its keys are {', '.join(STEP_KEYS)}.",
                hint=did_you_mean(key, STEP_KEYS),
            )
    batch = data.get("at_batch")
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 0:
        raise JobError("an entry of [[adapt.force]] has no batch", detail=f'"at_batch" is {batch!r}; the first is 0.')
    share = data.get("spill_share")
    if share is not None and (isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1):
        raise JobError(f'"spill_share" in [[adapt.force]] is {share!r}', detail="It is a share: above 0, at most 1.")
    if not data.keys() - {"at_batch", "by"}:
        raise JobError(
            f"the entry of [[adapt.force]] for batch {batch} forces nothing",
            hint=f"Give it one or more of {', '.join(key for key in STEP_KEYS if key not in ('at_batch', 'by'))}.",
        )
    plan, by = data.get("plan"), data.get("by", AUTO)
    if plan is not None and not isinstance(plan, str):
        raise JobError(f'"plan" in [[adapt.force]] is {plan!r}', detail='It is text such as "((A B) C)" or "mjoin".')
    if plan is None and "by" in data:
        raise JobError('"by" in [[adapt.force]] goes with "plan"', detail="It says how that plan is come to.")
    if not isinstance(by, str):
        raise JobError(f'"by" in [[adapt.force]] is {by!r}', detail=f"It is one of {', '.join(BY)}.")
    find_road(by)
    return ForcedStep(
        batch,
        _groups(data.get("spill", []), "spill"),
        None if share is None else float(share),
        _groups(data.get("merge", []), "merge"),
        _groups(data.get("cut", []), "cut"),
        plan,
        by,
    )


def _groups(values: Any, key: str) -> tuple[LabelledGroup, ...]:
    if not isinstance(values, list):
        raise JobError(f'"{key}" in [[adapt.force]] is {values!r}', detail='It is a list such as ["J1:17", "J2:3"].')
    return tuple(_group(value, key) for value in values)


def _group(value: Any, key: str) -> LabelledGroup:
    match = re.fullmatch(r"\s*(\w+)\s*:\s*(\d+)\s*", value) if isinstance(value, str) else None
    if match is None:
        raise JobError(
            f'"{key}" in [[adapt.force]] names {value!r}',
            detail="A group is an operator, a colon and a number.",
            hint='For example "J1:17"; `watersmeet explain` shows the operators.',
        )
    return Label(match[1]), int(match[2])
