"""Windows as two numbers for each row: when a combination became complete, and when it stops being one.

For a row over inputs i, with event times ts_i and window widths w_i: `newest` is T = max ts_i, and `expiry` is
E = min (ts_i + w_i). A combination satisfies all windows exactly when T < E. Both combine over parts by max and min, so
a join checks a window with one comparison for each candidate, and a row with T >= E may be dropped early: adding rows
only raises T and lowers E.

How long a row is needed is another matter where there are windows for pairs (`model/pair_windows.py`), which are
checked as predicates: `expiry` is by the widths that a state says its rows stay for. With `[RANGE]` alone both are one.
Windows of rows are predicates too (`plan/count_windows.py`): what they say of how long a row is needed is in another
column, its end, which counts rows of a stream and not microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernel.rows import Int64Array, int_column

NEVER = np.iinfo(np.int64).max
LONG_AGO = np.iinfo(np.int64).min

Windows = Sequence[tuple[str, int]]  # the field of an event time, and the width of its window in microseconds


class Timed(Protocol):
    """What is known of the times in rows: the columns that hold them, and the windows of some of these."""

    @property
    def time_fields(self) -> tuple[str, ...]: ...
    @property
    def windows(self) -> tuple[tuple[str, int], ...]: ...


class Staying(Protocol):
    """What is known of how long rows are needed: so long after the times in these columns."""

    @property
    def stays(self) -> tuple[tuple[str, int], ...]: ...


@dataclass(frozen=True)
class Lifetimes:
    newest: Int64Array
    expiry: Int64Array

    @classmethod
    def concat(cls, parts: Sequence[Lifetimes]) -> Lifetimes:
        return cls(np.concatenate([part.newest for part in parts]), np.concatenate([part.expiry for part in parts]))


def lifetimes(batch: pa.RecordBatch, state: Timed) -> Lifetimes | None:
    """T and E of each row; None when no window of the query needs them."""
    fields = state.time_fields
    return lifetimes_by(batch, fields, state.windows) if fields else None


def lifetimes_by(batch: pa.RecordBatch, fields: Sequence[str], windows: Windows) -> Lifetimes:
    """T and E of each row, by these event times and windows."""
    newest = int_column(batch, fields[0])
    for field in fields[1:]:
        newest = np.maximum(newest, int_column(batch, field))
    # `NEVER` is no time: a row of the last microsecond counts as of the one before, or T < NEVER would fail for it.
    return Lifetimes(np.minimum(newest, NEVER - 1), ends(batch, windows))


def expiry(batch: pa.RecordBatch, state: Staying) -> Int64Array:
    """From when on each row is not needed any more, by who needs it longest. `NEVER` where nothing limits it."""
    return ends(batch, state.stays)


class Needed(Staying, Protocol):
    """The same, and columns with the ends of windows of rows, each by the rows of a stream."""

    @property
    def ranks(self) -> tuple[tuple[str, str], ...]: ...


def needed(
    batch: pa.RecordBatch, state: Needed, until: int | Int64Array | None, passed: Mapping[str, int]
) -> npt.NDArray[np.bool_] | None:
    """Which rows a future row may still need; None where that is all of them.

    No future row is before `until`, and none has a count of a stream below the one in `passed`.
    """
    alive = np.ones(batch.num_rows, dtype=np.bool_)
    if until is not None and state.stays:
        alive &= expiry(batch, state) > until
    for field, stream in state.ranks:
        if stream in passed:
            alive &= int_column(batch, field) > passed[stream]
    return None if alive.all() else alive


def rank_ends(batch: pa.RecordBatch, state: Needed) -> tuple[int, ...]:
    """The largest end of the rows, of which there is one, for each of the state's columns with ends."""
    return tuple(int(int_column(batch, field).max()) for field, _ in state.ranks)


def ends(batch: pa.RecordBatch, widths: Iterable[tuple[str, int]]) -> Int64Array:
    """The least time of each row, of those in the named columns, with their widths. `NEVER` where there are none."""
    result = np.full(batch.num_rows, NEVER, dtype=np.int64)
    for field, width in widths:
        np.minimum(result, _moved(int_column(batch, field), width), out=result)
    return result


def _moved(times: Int64Array, width: int) -> Int64Array:
    """Times with a width added, which may be longer than 2**63 and less than 0; they stop at either end of time."""
    while width > 0:
        step = min(width, NEVER)
        times = np.where(times > NEVER - step, NEVER, times + step)
        width -= step
    while width < 0:
        step = max(width, -NEVER)
        times = np.where(times < LONG_AGO - step, LONG_AGO, times + step)
        width -= step
    return times
