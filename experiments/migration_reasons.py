"""Why figures of [Zhu06, chapter 16] come out otherwise here, or larger: the sentences of `migration_claims.py`."""

from __future__ import annotations

SILENT = 3.0  # times the longest gap between results before: what counts as silence
LATER = 2.0  # times the longest gap under the new plan: at the switch that takes in what a batch brought, and then one

WHY_ONE_WINDOW = (
    "One window, not two: the dissertation purges a joined row by the largest timestamp in it. A new row of B that "
    "meets an old row of A just before that expires makes a joined row that stays for another window, and has to be "
    "waited for. Here a joined row keeps the times of all its parts, and goes when the first of them does: after one "
    "window nothing is left of the rows from before, at any height of the tree. On top come batches, which are "
    "whole, and the watermark, which is that of the batch before."
)
WHY_POLYNOMIAL = (
    "Moving state: comparisons and joined rows grow with the square and the cube of W (equation 16.1, drawn with the "
    "prices of this machine, and without the factor of two in its state sizes, which ours do not have). To read and to "
    "sort the inputs takes time in proportion to W, and to begin and to commit a few milliseconds whatever W is: so "
    "with small windows the exponent is lower."
)
WHY_CROSSOVER = (
    "Crossover: it depends on whose second it is. By the stream's clock parallel track takes one window, and moving "
    "state as long as it computes, which from some window on is longer. But there the machine is not fast enough "
    "any more: the new track has to make the same joined rows as moving state, batch by batch, while the old plan "
    "answers as well. On one core parallel track therefore takes longer at every window. It would be the faster one if "
    "it had cores of its own."
)
WHY_SEEDED = (
    "Seeded: it computes as much as moving state, in steps that are to end before the next results are due, and then "
    "has to catch up. A run that has fallen behind takes larger steps, and so ends before a window is over."
)
WHY_SILENCE = (
    "Silence: results come with batches, so what is compared is the longest time between two batches with results, "
    f"during the migration, before it and after it; {SILENT:g} times as long as before counts as silence, if it is "
    f"{LATER:g} times as long as under the new plan, too: the switch takes in what came with the last batch, and the "
    "next one follows, so that two batches of the new plan come without results between them. The other way round a "
    "batch of the new plan takes two or three times as long as one of the old."
)
WHY_MORE_ROWS = (
    "Intermediate rows: during a parallel track both plans keep theirs, here as there. In the dissertation moving "
    "state had more, since nothing could be purged while it recomputed for seconds; here it takes less than a batch "
    "of the old plan, and then that plan's rows are gone at once."
)
WHY_SHORT = (
    "A short silence: rows are joined in bulk, so to make the new states takes no longer than a batch of the "
    "overloaded old plan. In the dissertation queues inside the plan were worked off first, which is part of its "
    "silence; here a batch is over before a migration begins."
)
WHY_OVERHEAD = (
    "Overhead: looks compare a few figures, and the first one asks the optimiser. Two runs of the same plan differ "
    "by a per cent or two by themselves: the range is that of the pairs."
)
WHY_THROUGHPUT = (
    "Throughput: what is gained depends on how far the old plan is beyond its core, which is our choice; the "
    "dissertation does not say how far it was. A run that keeps up has as many times the results as the old plan needs "
    "cores, and more while it works off what had come to wait."
)
WHY_MEMORY = (
    "Memory: rows that wait for a run that does not keep up are memory too, in the dissertation (states and queues) as "
    "here. The longer the run, the more of them there are."
)
WHY_STATE = (
    "State alone: of the states only that of the lower join differs. With 100 rows of each stream in a window, its 200 "
    "rows (at .02) become 50 (at .005), and 500 rows in all become 350; a plan without a lower join has 300."
)
WHY_SEVERAL = (
    "Several switches: after every second one the plan that is never changed is the right one again, and works off "
    "what waits. So the lead is largest at the end of the phases in which it is wrong, and may be gone at the end of "
    "the run."
)
