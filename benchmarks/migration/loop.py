"""What it costs to look at the plan again and again, where there is nothing to change.

The same run with `replan` and without it, in turns, the order changing from turn to turn. Statistics stay as they are,
and the plan is the right one. Of each turn the ratio of the two is taken, of CPU and of wall time, from the second
batch to the last: so that the load of others, which comes and goes, weighs less. Beside it, the seconds that the policy
itself has taken, the optimiser and all, as a share of the run's: this ratio nothing disturbs.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from benchmarks.harness import align
from benchmarks.migration.data import Stage, Windowed, answer, delivered, link
from benchmarks.migration.jobs import Setting, run, warm_up
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.policies.replan_worthwhile import ReplanWorthwhile

PLAN = "(((A B) C) D)"
FANOUTS = (0.2, 1.0, 2.0)  # for which it is right
WINDOW = 4  # batches
TARGET = 1.02
RUNS = {
    "off": "",
    "every 10": 'replan = "refined"',  # all else by default
    "every batch": 'replan = "refined"\nreplan_every = 1\nreplan_threshold = 0.0',
}


@dataclass(frozen=True)
class Looked:
    wall: float
    cpu: float
    inside: float  # the policy
    changes: int
    right: bool


def data_of(rows: int, batches: int) -> Windowed:
    """`rows` of each stream in a batch."""
    return Windowed(rows, WINDOW, (Stage(batches, FANOUTS),))


def measure(data: Windowed, runtime: str, turns: int, home: Path) -> bool:
    """Run all, print the table, and tell whether every answer was right."""
    expected = answer(data)
    print(f"\nloop, {runtime}: {data.batches} batches of {data.rows_a_batch:,} rows, {turns} turns", flush=True)
    warm_up(data, runtime, home)
    found: dict[str, list[Looked]] = {name: [] for name in RUNS}
    for turn in range(turns):
        for name in list(RUNS)[:: -1 if turn % 2 else 1]:
            folder = home / f"loop-{turn}-{RUNS[name].count('=')}"
            link(data, folder / "in")
            with watched() as inside:
                ran = run(Setting(data, folder, runtime, f'plan = "{PLAN}"\n{RUNS[name]}'))
            first, last = ran.batches[1], ran.batches[-1]
            right = delivered([folder / "out"]) == expected
            changes = len(ran.decisions("ChangePlan"))
            found[name].append(Looked(last.at - first.at, last.cpu - first.cpu, sum(inside), changes, right))
    print(table(found))
    print(verdict(found))
    return all(each.right for runs in found.values() for each in runs)


class watched:
    """Notes the seconds of each time that the policy is asked."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        propose = ReplanWorthwhile.propose

        def timed(policy: ReplanWorthwhile, outlook: Any) -> Iterator[Decision]:
            started = time.perf_counter()
            decided = list(propose(policy, outlook))
            self._seconds.append(time.perf_counter() - started)
            return iter(decided)

        self._patch = mock.patch.object(ReplanWorthwhile, "propose", timed)

    def __enter__(self) -> list[float]:
        self._patch.start()
        return self._seconds

    def __exit__(self, *_: object) -> None:
        self._patch.stop()


def table(found: dict[str, list[Looked]]) -> str:
    lines = [("replan", "wall s", "x off", "CPU s", "x off", "inside", "changes", "answer")]
    for name, runs in found.items():
        walls = [each.wall / off.wall for each, off in zip(runs, found["off"], strict=True)]
        cpus = [each.cpu / off.cpu for each, off in zip(runs, found["off"], strict=True)]
        lines.append(
            (
                name,
                f"{median(each.wall for each in runs):.2f}",
                spread(walls),
                f"{median(each.cpu for each in runs):.2f}",
                spread(cpus),
                f"{median(each.inside / each.wall for each in runs):.2%}",
                str(sum(each.changes for each in runs)),
                "right" if all(each.right for each in runs) else "WRONG",
            )
        )
    return align(lines)


def spread(ratios: list[float]) -> str:
    return f"{median(ratios):.3f} ({min(ratios):.3f}..{max(ratios):.3f})"


def verdict(found: dict[str, list[Looked]]) -> str:
    ratio = median(each.cpu / off.cpu for each, off in zip(found["every 10"], found["off"], strict=True))
    said = "met" if ratio <= TARGET else "MISSED"
    return f"replan with stable statistics: {ratio:.3f} times the CPU without it (target {TARGET}, {said})"
