"""The streams of the demo: prices, volumes and reviews of stocks, half a second of event time to a file.

Half way through, the day turns: quotes become fewer, trades and reviews many, and they crowd on symbols that hardly
anybody looked at before. So rates, key popularity and with them selectivities shift, as they do in the streams that an
adaptive join is for.

Invariant: the rows of a file are a function of the stream, the file's number and the number of files. Event times
ascend within a file and from file to file, so no row is ever late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from watersmeet.lang.types import parse_schema

TICK = timedelta(seconds=0.5)  # of event time, and of waiting between two files of a stream
OPENING = datetime(2006, 6, 27, 9, 30, tzinfo=UTC)
SYMBOLS = 5_000

SCHEMAS: Mapping[str, str] = {
    "prices": "symbol STRING, price DOUBLE, ts TIMESTAMP",
    "volumes": "symbol STRING, shares BIGINT, ts TIMESTAMP",
    "reviews": "symbol STRING, author STRING, target DOUBLE, ts TIMESTAMP",
}


@dataclass(frozen=True)
class Phase:
    """How the streams behave for a while."""

    name: str
    rates: Mapping[str, int]  # rows a second
    skew: float  # the symbol of rank n is as popular as 1 / (n + 50)**skew
    turn: int  # how many ranks the symbols have moved on


PHASES = (
    Phase("a quiet morning", {"prices": 6_000, "volumes": 2_000, "reviews": 100}, skew=0.2, turn=0),
    Phase("news breaks", {"prices": 3_000, "volumes": 5_000, "reviews": 200}, skew=0.6, turn=SYMBOLS // 2),
)


def phase_of(number: int, files: int) -> Phase:
    """The phase of file `number` out of `files`.

    >>> [phase_of(number, 4).name for number in range(4)]
    ['a quiet morning', 'a quiet morning', 'news breaks', 'news breaks']
    """
    return PHASES[number * len(PHASES) // files]


def rows_of(stream: str, number: int, files: int) -> int:
    """How many rows file `number` of `stream` holds."""
    return round(phase_of(number, files).rates[stream] * TICK.total_seconds())


def make_rows(stream: str, number: int, files: int) -> pa.Table:
    """The rows of file `number` of `stream`."""
    phase = phase_of(number, files)
    rows = rows_of(stream, number, files)
    random = np.random.default_rng([list(SCHEMAS).index(stream), number])
    ranks = random.choice(SYMBOLS, size=rows, p=_popularity(phase.skew))
    symbols = (ranks + phase.turn) % SYMBOLS
    usual_price = 20.0 + symbols % 180
    times = np.sort(random.integers(0, TICK // timedelta(microseconds=1), size=rows))
    start = (OPENING + number * TICK).timestamp()
    columns: dict[str, pa.Array] = {
        "symbol": _names(symbols),
        "price": pa.array(np.round(usual_price * random.uniform(0.9, 1.1, rows), 2)),
        "shares": pa.array(random.integers(1, 100, rows) * 100),
        "author": pa.array(random.integers(1, 40, rows)).cast(pa.string()),
        "target": pa.array(np.round(usual_price * random.uniform(0.8, 1.2, rows), 2)),
        "ts": pa.array(times + round(start * 1_000_000)).cast(pa.timestamp("us", tz="UTC")),
    }
    schema = parse_schema(SCHEMAS[stream])
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _popularity(skew: float) -> list[float]:
    weights = (np.arange(SYMBOLS) + 50.0) ** -skew
    shares: list[float] = (weights / weights.sum()).tolist()
    return shares


def _names(symbols: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """Ticker symbols of three letters."""
    letters = [chr(ord("A") + i) for i in range(26)]
    names = pa.array([a + b + c for a in letters for b in letters for c in letters][:SYMBOLS])
    return names.take(pa.array(symbols))
