"""How many results to expect of a group: the formulas that policies share.

All after [Levandoski11], whose joins have two inputs. For more, rows that meet become combinations of one row from each
input, and the chance that two rows have the same key, 1 / unique, becomes 1 / unique ^ (inputs - 1): every row after
the first must have the key of the first. With two inputs these are the paper's formulas.

Limits: keys are taken to be spread evenly over a group, and every row of a key to join; windows and predicates beyond
the key do not count. So a figure serves to compare groups, and promises nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from watersmeet.adapt.view import ColdView, MemoryView
from watersmeet.model.ids import Generation, OperatorName
from watersmeet.state.ledger import Floats, Ledger


def matching(combinations: float, inputs: int, unique: float) -> float:
    """How many of these combinations, of one row from each input, have one key.

    >>> matching(100 * 10, 2, unique=5)
    200.0
    """
    # A group with rows has at least one key, whatever a sketch says.
    return combinations / max(unique, 1.0) ** (inputs - 1)


def new_results(kept: Sequence[float], coming: Sequence[float], unique: float) -> float:
    """The results of which at least one row is still to come [Levandoski11, algorithm 1, lines 9 to 12].

    >>> new_results(kept=(100, 15), coming=(12, 10), unique=5)
    260.0
    """
    then = math.prod(old + new for old, new in zip(kept, coming, strict=True))
    return matching(then - math.prod(kept), len(kept), unique)


def next_results(kept: Sequence[float], coming: Sequence[float], unique: float) -> float:
    """The results of which exactly one row is still to come.

    >>> next_results(kept=(100, 15), coming=(12, 10), unique=5)
    236.0
    """
    meetings = math.fsum(
        new * math.prod(old for place, old in enumerate(kept) if place != at) for at, new in enumerate(coming)
    )
    return matching(meetings, len(kept), unique)


def owed_by(cold: ColdView) -> float:
    """The results across the generations of a group: all results but those within one of them.

    The paper adds to a counter at each flush (dskLocRslt, section V-B2). This is the sum of what it adds, as long as
    the number of keys does not change from flush to flush; here ((300 * 10) + (60 * 140)) / 5.

    >>> owed_by(ColdView(OperatorName("J1"), 0, 2, (300 + 140, 60 + 10), 300 * 60 + 140 * 10, bytes=0, unique=5))
    2280.0
    """
    across = max(0.0, math.prod(cold.rows_by_input) - cold.within)
    return matching(across, len(cold.rows_by_input), cold.unique)


def owed_by_group(ledger: Ledger, group: int, with_live: bool) -> float:
    """The same for one group of a ledger, with the live generation as one more if it is merged too."""
    rows, within = ledger.rows[:, group].astype(float), float(ledger.products[group])
    if with_live and ledger.live is not None:
        rows, within = rows + ledger.live.rows[:, group], within + float(ledger.live.products[group])
    across = max(0.0, math.prod(rows.tolist()) - within)
    return matching(across, len(rows), float(ledger.keys.distinct[group]))


def owed_between(ledger: Ledger, generations: Sequence[Generation]) -> Floats:
    """The results across these generations that are to be expected of each group."""
    held = [ledger.closed[number] for number in generations]
    together = np.prod(sum(generation.rows for generation in held), axis=0, dtype=np.float64)
    across = np.maximum(0.0, together - sum(generation.products for generation in held))
    return np.asarray(across / np.maximum(ledger.keys.distinct, 1.0) ** (len(ledger.rows) - 1))


def kept_bytes(view: MemoryView, operator: OperatorName) -> float:
    """What a result of the operator adds to the states above it. Those of the root are kept nowhere."""
    found = view.operator(operator)
    return sum(found.row_bytes) if found.depth > 0 else 0.0


def arriving_bytes(view: MemoryView) -> float:
    """What comes to all operators in a batch."""
    sizes = {operator.id: operator.row_bytes for operator in view.operators}
    return math.fsum(
        rows * size for group in view.groups for rows, size in zip(group.arrivals, sizes[group.operator], strict=True)
    )


def global_share(view: MemoryView, operator: OperatorName, group: int) -> float:
    """How many results of the query come of one result of the operator in this group: obsGlo / obsLoc.

    At the root, 1. The paper does not say what holds for a group that has put out nothing lately: here its totals
    count, then what its operator puts out in all groups, and where that is nothing too, 1.
    """
    if view.operator(operator).depth == 0:
        return 1.0
    live = view.live(operator, group)
    known = [(live.recent_local, live.recent_global), (live.local_output, live.global_output)] if live else []
    for local, overall in (*known, view.recent_outputs[operator]):
        if local > 0:
            return overall / local
    return 1.0
