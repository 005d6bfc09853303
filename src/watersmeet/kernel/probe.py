"""Number the distinct hashes of a batch, and spell runs of rows out as row numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from watersmeet.kernel.hashing import UInt64Array
from watersmeet.kernel.rows import Int64Array


def number_distinct(columns: Sequence[UInt64Array]) -> tuple[UInt64Array, list[Int64Array]]:
    """The distinct values of all columns, sorted, and for each column the number of each of its values among them.

    >>> number_distinct([np.array([5, 9], np.uint64), np.array([2, 9], np.uint64)])
    (array([2, 5, 9], dtype=uint64), [array([1, 2]), array([0, 2])])
    """
    whole = np.concatenate(columns)
    order = np.argsort(whole)
    ordered = whole[order]
    first = np.empty(len(whole), dtype=bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    number = np.empty(len(whole), dtype=np.int64)
    number[order] = np.cumsum(first) - 1
    ends = np.cumsum([len(column) for column in columns])
    return ordered[first], np.split(number, ends[:-1])


def expand(starts: Int64Array, counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """For runs of `counts` rows from `starts`: the number of the run of each row, and the row.

    >>> expand(np.array([10, 20]), np.array([2, 1]))
    (array([0, 0, 1]), array([10, 11, 20]))
    """
    run = np.repeat(np.arange(len(counts)), counts)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    row = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return run, row
