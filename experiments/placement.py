"""The relocation experiments of [Liu05, sections 3.5, 5.2 and 6.1] as data: loads, limits on memory, contenders.

Three streams are joined by one column, in 300 groups over one to five slots, each with a limit on its own memory.
A *load* says which rows come: their rates and join ratios, which may differ by part of the hash and change with time.
A *contender* is one line of a figure: the slots, where their groups are at the start, and the policy of `balance`.

How they are brought to seconds: the clock is virtual, and rates, rows and tuple ranges are divided by `scale`. That
leaves the minutes, the tuple ranges that pass in them, the results of a row and the course of all figures as they are.

What the report leaves open, and what stands here instead:
- rates and ratios of figures 14 to 21 but for those that vary: a row every 30 ms and a tuple range of 30,000, as in its
  section 4.4; a join ratio of 3, and of 1 where the ratio of 3 would give more results than its figures have;
- bytes: a limit is a share of what the same rows take in all (`limit_share`), since ours are smaller than its objects;
- which groups go in figures 14 to 17: the largest (`relocate`);
- when its manager looks: before every batch, which takes 15 seconds of rows where the span between moves matters.

Pure; running is `placement_runs.py`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

import pyarrow as pa

from experiments.budgeted import Course, bind_streams
from experiments.parted import SCHEMA, Part, draw_stream
from watersmeet.plan.query import Query
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.words import OFF

SEED = 7
STREAMS = "ABC"
TEXT = """SELECT A.v AS a, B.v AS b, C.v AS c
FROM A [UNBOUNDED], B [UNBOUNDED], C [UNBOUNDED]
WHERE A.k = B.k AND B.k = C.k"""
SPILL = "inactive-or-unproductive"
SPILL_SHARE = 0.3

RATE = 1000 / 30  # rows a second of a stream
RANGE = 30_000
NEVER = 1 << 50  # bytes: a limit that is never reached
CROWDED = Fraction(2, 3)  # of the groups, on the first slot

RELOCATE, LAZY, ACTIVE = "relocate", "lazy-disk", "active-disk"


@dataclass(frozen=True)
class Contender:
    name: str
    policy: str = OFF
    threshold: float = 0.8
    span: int = 45  # seconds
    slots: int = 3
    crowded: bool = False  # two thirds of the groups are on the first slot

    def memory(self, limit_bytes: int | None) -> AdaptSettings:
        """Nothing is merged before the clean-up, as in the report. Without a limit, memory is levelled at once."""
        least = 1 if limit_bytes is None else None
        span = timedelta(seconds=self.span)
        balance = BalanceSettings(self.policy, self.threshold, every=1, span=span, least_bytes=least)
        slot_bytes = NEVER if limit_bytes is None else limit_bytes
        return AdaptSettings(None, SPILL, spill_share=SPILL_SHARE, merge=OFF, balance=balance, slot_bytes=slot_bytes)

    def owners(self, groups: int) -> tuple[int, ...]:
        """
        >>> Contender("", slots=3, crowded=True).owners(6)
        (0, 0, 0, 0, 1, 2)
        """
        return crowded(groups, self.slots) if self.crowded else ()


def crowded(groups: int, slots: int) -> tuple[int, ...]:
    """Two thirds of the groups on the first slot, and the others spread evenly over the rest."""
    first = int(groups * CROWDED)
    return (*[0] * first, *(1 + (slots - 1) * place // (groups - first) for place in range(groups - first)))


@dataclass(frozen=True)
class Setting:
    """Rows, a limit for each slot, and who competes under it."""

    name: str
    figures: str  # of the report
    minutes: int
    batch_seconds: float
    groups: int
    parts: tuple[Part, ...]
    contenders: tuple[Contender, ...]
    limit_share: float | None = None  # of what all rows take in the end; None: no limit

    @property
    def query(self) -> Query:
        return bind_streams(TEXT, dict.fromkeys(STREAMS, SCHEMA))

    def course(self, contender: Contender) -> Course:
        owners = contender.owners(self.groups)
        return Course("mjoin", self.batch_seconds, contender.slots, self.groups, owners=owners)

    def rows(self) -> dict[str, pa.RecordBatch]:
        return {name: draw_stream(name, self.parts, self.minutes * 60, SEED) for name in STREAMS}


@dataclass(frozen=True)
class Extent:
    """How large the experiment is made."""

    scale: int  # rates and tuple ranges are those of the report over this
    batch_seconds: float  # of all but the alternating load
    groups: int
    thresholds: tuple[float, ...]
    spans: tuple[int, ...]
    alternating_minutes: int = 60


FULL = Extent(5, 30.0, 300, (0.5, 0.6, 0.7, 0.8, 0.9), (15, 30, 45))
QUICK = Extent(50, 120.0, 60, (0.5, 0.9), (15, 45))

ALTERNATING_BATCH = 15.0  # seconds
ALTERNATING_THRESHOLD = 0.9
ALTERNATING_SPAN = 45


def even(rate: float, range_rows: int, ratio: int) -> tuple[Part, ...]:
    """All of the hash alike."""
    return (Part(Fraction(1), _multiple(range_rows, ratio), ratio, ((0.0, rate),)),)


def _multiple(rows: float, ratio: int) -> int:
    """The rows, made a multiple of the ratio."""
    return max(1, round(rows / ratio)) * ratio


def alternating(rate: float, range_rows: float, minutes: int) -> tuple[Part, ...]:
    """The groups of one slot get ten times the rows of the other's for 5 minutes, then these for 10, and so on."""
    changes = [0, *range(5, minutes, 10)]
    parts = []
    for half in range(2):
        rates = [(60.0 * minute, rate * (10 if place % 2 == half else 1) / 11) for place, minute in enumerate(changes)]
        parts.append(Part(Fraction(1, 2), _multiple(range_rows / 2, 1), 1, tuple(rates)))
    return tuple(parts)


def rich_and_poor(rate: float, range_rows: float, ratios: Sequence[int]) -> tuple[Part, ...]:
    """As many rows in each part, of which those of a higher join ratio have fewer values."""
    share = Fraction(1, len(ratios))
    return tuple(
        Part(share, _multiple(range_rows / len(ratios), ratio), ratio, ((0.0, rate / len(ratios)),)) for ratio in ratios
    )


# --- the figures -----------------------------------------------------------------------------------------------------


def machines(extent: Extent) -> Setting:
    """Figure 7: a row every 10 ms, tuple range 50,000, join ratio 2; a slot holds what comes in 25 of 40 minutes."""
    names = tuple(Contender(f"{slots} slot{'s' * (slots > 1)}", slots=slots) for slots in (1, 2, 4, 5))
    return Setting(
        "machines",
        "7",
        40,
        extent.batch_seconds,
        extent.groups,
        even(100 / extent.scale, 50_000 // extent.scale, 2),
        (
            *names,
            Contender(UNEVEN, slots=2, crowded=True),
            Contender(UNEVEN_MOVED, RELOCATE, slots=2, crowded=True),
        ),
        25 / 40,
    )


UNEVEN, UNEVEN_MOVED = "2 slots, uneven", "2 slots, uneven, relocate"


def level(threshold: float, span: int) -> Contender:
    return Contender(f"{threshold:.0%}, {span} s", RELOCATE, threshold, span, slots=2)


STILL = Contender("no relocation", slots=2)


def alternation(extent: Extent) -> Setting:
    """Figures 14 to 16: memory is large enough, and the load alternates between two slots."""
    by_threshold = [level(threshold, ALTERNATING_SPAN) for threshold in extent.thresholds]
    by_span = [level(ALTERNATING_THRESHOLD, span) for span in extent.spans]
    return Setting(
        "alternating",
        "14 to 16",
        extent.alternating_minutes,
        ALTERNATING_BATCH,
        extent.groups,
        alternating(RATE / extent.scale, RANGE / extent.scale, extent.alternating_minutes),
        (STILL, *dict.fromkeys((*by_threshold, *by_span))),
    )


NO_RELOCATION = Contender("no relocation", crowded=True)
RELOCATION = Contender("relocate", RELOCATE, crowded=True)
LAZY_DISK = Contender(LAZY, LAZY, crowded=True)


def uneven(extent: Extent) -> Setting:
    """Figure 17: what all slots may hold is enough; the crowded one is full after 40 minutes."""
    return Setting(
        "uneven",
        "17",
        60,
        extent.batch_seconds,
        extent.groups,
        even(RATE / extent.scale, RANGE // extent.scale, 3),
        (NO_RELOCATION, RELOCATION),
        float(CROWDED) * 40 / 60,
    )


def short(extent: Extent) -> Setting:
    """Figure 20: it is not enough, but for the two slots that have little."""
    return Setting(
        "short",
        "20",
        60,
        extent.batch_seconds,
        extent.groups,
        even(RATE / extent.scale, RANGE // extent.scale, 3),
        (NO_RELOCATION, LAZY_DISK),
        1 / 4,
    )


HOURS = 6
HOURS_SCALE = 6  # beyond that of the others: as many rows as in one hour of theirs


def very_short(extent: Extent) -> Setting:
    """Section 6.1: six hours, and no slot holds what comes to it."""
    scale = extent.scale * HOURS_SCALE
    return Setting(
        "very short",
        "20",
        HOURS * 60,
        extent.batch_seconds * HOURS,
        extent.groups,
        even(RATE / scale, RANGE // scale, 1),
        (NO_RELOCATION, LAZY_DISK),
        1 / 12,
    )


EVEN_LAZY, EVEN_ACTIVE = Contender(LAZY, LAZY), Contender(ACTIVE, ACTIVE)


def productive(extent: Extent) -> Setting:
    """Figure 21: the groups of the first slot have a join ratio of 4, the others of 1; half of the rows fit."""
    return Setting(
        "productive",
        "21",
        60,
        extent.batch_seconds,
        extent.groups,
        rich_and_poor(RATE / extent.scale, RANGE / extent.scale, (4, 1, 1)),
        (EVEN_LAZY, EVEN_ACTIVE),
        1 / 6,
    )


def settings(extent: Extent) -> tuple[Setting, ...]:
    return tuple(make(extent) for make in (machines, alternation, uneven, short, very_short, productive))


# --- what looking costs ----------------------------------------------------------------------------------------------


def level_loads(extent: Extent) -> tuple[Setting, ...]:
    """Uniform keys, half of which fit, in small batches and in large ones: there is nothing to balance."""
    few, many = extent.scale, max(1, extent.scale // 10)
    return tuple(
        Setting(
            name,
            "",
            60,
            60 * 60 / batches,
            extent.groups,
            even(RATE / scale, RANGE // scale, 1),
            (Contender("two slots", slots=2),),
            1 / 2,
        )
        for name, scale, batches in (("small batches", few, 120), ("large batches", many, 20))
    )


def looking(policy: str, budget_bytes: int) -> AdaptSettings:
    """As a user has it who sets a budget and nothing else."""
    return AdaptSettings(budget_bytes, balance=BalanceSettings(policy))
