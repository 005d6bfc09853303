"""A group-by that goes below a join and comes up again while a run goes on: the cases of [Zhu06, chapter 14].

Two streams, `AStream(aid, a2)` and `BStream(bid, aid, b2, b3)`, and two queries over them:

- *many to many* (query 1, figure 14.1): they meet on a2 = b2, which is no key of either, and b3 is summed by b2. The
  group-by below the join puts rows of B together; another one on top puts together what they make;
- *key to foreign key* (query 2, figure 14.3): they meet on aid, which is a key of A, and b3 is summed by aid. A group
  below the join meets one row of A, so that the group-by on top has nothing to put together.

In both directions and by every road the plan is changed once windows are full. The groups of every boundary are kept,
and compared with those of a run that never changes its plan: what counts there has rows from before and from after.

Ours: rates, windows and numbers of values, of which the chapter has none, as it measures nothing; the slide; and that
the second query does not select A.a2, which it does not group by.

Running is at the end; the rest is pure. Invariant: same case, same rows.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.paced import Change, CpuClock, Pace, PacedRun, Trace
from watersmeet.adapt.policies.migrate.moving_state import MovingState
from watersmeet.adapt.policies.migrate.parallel_track import ParallelTrack
from watersmeet.adapt.policies.migrate.seeded import Seeded
from watersmeet.generate.arrivals import Ints, below, draw, events_before, key_of, poisson
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.query import Query
from watersmeet.plan.tree import choose_tree

ROADS = (MovingState.name, ParallelTrack.name, Seeded.name)
ABOVE, BELOW = "(A B)", "(A B{})"
DOWN, UP = "below the join", "above it"
DIRECTIONS: Mapping[str, tuple[str, str]] = {DOWN: (ABOVE, BELOW), UP: (BELOW, ABOVE)}

WINDOW_SECONDS, SLIDE_SECONDS = 2.0, 0.5
BATCHES_A_WINDOW = 20
FILLED_AFTER = 1.25  # windows until sizes have settled
AFTERWARDS = 2.5  # windows that a run goes on for: in two of them rows from before count somewhere
SEED = 14

SCHEMAS = {
    "A": parse_schema("aid BIGINT, a2 BIGINT, ts BIGINT"),
    "B": parse_schema("bid BIGINT, aid BIGINT, b2 BIGINT, b3 BIGINT, ts BIGINT"),
}
STREAMS = {name: Stream(name, schema, "ts", timedelta(0)) for name, schema in SCHEMAS.items()}


@dataclass(frozen=True)
class GroupedCase:
    name: str
    figure: str
    keys: tuple[str, str]  # of A and of B, on which they meet
    rates: tuple[float, float]  # rows a second
    values: int  # of a2 and b2

    @property
    def query(self) -> str:
        window = f"[RANGE {WINDOW_SECONDS:g} SECONDS SLIDE {round(SLIDE_SECONDS * 1000)} MILLISECONDS]"
        of_a, of_b = self.keys
        return (
            f"SELECT B.{of_b} AS g, COUNT(*) AS n, SUM(B.b3) AS total\nFROM A {window}, B {window}\n"
            f"WHERE A.{of_a} = B.{of_b}\nGROUP BY B.{of_b}"
        )

    def bind(self) -> Query:
        return bind(self.query, STREAMS)

    def rows(self, seconds: float) -> dict[str, pa.RecordBatch]:
        """Rows that arrive in so many seconds; a row of B is of one of the rows of A of the last half window."""
        times = {}
        for stream, rate in zip("AB", self.rates, strict=True):
            key = key_of(SEED, self.name, stream)
            found = poisson(key, rate, events_before(poisson, key, rate, 0, round(seconds * 1e6)))
            times[stream] = found
        aids, bids = np.arange(len(times["A"])), np.arange(len(times["B"]))
        seen = np.maximum(1, np.searchsorted(times["A"], times["B"]))
        recent = np.minimum(seen, max(1, round(self.rates[0] * WINDOW_SECONDS / 2)))
        columns = {
            "A": [aids, self._drawn("a2", aids, self.values), times["A"]],
            "B": [
                bids,
                seen - 1 - self._drawn("aid", bids, recent),
                self._drawn("b2", bids, self.values),
                self._drawn("b3", bids, 1000),
                times["B"],
            ],
        }
        return {
            name: pa.RecordBatch.from_arrays([pa.array(column) for column in columns[name]], schema=SCHEMAS[name])
            for name in SCHEMAS
        }

    def _drawn(self, column: str, numbers: Ints, bound: int | Ints) -> Ints:
        return below(draw(key_of(SEED, self.name, column), numbers), bound)


def many_to_many(rate: float) -> GroupedCase:
    return GroupedCase("many to many", "14.1", ("a2", "b2"), (rate, rate), max(1, round(rate / 50)))


def key_to_foreign_key(rate: float) -> GroupedCase:
    return GroupedCase("key to foreign key", "14.3", ("aid", "aid"), (rate / 25, rate), 1)


# --- runs ------------------------------------------------------------------------------------------------------------


Group = tuple[int, int, int]
Boundaries = dict[int, set[Group]]  # by `window_end`


@dataclass(frozen=True)
class GroupedChange:
    """A change of the plan, and what came of the groups."""

    change: Change | None  # none: it did not come to its end
    boundaries: int  # at which groups were compared
    spanning: int  # of these, where rows from before the change count and rows from after it
    groups: int  # at all of them
    wrong: int  # boundaries at which they differ


@dataclass(frozen=True)
class GroupedFindings:
    case: GroupedCase
    alone: Mapping[str, Trace]  # with one plan all the time, by its tree
    changes: Mapping[tuple[str, str], GroupedChange]  # by direction and road

    def to_json(self) -> dict[str, Any]:
        return {
            "case": self.case.name,
            "rates": self.case.rates,
            "alone": {tree: None if t.steady is None else asdict(t.steady) for tree, t in self.alone.items()},
            "changes": [
                {"direction": direction, "road": road, **asdict(found)}
                for (direction, road), found in self.changes.items()
            ],
        }


def measure_grouped(case: GroupedCase, say: Callable[[str], None]) -> GroupedFindings:
    """Each plan by itself, and all roads in both directions, on the same rows."""
    seconds = (FILLED_AFTER + AFTERWARDS) * WINDOW_SECONDS
    rows = case.rows(2.0 * seconds)
    alone, answers = {}, {}
    for tree in (ABOVE, BELOW):
        alone[tree], answers[tree] = _run(case, tree, rows, seconds)
    changes = {}
    for direction, (old, new) in DIRECTIONS.items():
        for road in ROADS:
            trace, answer = _run(case, old, rows, seconds, (new, road))
            changes[direction, road] = _compared(trace, answer, answers[old])
    found = GroupedFindings(case, alone, changes)
    right = all(each.change is not None and not each.wrong for each in changes.values())
    say(f"{case.name}: {len(changes)} changes, {'all groups as without' if right else 'GROUPS DIFFER'}")
    return found


def _run(
    case: GroupedCase,
    tree: str,
    rows: Mapping[str, pa.RecordBatch],
    seconds: float,
    change: tuple[str, str] | None = None,
) -> tuple[Trace, Boundaries]:
    gc.collect()  # what is left of the last run is not to be this one's work
    query = case.bind()
    found: Boundaries = {}

    def keep(results: list[pa.RecordBatch]) -> None:
        for boundary, group in _groups(results):
            found.setdefault(boundary, set()).add(group)

    filled = FILLED_AFTER * WINDOW_SECONDS
    pace = Pace(float("inf"), WINDOW_SECONDS / BATCHES_A_WINDOW, filled)
    run = PacedRun(lay_out(query, choose_tree(query, tree)), rows, pace, CpuClock(), keep)
    try:
        for sample in run.batches():
            if change is not None and sample.taken_seconds >= filled:
                run.migrate(*change)
                change = None
            if sample.taken_seconds >= seconds:
                break
    finally:
        run.close()
    return run.trace(), found


def _groups(results: list[pa.RecordBatch]) -> Iterator[tuple[int, Group]]:
    for batch in results:
        columns = [batch.column(name).to_pylist() for name in ("window_end", "g", "n", "total")]
        for boundary, *group in zip(*columns, strict=True):
            yield boundary, (group[0], group[1], group[2])


def _compared(trace: Trace, found: Boundaries, expected: Boundaries) -> GroupedChange:
    """At the boundaries that both runs came to: whole ones, for a batch emits all groups of a boundary."""
    both = sorted(found.keys() & expected.keys())
    change = trace.changes[0] if trace.changes else None
    spanning = 0
    if change is not None:
        begun, over = change.asked_at * 1e6, (change.done_at + WINDOW_SECONDS) * 1e6
        spanning = sum(begun < boundary < over for boundary in both)
    wrong = sum(found[boundary] != expected[boundary] for boundary in both)
    # What one of them has in between and the other has not is wrong, too.
    wrong += sum(both[0] < boundary < both[-1] for boundary in found.keys() ^ expected.keys()) if both else 1
    return GroupedChange(change, len(both), spanning, sum(len(found[boundary]) for boundary in both), wrong)
