"""`python -m experiments`: runs an experiment of the papers on this machine and writes what it found as a page.

    python -m experiments plans [--out FOLDER] [--set 1,2,..] [--seconds N] [--clock wall|cpu] [--json]
    python -m experiments early [--out FOLDER] [--quick] [--json]
    python -m experiments spill [--out FOLDER] [--quick] [--json]
    python -m experiments migration [--out FOLDER] [--quick] [--json]
    python -m experiments placement [--out FOLDER] [--quick] [--json]
    python -m experiments balancing [--out FOLDER] [--quick] [--json]
    python -m experiments ring [--out FOLDER] [--quick] [--json]

One sub-command an experiment, from `EXPERIMENTS`. Progress goes to stderr; stdout has the closing table and the path of
the page or, with `--json`, one JSON object with every figure of the table. Errors and exit codes are as `watersmeet`
has them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments import (
    balancing,
    balancing_claims,
    balancing_page,
    balancing_runs,
    early,
    early_claims,
    early_page,
    early_runs,
    migration,
    migration_claims,
    migration_page,
    migration_runs,
    placement,
    placement_claims,
    placement_page,
    placement_runs,
    ring,
    ring_claims,
    ring_page,
    ring_runs,
    spill_page,
)
from experiments.banded import bind_query
from experiments.claims import COLUMNS as CLAIM_COLUMNS
from experiments.claims import Claim
from experiments.claims import terminal_rows as terminal_rows_of
from experiments.figures import require_matplotlib
from experiments.paced import CpuClock
from experiments.page import Page, write_page
from experiments.plan_runs import run_sets
from experiments.plans import SETTINGS, Setting
from experiments.plans_page import TERMINAL_COLUMNS, make_page, terminal_rows
from experiments.spill import FULL as FULL_SPILL
from experiments.spill import QUICK as QUICK_SPILL
from experiments.spill_runs import REPEATS, run_all
from watersmeet.cli.main import run_parsed
from watersmeet.cli.terminal import make_table, output_console
from watersmeet.errors import JobError
from watersmeet.optimize.query_graph import model_for
from watersmeet.runtime.clock import Clock, WallClock
from watersmeet.runtime.machine_costs import machine_costs

CLOCKS: dict[str, Callable[[], Clock]] = {"wall": WallClock, "cpu": CpuClock}


@dataclass(frozen=True)
class Experiment:
    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def main(argv: list[str] | None = None) -> int:
    """Run the command line `argv`, or that of the process, and return the exit code."""
    return run_parsed(make_parser().parse_args(argv))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description="Run an experiment of the papers, and write a page about it."
    )
    names = parser.add_subparsers(title="experiments", metavar="EXPERIMENT", required=True)
    for experiment in EXPERIMENTS:
        entry = names.add_parser(experiment.name, help=experiment.help, description=experiment.help)
        experiment.add_arguments(entry)
        entry.set_defaults(run=experiment.run)
    return parser


def _add_plans_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", default="experiment-plans", metavar="FOLDER", help="where the page goes (default experiment-plans)"
    )
    parser.add_argument("--set", metavar="1,2,..", help="only these sets (default all four)")
    parser.add_argument("--seconds", type=_positive, default=20, help="how long each plan runs (default 20)")
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="what rows arrive by: the wall clock, or the CPU time of this process, for a busy machine (default wall)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout instead of the table")


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f'"{text}" is not a number above zero')
    return value


def _run_plans(args: argparse.Namespace) -> int:
    settings = _chosen(args.set)
    folder = _folder(args.out)
    require_matplotlib()
    prices = machine_costs(_say)
    model = model_for(bind_query(settings[0]), prices)  # the predicates of all sets are alike
    outcomes = run_sets(settings, model, args.seconds, CLOCKS[args.clock](), _say)
    page = write_page(make_page(outcomes, prices, _machine(), args.clock), folder, "plans")
    plans = [plan for outcome in outcomes for plan in outcome.plans]
    if any(plan.disturbed for plan in plans):
        _say("note: the machine was busy with other work; with --clock cpu that does not matter")
    alike = sum(plan.observed == plan.expected for plan in plans)
    if args.json:
        found = [outcome.to_json() for outcome in outcomes]
        print(json.dumps({"page": str(page), "prices_seconds": asdict(prices), "sets": found}))
        return 0
    console = output_console()
    console.print(make_table(TERMINAL_COLUMNS, terminal_rows(outcomes), right=TERMINAL_COLUMNS[3:6]))
    console.print("costs are predicted / measured (ratio)")
    console.print(f"{alike} of {len(plans)} plans did as the dissertation has it; the page is {page}")
    return 0


@dataclass(frozen=True)
class Found:
    """What an experiment came to: the page, its claims for a terminal, and all figures for `--json`."""

    page: Page
    claims: Sequence[Any]  # dataclasses
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    closing: str  # what is said before where the page is
    figures: Mapping[str, Any]


def _compared(name: str, help: str, quick: str, measure: Callable[[bool], Found]) -> Experiment:
    """An experiment that sets a paper's claims beside its runs, of which there may be fewer (`--quick`)."""

    def run(args: argparse.Namespace) -> int:
        folder = _folder(args.out)
        require_matplotlib()
        found = measure(args.quick)
        page = write_page(found.page, folder, name)
        if args.json:
            claims = [asdict(claim) for claim in found.claims]
            print(json.dumps({"page": str(page), "claims": claims, **found.figures}))
            return 0
        console = output_console()
        console.print(make_table(found.columns, found.rows))
        console.print(f"{found.closing}the page is {page}")
        return 0

    return Experiment(name, help, lambda parser: _add_arguments(parser, name, quick), run)


def _add_arguments(parser: argparse.ArgumentParser, name: str, quick: str) -> None:
    folder = f"experiment-{name}"
    parser.add_argument("--out", default=folder, metavar="FOLDER", help=f"where the page goes (default {folder})")
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout instead of the table")


def _with_claims(page: Page, found: Sequence[Claim], figures: Mapping[str, Any]) -> Found:
    """Of experiments whose claims are those of `claims.py`."""
    closing = f"{sum(claim.holds is True for claim in found)} of {len(found)} claims came out; "
    return Found(page, found, CLAIM_COLUMNS, terminal_rows_of(found), closing, figures)


def _measure_early(quick: bool) -> Found:
    plan = early.QUICK if quick else early.FULL
    outcomes = early_runs.run_cases(plan.cases, os.cpu_count() or 1, _say)
    found = early_claims.check_claims(plan, outcomes)
    rows = early_page.terminal_rows(plan, outcomes)
    runs = [outcome.to_json() for outcome in outcomes.values()]
    return Found(early_page.make_page(plan, outcomes), found, CLAIM_COLUMNS, rows, "", {"runs": runs})


def _measure_spill(quick: bool) -> Found:
    findings = run_all(QUICK_SPILL if quick else FULL_SPILL, 1 if quick else REPEATS, _say)
    found = spill_page.claims(findings)
    alike = sum(claim.came_out == "yes" for claim in found)
    return Found(
        spill_page.make_page(findings, _machine()),
        found,
        spill_page.TERMINAL_COLUMNS,
        spill_page.terminal_rows(found),
        f"{alike} of {len(found)} claims of the papers came out; ",
        findings.to_json(),
    )


def _measure_migration(quick: bool) -> Found:
    extent = migration.QUICK if quick else migration.FULL
    findings = migration_runs.run_all(extent, machine_costs(_say), _say)
    page = migration_page.make_page(findings, _machine())
    return _with_claims(page, migration_claims.check_claims(findings), findings.to_json())


def _measure_placement(quick: bool) -> Found:
    findings = placement_runs.run_all(placement.QUICK if quick else placement.FULL, _say)
    page = placement_page.make_page(findings, _machine())
    return _with_claims(page, placement_claims.check_claims(findings), findings.to_json())


def _measure_balancing(quick: bool) -> Found:
    extent = balancing.QUICK if quick else balancing.FULL
    findings = balancing_runs.run_all(extent, machine_costs(_say), _say)
    page = balancing_page.make_page(findings, _machine())
    return _with_claims(page, balancing_claims.check_claims(findings), findings.to_json())


def _measure_ring(quick: bool) -> Found:
    findings = ring_runs.run_all(ring.QUICK if quick else ring.FULL_EXTENT, machine_costs(_say), _say)
    page = ring_page.make_page(findings, _machine())
    return _with_claims(page, ring_claims.check_claims(findings), findings.to_json())


def _chosen(text: str | None) -> list[Setting]:
    if text is None:
        return list(SETTINGS)
    known = {str(setting.number): setting for setting in SETTINGS}
    wanted = list(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in wanted:
        if name not in known:
            raise JobError(
                f'there is no set "{name}"',
                detail=f"The sets are {', '.join(known)}.",
                hint="Give numbers with commas between them, as in --set 1,3.",
            )
    return [known[name] for name in wanted]


def _folder(text: str) -> Path:
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)  # before anything runs: to fail at the end would be late
    except OSError as error:
        raise JobError(
            f'cannot make the folder "{text}"', detail=f"{error.strerror}.", hint="Give another one with --out."
        ) from None
    return folder


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _machine() -> str:
    """What this runs on, for readers of the page."""
    cores = os.cpu_count() or 1
    return f"{cores} cores of {platform.machine()}, {platform.system()}, Python {platform.python_version()}"


EXPERIMENTS = (
    Experiment(
        "plans",
        "which of mjoin, bjtree and hybrid lives with little CPU or memory (experiment sets 1 to 4 of [Zhu06])",
        _add_plans_arguments,
        _run_plans,
    ),
    _compared(
        "early",
        "how many results come early when memory holds a tenth of the input (figures 8 to 13 of [Levandoski11])",
        f"{early.QUICK.base.rows:,} rows of each stream, to try",
        _measure_early,
    ),
    _compared(
        "spill",
        "which groups to spill when memory is short (figures 16 to 20 of [Liu06], 9 to 12 of [Liu05])",
        "fewer rows and groups, to try",
        _measure_spill,
    ),
    _compared(
        "migration",
        "how long it takes to change a plan, and what it gains (figures 16.1 to 16.13 of [Zhu06])",
        "fewer settings and shorter runs, to try",
        _measure_migration,
    ),
    _compared(
        "placement",
        "when to move groups between slots, alone and with spills (figures 7, 14 to 17, 20 and 21 of [Liu05])",
        "fewer rows, groups and settings, to try",
        _measure_placement,
    ),
    _compared(
        "balancing",
        "plans that differ by slot, and two ways to move groups between them (figures 23.1 to 23.15 of [Zhu06])",
        "fewer rows and settings, and shorter runs, to try",
        _measure_balancing,
    ),
    _compared(
        "ring",
        "joins without an equality: a ring of time slices and its rivals (figures 8(a) to 8(h) of [Wang09])",
        "fewer lengths and settings, and shorter runs, to try",
        _measure_ring,
    ),
)

if __name__ == "__main__":
    sys.exit(main())
