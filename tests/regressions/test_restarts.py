"""Was: results lost where a run went on with other probe orders, and so with other states, than it had begun with.

A checkpoint kept the shape of its plan and not the hops of its routed joins. These follow from statistics, so a restart
under `auto`, which took the shape from the checkpoint, or with other statistics, kept inputs on other keys: rows that
had been read were not found under these, or the states that the checkpoint held were not known (`KeyError`).

Whatever is changed at a restart, either the run goes on to the right answer, or it is refused as a mistake of the
user's (exit code 2) and nothing is changed by that.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, Streams, difference, draw_streams, duckdb_answer, write_streams

pytestmark = pytest.mark.timeout(120)

BATCHES = 8
CYCLE = JoinCase({"A": ("x", "z"), "B": ("x", "y"), "C": ("y", "z")}, "A.x = B.x AND B.y = C.y AND A.z = C.z")
WINDOWED_CYCLE = JoinCase(CYCLE.columns, CYCLE.where, 3 * SECOND)
SQUARE = JoinCase(
    {"A": ("w", "z"), "B": ("w", "x"), "C": ("x", "y"), "D": ("y", "z")},
    "A.w = B.w AND B.x = C.x AND C.y = D.y AND A.z = D.z",
)
CHAIN = JoinCase({"A": ("k",), "B": ("k", "m"), "C": ("m",)}, "A.k = B.k AND B.m = C.m", 3 * SECOND)
ONE_KEY = JoinCase({"A": ("k",), "B": ("k",), "C": ("k",)}, "A.k = B.k AND B.k = C.k", 3 * SECOND)


def streams_of(case: JoinCase) -> Streams:
    rows, domain = {CYCLE: (20, 7), WINDOWED_CYCLE: (30, 8), SQUARE: (7, 4)}.get(case, (20, 12))
    return draw_streams(case, BATCHES, rows, domain, seed=3)


def stats(rates: str, selectivity: str) -> str:
    """`[stats]` as a setting, of rates and selectivities in the order of the inputs and pairs.

    >>> stats("10 100 1", "A-B:0.9 A-C:0.001")
    "stats={rates={A=10, B=100, C=1}, selectivity={'A B'=0.9, 'A C'=0.001}}"
    """
    shown = ", ".join(f"{name}={rate}" for name, rate in zip("ABCD", rates.split(), strict=False))
    pairs = [pair.split(":") for pair in selectivity.split()]
    chosen = ", ".join(f"'{names.replace('-', ' ')}'={value}" for names, value in pairs)
    return f"stats={{rates={{{shown}}}, selectivity={{{chosen}}}}}"


# Each makes `auto` choose the routed join, with hops of its own.
CYCLE_STATS = (
    stats("1000 100 1000", "A-B:0.01 B-C:0.0001 A-C:0.1"),
    stats("10 100 10", "A-B:0.9 B-C:0.0001 A-C:0.01"),
    stats("10 100 1", "A-B:0.9 B-C:0.01 A-C:0.001"),
    stats("100 1 10", "A-B:0.01 B-C:0.1 A-C:0.01"),
    stats("100 1000 10", "A-B:0.01 B-C:0.9 A-C:0.001"),
)
# Each makes `mjoin` keep the inputs of the square on keys of its own; the second on those of the first and one more,
# and so does the fourth with the third.
SQUARE_STATS = (
    stats("10 1 100 10", "A-B:0.0001 B-C:0.1 C-D:0.001 A-D:0.9"),
    stats("1000 1 1 10", "A-B:0.0001 B-C:0.9 C-D:0.01 A-D:0.01"),
    stats("1 1 10 10", "A-B:0.0001 B-C:0.1 C-D:0.01 A-D:0.01"),
    stats("100 1000 100 10", "A-B:0.01 B-C:0.0001 C-D:0.9 A-D:0.001"),
    stats("1000 10 1000 10", "A-B:0.9 B-C:0.9 C-D:0.0001 A-D:0.9"),
)
NO_STATS = ""
NAMES = {known: f"stats {number}" for number, known in enumerate((*CYCLE_STATS, *SQUARE_STATS))} | {NO_STATS: "none"}


def named(value: object) -> str | None:
    return NAMES.get(value) if isinstance(value, str) else None


def run_in_parts(case: JoinCase, home: Path, *parts: Sequence[str]) -> None:
    """Run the job once for each part, with its settings, each over as much more of the input; then compare."""
    streams = streams_of(case)
    job = JudgedJob.write(home, case)
    share = BATCHES // len(parts)
    for number, settings in enumerate(parts):
        last = number == len(parts) - 1
        write_streams(case, streams, home / "in", number * share, None if last else (number + 1) * share)
        job.finish(*(setting for setting in settings if setting))
    right = duckdb_answer(case, streams)
    assert right.total() > 500
    assert difference(job.answer(), right) == ""


# --- routed joins ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [CYCLE, WINDOWED_CYCLE], ids=["unbounded", "windows"])
@pytest.mark.parametrize("known", CYCLE_STATS, ids=named)
def test_auto_goes_on_with_the_hops_that_it_chose(known: str, case: JoinCase, tmp_path: Path) -> None:
    run_in_parts(case, tmp_path / "job", ["adapt.plan=auto", known], ["adapt.plan=auto", known])


@pytest.mark.parametrize("after", [*CYCLE_STATS[:2], NO_STATS], ids=named)
@pytest.mark.parametrize("before", [*CYCLE_STATS[2:4], NO_STATS], ids=named)
def test_auto_with_other_statistics(before: str, after: str, tmp_path: Path) -> None:
    run_in_parts(CYCLE, tmp_path / "job", [before], [after], [before])


@pytest.mark.parametrize("after", [*SQUARE_STATS, NO_STATS], ids=named)
@pytest.mark.parametrize("before", [SQUARE_STATS[0], SQUARE_STATS[2], NO_STATS], ids=named)
def test_an_mjoin_with_other_statistics(before: str, after: str, tmp_path: Path) -> None:
    run_in_parts(SQUARE, tmp_path / "job", ["adapt.plan=mjoin", before], ["adapt.plan=mjoin", after])


@pytest.mark.parametrize("asked", ["mjoin", "(A B C)", "exhaustive", "mjoin-init", "bjtree-init", "off"])
@pytest.mark.parametrize("known", [CYCLE_STATS[2], NO_STATS], ids=named)
def test_the_plan_that_auto_chose_may_be_asked_for_in_other_words(asked: str, known: str, tmp_path: Path) -> None:
    first = ["adapt.plan=auto", CYCLE_STATS[2]]
    run_in_parts(CYCLE, tmp_path / "job", first, [f"adapt.plan={asked}", known], ["adapt.plan=auto", known])


def test_a_plan_that_was_asked_for_may_be_left_to_auto(tmp_path: Path) -> None:
    asked = ["adapt.plan=mjoin", SQUARE_STATS[0]]
    run_in_parts(SQUARE, tmp_path / "job", asked, ["adapt.plan=auto", SQUARE_STATS[1]], ["adapt.plan=auto"])


@pytest.mark.parametrize("changed", ["run.slots=1", "run.slots=5", "run.memory=1KB", "run.memory=1GB", "run.cores=1.5"])
def test_a_routed_join_with_other_settings(changed: str, tmp_path: Path) -> None:
    known = CYCLE_STATS[0]
    run_in_parts(CYCLE, tmp_path / "job", [known], [known, changed], [known])


def test_a_routed_join_that_had_a_budget(tmp_path: Path) -> None:
    asked = ["adapt.plan=mjoin", SQUARE_STATS[2]]
    run_in_parts(SQUARE, tmp_path / "job", [*asked, "run.memory=1MB"], asked, [*asked, "run.memory=20KB"])


# --- whatever is changed ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """Settings that runs of one case may be started with. Some are refused, and some only after another."""

    case: JoinCase
    plans: tuple[str, ...]
    stats: tuple[str, ...]


OTHER_STATS = (stats("1 1000 10", "A-B:0.5 B-C:0.0001"), stats("1000 1 1000", "A-B:0.0001 B-C:0.5"), NO_STATS)
DRAWN = {
    "chain": Drawn(CHAIN, ("auto", "left-deep", "((A B) C)", " ( (A  B) C ) ", "(A (B C))", "mjoin"), OTHER_STATS),
    "one key": Drawn(ONE_KEY, ("auto", "mjoin", "(A B C)", "left-deep", "((B C) A)"), OTHER_STATS),
    "cycle": Drawn(WINDOWED_CYCLE, ("auto", "mjoin", "left-deep", "exhaustive", "((A C) B)"), (*CYCLE_STATS, NO_STATS)),
    "square": Drawn(SQUARE, ("auto", "mjoin", "((A B) (C D))", "left-deep"), (*SQUARE_STATS, NO_STATS)),
}
OTHERS = {
    "run.slots": ("1", "2", "3", "6"),
    "run.memory": ("", "", "3KB", "20KB", "10MB"),
    "run.groups": ("6", "6", "6", "7"),
    "run.cores": ("", "0.001", "4"),
    "adapt.spill": ("global-output-penalty", "bottom-up", "off", "random"),
    "adapt.merge": ("state-manager", "off"),
    "streams.B.lateness": ("0 seconds", "0 seconds", "0 seconds", "1 second"),
}
FAULTS = (None, None, "after-delivery:1", "before-delivery:1", "after-spill:1", "before-commit:2", "after-commit:1")


def draw_settings(draw: random.Random, drawn: Drawn) -> list[str]:
    chosen = {name: draw.choice(values) for name, values in OTHERS.items()}
    settings = [f"{name}={value}" for name, value in chosen.items() if value]
    return [f"adapt.plan={draw.choice(drawn.plans)}", *settings, *filter(None, [draw.choice(drawn.stats)])]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", DRAWN)
def test_runs_that_are_started_in_any_way(name: str, seed: int, tmp_path: Path) -> None:
    """One run after another, each with settings of its own, some of them killed. What was read first stays right."""
    drawn, draw = DRAWN[name], random.Random(f"{name} {seed}")
    case = drawn.case
    streams = streams_of(case)
    home = tmp_path / "job"
    job = JudgedJob.write(home, case)
    first = [s for s in draw_settings(draw, drawn) if not s.startswith(("run.groups", "streams."))]
    right = duckdb_answer(case, streams)
    told: list[str] = []
    for batch in range(BATCHES):
        write_streams(case, streams, home / "in", batch, batch + 1)
        settings = first if batch == 0 else draw_settings(draw, drawn)
        done = job.start(*settings, fault=draw.choice(FAULTS))
        told.append(f"batch {batch}: exit {done.code} with {settings}\n{done.stderr}")
        assert done.code in (0, 2, -9), "\n".join(told)
        assert job.answer() <= right, "\n".join(told)
    job.finish(*first)
    assert difference(job.answer(), right) == "", "\n".join(told)
