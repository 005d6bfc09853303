"""Why figures of [Wang09] come out otherwise here: the sentences of `ring_claims.py`."""

from __future__ import annotations

WHY_LOADS = (
    "Loads: those of the paper cannot be. With a selectivity of .5 a row finds 250 partners in the first window and "
    "62,500 results in both, at 150 rows a second: 9.4 million results a second. Rates are divided by one number, so "
    "that the shortest ring can do the largest; see below."
)
WHY_DIRECTION = (
    "Where the minimum is: the paper expects longer rings to be best for smaller selectivities, and calls that "
    "consistent with its cost model. By that model it is the other way round: the best length is where the share of "
    "a slot in the work, which falls with the length, is worth as much as the hops, which grow with it. More matches "
    "are more work to share, so the best ring is longer. That is what the runs show. It would be as the paper has it "
    "if hops became dearer with selectivity faster than work does, as on a network that is nearly full."
)
WHY_ATR_STATE = (
    "State of ATR: rows that have not expired are copied 1 + (w + w) / T times, however many nodes there are. It "
    "grows with the nodes only where a node takes out expired rows when another row comes to it: one whose turn is "
    "over keeps its last window until its next turn. So it is in the paper, as it seems, and in the second figure "
    "given here."
)
WHY_FLAT = (
    "Response under doubled rates: twice as many rows come, each meets twice as many in every window, and becomes "
    "twice as many partial results at the first step and four times as many at the second: some seven times the "
    "work. A ring of 19 slots has about twice the slots that were best before. So the response grows, by a few "
    "times; without adaptation rows pile up at the head for as long as it lasts."
)
WHY_PASSIVE = (
    "Passive relocation: rows that were there stay in the slots of the shorter ring until they expire, while twice "
    "as many come. For as long as a window it is as if the ring were short, or worse. Aggressive relocation stops "
    "the ring for as long as its rows take to go one slot on, some ten milliseconds here."
)
WHY_MODEL = (
    "The cost model: equation 5 has nothing wait in a queue, and results go the whole way round for each step. The "
    "length that it asks for may be right where its seconds are not: how far these are off, and how far those of the "
    "model with queues and half a round for each step, is in the chart."
)
WHY_REAL = (
    "For real: two slots share the comparisons evenly, but each of them has its own tasks, exchanges and copies of "
    "what is sent, which this small load shows."
)
