"""A plan that follows its streams: the selectivities of a join of four flip half way.

First few rows of A and B match and many of C and D do, so that joining from the left keeps little; then it is the other
way round. Three runs side by side, in turns: *frozen* keeps the plan that was right at first, *replan* has it too and
looks at it every so many batches (an interval), *right* has the plan that is right after the flip from the start.

The table has rows/s of each interval after the flip, and the last one before it: of several turns the median. What
counts is replan's throughput as a share of right's, from the third interval on: within two it should have noticed, and
changed over. The same share of rows for each second of CPU stands beside it, which the load of others disturbs less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.harness import align
from benchmarks.migration.data import Stage, Windowed, answer, delivered, link
from benchmarks.migration.jobs import Ran, Setting, run, warm_up

FROM_THE_LEFT, FROM_THE_RIGHT = "(((A B) C) D)", "(A (B (C D)))"
INTERVAL = 5  # batches
BEFORE, AFTER = 3, 7  # intervals
WINDOW = 4  # batches
FEW, MANY = 0.02, 10.0  # matches of a row
SETTLED = 2  # intervals
TARGET = 0.9

RUNS = {
    "frozen": f'plan = "{FROM_THE_LEFT}"',
    "replan": f'plan = "{FROM_THE_LEFT}"\nreplan = "data-driven"\nreplan_every = {INTERVAL}',
    "right": f'plan = "{FROM_THE_RIGHT}"',
}


@dataclass(frozen=True)
class Flipped:
    """A run: rows by interval for each second of time and of CPU, what it did to its plan, if its answer is right."""

    rates: Sequence[float]
    by_cpu: Sequence[float]
    changes: Sequence[str]
    right: bool


def data_of(rows: int) -> Windowed:
    """`rows` of each stream in a batch."""
    stages = (Stage(BEFORE * INTERVAL, (FEW, 1, MANY)), Stage(AFTER * INTERVAL, (MANY, 1, FEW)))
    return Windowed(rows, WINDOW, stages)


def measure(data: Windowed, runtime: str, turns: int, home: Path) -> bool:
    """Run all, print the table, and tell whether every answer was right."""
    expected = answer(data)
    print(f"\nflip, {runtime}: {data.batches} batches of {data.rows_a_batch:,} rows, window {WINDOW} batches, ", end="")
    print(f"the flip after {BEFORE * INTERVAL}; {expected.rows:,} results", flush=True)
    warm_up(data, runtime, home)
    found: dict[str, list[Flipped]] = {name: [] for name in RUNS}
    for turn in range(turns):
        for name in list(RUNS)[:: -1 if turn % 2 else 1]:  # the JVM is warmer for whoever comes later
            folder = home / f"flip-{name}-{turn}"
            link(data, folder / "in")
            ran = run(Setting(data, folder, runtime, RUNS[name]))
            right = delivered([folder / "out"]) == expected
            clocks = [entry.at for entry in ran.batches], [entry.cpu for entry in ran.batches]
            found[name].append(Flipped(*(rates(clock, data) for clock in clocks), changes(ran), right))
    print(table(found))
    for turn, each in enumerate(found["replan"]):
        print(f"replan, turn {turn + 1}: {'; '.join(each.changes) or 'the plan was not changed'}")
    print(verdict(found))
    return all(each.right for runs in found.values() for each in runs)


def rates(ends: Sequence[float], data: Windowed) -> list[float]:
    """Rows/s of each interval, from the end of the one before it; the first begins with the end of its first batch.

    `ends` is what a clock said at the end of each batch.
    """
    cuts = [0, *range(INTERVAL - 1, len(ends), INTERVAL)]
    return [(last - first) * data.rows_a_batch / (ends[last] - ends[first]) for first, last in pairwise(cuts)]


def changes(ran: Ran) -> list[str]:
    found = []
    for entry in ran.batches:
        for decided in entry.event["decisions"]:
            if decided["decision"] in ("BeginMigration", "ChangePlan"):
                what = "sets out for" if decided["decision"] == "BeginMigration" else "goes over to"
                found.append(f"{what} {decided['plan']} before batch {entry.event['batch']}")
    return found


def middle(runs: Sequence[Flipped], interval: int) -> float:
    return median(each.rates[interval] for each in runs)


def middle_by_cpu(runs: Sequence[Flipped], interval: int) -> float:
    return median(each.by_cpu[interval] for each in runs)


def table(found: dict[str, list[Flipped]]) -> str:
    lines = [("interval", *(f"{name} rows/s" for name in RUNS), "frozen of right", "replan of right", "by CPU")]
    for interval in range(BEFORE - 1, BEFORE + AFTER):
        shown = {name: middle(runs, interval) for name, runs in found.items()}
        after = interval - BEFORE + 1
        lines.append(
            (
                f"{after} after" if after > 0 else "before",
                *(f"{rate:,.0f}" for rate in shown.values()),
                *(f"{shown[name] / shown['right']:.0%}" for name in ("frozen", "replan")),
                f"{middle_by_cpu(found['replan'], interval) / middle_by_cpu(found['right'], interval):.0%}",
            )
        )
    answers = ("all right" if all(each.right for each in runs) else "WRONG" for runs in found.values())
    lines.append(("answer", *answers, "", "", ""))
    return align(lines)


def verdict(found: dict[str, list[Flipped]]) -> str:
    """The share of the whole stretch from the third interval on, which weighs a slow batch by its time."""
    settled = range(BEFORE + SETTLED, BEFORE + AFTER)
    seconds = {name: sum(1 / middle(runs, interval) for interval in settled) for name, runs in found.items()}
    cpu = {name: sum(1 / middle_by_cpu(runs, interval) for interval in settled) for name, runs in found.items()}
    share = seconds["right"] / seconds["replan"]
    said = "met" if share >= TARGET else "MISSED"
    frozen = seconds["right"] / seconds["frozen"]
    told = f"from the third interval on: {share:.0%} of the right plan's throughput (target {TARGET:.0%}, {said})"
    return (
        f"{told}, {cpu['right'] / cpu['replan']:.0%} by CPU; frozen {frozen:.0%} and {cpu['right'] / cpu['frozen']:.0%}"
    )
