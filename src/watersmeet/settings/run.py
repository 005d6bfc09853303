"""What both runtimes are told about a run."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.model.placement import DEFAULT_GROUPS, DEFAULT_SLOTS
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.plan import PlanSettings
from watersmeet.state.retention import Retention


@dataclass(frozen=True)
class RunSettings:
    """What both runtimes are told about a run."""

    plan: PlanSettings = PlanSettings()  # noqa: RUF009 - frozen
    memory: AdaptSettings = AdaptSettings()  # noqa: RUF009 - frozen
    slots: int = DEFAULT_SLOTS
    groups: int = DEFAULT_GROUPS
    retention: Retention = Retention()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        self.plan.ring.check_slots(min(self.memory.ring.slots or self.slots, self.slots))
