"""Event times of a column in microseconds, whatever unit it counts in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.errors import InputError
from watersmeet.kernel.hashing import integers
from watersmeet.kernel.rows import Int64Array
from watersmeet.model.time_units import TimeColumn, microseconds_in, unit_name


def event_times(column: pa.Array, time: TimeColumn) -> Int64Array:
    """The times of a column in microseconds; NULLs come out as anything.

    >>> event_times(pa.array([-1, 2]), TimeColumn("ts", "ms"))
    array([-1000,  2000])
    >>> event_times(pa.array([-1, 2999]), TimeColumn("ts", "ns"))
    array([-1,  2])
    """
    times = integers(column)
    size = microseconds_in(time.unit)
    if size < 1:
        return times // size.denominator
    factor, limit = int(size), np.iinfo(np.int64)
    if factor > 1 and len(times):
        for extreme in (int(times.min()), int(times.max())):
            if not limit.min <= extreme * factor <= limit.max:
                raise InputError(
                    f'the event time {extreme} in column "{time.name}" is out of range',
                    detail=f"It is read as {unit_name(time.unit)}, and 64 bits of microseconds cannot hold it.",
                    hint="Check time_unit, and the data.",
                )
    return times * factor if factor > 1 else times
