"""Rows of a stream in order of (event time, arrival), and what that says of other rows: counts, ranks and ends. Pure.

Rows that wait lie sorted by time, those of equal time as they arrived. In the column `#h` of their files is the time
itself as a place on the 64-bit line, so that a stretch of time is a slice of a file. Arrays of several files, in the
order in which these arrived, are put in order by a stable sort of times alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.hashing import UInt64Array
from watersmeet.kernel.rows import Int64Array, take
from watersmeet.kernel.window import LONG_AGO
from watersmeet.plan.physical import HASH_FIELD

_SIGN = np.uint64(1 << 63)


def places_of(times: Int64Array) -> UInt64Array:
    """Times on the 64-bit line, in the same order.

    >>> places_of(np.array([-1, 0, 1])).tolist()
    [9223372036854775807, 9223372036854775808, 9223372036854775809]
    """
    return np.ascontiguousarray(times).view(np.uint64) ^ _SIGN


def times_of(places: UInt64Array) -> Int64Array:
    """The way back.

    >>> times_of(places_of(np.array([-5, 7]))).tolist()
    [-5, 7]
    """
    return (places ^ _SIGN).view(np.int64)


def by_time(rows: pa.RecordBatch, times: Int64Array) -> pa.RecordBatch:
    """The rows sorted by time, those of equal time as they are, with their places in front."""
    order = np.argsort(times, kind="stable")
    columns = [pa.array(places_of(times[order])), *take(rows, order).columns]
    return pa.RecordBatch.from_arrays(columns, names=[HASH_FIELD, *rows.schema.names])


@dataclass(frozen=True, eq=False)
class CountedRows:
    """The times of rows of a stream in order, of which `before` rows came before the first.

    Those are before `since_us`: how many there were up to times before it is not known here.
    """

    before: int
    times: Int64Array
    since_us: int = LONG_AGO

    def counts(self, times: Int64Array) -> Int64Array:
        """How many rows of the stream there are that are no later than each of these times.

        >>> CountedRows(10, np.array([3, 5, 5])).counts(np.array([2, 5, 9])).tolist()
        [10, 13, 13]
        """
        return self.before + np.searchsorted(self.times, times, side="right")

    def before_time(self, time_us: int) -> int:
        """How many rows there are before a time."""
        return self.before + int(np.searchsorted(self.times, time_us, side="left"))

    def since(self, time_us: int) -> CountedRows:
        """The rows from a time on."""
        start = self.before_time(time_us) - self.before
        return CountedRows(self.before + start, self.times[start:], max(time_us, self.since_us))

    def until(self, time_us: int) -> CountedRows:
        """The rows before a time."""
        return replace(self, times=self.times[: self.before_time(time_us) - self.before])

    def ended(self, ends: Int64Array, times: Int64Array) -> npt.NDArray[np.bool_]:
        """Whether rows that have these ends are in no window at a time, each at one of its own, or later.

        Not if that is not known.

        >>> CountedRows(10, np.array([3, 5]), 3).ended(np.array([11, 11, 11]), np.array([2, 3, 9])).tolist()
        [False, True, True]
        """
        return (times >= self.since_us) & (ends <= self.counts(times))

    def time_of(self, rank: int) -> int | None:
        """The time of the row with this rank, the first of all having 1.

        A time that it is before, if it came before the first row here; None if it is later than the last.
        """
        place = rank - self.before - 1
        if place < 0:
            return int(self.times[0]) if len(self.times) else None
        return int(self.times[place]) if place < len(self.times) else None


@dataclass(frozen=True, eq=False)
class OrderedFiles:
    """The rows of a stream that lie in several files, in order."""

    files: tuple[Int64Array, ...]  # the times in each, sorted, files in the order in which they arrived
    since_us: int  # rows before this time have been counted before
    before: int  # how many

    @cached_property
    def _order(self) -> Int64Array:
        return np.argsort(self._all, kind="stable")

    @cached_property
    def _all(self) -> Int64Array:
        return np.concatenate([np.empty(0, np.int64), *self.files])

    @cached_property
    def _sorted(self) -> Int64Array:
        return self._all[self._order]

    @cached_property
    def _skipped(self) -> int:
        return int(np.searchsorted(self._sorted, self.since_us, side="left"))

    @cached_property
    def rows(self) -> CountedRows:
        return CountedRows(self.before, self._sorted[self._skipped :], self.since_us)

    @cached_property
    def _ranks(self) -> Int64Array:
        """Of all rows, one file after the other; those that were counted before have none, and 0 or less."""
        ranks = np.empty(len(self._all), dtype=np.int64)
        ranks[self._order] = np.arange(len(self._all)) - self._skipped + 1 + self.before
        return ranks

    def ranks_in(self, file: int) -> Int64Array:
        """The ranks of the rows of a file, of which those that were counted before mean nothing.

        >>> files = OrderedFiles((np.array([1, 4, 4]), np.array([2, 4])), since_us=2, before=1)
        >>> files.ranks_in(0)[1:].tolist(), files.ranks_in(1).tolist(), files.rows.times.tolist()
        ([3, 4], [2, 5], [2, 4, 4, 4])
        """
        start = sum(map(len, self.files[:file]))
        return self._ranks[start : start + len(self.files[file])]


def ends_of(ranks: Int64Array, own_counts: Int64Array, rows: int) -> Int64Array:
    """The count of their stream at which rows leave a window of so many; long ago for rows that never are in it.

    >>> ends_of(np.array([1, 2, 3]), np.array([2, 2, 3]), 1).tolist()  # the first two have the same time
    [-9223372036854775808, 3, 4]
    """
    ends = ranks + rows
    return np.where(own_counts < ends, ends, LONG_AGO)


def with_columns(rows: pa.RecordBatch, columns: Sequence[tuple[str, Int64Array]]) -> pa.RecordBatch:
    """The rows with these columns behind the others."""
    names = [*rows.schema.names, *(name for name, _ in columns)]
    return pa.RecordBatch.from_arrays([*rows.columns, *(pa.array(values) for _, values in columns)], names=names)
