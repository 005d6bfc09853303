"""Rows of a stream whose parts of the key's hash have rates and join ratios of their own: the load of slots at will.

A part is a range of the 64-bit hash, and so a share of the groups of a join on the column. It brings rows at its own
rate, which may change, and each of its values comes `ratio` times in every `range_rows` of its rows. So parts can
differ in their rows and be alike in their ratios, or the other way round; shares of a `Ranged` key can not.

Invariant: same parts, name and seed, same rows, in order of their event time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.generate.synthetic import KeyColumn, Phase, StreamSpec, SyntheticSpec, batches, ranged
from watersmeet.kernel.hashing import hash_keys

SCHEMA = pa.schema([(name, pa.int64()) for name in ("k", "v", "ts")])


@dataclass(frozen=True)
class Part:
    """Rows a second from each of some moments on, the first of which is 0."""

    of_hash: Fraction
    range_rows: int
    ratio: int
    rates: tuple[tuple[float, float], ...]  # seconds, rows a second

    @property
    def values(self) -> int:
        return self.range_rows // self.ratio


def draw_stream(name: str, parts: Sequence[Part], seconds: float, seed: int) -> pa.RecordBatch:
    """The rows of a stream, up to a time."""
    ends = [sum((part.of_hash for part in parts[: place + 1]), Fraction(0)) for place in range(len(parts))]
    starts = [Fraction(0), *ends[:-1]]
    pieces = [
        _draw_part(f"{name}{place}", part, values_between(start, end, part.values), seconds, seed)
        for place, (part, start, end) in enumerate(zip(parts, starts, ends, strict=True))
    ]
    table = pa.concat_tables(pieces)
    return table.take(np.argsort(table["ts"].to_numpy(), kind="stable")).combine_chunks().to_batches()[0]


def _draw_part(name: str, part: Part, values: npt.NDArray[np.int64], seconds: float, seed: int) -> pa.Table:
    until = [*(since for since, _ in part.rates[1:]), seconds]
    rows = sum(math.ceil(rate * (end - since)) + 1 for (since, rate), end in zip(part.rates, until, strict=True))
    phases = tuple(Phase(timedelta(seconds=since), rate) for since, rate in part.rates[1:])
    keys = (KeyColumn("k", ranged(part.range_rows, part.ratio)),)
    spec = SyntheticSpec((StreamSpec(name, rows=rows, keys=keys, rate=part.rates[0][1], phases=phases),), seed)
    drawn = pa.Table.from_batches(list(batches(spec, name)))
    drawn = drawn.filter(pa.array(drawn["ts"].to_numpy() < seconds * 1e6))
    return pa.table([pa.array(values[drawn["k"].to_numpy()]), drawn["v"], drawn["ts"]], schema=SCHEMA)


def values_between(start: Fraction, end: Fraction, count: int) -> npt.NDArray[np.int64]:
    """The smallest numbers whose hash lies in a share of the hashes.

    >>> values_between(Fraction(0), Fraction(1), 3).tolist()
    [0, 1, 2]
    """
    first, last = int(start * 2**64), int(end * 2**64) - 1
    tried = 1024 + 2 * int(count / (end - start))
    while True:
        hashes = hash_keys([pa.array(np.arange(tried))])
        found = np.flatnonzero((hashes >= np.uint64(first)) & (hashes <= np.uint64(last)))[:count]
        if len(found) == count:
            return found
        tried *= 2
