"""Rows that are pictures, and the predicate that compares two of them pixel by pixel: [Wang09]'s movement detection.

A picture has 5, 10 or 20 thousand pixels of three bytes, as in the paper's section 8.1. The predicate gets Arrow
arrays, as every registered function does, and goes through them in blocks that stay in the caches of a core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from experiments.ring_calibration import ring_prices
from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.optimize.estimates import CostConstants
from watersmeet.optimize.ring_cost import RingPrices

PIXELS: Mapping[str, int] = {"small": 5_000, "middle": 10_000, "large": 20_000}
GIGABIT = 1e9 / 8  # bytes a second of the paper's network
CLOSE = 30  # mean difference of a byte, below which two pictures show the same
SAMPLE = 40  # pictures of either side that are compared to find out what it costs
BLOCK_BYTES = 1 << 17
TEXT = "SELECT A.ts FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE similar(A.picture, B.picture)"


@dataclass(frozen=True)
class Picture:
    """A size of pictures, with what they cost on this machine."""

    name: str
    prices: RingPrices

    @property
    def bytes(self) -> int:
        return 3 * PIXELS[self.name]

    @property
    def wired(self) -> RingPrices:
        """On the paper's network."""
        return replace(self.prices, wire=self.bytes / GIGABIT)


def measure(name: str, constants: CostConstants) -> Picture:
    left, right = (draw(PIXELS[name], SAMPLE, seed) for seed in range(2))
    streams = {alias: Stream(alias, left.schema) for alias in "AB"}
    return Picture(name, ring_prices(bind(TEXT, streams, {"similar": similar}), left, right, constants))


def draw(pixels: int, rows: int, seed: int) -> pa.RecordBatch:
    values = np.random.default_rng(seed).integers(0, 256, rows * 3 * pixels, dtype=np.uint8)
    pictures = pa.FixedSizeBinaryArray.from_buffers(pa.binary(3 * pixels), rows, [None, pa.py_buffer(values)])
    return pa.record_batch({"picture": pictures, "ts": pa.array(range(rows))})


def similar(left: pa.Array, right: pa.Array) -> npt.NDArray[np.bool_]:
    """Whether pictures differ by less than `CLOSE` on average.

    >>> black, grey, white = (bytes([value] * 3) for value in (0, 20, 255))
    >>> similar(pa.array([black, black], pa.binary(3)), pa.array([grey, white], pa.binary(3))).tolist()
    [True, False]
    """
    ours, theirs = _values(left), _values(right)
    width = left.type.byte_width
    step = max(1, BLOCK_BYTES // width)
    close = np.empty(len(ours), dtype=np.bool_)
    for low in range(0, len(ours), step):
        one, other = ours[low : low + step], theirs[low : low + step]
        apart = np.maximum(one, other) - np.minimum(one, other)
        close[low : low + step] = apart.sum(axis=1, dtype=np.uint32) < CLOSE * width
    return close


def _values(pictures: pa.Array) -> npt.NDArray[np.uint8]:
    width = pictures.type.byte_width
    values = np.frombuffer(pictures.buffers()[1], dtype=np.uint8)
    return values[pictures.offset * width : (pictures.offset + len(pictures)) * width].reshape(len(pictures), width)
