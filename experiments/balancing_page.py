"""The findings of `balancing_runs.py` as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from experiments import claims
from experiments.balancing import (
    BALANCED,
    BOTH_MOVING,
    BOTH_PARALLEL,
    FEW,
    GROUPS,
    LOCAL,
    SCOPES,
    SLOTS,
    Contender,
    Setting,
)
from experiments.balancing_claims import check_claims, moving_seconds, rows_in_system
from experiments.balancing_runs import Findings, Outcome, outside
from experiments.banded import query_text
from experiments.figures import Chart, Line, draw
from experiments.paced import Sample, Trace
from experiments.page import Block, Code, Columns, Figure, Figures, Heading, Page, Paragraph, Table

TITLE = "Plans that differ by slot, and groups that go from slot to slot"

INTRODUCTION = (
    "A query that is spread over machines can be helped in two ways: each machine may choose another plan for its "
    "share, and machines may pass shares on to each other. Zhu's dissertation (2006, chapter 23) does both at once, "
    "by moving state (MSLB) or by a parallel track (PTLB), and compares them with either alone and with none. This "
    "page does the same with slots in the local runtime: every line and every measured figure comes from a run. All "
    "runs of a setting have the same rows, and gave the same results as far as they came."
)

CAPTION = (
    "What the dissertation says, and what was measured. Claims of its section 23.2 are there twice: with rates that "
    "fall, as printed, and with the same rates come to from below. A dash marks a claim of ours."
)

METHOD = (
    f"{SLOTS} slots share {GROUPS} groups, with as many values of the key in each; the first slot has half of them "
    "at the start, but where slots have data with other statistics. Each value of the key has rows of its own rates, "
    "and within it rows are compared one by one, as in nested loops.",
    "A slot is a machine with one core. The clock moves by the CPU seconds of the slowest slot of a batch, as its "
    "tasks measure them, and by all CPU seconds that are spent outside of tasks: rows are cut by slot, and the batch "
    "is committed. Slots work one after the other on one thread, so that they do not disturb each other. Rows arrive "
    "by that clock; what a run has not taken when they have, waits. Nothing is sent over a network, and there is no "
    "disk: moving state costs what it takes to join, and no more.",
    "Time runs faster than in the dissertation, by as much as makes the fullest slot take the `load` that the setting "
    "says for a second of input. All seconds here are those at its speed.",
    "Local plans: every few batches each slot compares what its groups' trees cost by what it has measured of its own "
    "rows, and changes them if that pays until the next look. Balancing: every second batch the slot that has most in "
    "memory gives half of the difference to the one that has least, if that has less than 80 %.",
)


def make_page(findings: Findings, machine: str) -> Page:
    """The page; `machine` says what it ran on."""
    found = check_claims(findings)
    blocks: list[Block] = [
        Paragraph(INTRODUCTION),
        claims.claims_table(found, CAPTION),
        Heading("Why, where it is otherwise"),
        *claims.reasons(found),
        Paragraph(f"Run on {machine}, in {findings.seconds:.0f} seconds."),
        Heading("A rises: local plans and balancing (figures 23.1 to 23.8)"),
        Paragraph(describe(findings.rise.setting)),
        Figures(tuple(_four(findings.rise))),
        *_by_load(findings),
        Heading("B and C fall: the same as printed (figures 23.1 to 23.8, and 23.15)"),
        Paragraph(describe(findings.fall.setting)),
        Figures(tuple(_four(findings.fall))),
        Heading("Both ways, by window and rate (figures 23.9 to 23.14)"),
        Paragraph(CELLS),
        Figures(tuple(_cells(findings))),
        _cells_table(findings),
        Heading("Slots whose data differs"),
        Paragraph(PARTED),
        Figures(tuple(_parted(findings.parted))),
        Heading("How it was done"),
        Code(query_text(findings.rise.setting)),
        *map(Paragraph, METHOD),
        Heading("All runs"),
        _all_runs([findings.fall, *findings.rises.values(), *findings.cells.values(), findings.parted]),
    ]
    return Page(TITLE, tuple(blocks))


CELLS = (
    "Rates are the same for all streams and stay as they are. From second 30 on A and B meet ten times as often as "
    "before, so that (A (B C)) becomes the better plan. All settings run at one speed, so that load grows with rate "
    "and window."
)
PARTED = (
    "For half of the keys A and B meet ten times as often as B and C, for the others it is the other way round, and "
    "slots 0 and 1 have keys of the first kind, 2 and 3 of the second. All begin with ((A B) C), which is right for "
    "the second."
)


def describe(setting: Setting) -> str:
    rates = ", ".join(f"{stream} {rate:g}" for stream, rate in setting.rates.items())
    then = "; ".join(
        f"from second {other.seconds:g} on " + ", ".join(f"{stream} {rate:g}" for stream, rate in other.rates.items())
        for other in setting.other_rates
    )
    selectivity = next(iter(setting.selectivities.values()))
    return (
        f"Rows a second for each of {setting.copies} values of the key: {rates}; {then}. The window is "
        f"{setting.window_seconds:g} s, both selectivities {selectivity:.2g}, the load {setting.load:g} "
        f"from second {setting.loaded[0]:g} to {setting.loaded[1]:g}, at {setting.speed:.1f} times the speed."
    )


# --- charts ----------------------------------------------------------------------------------------------------------


def _four(outcome: Outcome) -> Iterable[Figure]:
    """What the dissertation has four charts of, for each way; here both are in each."""
    name = f"balancing-{outcome.setting.name}"
    yield _over_time(f"{name}-results", "Results so far", "results", outcome, lambda sample: sample.results)
    yield _over_time(f"{name}-rows", "Rows in the system, waiting and kept", "rows", outcome, rows_in_system)
    yield _over_time(f"{name}-state", "Rows kept in states", "rows", outcome, lambda sample: sample.state_rows)
    lines = tuple(Line(entry, *rates(outcome, trace)) for entry, trace in outcome.traces.items())
    yield _timed(f"{name}-rate", "Results a second", "results a second", outcome, lines)


RATE_SECONDS = 5.0  # that a point of a rate is over, so that batches do not show


def rates(outcome: Outcome, trace: Trace) -> tuple[list[float], list[float]]:
    """Seconds, and results in a second of the clock; both at normal speed."""
    points = [trace.samples[0]]
    for sample in trace.samples:
        if outcome.normal(sample.seconds - points[-1].seconds) >= RATE_SECONDS:
            points.append(sample)
    pairs = list(pairwise(points))
    x = [outcome.normal(after.seconds) for _, after in pairs]
    return x, [(b.results - a.results) / outcome.normal(b.seconds - a.seconds) for a, b in pairs]


def _over_time(name: str, title: str, what: str, outcome: Outcome, value: Callable[[Sample], float]) -> Figure:
    lines = tuple(
        Line(entry, [outcome.normal(s.seconds) for s in trace.samples], [value(s) for s in trace.samples])
        for entry, trace in outcome.traces.items()
    )
    return _timed(name, title, what, outcome, lines)


def _timed(name: str, title: str, what: str, outcome: Outcome, lines: tuple[Line, ...]) -> Figure:
    moments = tuple(c.seconds for c in outcome.setting.other_rates)
    chart = Chart(title, "seconds", what, lines, tuple(outcome.traces), moments=moments, moments_label="rates change")
    return _figure(name, chart)


def _by_load(findings: Findings) -> Iterable[Block]:
    if len(findings.rises) < 2:
        return
    loads = sorted(findings.rises)
    names = tuple(contender.name for contender in FEW)
    lines = tuple(
        Line(contender.name, loads, [findings.rises[load].gain(contender) for load in loads])
        for contender in (LOCAL, BALANCED, BOTH_MOVING)
    )
    yield Paragraph(
        "What is gained depends on the load, which the dissertation does not give: the same with other ones, the gain "
        "in times of the results without adaptation."
    )
    chart = Chart("Gain by load", "seconds of the fullest slot for one of input", "times", lines, names, y_at_least=2.0)
    yield Figures((_figure("balancing-loads", chart),))


MEASURED_PARALLEL, MEASURED_MOVING, TWO_WINDOWS = "parallel-track", "moving-state", "2 W"


def _cells(findings: Findings) -> Iterable[Figure]:
    windows = findings.extent.windows
    ways = (BOTH_PARALLEL.name, BOTH_MOVING.name)
    names = (MEASURED_PARALLEL, MEASURED_MOVING, TWO_WINDOWS)
    for rate in findings.extent.rates:
        cells = [findings.cells[rate, window] for window in windows]
        lines = tuple(
            Line(contender.name, windows, [cell.gain(contender) for cell in cells])
            for contender in (BOTH_PARALLEL, BOTH_MOVING)
        )
        title = f"Gain over no adaptation, {rate:g} rows a second"
        yield _figure(f"balancing-{rate:g}-gain", Chart(title, "window, s", "times", lines, ways, y_at_least=2.0))
        lengths = [
            Line(name, [window for window, _ in points], [seconds for _, seconds in points])
            for name, points in (
                (MEASURED_PARALLEL, _known(cells, waited_seconds)),
                (MEASURED_MOVING, _known(cells, moving_seconds)),
                (TWO_WINDOWS, [(window, 2 * window) for window in windows]),
            )
            if points
        ]
        title = f"How long the first change takes, {rate:g} rows a second"
        chart = Chart(title, "window, s", "seconds", tuple(lengths), names, y_at_least=10.0)
        yield _figure(f"balancing-{rate:g}-length", chart)


def waited_seconds(outcome: Outcome) -> float | None:
    """Of input, that the first change by a parallel track took."""
    changes = outcome.changes(BOTH_PARALLEL)
    return outcome.normal(changes[0].input_seconds) if changes else None


def _known(cells: Iterable[Outcome], seconds: Callable[[Outcome], float | None]) -> list[tuple[float, float]]:
    return [(cell.setting.window_seconds, took) for cell in cells if (took := seconds(cell)) is not None]


def _cells_table(findings: Findings) -> Table:
    return Table(
        columns=(
            Columns("", ("rows a second", "window (s)")),
            Columns("results", ("no adaptation", "parallel-track", "moving-state")),
            Columns("times", ("parallel-track", "moving-state")),
            Columns("took", ("parallel-track (s of input)", "moving-state (s)")),
        ),
        rows=tuple(
            (
                f"{rate:g}",
                f"{window:g}",
                *(f"{trace.samples[-1].results:,}" for trace in outcome.traces.values()),
                *(f"{outcome.gain(contender):.2f}" for contender in (BOTH_PARALLEL, BOTH_MOVING)),
                *(_seconds(seconds) for seconds in (waited_seconds(outcome), moving_seconds(outcome))),
            )
            for (rate, window), outcome in findings.cells.items()
        ),
        caption="A change that took nothing was not done before the run ended.",
    )


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"


def _parted(outcome: Outcome) -> Iterable[Figure]:
    yield _over_time("balancing-parted-results", "Results so far", "results", outcome, lambda sample: sample.results)
    slots = range(SLOTS)
    lines = tuple(Line(contender.name, list(slots), _slot_seconds(outcome, contender)) for contender in SCOPES)
    chart = Chart(
        "Seconds of a slot for one of input", "slot", "seconds", lines, tuple(contender.name for contender in SCOPES)
    )
    yield _figure("balancing-parted-slots", chart)


def _slot_seconds(outcome: Outcome, contender: Contender) -> list[float]:
    """Over the second half of what was taken."""
    samples = outcome.traces[contender.name].samples
    half = samples[-1].taken_seconds / 2
    late = [sample for sample in samples[1:] if sample.taken_seconds > half]
    return [sum(sample.slot_cpu[slot] for sample in late) / half for slot in range(SLOTS)]


def _figure(name: str, chart: Chart) -> Figure:
    return Figure(name, draw(chart), chart.title)


# --- tables ----------------------------------------------------------------------------------------------------------


def _all_runs(outcomes: Iterable[Outcome]) -> Table:
    rows = [
        (
            f"{outcome.setting.name}, load {outcome.setting.load:g}" if name_load(outcome) else outcome.setting.name,
            name,
            f"{trace.samples[-1].results:,}",
            f"{outcome.normal(trace.samples[-1].taken_seconds):.0f}",
            f"{trace.samples[-1].waiting_rows:,}",
            f"{trace.samples[-1].state_rows:,}",
            str(len(trace.moves)),
            str(sum(moves.groups for moves in trace.moves)),
            str(len(trace.changes)),
            f"{sum(outcome.normal(change.work_seconds) for change in trace.changes):.1f}",
            f"{outside(trace) / trace.samples[-1].seconds:.0%}",
        )
        for outcome in outcomes
        for name, trace in outcome.traces.items()
    ]
    return Table(
        columns=(
            Columns("", ("setting", "run"), text=True),
            Columns("at the end", ("results", "input taken (s)", "rows waiting", "rows kept")),
            Columns("moves", ("times", "groups")),
            Columns("changes of the plan", ("times", "took (s)")),
            Columns("", ("outside of slots",)),
        ),
        rows=tuple(rows),
        caption="Outside of slots: the share of the clock that batches take beside their slowest slot, with changes.",
    )


def name_load(outcome: Outcome) -> bool:
    return bool(outcome.setting.other_rates)
