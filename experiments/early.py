"""The settings of [Levandoski11, section VII]: early results of a chain of joins with little memory.

A *setting* is the input: streams A, B, C, .. joined from the left, each join on a key of its own, and which of the
streams are bursty. A *method* is how memory is kept: who flushes, who merges, how figures are smoothed. A *case* is
both. Pure; running is `early_runs.py`'s.

From the paper: three joins, 300,000 rows a stream at 200 rows a second, memory of 10 % of the input, flushes of 5 %,
slow and bursty inputs by a Pareto distribution. Scaled down: 20,000 rows a stream at the same rate, a fifteenth of the
rows and of the time, and memory in proportion. Figures are taken every second, not every five.

Keys are uniform over a range of values, cut into *buckets*, of which each input of a join has half, drawn at random:
that is how we read "each join key bucket is assigned to a source with equal probability". Here a bucket is a group, so
about a quarter of the groups of a join have rows of both inputs and can earn anything at all. Were buckets much smaller
than groups, all groups would be alike, and there would be nothing to choose.

Departure: the paper has the keys of 300,000 rows in a range of 600,000 values, where a row finds half a partner in each
join and the whole answer is an eighth of a stream, 37,500 results; but it plots the first 100,000 to 500,000. So its
keys must have repeated more often. The join ratio here is 2, its "small" one: a row finds two partners. The range as
printed is a setting of its own (`PRINTED_RATIO`).

Beyond the paper: all joins on one key (`one_key`). With a key for each join, what becomes of a result higher up does
not depend on the group that it comes from; with one key it does, and a policy that looks there has something to see.

Invariant: same case, same rows. Limit: alpha of the EWMA is no setting of a run, so figure 7 is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from experiments.budgeted import Course, bind_streams
from watersmeet.generate.arrivals import ARRIVALS, below, draw, key_of
from watersmeet.kernel.hashing import hash_keys
from watersmeet.model.bounds import Bounds
from watersmeet.plan.query import Query
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.words import OFF

PAPER_ROWS = 300_000
PRINTED_RATIO = 0.5  # 300,000 rows over 600,000 values
RATE = 200.0  # rows a second of each stream, in the long run
GROUPS = 20  # of each join: a flush of 5 % is still three groups of the sixty
ONE_KEY_GROUPS = 48  # of which three have rows of all four streams, on average
BATCH_SECONDS = 1.0
SEED = 4

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Setting:
    """What comes in, and how much of it fits into memory."""

    streams: str = "ABCD"  # a letter each
    bursty: str = "ABCD"  # those with bursts; the others are steady
    rows: int = 20_000  # of each stream
    ratio: float = 2.0  # partners that a row finds in each join
    memory_share: float = 0.10  # of the input
    flush_share: float = 0.05  # of the memory
    one_key: bool = False  # all joins on the same key, in place of one each
    seed: int = SEED

    @property
    def values(self) -> int:
        """Of each key, over all its buckets.

        >>> Setting(rows=300_000, ratio=0.5).values
        600000
        """
        return round(self.rows / self.ratio)

    @property
    def keys(self) -> tuple[str, ...]:
        """The key of each join, from the lowest up.

        >>> Setting().keys
        ('ab', 'bc', 'cd')
        """
        return tuple("k" if self.one_key else f"{left}{right}".lower() for left, right in pairwise(self.streams))

    def keys_of(self, stream: str) -> tuple[str, ...]:
        return ("k",) if self.one_key else tuple(key for key in self.keys if stream.lower() in key)

    @property
    def groups(self) -> int:
        """Of each join. With one key, some of them must have rows of all streams."""
        return ONE_KEY_GROUPS if self.one_key else GROUPS

    @property
    def tree(self) -> str:
        """The plan: left-deep.

        >>> Setting().tree
        '(((A B) C) D)'
        """
        tree = self.streams[0]
        for stream in self.streams[1:]:
            tree = f"({tree} {stream})"
        return tree

    @property
    def name(self) -> str:
        """Which inputs are bursty, as the paper has it.

        >>> Setting().name, Setting(bursty="AB").name, Setting(bursty="").name
        ('ABCD bursty', 'AB bursty, CD steady', 'ABCD steady')
        """
        steady = "".join(stream for stream in self.streams if stream not in self.bursty)
        parts = [f"{self.bursty} bursty" if self.bursty else "", f"{steady} steady" if steady else ""]
        return ", ".join([*(part for part in parts if part), *(["one key"] if self.one_key else [])])

    @property
    def course(self) -> Course:
        return Course(self.tree, BATCH_SECONDS, slots=1, groups=self.groups, clean_up=False)


@dataclass(frozen=True)
class Method:
    """How memory is kept."""

    name: str
    spill: str
    merge: str = OFF
    smoothing: str = "ewma"

    def settings(self, setting: Setting, input_bytes: int) -> AdaptSettings:
        """With so many bytes of input."""
        return AdaptSettings(
            budget_bytes=round(input_bytes * setting.memory_share),
            spill=self.spill,
            spill_share=setting.flush_share,
            merge=self.merge,
            smoothing=self.smoothing,
            balance=BalanceSettings(OFF),
        )


FLUSH, MANAGER = "adaptive-global-flush", "state-manager"
AGF_SM = Method("AGF + state manager", FLUSH, MANAGER)
AGF = Method("AGF alone", FLUSH)
STATE_SPILL = Method("state-spill", "global-output")
STATE_SPILL_SM = Method("state-spill + state manager", "global-output", MANAGER)
RATE_BASED = Method("rate-based", "rate-based")
HASH_MERGE = Method("hash-merge", "hash-merge")
SMOOTHINGS = (
    AGF_SM,
    Method("AGF + state manager, average", FLUSH, MANAGER, "average"),
    Method("AGF + state manager, recent", FLUSH, MANAGER, "recent"),
)


@dataclass(frozen=True)
class Case:
    setting: Setting
    method: Method


# --- the figures -----------------------------------------------------------------------------------------------------

COMPARED = (AGF_SM, STATE_SPILL, RATE_BASED, HASH_MERGE)
FLUSHING = (AGF, STATE_SPILL, RATE_BASED, HASH_MERGE)
BURSTY = ("ABCD", "ABC", "AB", "A")  # figures 9a to 9d
MEMORY_SHARES = (0.05, 0.10, 0.15)
FLUSH_SHARES = (0.01, 0.05, 0.10, 0.20)
RATIOS = (2.0, 4.0)
CHAINS = ("ABCDEF", "ABCDEFG")  # five and six joins


@dataclass(frozen=True)
class Plan:
    """All settings that one run of the experiment has, made from one of them."""

    base: Setting

    @property
    def behaviours(self) -> tuple[Setting, ...]:
        return tuple(replace(self.base, bursty=bursty) for bursty in BURSTY)

    @property
    def memories(self) -> tuple[Setting, ...]:
        return tuple(replace(self.base, memory_share=share) for share in MEMORY_SHARES)

    @property
    def flushes(self) -> tuple[Setting, ...]:
        return tuple(replace(self.base, flush_share=share) for share in FLUSH_SHARES)

    @property
    def ratios(self) -> tuple[Setting, ...]:
        return tuple(replace(self.base, bursty="", ratio=ratio) for ratio in RATIOS)

    @property
    def chains(self) -> tuple[Setting, ...]:
        return tuple(replace(self.base, streams=streams, bursty=streams) for streams in CHAINS)

    @property
    def one_key(self) -> tuple[Setting, ...]:
        return tuple(replace(self.base, one_key=True, bursty=bursty) for bursty in (self.base.bursty, ""))

    @property
    def as_printed(self) -> Setting:
        return replace(self.base, ratio=PRINTED_RATIO)

    @property
    def cases(self) -> tuple[Case, ...]:
        """All that is to be run, some of it several times."""
        return (
            *pair(self.behaviours, (*COMPARED, AGF)),
            *pair(self.behaviours[:1], (STATE_SPILL_SM,)),
            *pair(self.behaviours[:2], SMOOTHINGS),
            *pair((*self.memories, *self.flushes), (AGF_SM, STATE_SPILL, HASH_MERGE)),
            *pair((*self.ratios, *self.chains), (AGF_SM, STATE_SPILL)),
            *pair(self.one_key, (*COMPARED, AGF)),
            *pair((self.as_printed,), COMPARED),
        )


FULL = Plan(Setting())
QUICK = Plan(Setting(rows=3_000))


def pair(settings: Iterable[Setting], methods: Iterable[Method]) -> tuple[Case, ...]:
    """Each with each."""
    return tuple(Case(setting, method) for setting, method in product(settings, methods))


# --- the query and its rows ------------------------------------------------------------------------------------------


def schema(setting: Setting, stream: str) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in (*setting.keys_of(stream), "ts")])


def query_text(setting: Setting) -> str:
    select = ", ".join(f"{stream}.ts AS {stream.lower()}" for stream in setting.streams)
    streams = ", ".join(f"{stream} [UNBOUNDED]" for stream in setting.streams)
    pairs = zip(pairwise(setting.streams), setting.keys, strict=True)
    conditions = " AND ".join(f"{left}.{key} = {right}.{key}" for (left, right), key in pairs)
    return f"SELECT {select}\nFROM {streams}\nWHERE {conditions}"


def bind_query(setting: Setting) -> Query:
    return bind_streams(query_text(setting), {stream: schema(setting, stream) for stream in setting.streams})


def make_rows(setting: Setting) -> dict[str, pa.RecordBatch]:
    """All rows of every stream, in order of their event time, in microseconds from the start."""
    numbers = np.arange(setting.rows)
    bucket = buckets(setting)
    rows = {}
    for stream in setting.streams:
        columns = []
        for key in setting.keys_of(stream):
            own = key_of(setting.seed, stream, key)
            values = np.flatnonzero(np.isin(bucket, own_buckets(own, setting.groups)))
            columns.append(values[below(draw(own, numbers), len(values))])
        arrivals = ARRIVALS["pareto" if stream in setting.bursty else "steady"]
        columns.append(arrivals(key_of(setting.seed, stream, "arrivals"), RATE, setting.rows, 0, 0))
        rows[stream] = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=schema(setting, stream))
    return rows


def buckets(setting: Setting) -> Keys:
    """The bucket of each value of a key: the group that it belongs to."""
    hashes = hash_keys([pa.array(np.arange(setting.values))])
    return Bounds(setting.groups).groups_of(hashes)


def own_buckets(key: int, total: int = GROUPS) -> Keys:
    """Half of the buckets, drawn at random."""
    order: Keys = np.argsort(draw(key_of(key, "buckets"), np.arange(total)))
    return order[: total // 2]


def input_bytes(rows: dict[str, pa.RecordBatch]) -> int:
    """What the memory is a share of."""
    return sum(batch.nbytes for batch in rows.values())


def count_results(setting: Setting, rows: dict[str, pa.RecordBatch]) -> int:
    """The size of the whole answer, counted from the last join down: how many combinations each row is part of."""
    if setting.one_key:
        by_stream = [np.bincount(_column(rows, name, "k"), minlength=setting.values) for name in setting.streams]
        return int(np.prod(by_stream, axis=0).sum())
    counts: npt.NDArray[np.float64] = np.ones(setting.rows)
    for key, stream in _downward(setting):
        by_value = np.bincount(_column(rows, stream, key), counts, setting.values)
        before = setting.streams[setting.streams.index(stream) - 1]
        counts = np.asarray(by_value[_column(rows, before, key)], dtype=np.float64)
    return round(float(counts.sum()))


def _downward(setting: Setting) -> Iterator[tuple[str, str]]:
    """Each key and the stream to the right of it, from the last on."""
    yield from reversed(list(zip(setting.keys, setting.streams[1:], strict=True)))


def _column(rows: dict[str, pa.RecordBatch], stream: str, name: str) -> Keys:
    values: Keys = rows[stream].column(name).to_numpy()
    return values
