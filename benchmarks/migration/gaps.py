"""Roads from one plan to another over a large state: how long the output is silent, and how long it takes.

A run fills the state (a window of all streams), and its checkpoint is what every road starts from, on a copy. Rows go
on coming; after some batches the plan is to change. For each road:

- ordinary: seconds from result to result before the change, the median, and the largest;
- longest gap: of those from then until three batches after the new plan answers; as a multiple of the median;
- until it answers: seconds from the result before the change to the first of the new plan, and how many batches;
- after: seconds from result to result under the new plan, the median;
- whether everything that was delivered, by the filling run and this one, is DuckDB's answer.

*replay* is what is left to whoever cannot change the plan of a stateful query: a new query with the new plan reads the
rows of the window again, from its first batch to its last. It is flattered: its batches are large, it runs on the same
engine, and its results, which were all delivered before, go nowhere. Nothing comes out meanwhile.

Rows come at a pace that leaves `SPARE` of the time free, as on a machine that is not overloaded; and once more as fast
as they are taken (no spare time), where every step of a change keeps the next batch waiting.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.chain_data import Fingerprint
from benchmarks.harness import align
from benchmarks.migration.data import Stage, Windowed, answer, delivered, link, unlink
from benchmarks.migration.jobs import Ran, Setting, run

FORMER, NEW = "(((A B) C) D)", "(A (B (C D)))"
WINDOW = 20  # batches
FILLED = WINDOW + 4  # batches of the run that fills the state
BEFORE, AFTER = 7, 6  # batches of a road's run before the change, and after a window has passed
SKIPPED = 2  # of those before: caches are cold
SETTLING = 3  # batches under the new plan that may still be slow
REPLAYED = 5  # files of each stream in a batch of the replay
SPARE = 0.4
ROADS = ("moving-state", "parallel-track", "seeded")
TARGET = 1.5


@dataclass(frozen=True)
class Passage:
    """What a road has come to."""

    road: str
    ordinary: float
    largest: float
    longest: float
    until: float | None  # None: the new plan never answered
    batches: int
    after: float
    steps: float  # seconds
    rows: int
    right: bool


def data_of(rows: int) -> Windowed:
    """`rows` in the window, of all streams together."""
    batches = FILLED + BEFORE + WINDOW + AFTER
    return Windowed(rows // (4 * WINDOW), WINDOW, (Stage(batches, (1.0, 1.0, 1.0)),))


def measure(data: Windowed, runtime: str, home: Path, spare: bool = True, roads: Sequence[str] = ROADS) -> bool:
    """Run all, print the table, and tell whether every answer was right."""
    filled = fill(data, runtime, home)
    last = filled.batches[-1].event
    batch = median(b.at - a.at for a, b in pairwise(filled.batches[-5:]))
    pace = batch / (1 - SPARE) if spare else None
    whole = answer(data)
    how = f"one every {pace:.2f} s" if pace else "as fast as they are taken"
    held = f"{data.rows_a_batch * WINDOW:,} rows in the window, {last['state_rows']:,} in all states"
    print(
        f"\ngaps, {runtime}: {held}, batches of {data.rows_a_batch:,} rows, {how}; from {FORMER} to {NEW}", flush=True
    )
    found = [take(road, data, runtime, home, pace, whole) for road in roads]
    seconds, right = replay(data, runtime, home)
    print(table(found, seconds, right))
    for said in verdicts(found):
        print(said)
    return right and all(each.right for each in found)


def fill(data: Windowed, runtime: str, home: Path) -> Ran:
    link(data, home / "in", 0, FILLED)
    ran = run(Setting(data, home, runtime, f'plan = "{FORMER}"', "filled"))
    shutil.move(home / "ck", home / "filled-ck")
    return ran


def take(road: str, data: Windowed, runtime: str, home: Path, pace: float | None, whole: Fingerprint) -> Passage:
    """One road, from a copy of the filled checkpoint to the end of the data."""
    shutil.copytree(home / "filled-ck", home / "ck")
    link(data, home / "in", FILLED)
    forced = f'[[adapt.force]]\nat_batch = {FILLED + BEFORE}\nplan = "{NEW}"\nby = "{road}"'
    setting = Setting(data, home, runtime, f'plan = "{FORMER}"\n{forced}', road, pace=pace)
    ran = run(setting, data.batches - FILLED)
    unlink(data, home / "in", FILLED)
    shutil.rmtree(home / "ck")
    return passage(road, ran, delivered([home / "filled", home / road]) == whole)


def passage(road: str, ran: Ran, right: bool) -> Passage:
    gaps = [then.at - now.at for now, then in pairwise(ran.batches)]  # the first is of batch 1
    ordinary = gaps[SKIPPED : BEFORE - 1]
    switched = next((i for i, entry in enumerate(ran.batches) if "ChangePlan" in entry.decided), None)
    until = len(ran.batches) if switched is None else switched + 1
    changed = ran.decisions("ChangePlan")
    return Passage(
        road,
        median(ordinary),
        max(ordinary),
        max(gaps[BEFORE - 1 : until - 1 + SETTLING]),
        None if switched is None else sum(gaps[BEFORE - 1 : switched]),
        until - BEFORE,
        median(gaps[until - 1 + SETTLING :] or gaps[-1:]),
        changed[0]["seconds"] if changed else 0.0,
        changed[0]["rows"] if changed else 0,
        right,
    )


def replay(data: Windowed, runtime: str, home: Path) -> tuple[float, bool]:
    """Seconds that a new query takes for the rows of the window, and whether it found what is in them."""
    first = FILLED - WINDOW
    folder = home / "replay"
    link(data, folder / "in", first, FILLED)
    ran = run(Setting(data, folder, runtime, f'plan = "{NEW}"', "", REPLAYED))
    seconds = ran.batches[-1].at - next(entry.at for entry in ran.events if entry.kind == "start")
    right = ran.end["rows_out"] == answer(data, first, FILLED).rows
    shutil.rmtree(folder)
    return seconds, right


def table(found: list[Passage], replayed: float, right: bool) -> str:
    columns = ("road", "ordinary s", "largest", "longest gap", "x ordinary", "until it answers", "batches")
    lines = [(*columns, "in steps", "rows taken in", "after s", "answer")]
    for each in found:
        lines.append(
            (
                each.road,
                f"{each.ordinary:.2f}",
                f"{each.largest:.2f}",
                f"{each.longest:.2f}",
                f"{each.longest / each.ordinary:.2f}",
                "never" if each.until is None else f"{each.until:.1f}",
                str(each.batches),
                f"{each.steps:.1f}",
                f"{each.rows:,}",
                f"{each.after:.2f}",
                "right" if each.right else "WRONG",
            )
        )
    ordinary = median(each.ordinary for each in found)
    gap = f"{replayed:.1f}", f"{replayed / ordinary:.2f}", f"{replayed:.1f}"
    lines.append(("replay", f"{ordinary:.2f}", "", *gap, "", "", "", "", "right" if right else "WRONG"))
    return align(lines)


def verdicts(found: list[Passage]) -> Iterator[str]:
    for seeded in (each for each in found if each.road == "seeded"):
        times = seeded.longest / seeded.ordinary
        said = "met" if times <= TARGET and seeded.until is not None else "MISSED"
        yield f"seeded: the longest gap is {times:.2f} times that of an ordinary batch (target {TARGET}, {said})"
