"""Streams that are joined by band predicates, which no hash serves: the rows and the text of such a query.

The dissertation [Zhu06] ran nested loops over some tens of rows. Here

- *the join* is made of band predicates, `abs(A.ab - B.ab) < r` on values uniform in [0, 1), with columns of its own for
  each pair of streams. r = 1 - sqrt(1 - sigma) gives exactly the selectivity sigma;
- *copies*: all streams also share a key `g` of `copies` values, and rates are multiplied by as many. Within each value
  there are the rates, windows and selectivities that were asked for, and nested loops, so many of them side by side;
- *speed*: time runs `speed` times faster: rates are multiplied and windows divided by it. The sizes of states stay what
  they are;
- *switches*: from some moment on a pair has another, higher selectivity. The predicate stays as it is; from then on
  values are drawn from a part of [0, 1) in which as many pairs are that near. Rows from before and after the switch
  meet about as rarely as before. A switch may be of a part of the key's hash alone, and so of some groups;
- *other rates*: from some moment on streams come at other rates, lower or higher.

Pure. Invariant: same setting, seconds and names, same rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa

from watersmeet.generate.arrivals import Floats, Ints, draw, events_before, key_of, poisson, unit
from watersmeet.kernel.hashing import hash_keys
from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.plan.join_graph import Pair
from watersmeet.plan.query import Query


@dataclass(frozen=True)
class Switch:
    """From `seconds` on, at normal speed, these pairs have these selectivities, and all others their own.

    So it is for keys in a part of the hash, which begins and ends at a share of it.
    """

    seconds: float
    selectivities: Mapping[Pair, float]
    of_hash: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class OtherRates:
    """From `seconds` on, at normal speed, these streams come at these rates."""

    seconds: float
    rates: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Banded:
    """Rates, selectivities and window of one copy at normal speed, and how many copies run how fast."""

    rates: Mapping[str, float]  # rows a second
    selectivities: Mapping[Pair, float]
    window_seconds: float
    speed: float = 1.0
    copies: int = 1
    switches: tuple[Switch, ...] = ()  # in order of time
    other_rates: tuple[OtherRates, ...] = ()  # in order of time

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(self.rates)

    @property
    def width(self) -> float:
        """The window as it runs, in seconds."""
        return self.window_seconds / self.speed

    def rate(self, stream: str) -> float:
        """Rows a second as they come."""
        return self.rates[stream] * self.speed * self.copies

    def quickest(self, stream: str) -> float:
        """The highest rate that a stream ever has, in times of the first one."""
        return max([1.0, *(other.rates.get(stream, 0.0) / self.rates[stream] for other in self.other_rates)])

    @property
    def window_rows(self) -> float:
        """Rows of all streams that come in a window's time."""
        return sum(self.rate(stream) for stream in self.streams) * self.width

    def values(self) -> Ints:
        """The values of the key `g`, one for each copy."""
        return np.arange(self.copies)

    def band_columns(self, stream: str) -> tuple[str, ...]:
        return tuple(band_column(pair) for pair in self.selectivities if stream in pair)

    def spread(self, pair: Pair, times_us: Ints, shares: Floats) -> Floats:
        """The part of [0, 1) that the values of a pair's column are drawn from, for rows of these times.

        `shares` say where the hash of each row's key is among all hashes.
        """
        parts: Floats = np.ones(len(times_us))
        for switch in self.switches:
            part = band(self.selectivities[pair]) / band(switch.selectivities.get(pair, self.selectivities[pair]))
            start, end = switch.of_hash
            parts[(times_us >= switch.seconds / self.speed * 1e6) & (shares >= start) & (shares < end)] = part
        return parts

    def stretch(self, stream: str, times_us: Ints) -> Ints:
        """When rows come that would come at these times, were the rate of the stream what it is at first."""
        times = times_us
        rate = self.rates[stream]
        for other in self.other_rates:
            if (now := other.rates.get(stream, rate)) != rate:
                since = round(other.seconds / self.speed * 1e6)
                times = np.where(times < since, times, since + ((times - since) * (rate / now)).astype(np.int64))
                rate = now
        return times


def band_column(pair: Pair) -> str:
    """The column that both streams of a pair have for their predicate.

    >>> band_column(("A", "B"))
    'ab'
    """
    return "".join(pair).lower()


def band(selectivity: float) -> float:
    """How far apart two values uniform in [0, 1) may be so that a share of `selectivity` of all pairs is that near.

    >>> band(0.75)
    0.5
    """
    return 1.0 - math.sqrt(1.0 - selectivity)


def schema(setting: Banded, stream: str) -> pa.Schema:
    bands = [(name, pa.float64()) for name in setting.band_columns(stream)]
    return pa.schema([("g", pa.int64()), ("id", pa.int64()), ("ts", pa.int64()), *bands])


def row_bytes(setting: Banded, stream: str) -> float:
    """A row of the stream's own state: what the schema has, and a hash."""
    return float(8 + sum(field.type.bit_width // 8 for field in schema(setting, stream)))


def query_text(setting: Banded) -> str:
    first, *others = setting.streams
    select = ", ".join(f"{name}.id AS {name.lower()}" for name in setting.streams)
    windowed = ", ".join(f"{name} [RANGE {setting.width:.6g} SECONDS]" for name in setting.streams)
    conditions = [f"{first}.g = {other}.g" for other in others]
    for pair, selectivity in setting.selectivities.items():
        left, right = (f"{stream}.{band_column(pair)}" for stream in pair)
        conditions.append(f"abs({left} - {right}) < {band(selectivity):.12f}")
    return f"SELECT {select}\nFROM {windowed}\nWHERE " + "\n  AND ".join(conditions)


def bind_query(setting: Banded) -> Query:
    streams = {name: Stream(name, schema(setting, name), "ts", timedelta(0)) for name in setting.streams}
    return bind(query_text(setting), streams)


def draw_rows(setting: Banded, seconds: float, *names: int | str) -> dict[str, pa.RecordBatch]:
    """Rows of every stream that arrive in so many seconds, a Poisson process; `ts` is microseconds from the start.

    `names` are what the draws are known by, such as a seed and a number.
    """
    rows = {}
    for stream in setting.streams:
        own = key_of(*names, stream)
        rate, most = setting.rate(stream), setting.quickest(stream)
        count = events_before(poisson, own, rate, 0, round(seconds * most * 1e6))
        times = setting.stretch(stream, poisson(own, rate, count))
        times = times[: np.searchsorted(times, round(seconds * 1e6))]
        numbers = np.arange(len(times))
        copy = setting.values()[(unit(draw(key_of(own, "g"), numbers)) * setting.copies).astype(np.int64)]
        shares = hash_keys([pa.array(copy)]) / 2.0**64
        bands = [
            unit(draw(key_of(own, band_column(pair)), numbers)) * setting.spread(pair, times, shares)
            for pair in setting.selectivities
            if stream in pair
        ]
        columns = [copy, numbers, times, *bands]
        rows[stream] = pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=schema(setting, stream))
    return rows
