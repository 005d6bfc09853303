"""Aligned segments: stretches of a master's event time, and the places of rows that are joined there.

Not to be confused with the segments that state is written in. Rows of the master lie in segment T // length, where T is
the latest event time in them; rows of other inputs, in a copy each, in all segments with rows of the master that they
may join. Those are found as slices are that rows visit (`SliceReach`): a row with the time T and the expiry E joins
rows of the master with a time below E, and above T - w, where w is the least window of the master. For rows over one
input each both bounds are exact; for joined rows they are a superset, since E of a joined row is at most T + w: windows
are checked for each pair. Windows for pairs are predicates here as everywhere, and make no segments.

A segment is to a join what a key is: its number times an odd constant is the hash of all its rows. That is a bijection
of 64-bit numbers, so rows of two segments never meet, and the golden ratio between neighbours spreads any run of them
over the slots.

The copy in the segment of its own time, T // length, is the *home* copy of a row, which stands for it where each row
counts once. A row that can join anything has one, as T < E.
"""

from __future__ import annotations

import numpy as np

from watersmeet.model.ids import Partitioning
from watersmeet.model.slices import GOLDEN, Int64Array, UInt64Array

# What rows in segments are placed by, whoever is the master: what lies where follows from the key alone, so that a
# state of one plan can be one of another.
BY_SEGMENT = Partitioning("segment")


def segment_hashes(numbers: Int64Array) -> UInt64Array:
    """The hashes of the segments of these numbers.

    >>> len(set(segment_hashes(np.arange(-3, 4)).tolist()))
    7
    """
    return numbers.view(np.uint64) * GOLDEN
