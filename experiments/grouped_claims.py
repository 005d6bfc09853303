"""What [Zhu06, chapter 14] says of a group-by that changes places with a join, beside `grouped_changes.py`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.claims import Claim
from experiments.grouped_changes import (
    ABOVE,
    BATCHES_A_WINDOW,
    BELOW,
    DIRECTIONS,
    DOWN,
    UP,
    WINDOW_SECONDS,
    GroupedFindings,
)
from experiments.paced import Steady
from experiments.page import Columns, Table
from watersmeet.adapt.policies.migrate.parallel_track import ParallelTrack

LAG_BATCHES = 3  # that a parallel track may take beyond its window, for batches and watermarks are whole

WHY_BOTH_STAY = (
    "Group-by on top: no stream says here which of its columns are keys, and a group is emitted at boundaries, which "
    "is what the group-by on top does. So it stays where a join has a key, too: what comes to it is one row for each "
    "group and slide. As rows that have not met anybody yet are still there after the change, the chapter needs it for "
    "a window as well."
)
WHY_ONE_ANSWERS = (
    "One track answers at any time, and the other is silent until it takes over. So partial results of two plans are "
    "never put together by an operator above both; the state of the group-by is taken over as it is, and what old rows "
    "and new ones add to a group meets there."
)
WHY_UP = (
    "Up again: rows that were added up cannot be told apart any more. Where the chapter puts the partial groups into "
    "the queue of the join, they stay in its state here, each with its weight; new rows have a weight of one. Both "
    "plans keep the same states, so that nothing has to be made."
)


def check_grouped(findings: Sequence[GroupedFindings]) -> tuple[Claim, ...]:
    many, key = findings
    return (_worth_it(many), _all_ways(findings), _one_window(findings), _nothing_to_make(findings), _one_group_by(key))


def steady_of(found: GroupedFindings, tree: str) -> Steady:
    steady = found.alone[tree].steady
    assert steady is not None, "it ran for windows"
    return steady


def _worth_it(many: GroupedFindings) -> Claim:
    above, under = steady_of(many, ABOVE), steady_of(many, BELOW)
    return Claim(
        "14.1",
        "two group-bys can be better than one: fewer rows come to the join",
        f"{above.cores:.2f} cores on top, {under.cores:.2f} below; {above.state_rows:,.0f} and "
        f"{under.state_rows:,.0f} rows of state",
        under.cores < above.cores and under.state_rows < above.state_rows,
    )


def _all_ways(findings: Sequence[GroupedFindings]) -> Claim:
    changes = [change for found in findings for change in found.changes.values()]
    wrong = sum(change.wrong for change in changes)
    done = sum(change.change is not None for change in changes)
    return Claim(
        "14.2",
        "below the join and above it, by every road: groups of old and new rows are combined (3 + 7 = 10)",
        f"{done} of {len(changes)} changes came to their end; {sum(change.groups for change in changes):,} groups at "
        f"{sum(change.boundaries for change in changes)} boundaries, {sum(change.spanning for change in changes)} of "
        f"them with rows from before and after, {wrong or 'none'} otherwise than without a change",
        done == len(changes) and not wrong and all(change.spanning for change in changes),
        WHY_ONE_ANSWERS,
    )


def _one_window(findings: Sequence[GroupedFindings]) -> Claim:
    changes = [found.changes[direction, ParallelTrack.name].change for found in findings for direction in DIRECTIONS]
    found = sorted(change.input_seconds / WINDOW_SECONDS for change in changes if change is not None)
    return Claim(
        "14.2",
        "a parallel track ends when all rows from before have expired",
        f"{found[0]:.2f} to {found[-1]:.2f} W" if found else "none came to its end",
        len(found) == len(changes) and found[0] >= 1.0 and found[-1] <= 1.0 + LAG_BATCHES / BATCHES_A_WINDOW,
    )


def _nothing_to_make(findings: Sequence[GroupedFindings]) -> Claim:
    works = {
        direction: max(
            change.work_seconds
            for found in findings
            for (way, road), each in found.changes.items()
            if way == direction and road != ParallelTrack.name and (change := each.change) is not None
        )
        for direction in DIRECTIONS
    }
    return Claim(
        "14.1",
        "the lower group-by can be put in and taken out; what it holds goes on to the join",
        f"down {1000 * works[DOWN]:.0f} ms at most, up {1000 * works[UP]:.0f} ms, other than by parallel track",
        works[UP] < works[DOWN],
        WHY_UP,
    )


def _one_group_by(key: GroupedFindings) -> Claim:
    above, under = steady_of(key, ABOVE), steady_of(key, BELOW)
    return Claim(
        "14.3",
        "where a key meets a foreign key the group-by on top is not needed any more",
        f"it stays; {above.cores:.2f} cores on top alone, {under.cores:.2f} with both; {above.state_rows:,.0f} and "
        f"{under.state_rows:,.0f} rows of state",
        False,
        WHY_BOTH_STAY,
    )


def grouped_table(findings: Sequence[GroupedFindings]) -> Table:
    """A line for each case, direction and road."""
    rows = []
    for found in findings:
        for (direction, road), each in found.changes.items():
            change = each.change
            times = ("no end", "", "") if change is None else _times(change.seconds, change.work_seconds, change.rows)
            compared = (f"{each.boundaries}", f"{each.spanning}", f"{each.groups:,}", f"{each.wrong}")
            rows.append((found.case.name, direction, road, *times, *compared))
    return Table(
        columns=(
            Columns("", ("case", "direction", "road"), text=True),
            Columns("change", ("length (ms)", "work (ms)", "rows taken in")),
            Columns("boundaries", ("compared", "old and new rows", "groups", "otherwise")),
        ),
        rows=tuple(rows),
        caption="Changes by all roads in both directions; lengths are by the machine's clock.",
    )


def _times(seconds: float, work_seconds: float, rows: int) -> tuple[str, str, str]:
    return f"{1000 * seconds:,.0f}", f"{1000 * work_seconds:,.0f}", f"{rows:,}"
