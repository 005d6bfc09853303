"""Slices of event time: where a row lies that no key places.

A row of a join that no hash serves is placed by its time T (the latest event time in it): T lies in slice T // width,
and slices are dealt out over the 64-bit line that groups are ranges of, each at the golden ratio from the one before.
So any run of neighbouring slices is spread evenly over however many slots there are, as the three-distance theorem
has it, and a group is a set of slices. Within a slice rows are in the order of their times. The line is that of hashes
on purpose: segments, groups, owners, moves and changes of slots are those of every other state.

After [Wang09], whose nodes each hold one stretch of the window, while rows move from the head of the ring to its tail.
Here the ring turns and rows stay: a new slice goes to the next slot, and the oldest one of that slot has just expired.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from watersmeet.model.ids import Partitioning

Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]

BY_TIME = Partitioning("time")  # what rows in slices are placed by

SLICES = 256  # of the widest window
UNBOUNDED_SLICE_US = 1_000  # where there is none: rows of a millisecond together

GOLDEN = np.uint64(11400714819323198485)  # 2**64 over the golden ratio, odd
_OFFSET_BITS = 20  # for the place within a slice
_OFFSETS = (1 << _OFFSET_BITS) - 1


@dataclass(frozen=True)
class SliceReach:
    """Which slices the rows of a port have to visit: all that may hold a row within their windows, and theirs.

    A row with the time T and the expiry E joins rows with a time below E, and above T - `back_us`, the least of the
    windows of these; None where they have none.
    """

    slice_us: int
    back_us: int | None
    windows: tuple[tuple[str, int], ...]  # of the rows that visit
    time_fields: tuple[str, ...]
    copies: int = 1  # of each row that is visited

    @property
    def segments(self) -> float:
        """How many slices, or segments of that length, a row reaches on the average, where both sides have windows.

        >>> SliceReach(10, 10, (("@A", 10),), ("@A",)).segments, SliceReach(50, 10, (("@A", 10),), ("@A",)).segments
        (3.0, 1.4)
        """
        assert self.back_us is not None
        return 1 + (min(width for _, width in self.windows) + self.back_us) / self.slice_us


def slice_width(windows_us: list[int]) -> int:
    """How wide slices are where the windows are these."""
    return max(1, max(windows_us) // SLICES) if windows_us else UNBOUNDED_SLICE_US


def place_times(times: Int64Array, width_us: int) -> UInt64Array:
    """Where rows of these times lie on the line."""
    number = times // width_us
    offset = (times - number * width_us).astype(np.float64) * ((_OFFSETS + 1) / width_us)
    return slice_starts(number) | np.minimum(offset.astype(np.uint64), np.uint64(_OFFSETS))


def slice_starts(numbers: Int64Array) -> UInt64Array:
    """Where the slices of these numbers begin on the line."""
    return (numbers.view(np.uint64) * GOLDEN) & ~np.uint64(_OFFSETS)


def slice_ends(numbers: Int64Array) -> UInt64Array:
    """The last places of these slices."""
    return slice_starts(numbers) | np.uint64(_OFFSETS)
