"""What a run may change about itself: budgets, the policies that spill and merge, and forced steps."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.smoothing import SMOOTHINGS, find_smoothing
from watersmeet.settings.balance import BALANCE_WITHIN_LIMITS, BalanceSettings
from watersmeet.settings.forced_step import ForcedStep
from watersmeet.settings.replan import ReplanSettings
from watersmeet.settings.ring import RingSettings
from watersmeet.settings.scale import ScaleSettings
from watersmeet.settings.words import AUTO, OFF

MERGE_POLICIES = ("state-manager", OFF)
# The policies of `adapt/policies/spill/`. The first six are for use, the others to compare with.
SPILL = (
    "global-output-penalty",
    "global-output",
    "local-output",
    "bottom-up",
    "inactive-or-unproductive",
    "adaptive-global-flush",
    "random",
    "largest",
    "high-output-first",
    "hash-merge",
    "rate-based",
    OFF,
)
DEFAULT_POLICY = SPILL[0]
# Shares of the active state that one spill takes, as the papers have them.
SHARE = 0.3
FLUSH_SHARE = 0.05  # of adaptive-global-flush


@dataclass(frozen=True)
class AdaptSettings:
    """`budget_bytes` None is no limit. A spill begins when the active state passes `spill_at` of the budget.

    `slot_bytes` is a limit for each slot: a spill takes from the slot that is over.
    """

    budget_bytes: int | None = None
    spill: str = DEFAULT_POLICY
    spill_at: float = 1.0
    spill_share: float | None = None  # None: the policy's own
    merge: str = MERGE_POLICIES[0]
    smoothing: str = SMOOTHINGS[0].name
    forced: tuple[ForcedStep, ...] = ()
    replan: ReplanSettings = ReplanSettings()  # noqa: RUF009 - frozen
    balance: BalanceSettings = BalanceSettings()  # noqa: RUF009 - frozen
    slot_bytes: int | None = None
    scale: ScaleSettings = ScaleSettings()  # noqa: RUF009 - frozen
    ring: RingSettings = RingSettings()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        if self.spill not in SPILL:
            raise JobError(
                f'unknown spill policy "{self.spill}"',
                detail=f"There are {', '.join(SPILL)}.",
                hint=did_you_mean(self.spill, SPILL),
            )
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
        balanced = self.balancing != OFF
        return self.spills or balanced or any(step.spill_share is not None for step in self.forced)

    @property
    def merge_bytes(self) -> int | None:
        """What merges may take at once: the budget, or that of one slot, where all of it may be. None is no limit."""
        return self.budget_bytes if self.slot_bytes is None else self.slot_bytes

    @property
    def balancing(self) -> str:
        """The policy by which groups go to other slots, or off."""
        if self.balance.policy != AUTO:
            return self.balance.policy
        return BALANCE_WITHIN_LIMITS if self.spills else OFF

    @property
    def spills(self) -> bool:
        """Whether there is a limit, and spills keep to it."""
        return (self.budget_bytes is not None or self.slot_bytes is not None) and self.spill != OFF
