"""Why figures of [Zhu06, chapter 23] come out otherwise here: the sentences of `balancing_claims.py`."""

from __future__ import annotations

WHY_FALL = (
    "Rates that fall: when B and C fall to 5 rows a second, every plan has less to do than before. What is left is A, "
    "whose rows meet those of B from before the fall, until they expire. To have (A (B C)) instead, B and C from "
    "before have to be joined with each other, |B| times |C| comparisons, and what is saved is |B| comparisons for "
    "each row of A: so the change pays after as many seconds as C had been coming when it fell, 30 here, times the "
    "rate of C over that of A. By then the run is nearly over. Rows are taken in their order, so that a slot that is "
    "behind still has the rows from before the fall in front of it, for which both plans cost the same. In the "
    "dissertation local plans alone double the results; with what it tells of the setting, we see no way to that. "
    "Where the same rates are come to from below (A rises), the load comes with the change, and a better plan for it "
    "shows."
)
WHY_LEVEL = (
    "Twice at most: one of four slots has half of the groups. When all have a quarter, the slowest takes half as long, "
    "and that is where a factor of two comes from. To be level by memory is not quite to be level by seconds, and what "
    "is done outside of slots does not become less."
)
WHY_MOVES = (
    "Moves: groups whose plans are alike are moved by one commit here, and by neither of the two protocols. So "
    "balancing alone is one line, and not one for each."
)
WHY_BOUND = (
    "How much can be gained depends on the load: with enough of both, no run falls behind and all give the same, and a "
    "run that keeps up gives as many times the results of the one without adaptation as that one is behind. The "
    "dissertation does not say how overloaded its machines are. The load here is 3.5; other loads are below."
)
WHY_PARALLEL = (
    "Parallel track: the old plan goes on with all its work for one window, on the slot that has too much of it, and "
    "the new one runs beside it. Slots take turns, since one change of the plan is under way at a time, so that four "
    "slots take four windows, by event time; a run that is behind takes longer for them by the clock. In the "
    "dissertation machines change their plans by themselves, and parallel track is a little ahead of moving state in "
    "23.1 (3.3 against 2.7 times), which its own section 23.3 says it is not but where rates have just fallen."
)
WHY_TOTAL = (
    "Rows in the system are those that wait and those that are kept. Where the run falls behind it is rows that wait, "
    "and balancing has as few of them as local plans do."
)
WHY_CELLS = (
    "Windows by rates: to change by moving state, a slot compares all rows of B that it keeps with all of C at once. "
    "That grows with the square of rate and window, and is paid back only after about a window, which is long in a run "
    "of 90 seconds: the larger the window, the later. A parallel track compares new rows alone, and most of its runs "
    "end before it does. What lead there is comes of the moves, which both have. The dissertation takes its receiver "
    "to be idle, so that making the state costs nobody anything; here it is the slot itself, and batches wait for it."
)
WHY_ONE_WINDOW = (
    "One window, not two, because joined rows keep the times of all their rows; see the page on migration. It is "
    "counted in seconds of input: a run that falls behind takes longer by the clock."
)
