"""How many distinct keys a group of a state holds, from what each of its segments counted when it was written.

A segment knows its own rows n and distinct keys d, but a key may be in several segments. Keys are taken to be drawn
evenly from some number D of keys, where n draws hit D * (1 - exp(-n / D)) of them. The largest segment tells D, and D
with the rows of all segments tells how many keys these hit together. Exact for one segment, and where no key repeats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from watersmeet.model.segments import Segment


def distinct_keys(counts: Sequence[tuple[int, int]]) -> float:
    """The keys in several segments together, of which each has (rows, keys).

    >>> distinct_keys([(100, 60)]), distinct_keys([(100, 100), (50, 50)]), distinct_keys([])
    (60.0, 150.0, 0.0)
    >>> round(distinct_keys([(1000, 10), (1000, 10)]))
    10
    """
    counts = [entry for entry in counts if entry[0]]
    if len(counts) < 2:
        return float(sum(keys for _, keys in counts))
    total = sum(rows for rows, _ in counts)
    rows, keys = max(counts)
    if keys == rows:
        return float(sum(keys for _, keys in counts))
    domain = _domain(rows, keys)
    most = float(sum(keys for _, keys in counts))
    return min(most, max(float(keys), domain * -math.expm1(-total / domain)))


def _domain(rows: int, keys: int) -> float:
    """D such that `rows` draws hit `keys` of D keys; by halving, as the function rises."""
    low, high = float(keys), float(rows) ** 2
    for _ in range(24):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if middle * -math.expm1(-rows / middle) < keys else (low, middle)
    return high


def keys_by_group(segments: Sequence[Segment]) -> dict[int, float]:
    """The distinct keys in each group of a state that these segments make up."""
    counts: dict[int, list[tuple[int, int]]] = {}
    for segment in segments:
        for group, keys in segment.keys_by_group.items():
            counts.setdefault(group, []).append((segment.rows_by_group[group], keys))
    return {group: distinct_keys(entries) for group, entries in sorted(counts.items())}
