"""What it gains to move, cut and spread groups where keys are uneven, what the loop costs where they are not, and how
long results wait for a change of the number of slots.

A join of two streams on Spark, two slots on two cores, over the same number of rows and about as many results, with
keys of all kinds (`data.py`). Each kind runs with `balance = "off"` and with `"time"`, in turns, in one session. Rows
have many partners, so that a batch is the work of its slots, and not of Spark. Printed: rows a second after the first
batches, against a run of uniform keys without balance; what a batch takes, and its slots together; the share of that
which the slowest one takes; groups that were moved, cut and spread; whether there were as many results as there should
be. A smaller run of each kind goes into files, whose rows are compared with DuckDB's. Targets: 90 % of uniform where
groups can be moved or cut, 70 % with a hot key.

`loop` (uniform keys, five times as many, so that slots have equal shares by themselves): what is lost where there is
nothing to balance. Target: less than 2 %, and no move.

`rescale` (uniform keys): from 2 slots to 4 and to 1 in mid-run. Printed: what an ordinary batch takes before each, the
longest time from results to results around it, and what an ordinary batch takes afterwards. Target: 1.5 times an
ordinary batch.

    python -m benchmarks.balance [uniform] [uneven] .. [loop] [rescale] [--cluster] [--turns N] [--rows N] ..

`--cluster` has it run on a standalone cluster of two workers with one core each, on this machine. All of it takes some
fifteen minutes on two cores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.balance.data import SHAPES, Data, count, expected, write
from benchmarks.balance.runs import WARM_UP, Outcome, delivered, run, session_on
from benchmarks.harness import align

POLICIES = ("off", "time")
LOOP, RESCALE = "loop", "rescale"
PARTS = (*SHAPES, LOOP, RESCALE)
TARGETS = {"uneven": 0.9, "zipf": 0.9, "wandering": 0.9, "hot-key": 0.7, "hot-in-one": 0.7}
STEPS = ((4, 0.4), (1, 0.7))  # slots, and after which share of the batches
SETTLING = 3  # batches after a change that may be slow because of it


class Bench:
    """Runs in one session; temporary files lie in `home`."""

    def __init__(self, session: Any, home: Path) -> None:
        self._session, self._home = session, home

    def run(self, data: Data, options: dict[str, Any], **more: Any) -> Outcome:
        inputs, checkpoint = self._inputs(data), self._home / "ck"
        if not inputs.exists():
            write(inputs, data)
        try:
            return run(self._session, inputs, checkpoint, data, options, **more)
        finally:
            shutil.rmtree(checkpoint, ignore_errors=True)

    def count(self, data: Data) -> int:
        return count(self._inputs(data), data)

    def is_right(self, data: Data) -> bool:
        """Whether what is delivered with balance is DuckDB's answer, for a tenth of the rows and partners."""
        small, out = replace(data, rows=data.rows // 10, partners=max(1, data.partners // 10)), self._home / "out"
        self.run(small, {"balance": "time"}, out=out)
        found = delivered(out)
        shutil.rmtree(out)
        return found == expected(self._inputs(small), small)

    def _inputs(self, data: Data) -> Path:
        return self._home / "-".join(map(str, (data.shape, data.rows, data.batches, data.keys)))


def compare(bench: Bench, template: Data, shapes: list[str], turns: int) -> bool:
    """Keys of all kinds, without balance and with it; whether every answer was right."""
    ran: dict[tuple[str, str], list[Outcome]] = {}
    for turn in range(turns):
        for shape in shapes:
            for policy in POLICIES[:: 1 if turn % 2 else -1]:
                outcome = bench.run(replace(template, shape=shape), {"balance": policy})
                ran.setdefault((shape, policy), []).append(outcome)
                say(f"turn {turn + 1}: {shape}, {policy}: {outcome.rows_a_second:,.0f} rows/s")
    right = {shape: bench.is_right(replace(template, shape=shape)) for shape in shapes}
    counts = {shape: bench.count(replace(template, shape=shape)) for shape in shapes}
    base = median(o.rows_a_second for o in ran[shapes[0], "off"])
    columns = ("rows/s", f"of {shapes[0]}", "turns", "batch s", "in slots", "slowest slot", "moved", "cut", "spread")
    lines = [("keys", "balance", *columns, "answer")]
    for (shape, policy), outcomes in sorted(ran.items(), key=lambda entry: shapes.index(entry[0][0])):
        right[shape] &= all(o.results == counts[shape] for o in outcomes)
        shares = [o.rows_a_second / b.rows_a_second for o, b in zip(outcomes, ran[shapes[0], "off"], strict=True)]
        lines.append(
            (
                shape,
                policy,
                f"{median(o.rows_a_second for o in outcomes):,.0f}",
                f"{median(o.rows_a_second for o in outcomes) / base:.0%}",
                f"{min(shares):.0%}..{max(shares):.0%}",
                f"{median(o.batch_seconds for o in outcomes):.2f}",
                f"{median(o.slot_seconds for o in outcomes):.2f}",
                f"{median(o.slowest for o in outcomes):.0%}",
                *(str(max(getattr(o, name) for o in outcomes)) for name in ("moved", "cut", "spread")),
                ("right" if right[shape] else "WRONG") if policy == "time" else "",
            )
        )
    print(align(lines))
    for shape, target in TARGETS.items():
        if shape in shapes and shapes[0] == "uniform":
            share = median(o.rows_a_second for o in ran[shape, "time"]) / base
            print(f"{shape}: {share:.0%} of uniform keys (target {target:.0%}, {met(share >= target)})")
    return all(right.values())


def loop(bench: Bench, template: Data, turns: int) -> None:
    """With nothing to balance: what is lost, and whether anything moves."""
    data = replace(template, shape="uniform", keys=5 * template.keys, partners=template.partners // 4)
    ratios, moved = [], 0
    for turn in range(turns):
        found = {policy: bench.run(data, {"balance": policy}) for policy in POLICIES[:: 1 if turn % 2 else -1]}
        ratios.append(found["time"].rows_a_second / found["off"].rows_a_second)
        moved += found["time"].moved + found["time"].cut + found["time"].spread
        say(f"turn {turn + 1}: loop: {ratios[-1]:.1%}")
    told = (
        f"{median(ratios):.1%} of the throughput without ({min(ratios):.1%}..{max(ratios):.1%}), {moved} groups moved"
    )
    print(f"nothing to balance: {told} (target 98%, {met(median(ratios) >= 0.98 and not moved)})")


def rescale(bench: Bench, template: Data) -> None:
    """More slots and fewer while it runs: how long results wait."""
    data = replace(template, shape="uniform")
    at = {round(share * data.batches): slots for slots, share in STEPS}
    asked: dict[int, int] = {}  # slots by the batch after which they were asked for

    def hear(started: Any, batch: int) -> None:
        for due, slots in at.items():
            if batch >= due and slots not in asked.values():
                asked[batch] = slots
                started.rescale(slots=slots)

    gaps = bench.run(data, {"balance": "off"}, hear=hear).gaps  # the first is of batch 1
    lines = [("slots", "ordinary s", "largest", "longest gap", "x ordinary", "afterwards s")]
    since, before, worst = WARM_UP, 2, 0.0
    for batch, slots in sorted(asked.items()):
        ordinary, around = gaps[since : batch - 1], gaps[batch - 1 : batch + 1 + SETTLING]
        later = gaps[batch + 1 + SETTLING : min((b for b in asked if b > batch), default=len(gaps)) - 1]
        usual = max(median(ordinary), median(later))  # with one slot a batch takes longer, for it has one core
        worst = max(worst, max(around) / usual)
        lines.append(
            (
                f"{before} -> {slots}",
                f"{median(ordinary):.3f}",
                f"{max(ordinary):.3f}",
                f"{max(around):.3f}",
                f"{max(around) / median(ordinary):.2f}",
                f"{median(later):.3f}",
            )
        )
        since, before = batch + 1 + SETTLING, slots
    print(align(lines))
    print(f"rescale: the longest gap is {worst:.2f} times an ordinary batch before or after ({met(worst <= 1.5)})")


def met(good: bool) -> str:
    return "met" if good else "MISSED"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.balance", description="groups that move between slots, or do not")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--rows", type=int, default=8_000, help="of a stream in a batch")
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--partners", type=int, default=3_200, help="that a row has in the other stream")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--cluster", action="store_true", help="on a standalone cluster of two workers")
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    parts = args.parts or PARTS
    shapes = [shape for shape in SHAPES if shape in parts]
    template = Data("uniform", args.rows, args.batches, args.keys, args.partners)
    right = True
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with session_on(home / "cluster" if args.cluster else None) as session:
            where = "two workers of a standalone cluster" if args.cluster else "local[2]"
            print(
                f"{where}, {template.rows:,} rows of a stream in a batch, {template.keys} keys, {template.partners} ",
                end="",
            )
            print(f"partners, {template.batches} batches (load before: {os.getloadavg()[0]:.1f})", flush=True)
            bench = Bench(session, home)
            bench.run(replace(template, rows=template.rows // 10), {"balance": "off"})  # the JVM is cold
            if shapes:
                right = compare(bench, template, shapes, args.turns)
            if LOOP in parts:
                loop(bench, template, args.turns + 1)
            if RESCALE in parts:
                rescale(bench, template)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
