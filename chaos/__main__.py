"""`python -m chaos`: plays histories of runs that go wrong, and says what was done, what came to pass, what was lost.

    python -m chaos                                  every fault in every shape, for some minutes
    python -m chaos --seeds 60 --medleys             60 seeds of each, several faults in each history
    python -m chaos --shape tree-budget --seed 7 --actions 10000    one long history
    python -m chaos .. --upto 812                    the same, up to that action
    python -m chaos --runtime spark                  short histories on Spark, for some minutes
    python -m chaos --runtime cluster                the same on a standalone cluster, whose executors are killed
    python -m chaos --list                           the shapes and the faults

A failure prints its seed and the command that plays it again; its journal and its folder are kept. Exit code 1 if
anything was wrong, or if a fault that was planned never came to pass. SIGTERM and SIGINT end it, and all that it has
started (143 and 130).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from chaos.campaign import Outcome, play
from chaos.ending import ToldToEnd, told_to_end
from chaos.kinds import ALL_FAULTS, EPISODE_FAULTS, FAULTS, Kind
from chaos.shapes import SHAPES, Shape
from chaos.spark.kinds import ACTIONS, SparkKind, faults_of
from chaos.stories import CLUSTER, LOCAL, RUNTIMES, SPARK, AnyStory, SparkStory, Story, episodes, medleys
from watersmeet.cli.main import run_parsed
from watersmeet.cli.terminal import make_table, output_console
from watersmeet.errors import JobError, did_you_mean


def main(argv: Sequence[str] | None = None) -> int:
    return run_parsed(make_parser().parse_args(argv))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Play histories of runs that go wrong.")
    parser.add_argument("--runtime", choices=RUNTIMES, default=LOCAL, help="where the job runs (default local)")
    parser.add_argument("--shape", metavar="A,B,..", help="only these queries (default all)")
    parser.add_argument("--fault", metavar="A,B,..", help="only these faults (default all)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--seeds", type=int, help="how many of each (default as many as there is time for)")
    parser.add_argument("--actions", type=int, help="histories of so many actions, not episodes (on Spark: 14)")
    parser.add_argument("--medleys", action="store_true", help="episodes with several faults each, not one")
    parser.add_argument("--upto", type=int, metavar="K", help="play only the first K actions")
    parser.add_argument("--minutes", type=float, help="begin nothing after so long (default 5, unless --seeds)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where to work, and keep what went wrong")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--list", action="store_true", help="print the shapes and the faults, and do nothing")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    if args.list:
        print("shapes:", ", ".join(shape.name for shape in SHAPES))
        print("faults:", ", ".join(kind.name for kind in ALL_FAULTS))
        print("faults on Spark:", ", ".join(kind.name for kind in faults_of(SPARK)))
        print("faults on a cluster:", ", ".join(kind.name for kind in faults_of(CLUSTER)))
        return 0
    try:
        with told_to_end():
            outcome = play(_stories(args), args.keep, _seconds(args), _say)
    except ToldToEnd as told:
        _say(f"ended by {told}, before it had come to a verdict")
        return told.exit_code
    _show(outcome, args.runtime, as_json=args.json)
    return 0 if outcome.good else 1


def _stories(args: argparse.Namespace) -> Iterable[AnyStory]:
    shapes = _chosen("shape", args.shape, SHAPES, SHAPES)
    count = args.seeds or (1 if args.actions and args.runtime == LOCAL else None)
    seeds = itertools.count(args.seed) if count is None else range(args.seed, args.seed + count)
    if args.runtime != LOCAL:
        known = faults_of(args.runtime)
        kinds = _chosen("fault", args.fault, known, known)
        actions = args.actions or ACTIONS
        return (SparkStory(args.runtime, shape, seed, actions, kinds, args.upto) for seed in seeds for shape in shapes)
    faults = _chosen("fault", args.fault, ALL_FAULTS, EPISODE_FAULTS if args.actions is None else FAULTS)
    if args.actions is None:
        return (medleys if args.medleys else episodes)(shapes, faults, seeds)
    return (
        Story(shape, seed, actions=args.actions, kinds=faults, upto=args.upto) for seed in seeds for shape in shapes
    )


def _seconds(args: argparse.Namespace) -> float | None:
    """For how long stories are begun; None: until there are no more."""
    if args.minutes is not None:
        return float(60 * args.minutes)
    return None if args.seeds or (args.actions and args.runtime == LOCAL) else 300.0


Named = TypeVar("Named", Shape, Kind, SparkKind)


def _chosen(what: str, text: str | None, known: Sequence[Named], default: Sequence[Named]) -> tuple[Named, ...]:
    if text is None:
        return tuple(default)
    names = {entry.name: entry for entry in known}
    for name in text.split(","):
        if name not in names:
            raise JobError(
                f'there is no {what} "{name}"', detail=f"There are {', '.join(names)}.", hint=did_you_mean(name, names)
            )
    return tuple(names[name] for name in text.split(","))


def _show(outcome: Outcome, runtime: str, as_json: bool) -> None:
    tally = outcome.tally
    if as_json:
        by_cell = [
            {"shape": shape, "fault": fault, "seeds": count, "fired": outcome.fired_in[shape, fault]}
            for (shape, fault), count in outcome.cells.items()
        ]
        names = sorted(outcome.fired | outcome.tried)
        found = {
            "runtime": runtime,
            "histories": outcome.stories,
            "counts": outcome.counts,
            "faults": {name: {"tried": outcome.tried[name], "fired": outcome.fired[name]} for name in names},
            "cells": by_cell,
            "judged": vars(tally),
        }
        ended = {"never": outcome.never, "left_out": outcome.left_out, "failures": outcome.failures}
        print(json.dumps(found | {"seconds": round(outcome.seconds, 1), **ended}))
        return
    console = output_console()
    rows = [
        (name, f"{outcome.tried[name]:,}", f"{outcome.fired[name]:,}") for name in sorted(outcome.fired | outcome.tried)
    ]
    console.print(make_table(("fault", "tried", "came to pass"), rows, right=("tried", "came to pass")))
    if outcome.cells:
        shapes = list(dict.fromkeys(shape for shape, _ in outcome.cells))
        faults = list(dict.fromkeys(fault for _, fault in outcome.cells))
        cells = [(fault, *(_cell(outcome, shape, fault) for shape in shapes)) for fault in faults]
        console.print("seeds, and faults that came to pass in them, by query")
        console.print(make_table(("fault", *shapes), cells, right=shapes))
    counts = outcome.counts
    console.print(
        f"{outcome.stories:,} histories ({runtime}), {counts['actions']:,} actions, {counts['runs']:,} runs, "
        f"{counts['batches']:,} batches, {counts['SpillGroups']:,} spills, {counts['MergeGroup']:,} merges of groups, "
        f"{counts['ChangePlan']:,} changes of the plan ({counts['MigrationAbandoned']:,} abandoned), "
        f"{counts['MoveGroups']:,} moves of groups, {counts['CutGroup']:,} cuts, {counts['Rescale']:,} rescales, "
        f"{counts['Verify']:,} times verified; {outcome.seconds:,.0f} seconds"
    )
    console.print(
        f"{tally.rows:,} results and {tally.late:,} late rows checked, {tally.exact:,} times to the last one: "
        f"{tally.lost:,} lost, {tally.doubled:,} doubled, {tally.invented:,} invented"
    )
    for line in (*outcome.failures, *(f"never came to pass: {name}" for name in outcome.never)):
        console.print(line)
    if outcome.left_out:
        console.print(f"left out, for want of the right to mount a small disk: {len(outcome.left_out)} episodes")


def _cell(outcome: Outcome, shape: str, fault: str) -> str:
    count = outcome.cells[shape, fault]
    return f"{count} / {outcome.fired_in[shape, fault]}" if count else "-"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
