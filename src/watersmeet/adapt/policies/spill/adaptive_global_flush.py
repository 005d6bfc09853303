"""`adaptive-global-flush` [Levandoski11, algorithm 1]: spill the groups of which the fewest results a row are to come.

Looks ahead to the next spill, when as many bytes as are freed now will have come: how many rows each group gets of them
(from recent arrivals), how many results of the operator these make with the rows kept and with each other, and how many
of those become results of the query (from recent outputs). `estimates.py` has the formulas, for any number of inputs;
with two they are the paper's.

As in the paper, the score is by row and not by byte, and a group's share of the rows that came lately is taken as its
share of the bytes to come. Where the paper says two things:
- input_tot belongs to one operator in its text, and has no index in its algorithm, where it divides bytes that enter
  the whole plan. Here it is over the whole plan; by operator, each of them would get all bytes that come.
- To stop once N bytes are flushed (its text), or only beyond N (line 19). Here as in the text.
- The ratio of outputs is local over global in two places of its text. Here global over local, as in line 14 and in the
  example.

Limit: before anything has come lately all scores are 0, and the larger group goes first.
"""

from __future__ import annotations

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.estimates import global_share, new_results
from watersmeet.adapt.policies.spill.choice import lowest_first
from watersmeet.adapt.view import GroupView, MemoryView

FLUSH_SHARE = 0.05  # of the active state that one spill takes, as the paper has it


def adaptive_global_flush(view: MemoryView, bytes_to_free: int) -> SpillGroups:
    """Spill groups from which the fewest results per row are expected until the next spill."""

    def score(group: GroupView) -> float:
        return expected_score(view, group, bytes_to_free)

    return lowest_first(view, bytes_to_free, score, "results of the query expected per row")


def expected_arrivals(view: MemoryView, group: GroupView, bytes_to_come: int) -> tuple[float, ...]:
    """Step 1: the rows that each input of the group gets until so many bytes have come (expPrtInput)."""
    if view.arrivals_total <= 0:
        return (0.0,) * len(group.arrivals)
    widths = view.operator(group.operator).row_bytes
    return tuple(
        bytes_to_come * (came / view.arrivals_total) / width if width > 0 else 0.0
        for came, width in zip(group.arrivals, widths, strict=True)
    )


def expected_local(view: MemoryView, group: GroupView, bytes_to_come: int) -> float:
    """Step 2: the results of the operator that these make (expLocRslt)."""
    return new_results(group.rows, expected_arrivals(view, group, bytes_to_come), group.unique)


def expected_score(view: MemoryView, group: GroupView, bytes_to_come: int) -> float:
    """Step 3: the results of the query that come of them (expGloRslt), for each row in memory (grpScore)."""
    expected = expected_local(view, group, bytes_to_come) * global_share(view, group.operator, group.group)
    return expected / max(1, sum(group.rows))
