"""The contract of a query (section 3 of the design) as a nested-loop join over full history, in plain Python.

Too simple to be wrong: no keys, no state, no plan. Every combination of rows that are not late is looked at. A row is a
dict of column name to Python value, a combination a dict of alias to row, a batch a dict of stream name to rows.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Row = dict[str, Any]
Combination = dict[str, Row]
Batch = Mapping[str, Sequence[Row]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Input:
    """One entry of FROM; `window_us` is the width of [RANGE ..] in microseconds, None for [UNBOUNDED]."""

    alias: str
    stream: str
    window_us: int | None = None


@dataclass(frozen=True)
class Answer:
    rows: Counter[tuple[Any, ...]]
    late: dict[str, list[Row]]

    @property
    def rows_late(self) -> int:
        return sum(map(len, self.late.values()))


def answer(
    batches: Sequence[Batch],
    inputs: Sequence[Input],
    predicate: Callable[[Combination], bool | None],
    select: Callable[[Combination], tuple[Any, ...]],
    lateness_us: Mapping[str, int] | None = None,
    time: Mapping[str, str] | None = None,
) -> Answer:
    """The multiset of result rows, and the late rows of each stream. `time` names event-time columns (default `ts`)."""
    punctual, late = _split(batches, {entry.stream for entry in inputs}, lateness_us or {}, time or {})
    rows: Counter[tuple[Any, ...]] = Counter()
    for chosen in itertools.product(*(punctual[entry.stream] for entry in inputs)):
        times = [_microseconds(row[_time_column(e.stream, time)]) for e, row in zip(inputs, chosen, strict=True)]
        newest = max(times)
        if any(e.window_us is not None and newest - t >= e.window_us for e, t in zip(inputs, times, strict=True)):
            continue
        combination = {entry.alias: row for entry, row in zip(inputs, chosen, strict=True)}
        if predicate(combination) is True:  # NULL does not satisfy
            rows[select(combination)] += 1
    return Answer(rows, late)


def _split(
    batches: Sequence[Batch], streams: set[str], lateness_us: Mapping[str, int], time: Mapping[str, str]
) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
    punctual: dict[str, list[Row]] = {stream: [] for stream in streams}
    late: dict[str, list[Row]] = {stream: [] for stream in streams}
    newest: dict[str, int] = {}  # the largest time seen in the batches before
    for batch in batches:
        seen = dict(newest)
        for stream in streams:
            for row in batch.get(stream, ()):
                t = _microseconds(row[_time_column(stream, time)])
                if t is None or (stream in newest and t < newest[stream] - lateness_us.get(stream, 0)):
                    late[stream].append(row)
                else:
                    punctual[stream].append(row)
                if t is not None:
                    seen[stream] = max(t, seen.get(stream, t))
        newest = seen
    return punctual, late


def _time_column(stream: str, time: Mapping[str, str] | None) -> str:
    return (time or {}).get(stream, "ts")


def _microseconds(value: int | datetime | None) -> Any:
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    return value
