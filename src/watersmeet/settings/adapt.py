"""The section `[adapt]`: the plan, what stays in memory, and whether and how both change while a query runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from watersmeet.model.smoothing import SMOOTHINGS
from watersmeet.plan.ring_ways import WAYS as RING_WAYS
from watersmeet.plan.ring_ways import RingWay
from watersmeet.settings.balance import BALANCE_WITHIN_LIMITS, BalanceSettings
from watersmeet.settings.declaration import Checked, setting
from watersmeet.settings.forced_step import ForcedStep, Steps
from watersmeet.settings.kinds import Duration, Number, OneOf, Text, Whole
from watersmeet.settings.replan import ReplanSettings
from watersmeet.settings.ring import RingSettings
from watersmeet.settings.scale import ScaleSettings
from watersmeet.settings.words import AUTO, OFF

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
_SHARE = Number("It is a share: above 0 and at most 1.", above=0, most=1)


@dataclass(frozen=True)
class AdaptSettings(Checked):
    """What a run may change about itself, and when.

    `budget_bytes` None is no limit. A spill begins when the active state passes `spill_at` of the budget. `slot_bytes`
    is a limit for each slot: a spill takes from the slot that is over.
    """

    budget_bytes: int | None = None
    spill: str = setting(
        OneOf(SPILL, called="spill policy"),
        DEFAULT_POLICY,
        "Which groups go cold when the state outgrows `memory`.",
        more="Those that earn the least by `global-output-penalty` (final results per byte held here and above), "
        "`global-output`, `local-output`, `bottom-up`, `inactive-or-unproductive` or `adaptive-global-flush`; to "
        "compare with, `random`, `largest`, `high-output-first`, `hash-merge`, `rate-based`. `off` spills nothing.",
    )
    spill_at: float = setting(_SHARE, 1.0, "The share of `memory` at which a spill begins.")
    spill_share: float | None = setting(
        _SHARE,
        None,
        "The share of the active state that one spill takes.",
        unset="`0.3`; `0.05` with `adaptive-global-flush`",
    )
    merge: str = setting(
        OneOf(("state-manager", OFF), called="merge policy"),
        "state-manager",
        "When cold groups are merged.",
        more="`state-manager`: while the query runs, where that gives more results than memory does, and where rows "
        "have outlived their windows. `off`: all of them at the end.",
    )
    smoothing: str = setting(
        OneOf(tuple(method.name for method in SMOOTHINGS)),
        SMOOTHINGS[0].name,
        "How the recent figures of groups are kept.",
        more="`ewma`, `average` (of five batches) or `recent`.",
        former="upkeep",
    )
    forced: tuple[ForcedStep, ...] = setting(
        Steps(),
        (),
        "Steps that are forced at a batch, for tests and experiments.",
        name="force",
        more="In a job file as sections `[[adapt.force]]`, elsewhere a list of dicts: [forced steps](#forced-steps).",
        unset="none",
    )
    replan: ReplanSettings = ReplanSettings()  # noqa: RUF009 - frozen
    balance: BalanceSettings = BalanceSettings()  # noqa: RUF009 - frozen
    slot_bytes: int | None = None
    scale: ScaleSettings = ScaleSettings()  # noqa: RUF009 - frozen
    ring: RingSettings = RingSettings()  # noqa: RUF009 - frozen

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


@dataclass(frozen=True)
class AdaptSection(Checked):
    """`[adapt]`: the plan to begin with (see `optimize/choose.py`), and what a run may change."""

    plan: str = setting(
        Text(),
        AUTO,
        "The shape of the plan that a run begins with.",
        more="`auto`, `mjoin` (one join over all inputs, without intermediate state), `left-deep` (two at a time, in "
        "the "
        'order of the text), a tree of the query\'s aliases such as `"((A B) C)"`, with filters '
        "[above its joins](#where-filters-stand) if need be, or a strategy of the optimiser: `mjoin-init`, "
        "`bjtree-init`, `exhaustive`. `off` is `auto` without `replan`. For a checkpoint that has another plan, see "
        "[below](#another-plan).",
    )
    ring: str = setting(
        OneOf(RING_WAYS),
        RingWay.name,
        "How a join without an equality is spread over slots.",
        more="`psp`: in slices of time, each row once; to compare with, `atr` and `ctr`, which keep rows more than "
        "once. `auto` is `psp` where a checkpoint is new, and otherwise the way of the checkpoint. See "
        "[below](#how-a-ring-is-spread).",
    )
    ring_segment: timedelta | None = setting(
        Duration(),
        None,
        'With `ring = "atr"`, how long the segments of the master are.',
        more='Example: `"50 seconds"`.',
        unset="the widest window",
    )
    ring_copies: int | None = setting(
        Whole(least=None),
        None,
        'With `ring = "ctr"`, how often each row is kept.',
        more="At most as often as there are slots that the ring lies over.",
        unset="`2`",
    )
    max_candidates: int | None = setting(
        Whole("It is how many pairs of rows a task may compare in a batch, from 1 up."),
        None,
        "How many pairs a task may compare in a batch where no equality says which.",
        more="A batch that would take more stops the run before it compares them, with exit code 2 and nothing lost: "
        "it is done with the next start that allows it.",
        unset="unlimited",
    )
    settings: AdaptSettings = AdaptSettings()

    @property
    def ring_way(self) -> RingWay:
        return RingWay(self.ring, self.ring_segment, self.ring_copies)
