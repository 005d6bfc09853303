"""From one length of a ring to another: at once, or as slices age. Pure.

After [Wang09] 6.2. *Aggressive*: all groups that are to lie elsewhere go in one edit of owners; slots read the rows of
what they get. *Passive*: only what is yet to come goes to new owners. There a slot is a stretch of the window, which
passes on what it has as that ages; here a group gets new slices all the time, so that one goes when it is empty, which
costs nothing, and of the others a few with each batch, those with the fewest rows first.

Meanwhile a ring lies over the slots of both lengths, and who probes it visits all that have anything: exact at any
moment, and as dear as the longer of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

STEP = 1 / 16  # of all rows, that go with one batch


def next_step(moves: Mapping[int, int], rows: Sequence[int]) -> dict[int, int]:
    """Those of the moves of groups that are made before the next batch: of empty groups all, of others few.

    >>> next_step({0: 1, 1: 1, 2: 1, 3: 1}, [60, 0, 20, 10] + [10] * 20)
    {1: 1, 3: 1}
    """
    left = STEP * sum(rows)
    chosen: dict[int, int] = {}
    for group in sorted(moves, key=lambda group: (rows[group], group)):
        if rows[group] > left and any(rows[other] for other in chosen):
            break
        chosen[group] = moves[group]
        left -= rows[group]
    return chosen
