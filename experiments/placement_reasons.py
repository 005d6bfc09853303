"""Why figures of [Liu05] on relocation come out otherwise here: the sentences of `placement_claims.py`."""

from __future__ import annotations

WHY_LIMIT = (
    "Two machines: the state grows in proportion to the rows that have come, so two slots with half of them each are "
    "full after twice the time of one, 50 minutes. In the report they last 1.4 times as long. That would be so if one "
    "of the two had 71 % of the state, or if what it measures grew with the square of the time, as the results of a "
    "row and the queues of results do. Here a slot that is full does not stop: it spills."
)
WHY_SPANS = (
    "Spans: once half of the busy groups of either phase are on each slot, the alternation does not show any more, and "
    "moves become rare. Which groups go is not in the report; here the largest do. With three other seeds there were "
    "24 moves with 15 s, 21 to 23 with 30 s and 18 to 22 with 45 s, and 3 at a threshold of 50 %; with the most "
    "productive groups first, as lazy-disk has it, 14 to 16, 13 or 14 and 10 to 12, and 2."
)
WHY_COST = (
    "Cost: a move is one commit, and results come as without it. But groups that were moved lie scattered over the "
    "slots: the rows of a batch are cut at each change of owner, and so are the rows that are kept. That is some "
    "milliseconds a batch, whatever its size, and does not grow with moves once groups are scattered. These batches "
    "have a hundred rows of each stream, so that it is much of what they take. To move neighbouring groups together "
    "would keep ranges long; it is not done."
)
WHY_CLEAN_UP = (
    "Time of the clean-up: with two thirds of the groups on one slot without relocation, and a third on each with, the "
    "slowest has half as many to do, and fewer generations of each. In the report it takes a quarter of the time or "
    "less. It does not say what else differs; a machine whose heap is nearly full, and a disk that is read for each "
    "group, would do it."
)
WHY_DIP = (
    "The dip: what is pushed out has a join ratio of 1, and a row of it a sixteenth of the results of one with a ratio "
    "of 4, so that little is lost. It lasts until lazy-disk has to spill as well, groups with a ratio of 4 among them."
)
