"""Windows as two numbers for each row: when a combination became complete, and when it stops being one.

For a row over inputs i, with event times ts_i and window widths w_i: `newest` is T = max ts_i, and `expiry` is
E = min (ts_i + w_i). A combination satisfies all windows exactly when T < E. Both combine over parts by max and min, so
a join checks a window with one comparison for each candidate, and a row with T >= E may be dropped early: adding rows
only raises T and lowers E.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.kernel.rows import Int64Array, int_column
from watersmeet.plan.physical import State

NEVER = np.iinfo(np.int64).max
LONG_AGO = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Lifetimes:
    newest: Int64Array
    expiry: Int64Array


def lifetimes(batch: pa.RecordBatch, state: State) -> Lifetimes | None:
    """T and E of each row; None when no window of the query needs them."""
    fields = state.time_fields
    if not fields:
        return None
    newest = int_column(batch, fields[0])
    for field in fields[1:]:
        newest = np.maximum(newest, int_column(batch, field))
    # `NEVER` is no time: a row of the last microsecond counts as of the one before, or T < NEVER would fail for it.
    return Lifetimes(np.minimum(newest, NEVER - 1), expiry(batch, state))


def expiry(batch: pa.RecordBatch, state: State) -> Int64Array:
    """E of each row: from then on no combination with it is valid. `NEVER` where nothing limits it."""
    result = np.full(batch.num_rows, NEVER, dtype=np.int64)
    for field, width in state.windows:
        ends = int_column(batch, field)
        left = width
        while left > 0:  # saturate: a window may reach past the end of 64-bit time, and may itself be longer than 2**63
            step = min(left, NEVER)
            ends = np.where(ends > NEVER - step, NEVER, ends + step)
            left -= step
        np.minimum(result, ends, out=result)
    return result
