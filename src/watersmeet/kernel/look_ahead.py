"""Which hashes a state may hold, in one array: a look before rows are sent to a state that has nothing for them.

A routed join sends partial results on to the state that they meet next, and where few match, nearly all are sent,
sorted and searched for nothing. The sender can tell most of them beforehand: a flag for each stretch of the hash says
whether the state has a row there. With `WIDTH` stretches to a row, a hash that the state lacks is taken for present
once in `WIDTH` times at most; one that it has is never missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from watersmeet.kernel.hashing import UInt64Array

WIDTH = 16

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class HashFilter:
    """Flags for the stretches of all hashes, each 2 ** `shift` wide."""

    flags: BoolArray
    shift: np.uint64

    @classmethod
    def of(cls, parts: Sequence[UInt64Array]) -> HashFilter:
        bits = max(1, (WIDTH * sum(map(len, parts))).bit_length())
        flags = np.zeros(1 << bits, dtype=bool)
        shift = np.uint64(64 - bits)
        for values in parts:
            flags[values >> shift] = True
        return cls(flags, shift)

    def may_hold(self, values: UInt64Array) -> BoolArray:
        """For each hash whether it may be there; False is certain.

        >>> HashFilter.of([np.array([7 << 60], np.uint64)]).may_hold(np.array([7 << 60, 1 << 60], np.uint64))
        array([ True, False])
        """
        result: BoolArray = self.flags[values >> self.shift]
        return result
