"""The findings of `placement_runs.py` as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from experiments import claims
from experiments.budgeted import History, Sample
from experiments.figures import Chart, Line, draw
from experiments.page import Block, Code, Columns, Figure, Figures, Heading, Page, Paragraph, Table
from experiments.placement import (
    ALTERNATING_BATCH,
    ALTERNATING_SPAN,
    ALTERNATING_THRESHOLD,
    EVEN_ACTIVE,
    EVEN_LAZY,
    HOURS_SCALE,
    LAZY_DISK,
    NO_RELOCATION,
    RELOCATION,
    STILL,
    TEXT,
    Extent,
    level,
)
from experiments.placement_claims import PAPER_ADAPTATIONS, adaptations, check_claims
from experiments.placement_runs import Findings, Outcome, first_spill, moved_groups

TITLE = "Where the work runs: groups that move between slots"

INTRODUCTION = (
    "The state of a join may fill up one machine while another has room. Liu and Rundensteiner (WPI-CS-TR-05-04, 2005) "
    "move groups to the machine that has least, and ask how often that is worth it; where memory is short everywhere, "
    "they combine it with spills, each machine for itself (lazy-disk) or those first whose groups earn least "
    "(active-disk). This page does the same with slots in the local runtime: every line and every measured figure "
    "comes from a run. All runs of a setting have the same rows, and with the clean-up each of them gave as many "
    "results as the run without a limit."
)

CAPTION = "What the report says, and what was measured. A dash marks a claim of ours."

METHOD = (
    "Rows arrive by a virtual clock, at their event time; a batch takes what has come since the last one. Slots are "
    "taken to be fast enough, as the report takes its machines, so lines differ only by what was in memory when a row "
    "came. To move groups is one commit between two batches: it takes no time on that clock. What it costs is in the "
    "CPU seconds of the process.",
    "The report's machines have 200 MB. Our rows take far fewer bytes than Java objects of 2005, so the limit of a "
    "slot is a share of what the same rows take in all: for figure 7 what comes in 25 of 40 minutes, for figure 17 "
    "what the crowded slot has after 40 of 60, for figure 20 a quarter of all, and a twelfth in the six hours, for "
    "figure 21 half of what comes to a slot. A spill takes 30 % of what the slot holds, the least productive groups "
    "first. Nothing is merged before the clean-up. Memory is not levelled before a slot is half full, but with the "
    "alternating load, where there is no limit, from the start.",
    "In figures 17 and 20 two thirds of the groups are on the first of three slots at the start. In figure 21 each "
    "slot has a third of the rows; a value of the first comes four times in each tuple range, one of the others once. "
    "Thresholds are 80 % and the span between two moves 45 seconds where the figure does not say otherwise.",
    "The clean-up of each slot is timed by the CPU seconds of its tasks: where slots are machines, it takes as long as "
    "the slowest.",
)


def scale_text(extent: Extent) -> str:
    return (
        f"Rates, rows and tuple ranges are those of the report (as far as it has them: a row every 30 ms, tuple range "
        f"30,000) divided by {extent.scale}, in the six hours by {extent.scale * HOURS_SCALE}; batches are of "
        f"{ALTERNATING_BATCH:g} seconds with the alternating load, of {extent.batch_seconds * 6 / 60:g} minutes in the "
        f"six hours, and of {extent.batch_seconds:g} seconds else, over {extent.groups} groups. That leaves the "
        "minutes, the tuple ranges that pass, the results of a row and the course of the lines as they are."
    )


def make_page(findings: Findings, machine: str) -> Page:
    """The page; `machine` says what it ran on."""
    found = check_claims(findings)
    outcomes = findings.outcomes
    blocks: list[Block] = [
        Paragraph(INTRODUCTION),
        claims.claims_table(found, CAPTION),
        Heading("Why, where it is otherwise"),
        *claims.reasons(found),
        Paragraph(f"Run on {machine}, in {findings.seconds:.0f} seconds. {scale_text(findings.extent)}"),
        Heading("How many machines (figure 7)"),
        Figures(tuple(_machines(outcomes["machines"]))),
        Heading("When to move, and how often (figures 14 to 16)"),
        Figures(tuple(_alternating(findings))),
        Heading("Relocation instead of spills (figure 17)"),
        Figures(tuple(_uneven(outcomes["uneven"], RELOCATION.name, "17"))),
        Heading("Where all memory is not enough (figure 20)"),
        Figures(tuple(_uneven(outcomes["short"], LAZY_DISK.name, "20"))),
        Figures(tuple(_uneven(outcomes["very short"], LAZY_DISK.name, "20-hours"))),
        Heading("Groups that earn less make room (figure 21)"),
        Figures(tuple(_productive(outcomes["productive"]))),
        Heading("What looking costs"),
        Paragraph(LOOKS),
        _looks_table(findings),
        Heading("How it was done"),
        Code(TEXT),
        *map(Paragraph, METHOD),
        Heading("All runs"),
        _all_runs(outcomes.values()),
    ]
    return Page(TITLE, tuple(blocks))


LOOKS = (
    "Where memory is limited, lazy-disk is what users get unless they say otherwise. Here keys are uniform, on two "
    "slots with a memory budget that half of the rows fit into, with its default settings: what its looks take is "
    "timed in the thread that looks."
)


def _looks_table(findings: Findings) -> Table:
    return Table(
        columns=(
            Columns("", ("",), text=True),
            Columns("", ("rows in a batch", "batches", "looks (ms)", "all (ms of CPU)", "share", "groups moved")),
        ),
        rows=tuple(
            (
                entry.what,
                f"{entry.batch_rows:,}",
                f"{entry.batches:,}",
                f"{entry.seconds * 1e3:.1f}",
                f"{entry.cpu_seconds * 1e3:,.0f}",
                f"{entry.share:.2%}",
                str(entry.moved),
            )
            for entry in findings.looks
        ),
    )


def _all_runs(outcomes: Iterable[Outcome]) -> Table:
    rows = [
        (
            outcome.setting.figures,
            name,
            "none" if outcome.limit_bytes is None else f"{outcome.limit_bytes / 1e6:.2f}",
            str(len(run.moves)),
            f"{moved_groups(run):,}",
            str(run.spills),
            "" if (first := first_spill(run)) is None else f"{first.seconds / 60:g}",
            f"{run.run_time_results:,}",
            f"{run.clean_up_results:,}",
            " / ".join(f"{seconds:.2f}" for seconds in run.clean_up_cpu_of_slots),
            f"{run.run_time_cpu:.1f}",
        )
        for outcome in outcomes
        for name, run in outcome.runs.items()
    ]
    return Table(
        columns=(
            Columns("", ("figure", "run"), text=True),
            Columns("", ("limit (MB)",)),
            Columns("moves", ("times", "groups")),
            Columns("spills", ("times", "first (min)")),
            Columns("results", ("run time", "clean-up")),
            Columns("CPU (s)", ("clean-up, by slot", "run time")),
        ),
        rows=tuple(rows),
    )


# --- charts ----------------------------------------------------------------------------------------------------------


ROOM = 1.4  # times the limit, that charts of memory reach: the legend has to stand somewhere


def _machines(outcome: Outcome) -> Iterable[Figure]:
    names = tuple(outcome.runs)
    yield _results("placement-7-results", "Results by number of slots", outcome, names)
    lines = [
        _line(name, outcome.runs[name], lambda sample: max(sample.slot_bytes)) for name in names if name != "4 slots"
    ]
    yield _figure(
        "placement-7-memory",
        Chart(
            "Memory of the fullest slot",
            "minutes",
            "bytes in memory",
            tuple(lines),
            names,
            "B",
            ROOM * (outcome.limit_bytes or 0),
            limit=outcome.limit_bytes,
            limit_label="what a slot may hold",
        ),
    )


REPORT, HERE = "the report", "here"


def _alternating(findings: Findings) -> Iterable[Figure]:
    extent, outcome = findings.extent, findings.outcomes["alternating"]
    names = (HERE, REPORT)
    paper = sorted((threshold, count) for (threshold, span), count in PAPER_ADAPTATIONS.items() if span == 45)
    here = [adaptations(findings, threshold, ALTERNATING_SPAN) for threshold in extent.thresholds]
    yield _figure(
        "placement-14-adaptations",
        Chart(
            "Adaptations by threshold, span 45 s",
            "threshold, %",
            "adaptations in 60 minutes",
            (
                Line(HERE, [100 * threshold for threshold in extent.thresholds], here),
                Line(REPORT, [100 * threshold for threshold, _ in paper], [count for _, count in paper]),
            ),
            names,
        ),
    )
    spans = sorted((span, count) for (threshold, span), count in PAPER_ADAPTATIONS.items() if threshold == 0.9)
    yield _figure(
        "placement-15-adaptations",
        Chart(
            "Adaptations by span, threshold 90 %",
            "least seconds between two",
            "adaptations in 60 minutes",
            (
                Line(HERE, extent.spans, [adaptations(findings, ALTERNATING_THRESHOLD, span) for span in extent.spans]),
                Line(REPORT, [span for span, _ in spans], [count for _, count in spans]),
            ),
            names,
        ),
    )
    ends = (STILL.name, level(0.5, 45).name, level(0.9, 45).name, level(0.9, 15).name)
    yield _results("placement-14-results", "Results with thresholds and spans", outcome, ends)
    moved = outcome.runs[level(ALTERNATING_THRESHOLD, min(extent.spans)).name]
    lines = _slot_lines(("no relocation, slot 0", "no relocation, slot 1"), outcome.runs[STILL.name])
    lines += _slot_lines(("relocate, slot 0", "relocate, slot 1"), moved)
    yield _figure(
        "placement-16-memory",
        Chart(
            f"Memory of both slots (90 %, {min(extent.spans)} s)",
            "minutes",
            "bytes in memory",
            tuple(lines),
            tuple(line.name for line in lines),
            "B",
        ),
    )


def _uneven(outcome: Outcome, moved: str, figure: str) -> Iterable[Figure]:
    hours = " in six hours" if "hours" in figure else ""
    names = (NO_RELOCATION.name, moved)
    yield _results(f"placement-{figure}-results", f"Results with {moved}{hours}", outcome, names)
    lines = []
    for name, run in outcome.runs.items():
        lines += [
            _line(f"{name}, most", run, lambda sample: max(sample.slot_bytes)),
            _line(f"{name}, least", run, lambda sample: min(sample.slot_bytes)),
        ]
    yield _figure(
        f"placement-{figure}-memory",
        Chart(
            f"Memory of the slots that have most and least{hours}",
            "minutes",
            "bytes in memory",
            tuple(lines),
            tuple(line.name for line in lines),
            "B",
            ROOM * (outcome.limit_bytes or 0),
            limit=outcome.limit_bytes,
            limit_label="what a slot may hold",
        ),
    )


def _productive(outcome: Outcome) -> Iterable[Figure]:
    names = (EVEN_LAZY.name, EVEN_ACTIVE.name)
    yield _results("placement-21-results", "Results with join ratios 4, 1 and 1", outcome, names)
    lines = tuple(Line(name, *_rates(outcome.runs[name])) for name in names)
    pushed = first_spill(outcome.runs[EVEN_ACTIVE.name])
    yield _figure(
        "placement-21-rate",
        Chart(
            "Results a minute",
            "minutes",
            "results a minute",
            lines,
            names,
            moments=() if pushed is None else (pushed.seconds / 60,),
            moments_label="active-disk begins to push",
        ),
    )


RATE_SAMPLES = 4  # that a point of a rate is over, so that batches do not show


def _rates(run: History) -> tuple[list[float], list[float]]:
    samples = run.run_time[::RATE_SAMPLES]
    pairs = list(pairwise(samples))
    x = [after.seconds / 60 for _, after in pairs]
    return x, [(b.results - a.results) / ((b.seconds - a.seconds) / 60) for a, b in pairs]


def _results(name: str, title: str, outcome: Outcome, names: Sequence[str]) -> Figure:
    lines = tuple(_line(entry, outcome.runs[entry], lambda sample: sample.results) for entry in names)
    return _figure(name, Chart(title, "minutes", "results so far", lines, tuple(names)))


def _slot_lines(names: tuple[str, str], run: History) -> list[Line]:
    return [
        _line(name, run, lambda sample, slot=slot: sample.slot_bytes[slot])  # type: ignore[misc]
        for slot, name in enumerate(names)
    ]


def _line(name: str, run: History, value: Callable[[Sample], float]) -> Line:
    return Line(name, [s.seconds / 60 for s in run.run_time], [value(s) for s in run.run_time])


def _figure(name: str, chart: Chart) -> Figure:
    return Figure(name, draw(chart), chart.title)
