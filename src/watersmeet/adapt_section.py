"""The section `[adapt]` of a job file: the plan, what stays in memory, and whether and how both change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from watersmeet.errors import JobError
from watersmeet.model.quantities import parse_bytes, parse_duration
from watersmeet.model.smoothing import SMOOTHINGS
from watersmeet.optimize.allocate import WAYS
from watersmeet.plan.ring_ways import WAYS as RING_WAYS
from watersmeet.plan.ring_ways import RingWay
from watersmeet.sections import Section
from watersmeet.settings.adapt import DEFAULT_POLICY, MERGE_POLICIES, SPILL, AdaptSettings
from watersmeet.settings.balance import BALANCE, BALANCE_BY, BalanceSettings
from watersmeet.settings.forced_step import ForcedStep, parse_step
from watersmeet.settings.replan import BY, REPLAN, REPLAN_SCOPES, ReplanSettings
from watersmeet.settings.ring import RELOCATE, RING_ADAPT, RingSettings, read_ring_slots
from watersmeet.settings.scale import SCALE, ScaleSettings
from watersmeet.settings.words import AUTO, OFF


@dataclass(frozen=True)
class AdaptConfig:
    """`[adapt]`: the plan to run (see `optimize/choose.py`), and what to do about memory (`adapt/settings.py`)."""

    plan: str = "auto"
    spill: str = DEFAULT_POLICY
    spill_at: float = 1.0
    spill_share: float | None = None
    merge: str = MERGE_POLICIES[0]
    smoothing: str = SMOOTHINGS[0].name
    force: tuple[ForcedStep, ...] = ()
    replan: ReplanSettings = ReplanSettings(AUTO)  # noqa: RUF009 - frozen
    balance: BalanceSettings = BalanceSettings()  # noqa: RUF009 - frozen
    scale: ScaleSettings = ScaleSettings()  # noqa: RUF009 - frozen
    ring: RingSettings = RingSettings()  # noqa: RUF009 - frozen
    ring_way: RingWay = RingWay()  # noqa: RUF009 - frozen

    def memory(
        self,
        budget_bytes: int | None,
        slot_bytes: int | None = None,
        weights: tuple[float, ...] = (),
        by_cpu: bool = False,
    ) -> AdaptSettings:
        return AdaptSettings(
            budget_bytes,
            self.spill,
            self.spill_at,
            self.spill_share,
            self.merge,
            self.smoothing,
            self.force,
            self.replan.for_plan(self.plan),
            replace(self.balance, weights=weights, by_cpu=by_cpu),
            slot_bytes,
            self.scale,
            self.ring,
        )


def read_adapt(data: Mapping[str, Any]) -> AdaptConfig:
    """What the section says, checked."""
    section = Section("adapt", data)
    plan = section.text_or("plan", AdaptConfig.plan)
    share = section.get("spill_share", (int, float))
    adapt = AdaptConfig(
        # To switch the plan off leaves the choice at the start.
        plan=AdaptConfig.plan if plan == OFF else plan,
        spill=section.choice("spill", SPILL, AdaptConfig.spill),
        spill_at=float(at) if (at := section.get("spill_at", (int, float))) is not None else AdaptConfig.spill_at,
        spill_share=None if share is None else float(share),
        merge=section.choice("merge", MERGE_POLICIES, AdaptConfig.merge),
        smoothing=_read_smoothing(section),
        force=tuple(parse_step(entry) for entry in _steps(section)),
        replan=_read_replan(section),
        balance=_read_balance(section),
        scale=_read_scale(section),
        ring=_read_ring(section),
        ring_way=_read_ring_way(section),
    )
    adapt.memory(None)  # checks itself
    return adapt


def _read_ring_way(section: Section) -> RingWay:
    segment = section.text("ring_segment")
    return RingWay(
        section.choice("ring", RING_WAYS, RingWay.name),
        None if segment is None else parse_duration(segment, "ring_segment"),
        section.get("ring_copies", (int,)),
    )


def _read_balance(section: Section) -> BalanceSettings:
    every, threshold = section.get("balance_every", (int,)), section.get("balance_threshold", (int, float))
    span, least = section.text("balance_span"), section.get("balance_least", (str, int))
    rates = section.get("balance_rates", (int, float))
    return BalanceSettings(
        policy=section.choice("balance", BALANCE, BalanceSettings.policy),
        threshold=BalanceSettings.threshold if threshold is None else float(threshold),
        every=BalanceSettings.every if every is None else every,
        span=BalanceSettings.span if span is None else parse_duration(span, "balance_span"),
        least_bytes=None if least is None else parse_bytes(least, "balance_least"),
        rates=BalanceSettings.rates if rates is None else float(rates),
        allocate=section.choice("allocate", WAYS, BalanceSettings.allocate),
        by=section.choice("balance_by", BALANCE_BY, BalanceSettings.by),
    )


def _read_scale(section: Section) -> ScaleSettings:
    seconds, bounds = section.get("scale_seconds", (int, float)), section.get("scale_slots", (list,))
    given = [ScaleSettings.least, ScaleSettings.most] if bounds is None else bounds
    return ScaleSettings(
        section.choice("scale", SCALE, ScaleSettings.policy),
        *check_scale_slots(given),
        None if seconds is None else float(seconds),
    )


def _read_ring(section: Section) -> RingSettings:
    seconds, slots = section.get("ring_seconds", (int, float)), section.get("ring_slots", (int, str))
    return RingSettings(
        read_ring_slots(AUTO if slots is None else slots),
        section.choice("ring_adapt", RING_ADAPT, RingSettings.policy),
        section.choice("ring_relocate", RELOCATE, RingSettings.relocate),
        None if seconds is None else float(seconds),
        section.get("max_candidates", (int,)),
    )


def check_scale_slots(given: Sequence[Any]) -> tuple[int, int]:
    """The fewest and the most slots, as users write them."""
    if len(given) != 2 or not all(isinstance(entry, int) and not isinstance(entry, bool) for entry in given):
        raise JobError(
            f'"scale_slots" is {list(given)!r}',
            detail="It is a list of two numbers, the fewest and the most slots, such as [1, 8].",
        )
    return given[0], given[1]


def _read_replan(section: Section) -> ReplanSettings:
    every, threshold = section.get("replan_every", (int,)), section.get("replan_threshold", (int, float))
    quota = section.get("replan_quota", (int, float))
    return ReplanSettings(
        trigger=section.choice("replan", REPLAN, AUTO if section.text_or("plan", AUTO) != OFF else OFF),
        every=ReplanSettings.every if every is None else every,
        threshold=ReplanSettings.threshold if threshold is None else float(threshold),
        by=section.choice("migrate", BY, ReplanSettings.by),
        quota=ReplanSettings.quota if quota is None else float(quota),
        scope=section.choice("replan_scope", REPLAN_SCOPES, ReplanSettings.scope),
    )


def _read_smoothing(section: Section) -> str:
    """`smoothing`, or `upkeep` as it was called before."""
    known = [method.name for method in SMOOTHINGS]
    return section.choice("smoothing", known, section.choice("upkeep", known, AdaptConfig.smoothing))


def _steps(section: Section) -> list[dict[str, Any]]:
    entries = section.get("force", (list,)) or []
    for entry in entries:
        if not isinstance(entry, dict):
            raise JobError(
                '"force" in [adapt] is not a list of sections', hint="Begin each entry with [[adapt.force]]."
            )
    return list(entries)
