"""The spill experiments of [Liu06, section 6] and [Liu05, section 4.4] as data: streams, queries, budgets, contenders.

[Liu06], figures 16 to 20: A, B and C are joined by their first columns, the result with D by C's second, and that with
E by D's second: "(((A B C) D) E)", in 300 groups on two slots. A row of each stream comes every 50 ms for 50 minutes.
The *join ratio* R of a value is how often it comes in every K rows, the *tuple range*; a join has an average ratio.
[Liu05], figures 9 to 12: three streams joined by one column on one machine, a row of each every 30 ms, K = 30,000.

How they are brought to seconds: the clock is virtual, and rates, rows and tuple ranges are divided by `Size.scale`.
That leaves the 50 minutes, the number of ranges that pass in them, the results of a row and the course of all figures
as they are; counts are smaller by that factor.

What the papers leave open, and what stands here instead:
- the tuple range of [Liu06]: `TREE_RANGE`, twice the rows of a stream. With it, policies spill about as often as the
  paper counts; with a quarter of it, bottom-up spills once, because nearly all state is intermediate results;
- how ratios differ by group there: a third of the groups has twice the average, the others half of it (`uneven`);
- bytes: rows are smaller here than Java objects of 2005, so 60 MB (and 200 MB) cannot simply be divided. Budgets are a
  share of what the same run keeps without one: `TREE_BUDGET`, `JOIN_BUDGET`;
- one budget is shared by the two slots, and one decision made for both, where each of the paper's machines decides.

Pure; running is `spill_runs.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from experiments.budgeted import Course, bind_streams
from watersmeet.generate.synthetic import (
    KeyColumn,
    Keys,
    Ranged,
    Share,
    StreamSpec,
    SyntheticSpec,
    Uniform,
    batches,
    ranged,
)
from watersmeet.plan.query import Query
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.words import OFF

SEED = 4
MINUTES = 50

TREE_ROWS = 60_000  # of each stream: one every 50 ms
TREE_RANGE = 120_000
TREE_BUDGET = 0.15
TREE_PLAN = "(((A B C) D) E)"
TREE_TEXT = """SELECT A.v AS a, B.v AS b, C.v AS c, D.v AS d, E.v AS e
FROM A [UNBOUNDED], B [UNBOUNDED], C [UNBOUNDED], D [UNBOUNDED], E [UNBOUNDED]
WHERE A.a1 = B.b1 AND B.b1 = C.c1 AND C.c2 = D.d1 AND D.d2 = E.e1"""

JOIN_ROWS = 100_000  # of each stream: one every 30 ms
JOIN_RANGE = 30_000
JOIN_BUDGET = 0.5
# The paper's clean-up makes 194,308 and 992,893 rows, of some 11.5 million by the data's arithmetic. One spill so late
# that 92 % of the rows have come leaves about as much owed; a tighter budget leaves far more.
LATE_BUDGET = 0.92
JOIN_PLAN = "mjoin"
JOIN_TEXT = """SELECT A.v AS a, B.v AS b, C.v AS c
FROM A [UNBOUNDED], B [UNBOUNDED], C [UNBOUNDED]
WHERE A.k = B.k AND B.k = C.k"""

NEVER = 1 << 50  # bytes: a budget that is never reached


@dataclass(frozen=True)
class Size:
    """How large the experiment is made: rows and ranges over `scale`, and so many batches in the 50 minutes."""

    scale: int
    batches: int
    groups: int

    @property
    def batch_seconds(self) -> float:
        return MINUTES * 60 / self.batches


@dataclass(frozen=True)
class Extent:
    """The sizes of both experiments."""

    trees: Size
    joins: Size


# One join is as large as the paper's. Plans of three are smaller, so that all runs together take some minutes.
FULL = Extent(Size(scale=5, batches=40, groups=300), Size(scale=1, batches=40, groups=300))
QUICK = Extent(Size(scale=25, batches=20, groups=60), Size(scale=25, batches=20, groups=60))


@dataclass(frozen=True)
class Contender:
    """One line of a figure: a policy and the share of the active state that one spill takes."""

    name: str
    policy: str
    share: float = 0.3

    def memory(self, budget_bytes: int) -> AdaptSettings:
        """Nothing is merged before the clean-up and nothing moved, as in the papers."""
        return AdaptSettings(budget_bytes, self.policy, spill_share=self.share, merge=OFF, balance=BalanceSettings(OFF))


@dataclass(frozen=True)
class Setting:
    """Rows, a query over them, a budget and who competes for it."""

    name: str
    figures: str  # of the paper
    what: str
    text: str
    plan: str
    slots: int
    streams: tuple[StreamSpec, ...]
    budget_share: float  # of what a run without a budget keeps in the end
    contenders: tuple[Contender, ...]

    def query(self) -> Query:
        return bind_streams(self.text, {stream.name: stream.schema for stream in self.streams})

    def course(self, size: Size) -> Course:
        return Course(self.plan, size.batch_seconds, self.slots, size.groups)

    def rows(self) -> dict[str, pa.RecordBatch]:
        """The rows of each stream, in order."""
        spec = SyntheticSpec(self.streams, SEED)
        return {
            stream.name: pa.Table.from_batches(list(batches(spec, stream.name))).combine_chunks().to_batches()[0]
            for stream in self.streams
        }


def uneven(range_rows: int, average: int) -> Ranged:
    """A third of the groups with twice the average join ratio, the others with half of it.

    >>> [(share.ratio, share.range_rows) for share in uneven(24_000, 3).shares]
    [(6, 24000), (3, 48000)]
    """
    third = Fraction(1, 3)
    return Ranged((Share(third, range_rows, 2 * average), Share(2 * third, 2 * range_rows, average)))


def in_thirds(range_rows: int, ratios: tuple[int, ...]) -> Ranged:
    """Equal shares of the groups with these join ratios."""
    return Ranged(tuple(Share(Fraction(1, len(ratios)), range_rows, ratio) for ratio in ratios))


POLICIES = tuple(
    Contender(name, name) for name in ("global-output-penalty", "global-output", "local-output", "bottom-up")
)
PUSHES = tuple(Contender(f"{percent} %", "random", percent / 100) for percent in (10, 30, 50, 70))
LOW, HIGH = "low output first", "high output first"
ENDS = (Contender(LOW, "inactive-or-unproductive"), Contender(HIGH, "high-output-first"))


def tree_setting(ratios: tuple[int, int, int], figures: str, size: Size) -> Setting:
    """Five streams, three joins, with these average join ratios."""
    first, second, third = (uneven(TREE_RANGE // size.scale, ratio) for ratio in ratios)
    unused = Uniform(1000)  # columns that no join uses
    columns: Mapping[str, tuple[Keys, Keys]] = {
        "A": (first, unused),
        "B": (first, unused),
        "C": (first, second),
        "D": (second, third),
        "E": (third, unused),
    }
    return Setting(
        name="ratios " + ", ".join(map(str, ratios)),
        figures=figures,
        what="four policies on a plan of three joins",
        text=TREE_TEXT,
        plan=TREE_PLAN,
        slots=2,
        streams=tuple(
            _stream(
                name, tuple(KeyColumn(f"{name.lower()}{place}", k) for place, k in enumerate(keys, 1)), TREE_ROWS, size
            )
            for name, keys in columns.items()
        ),
        budget_share=TREE_BUDGET,
        contenders=POLICIES,
    )


def join_setting(
    name: str, figures: str, what: str, keys: Keys, contenders: tuple[Contender, ...], size: Size, budget: float
) -> Setting:
    """Three streams in one join on one machine."""
    return Setting(
        name=name,
        figures=figures,
        what=what,
        text=JOIN_TEXT,
        plan=JOIN_PLAN,
        slots=1,
        streams=tuple(_stream(stream, (KeyColumn("k", keys),), JOIN_ROWS, size) for stream in "ABC"),
        budget_share=budget,
        contenders=contenders,
    )


def _stream(name: str, keys: tuple[KeyColumn, ...], rows: int, size: Size) -> StreamSpec:
    return StreamSpec(name, rows=rows // size.scale, keys=keys, rate=rows / size.scale / (MINUTES * 60))


def tree_settings(size: Size) -> tuple[Setting, ...]:
    """Those of [Liu06]."""
    return (
        tree_setting((3, 1, 1), "16 to 18", size),
        tree_setting((1, 3, 3), "19", size),
        tree_setting((3, 2, 3), "20", size),
    )


def join_settings(size: Size) -> tuple[Setting, ...]:
    """Those of [Liu05]."""
    span = JOIN_RANGE // size.scale
    mixed = in_thirds(span, (4, 2, 1))
    ends = "which groups go first, "
    return (
        join_setting("shares", "9 and 10", "how much to spill", ranged(span, 3), PUSHES, size, JOIN_BUDGET),
        join_setting("mixed", "11", ends + "join ratios 4, 2 and 1", mixed, ENDS, size, JOIN_BUDGET),
        join_setting("mixed, late", "11", ends + "one late spill", mixed, ENDS, size, LATE_BUDGET),
        join_setting("uniform", "12", ends + "join ratio 3 for all", ranged(span, 3), ENDS, size, JOIN_BUDGET),
    )
