"""The contract of a query (section 3 of the design) as a nested-loop join over full history, in plain Python.

Too simple to be wrong: no keys, no state, no plan. Every combination of rows that are neither late nor ahead is looked
at. Groups are over all of the combinations that count at a boundary, each boundary by itself. A row is a dict of column
name to Python value, a combination a dict of alias to row, a batch a dict of stream name to rows.
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
    """One entry of FROM; `window_us` is the width of [RANGE ..] in microseconds, `window_rows` the n of [ROWS n]."""

    alias: str
    stream: str
    window_us: int | None = None
    window_rows: int | None = None


@dataclass(frozen=True)
class MaxAhead:
    """How far a row may be ahead, of a clock that stands still or, with none, of all the streams."""

    most_us: int
    clock_us: int | None = None


@dataclass(frozen=True)
class Answer:
    rows: Counter[tuple[Any, ...]]
    late: dict[str, list[Row]]
    ahead: dict[str, list[Row]]

    @property
    def rows_late(self) -> int:
        return sum(map(len, self.late.values()))

    @property
    def rows_ahead(self) -> int:
        return sum(map(len, self.ahead.values()))


@dataclass(frozen=True)
class Joined:
    """A combination: when it became one, when it stops being one (None: never), and the batch that completed it."""

    rows: Combination
    newest_us: int
    expiry_us: int | None
    batch: int


def answer(
    batches: Sequence[Batch],
    inputs: Sequence[Input],
    predicate: Callable[[Combination], bool | None],
    select: Callable[[Combination], tuple[Any, ...]],
    lateness_us: Mapping[str, int] | None = None,
    time: Mapping[str, str] | None = None,
    max_ahead: Mapping[str, MaxAhead] | None = None,
    ends: Sequence[int] = (),
) -> Answer:
    """The multiset of result rows, and the rows of each stream that are late, or ahead.

    `time` names event-time columns (default `ts`); `ends` are the batches after which the input had come to its end,
    for the time being: rows of a stream with [ROWS ..] are late from then on if they are before any that was read.
    """
    found, late, ahead = join(batches, inputs, predicate, lateness_us, time, max_ahead, ends)
    return Answer(Counter(select(joined.rows) for joined in found), late, ahead)


def join(
    batches: Sequence[Batch],
    inputs: Sequence[Input],
    predicate: Callable[[Combination], bool | None],
    lateness_us: Mapping[str, int] | None = None,
    time: Mapping[str, str] | None = None,
    max_ahead: Mapping[str, MaxAhead] | None = None,
    ends: Sequence[int] = (),
) -> tuple[list[Joined], dict[str, list[Row]], dict[str, list[Row]]]:
    """All combinations, and the rows of each stream that are late, or ahead."""
    streams = {entry.stream for entry in inputs}
    counted = {entry.stream for entry in inputs if entry.window_rows is not None}
    punctual, late, ahead = _split(batches, streams, lateness_us or {}, time or {}, max_ahead or {}, counted, ends)
    found = []
    for chosen in itertools.product(*(punctual[entry.stream] for entry in inputs)):
        times = [_microseconds(row[_time_column(e.stream, time)]) for e, (_, row) in zip(inputs, chosen, strict=True)]
        ends = [t + e.window_us for e, t in zip(inputs, times, strict=True) if e.window_us is not None]
        newest, expiry = max(times), min(ends, default=None)
        if expiry is not None and newest >= expiry:
            continue
        if not all(_is_among_last(row, punctual, e, newest, time) for e, row in zip(inputs, chosen, strict=True)):
            continue
        combination = {entry.alias: row for entry, (_, row) in zip(inputs, chosen, strict=True)}
        if predicate(combination) is True:  # NULL does not satisfy
            found.append(Joined(combination, newest, expiry, max(batch for batch, _ in chosen)))
    return found, late, ahead


def _is_among_last(
    chosen: tuple[int, Row],
    punctual: Mapping[str, list[tuple[int, Row]]],
    entry: Input,
    newest: int,
    time: Mapping[str, str] | None,
) -> bool:
    """Whether a row is among the last of its stream, by time and arrival, of those that are no later than `newest`."""
    if entry.window_rows is None:
        return True
    timed = [(_microseconds(held[1][_time_column(entry.stream, time)]), held) for held in punctual[entry.stream]]
    until = sorted((each for each in timed if each[0] <= newest), key=lambda each: each[0])  # which leaves ties alone
    return any(held is chosen for _, held in until[-entry.window_rows :])


def at_boundaries(joined: Sequence[Joined], slide_us: int, ends: Sequence[int] = ()) -> dict[int, list[Combination]]:
    """The combinations that count at each boundary, where there are any.

    `ends` are the batches after which the input had come to its end, for the time being: all boundaries at which a
    row counted were emitted then, so what came later counts at later ones.
    """
    found: dict[int, list[Combination]] = {}
    for entry in sorted(joined, key=lambda entry: entry.batch):
        assert entry.expiry_us is not None, "without windows there are no boundaries"
        before = [end for end in ends if end < entry.batch]
        emitted = _last_boundary([e for e in joined if e.batch <= max(before)], slide_us) if before else None
        t = -(-entry.newest_us // slide_us) * slide_us
        while t < entry.expiry_us:
            if emitted is None or t > emitted:
                found.setdefault(t, []).append(entry.rows)
            t += slide_us
    return found


def _last_boundary(joined: Sequence[Joined], slide_us: int) -> int | None:
    """The last boundary at which any of these counts."""
    last = []
    for entry in joined:
        t = (entry.expiry_us - 1) // slide_us * slide_us
        if t >= entry.newest_us:
            last.append(t)
    return max(last, default=None)


def group(rows: Sequence[Combination], key: Callable[[Combination], tuple[Any, ...]]) -> list[list[Combination]]:
    """The rows of each group; NULL is a value like any other."""
    groups: dict[tuple[Any, ...], list[Combination]] = {}
    for combination in rows:
        groups.setdefault(key(combination), []).append(combination)
    return list(groups.values())


def _split(
    batches: Sequence[Batch],
    streams: set[str],
    lateness_us: Mapping[str, int],
    time: Mapping[str, str],
    max_ahead: Mapping[str, MaxAhead],
    counted: set[str],
    ends: Sequence[int],
) -> tuple[dict[str, list[tuple[int, Row]]], dict[str, list[Row]], dict[str, list[Row]]]:
    """The rows that may join, each with its batch, and those that are late, or ahead."""
    punctual: dict[str, list[tuple[int, Row]]] = {stream: [] for stream in streams}
    late: dict[str, list[Row]] = {stream: [] for stream in streams}
    ahead: dict[str, list[Row]] = {stream: [] for stream in streams}
    newest: dict[str, int] = {}  # the largest time seen in the batches before, of rows that were not ahead
    ended: int | None = None  # the largest time of any stream when the input had come to its end
    for number, batch in enumerate(batches):
        seen = dict(newest)
        times = {s: [_microseconds(row[_time_column(s, time)]) for row in batch.get(s, ())] for s in streams}
        limits = _limits(times, newest, max_ahead)
        for stream in streams:
            for row, t in zip(batch.get(stream, ()), times[stream], strict=True):
                too_old = stream in newest and t is not None and t < newest[stream] - lateness_us.get(stream, 0)
                if t is None or too_old or (ended is not None and stream in counted and t <= ended):
                    late[stream].append(row)
                elif t > limits.get(stream, t):
                    ahead[stream].append(row)
                else:
                    punctual[stream].append((number, row))
                    seen[stream] = max(t, seen.get(stream, t))
        newest = seen
        ended = max(newest.values(), default=None) if number in ends else ended
    return punctual, late, ahead


def _limits(
    times: Mapping[str, list[int | None]], newest: Mapping[str, int], max_ahead: Mapping[str, MaxAhead]
) -> dict[str, int]:
    """The time after which rows of a batch are ahead, by stream."""
    limits = {s: most.clock_us + most.most_us for s, most in max_ahead.items() if most.clock_us is not None}
    read = sorted(t for s, of_stream in times.items() for t in of_stream if t is not None and t <= limits.get(s, t))
    for stream, most in max_ahead.items():
        if most.clock_us is None and (newest or read):
            # From the furthest so far, or else from where most rows are, along rows that follow each other closely.
            come_to = max(newest.values()) if newest else _largest_cluster(read, most.most_us)
            for t in read:
                if t - come_to > most.most_us:
                    break
                come_to = max(come_to, t)
            limits[stream] = come_to
    return limits


def _largest_cluster(read: Sequence[int], gap_us: int) -> int:
    """The end of the first of the largest sets of times with no gap in between."""
    clusters = [[read[0]]]
    for t in read[1:]:
        if t - clusters[-1][-1] > gap_us:
            clusters.append([])
        clusters[-1].append(t)
    return max(clusters, key=len)[-1]


def _time_column(stream: str, time: Mapping[str, str] | None) -> str:
    return (time or {}).get(stream, "ts")


def _microseconds(value: int | datetime | None) -> Any:
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    return value
