"""`rate-based`, for comparison: spill the groups whose rows are least likely to meet what comes next, after [Tao05].

Known to us by the description in [Levandoski11, sections II and IV-C] alone: how fast rows come to each part of each
input says how soon a kept row finds a partner, and what becomes of the result higher up does not count. The score is
the number of the operator's results that recent arrivals would make with the rows kept, per byte.

Departures: the original flushes the part of one input, of a single join with two inputs; here a group leaves with the
rows of all its inputs, groups of all operators compete, and combinations take the place of pairs (`estimates.py`).
"""

from __future__ import annotations

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.estimates import next_results
from watersmeet.adapt.policies.spill.choice import lowest_first
from watersmeet.adapt.view import GroupView, MemoryView


def rate_based(view: MemoryView, bytes_to_free: int) -> SpillGroups:
    """Spill groups that recent arrivals would make the fewest results with, per byte."""
    return lowest_first(view, bytes_to_free, expected_rate, "results of its operator expected per batch and byte")


def expected_rate(group: GroupView) -> float:
    return next_results(group.rows, group.arrivals, group.unique) / group.size_bytes
