"""The findings of `migration_runs.py` as a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.banded import query_text
from experiments.claims import claims_table, reasons
from experiments.figures import Chart, Line, draw
from experiments.grouped_changes import ABOVE, BELOW, SLIDE_SECONDS, WINDOW_SECONDS
from experiments.grouped_claims import grouped_table
from experiments.migration import (
    HIGH_LOAD,
    LOOK_SECONDS,
    LOW_LOAD,
    MOVING,
    PARALLEL,
    ROADS,
    RUN_LOAD,
    SEEDED,
    STABLE_LOAD,
)
from experiments.migration_claims import check_claims, held_bytes
from experiments.migration_runs import (
    BLIND,
    LOOKING,
    NEW_ONLY,
    OLD_ONLY,
    WITHOUT,
    Deciding,
    Effect,
    Findings,
    Length,
    Overhead,
    gap_of,
)
from experiments.paced import Sample, Trace
from experiments.page import Block, Code, Columns, Figure, Figures, Heading, Page, Paragraph, Table

TITLE = "Changing the plan of a running query: moving state, parallel track, and seeded"

INTRODUCTION = (
    "Zhu's dissertation goes from one plan of a running join to another by two roads. Moving state stops, makes the "
    "states that the new plan lacks, and goes on. Parallel track runs the new plan beside the old one, from no rows at "
    "all, until the rows from before have expired. This project has a third one: seeded makes the new states from the "
    "old ones in steps between batches, while the old plan answers, and then takes over. Chapter 16 measures how long "
    "migrations take, what they do to the output, and what is gained where the run decides by itself. This page does "
    "the same in the local runtime, with seeded beside the other two: every line and every figure comes from a run."
)
CAPTION = (
    "What the dissertation says, and what was measured. T_MS, T_PT: how long moving state and parallel track take; "
    "W: the window."
)

WINDOW, TWO_WINDOWS = "one window", "two windows (the paper's T_PT)"
BY_STREAM, MODEL = "parallel-track, by the stream's clock", "moving-state by equation 16.1"
LENGTH_NAMES = (*ROADS, BY_STREAM, TWO_WINDOWS, MODEL)
RUN_NAMES = (*ROADS, OLD_ONLY, NEW_ONLY, WITHOUT)
OfLength = Callable[[Length], float | None]
OfSample = Callable[[Sample], float]
RATE_SECONDS = 0.5  # over which output is counted for a rate


def make_page(findings: Findings, machine: str) -> Page:
    found = check_claims(findings)
    blocks: list[Block] = [
        Paragraph(INTRODUCTION),
        claims_table(found, CAPTION),
        Heading("Why, where it is otherwise"),
        *reasons(found),
        Heading("How long a migration takes (figures 16.1 to 16.4)"),
        Paragraph(
            "From when it was asked for until the new plan answers, by the machine's clock. For parallel track also by "
            "the stream's: how much input was taken in meanwhile, which is what the dissertation's 2 W is about."
        ),
        Figures((*_set_1(findings), _set_2(findings), _set_3(findings))),
        _lengths_table(findings),
        Heading("Output around a migration"),
        Paragraph(
            "Set 1 the other way round, at W = 4 s: from a plan that costs little to one with large states, which take "
            f"moving state {_ms(findings.back.seconds(MOVING))} ms to make. Batches are small, a fortieth of a window, "
            "and the run keeps up with both plans. The migration is asked for at the dashed line; where a line is "
            "flat, nothing comes out."
        ),
        Figures(_around(findings.back)),
        Heading("With enough CPU, and without (figures 16.5 to 16.8)"),
        Paragraph(_effects_text(findings)),
        Figures(tuple(figure for effect in findings.effects.values() for figure in _effect(effect))),
        Heading("The run decides by itself (figures 16.9 to 16.13)"),
        Paragraph(_deciding_text(findings)),
        Figures(
            (
                *_deciding(findings.once, ("16.10", "16.11")),
                *_deciding(findings.several, ("16.12", "16.13")),
                _stable(findings.overhead),
            )
        ),
        _changes_table(findings),
        Heading("A group-by below a join, and above it (chapter 14)"),
        Paragraph(_grouped_text(findings)),
        grouped_table(findings.grouped),
        Heading("How it was done"),
        *map(Paragraph, _method(findings, machine)),
        Code(query_text(findings.lengths["set 1"][0].setting)),
        Code(query_text(findings.once.setting)),
        *(Code(found.case.query) for found in findings.grouped),
    ]
    return Page(TITLE, tuple(blocks))


# --- words -----------------------------------------------------------------------------------------------------------


def _effects_text(findings: Findings) -> str:
    low, high = findings.effects["low"], findings.effects["high"]
    return (
        "The low configuration (W = 1 s, 10 rows a second, selectivities .1, .02, .02) runs in "
        f"{low.setting.copies:,} copies, with which the old plan needs {low.load:.1f} cores of its one; the high one "
        f"(W = 2 s, 20 rows a second, .2, .05, .05) in {high.setting.copies:,}, with {high.load:.1f} cores. The "
        f"migration is asked for after {findings.extent.migrate_at:g} s{_speed_text(low.setting.speed)}. Intermediate "
        "rows are those of states of two or more inputs, of both plans where both have some; output is counted over "
        f"{RATE_SECONDS:g} s."
    )


def _grouped_text(findings: Findings) -> str:
    many, key = (found.case for found in findings.grouped)
    return (
        f"Two streams, W = {WINDOW_SECONDS:g} s in slides of {SLIDE_SECONDS:g} s. Many to many (figure 14.1): "
        f"{many.rates[0]:,.0f} rows of each a second, {many.values:,} values. Key to foreign key (figure 14.3): "
        f"{key.rates[0]:,.0f} rows of A a second, met by those of {key.rates[1]:,.0f} rows of B that have its key. "
        f"The plan with the group-by on top is {ABOVE}, and {BELOW} has another one at the input B. The groups of each "
        "boundary are compared with those of a run on the same rows that keeps its plan."
    )


def _speed_text(speed: float) -> str:
    return "" if speed == 1.0 else f" (time runs {speed:g} times as fast)"


def _deciding_text(findings: Findings) -> str:
    once, several = findings.once, findings.several
    return (
        "Three streams at 20 rows a second, W = 5 s; the pair that is joined first has the lower selectivity, until "
        f"the two pairs trade places. The optimiser looks at the plan every {LOOK_SECONDS:g} s of input ([adapt] "
        'replan = "data-driven"), or twice as often where the run keeps up: looks are counted in batches. Time runs '
        f"{once.setting.speed:g} times as fast in the runs with one switch (.005 and .02), "
        f"{several.setting.speed:g} times in those with several (.02 and .3); the axes have the seconds of the "
        f"dissertation. In {once.setting.copies:,} and {several.setting.copies:,} copies the wrong plan needs "
        f"{once.load:.1f} and {several.load:.1f} cores of its one. Memory is the state, with what is being made for "
        "another plan, and the rows that wait."
    )


def _method(findings: Findings, machine: str) -> tuple[str, ...]:
    copies = findings.extent.copies
    return (
        f"Machine: {machine}. The whole took {findings.seconds / 60:.1f} minutes. Runs are in the local runtime, with "
        "one slot and the state in memory. A row arrives at its event time, on a clock that moves with the CPU time of "
        "the process and leaps where a run waits for rows: each run has one core to itself, however busy the machine "
        "is, and falls behind if it needs more. A batch takes a twentieth of a window (a tenth in the low "
        "configuration and with several switches), or up to twice that where rows wait.",
        "The dissertation ran nested loops over some tens of rows on a Pentium III of 500 MHz. Here the predicates "
        "of each pair are bands on columns of their own, which no hash serves, and so many copies of the experiment "
        "run side by side, told apart by a key that all streams share: within each copy rates, windows and "
        f"selectivities are those of table 16.1. Sets 1 to 3 have {copies[0]:,}, {copies[1]:,} and {copies[2]:,} "
        "copies. Which windows and rates they go through is our choice; the dissertation's are in its pictures "
        f"alone. Sections 16.3 and 16.4 have so many copies that the old plan needs about {LOW_LOAD:g} (low), "
        f"{HIGH_LOAD:g} (high) and {RUN_LOAD:g} cores (after a switch), and {STABLE_LOAD:g} where nothing changes: "
        "found by trying with few and with more.",
        "Migrations of sections 16.2 and 16.3 are from (((A B) C) D) to (((B C) D) A), asked for by hand when "
        f"windows are full; by moving state {findings.extent.repeats} times on other rows, of which the median "
        "counts. In section 16.4 selectivities are printed the wrong way round: with .005 for the upper join and .02 "
        "for the lower one the plan would be wrong before the switch, and right after it. Here it is right before. "
        "The query of that section has a select and a project as well, left out here.",
        "All roads keep the results exact, each once: tests compare the answers of runs that change their plan with "
        "those of runs that do not.",
    )


# --- section 16.2 ----------------------------------------------------------------------------------------------------


def _line(name: str, lengths: Sequence[Length], x: Callable[[Length], float], y: OfLength) -> Line:
    points = [(x(length), y(length)) for length in lengths]
    return Line(name, [at for at, value in points if value is not None], [v for _, v in points if v is not None])


def _lengths(
    name: str,
    title: str,
    label: str,
    lengths: Sequence[Length],
    x: Callable[[Length], float],
    lines: dict[str, OfLength],
) -> Figure:
    drawn = tuple(_line(line, lengths, x, y) for line, y in lines.items())
    return _figure(name, Chart(title, label, "length of the migration", drawn, LENGTH_NAMES, y_unit="s"))


def _by_road(road: str) -> OfLength:
    return lambda length: length.seconds(road)


def _by_stream(length: Length) -> float | None:
    return length.input_seconds(PARALLEL)


def _two(length: Length) -> float:
    return 2 * length.setting.width


def _window_ms(length: Length) -> float:
    return 1000 * length.setting.width


def _set_1(findings: Findings) -> tuple[Figure, Figure]:
    lengths, label = findings.lengths["set 1"], "window (ms)"
    return (
        _lengths(
            "migration-set1-parallel",
            "Set 1: parallel track (figure 16.1)",
            label,
            lengths,
            _window_ms,
            {PARALLEL: _by_road(PARALLEL), BY_STREAM: _by_stream, TWO_WINDOWS: _two, SEEDED: _by_road(SEEDED)},
        ),
        _lengths(
            "migration-set1-moving",
            "Set 1: moving state (figure 16.2)",
            label,
            lengths,
            _window_ms,
            {MOVING: _by_road(MOVING), MODEL: lambda length: length.modelled},
        ),
    )


def _set_2(findings: Findings) -> Figure:
    roads = {road: _by_road(road) for road in ROADS}
    return _lengths(
        "migration-set2",
        "Set 2: by the rate of B, W = 1 s (figure 16.3)",
        "rows of B a second, in each copy",
        findings.lengths["set 2"],
        lambda length: length.varied,
        {**roads, TWO_WINDOWS: _two},
    )


def _set_3(findings: Findings) -> Figure:
    roads = {road: _by_road(road) for road in ROADS}
    return _lengths(
        "migration-set3",
        "Set 3: the crossover (figure 16.4)",
        "window (ms)",
        findings.lengths["set 3"],
        _window_ms,
        {**roads, BY_STREAM: _by_stream, TWO_WINDOWS: _two},
    )


def _lengths_table(findings: Findings) -> Table:
    lengths = [length for lengths in (*findings.lengths.values(), (findings.back,)) for length in lengths]
    return Table(
        columns=(
            Columns("", ("set",), text=True),
            Columns("", ("W (ms)", "rows of B/s")),
            Columns("moving-state (ms)", ("measured", "equation 16.1", "longest gap")),
            Columns("parallel-track (ms)", ("measured", "by the stream", "longest gap")),
            Columns("seeded (ms)", ("measured", "longest gap")),
            Columns("", ("longest gap before (ms)", "rows made from")),
        ),
        rows=tuple(_length_row(length) for length in lengths),
        caption="Lengths of migrations; gaps are the longest times without a result. The last line is set 1 the other "
        "way round, which equation 16.1 is not for.",
    )


def _length_row(length: Length) -> tuple[str, ...]:
    gap = {road: gap_of(length.traces[road]) for road in ROADS}
    before = gap[MOVING]

    def during(road: str) -> str:
        found = gap[road]
        return "" if found is None else _ms(found["during"])

    return (
        length.setting.name,
        f"{_window_ms(length):,.0f}",
        f"{length.setting.rates['B']:.0f}",
        _ms(length.seconds(MOVING)),
        "" if length.modelled is None else _ms(length.modelled),
        during(MOVING),
        _ms(length.seconds(PARALLEL)),
        _ms(length.input_seconds(PARALLEL)),
        during(PARALLEL),
        _ms(length.seconds(SEEDED)),
        during(SEEDED),
        "" if before is None else _ms(before["before"]),
        f"{length.changes[MOVING][0].rows:,}" if length.changes[MOVING] else "",
    )


def _ms(seconds: float | None) -> str:
    """
    >>> _ms(1.2345), _ms(None)
    ('1,234', 'no end')
    """
    return "no end" if seconds is None else f"{1000 * seconds:,.0f}"


def _around(length: Length) -> tuple[Figure, ...]:
    """Results of each road by the clock: around the moment at which it is asked for, and over all of it."""
    lead_in = length.setting.width / 8
    moving = length.seconds(MOVING) or 0.0
    return (
        _figure("migration-around-near", _output(length, lead_in, 2 * lead_in + 2 * moving, "the first moments")),
        _figure("migration-around", _output(length, lead_in, 2 * length.setting.width, "until all are done")),
    )


def _output(length: Length, lead_in: float, seconds: float, what: str) -> Chart:
    lines = []
    for road in ROADS:
        trace = length.traces[road]
        if not trace.changes:
            continue
        start = trace.changes[0].asked_at - lead_in
        samples = [sample for sample in trace.samples if start <= sample.seconds <= start + seconds]
        first = samples[0].results
        x, y = [0.0], [0]
        for sample in samples:  # as stairs: results come with their batch, and nothing does before
            x += [1000 * (sample.seconds - start)] * 2
            y += [y[-1], sample.results - first]
        lines.append(Line(road, x, y))
    return Chart(
        f"Output around a migration: {what}",
        "ms",
        "results since then",
        tuple(lines),
        RUN_NAMES,
        moments=(1000 * lead_in,),
        moments_label="asked for",
    )


# --- section 16.3 ----------------------------------------------------------------------------------------------------


def _effect(effect: Effect) -> tuple[Figure, ...]:
    what = "enough CPU" if effect.setting.name == "low" else "too little CPU"
    numbers = ("16.5", "16.6") if effect.setting.name == "low" else ("16.7", "16.8")
    order = (OLD_ONLY, NEW_ONLY, *ROADS)
    rows = tuple(_over_time(name, effect.traces[name], lambda s: s.joined_rows, effect.setting.speed) for name in order)
    rates = tuple(_rate(name, effect.traces[name], effect.setting.speed) for name in order)
    name = effect.setting.name

    def chart(title: str, label: str, lines: tuple[Line, ...]) -> Chart:
        return Chart(
            f"{title}: {what} (figure {numbers[lines is rates]})",
            "seconds",
            label,
            lines,
            RUN_NAMES,
            moments=(effect.migrate_at * effect.setting.speed,),
            moments_label="asked for",
        )

    return (
        _figure(f"migration-{name}-rows", chart("Intermediate rows", "rows", rows)),
        _figure(f"migration-{name}-output", chart("Output", "results a second", rates)),
    )


def _rate(name: str, trace: Trace, speed: float) -> Line:
    """Results a second, counted over `RATE_SECONDS` or a batch, if that takes longer."""
    x, y = [], []
    last = trace.samples[0]
    for sample in trace.samples[1:]:
        if sample.seconds - last.seconds >= RATE_SECONDS:
            x.append((sample.seconds + last.seconds) / 2 * speed)
            y.append((sample.results - last.results) / (sample.seconds - last.seconds))
            last = sample
    return Line(name, x, y)


# --- section 16.4 ----------------------------------------------------------------------------------------------------


def _deciding(deciding: Deciding, numbers: tuple[str, str]) -> tuple[Figure, ...]:
    setting = deciding.setting
    name = setting.name
    switches = tuple(switch.seconds for switch in setting.switches[1:])
    what = "one switch" if name == "once" else "several switches"

    def with_queues(sample: Sample) -> float:
        return held_bytes(sample) + sample.waiting_rows * setting.row_bytes

    charts: tuple[tuple[str, str, str, str, OfSample], ...] = (
        ("results", f"Results: {what} (figure {numbers[0]})", "results so far", "", lambda sample: sample.results),
        ("memory", f"Memory with what waits: {what} (figure {numbers[1]})", "memory", "B", with_queues),
        ("state", f"State alone: {what}", "state", "B", held_bytes),
    )
    return tuple(
        _figure(
            f"migration-{name}-{kind}",
            Chart(
                title,
                "seconds",
                label,
                tuple(_over_time(run, trace, value, setting.speed) for run, trace in deciding.traces.items()),
                RUN_NAMES,
                y_unit=unit,
                moments=switches,
                moments_label="selectivities switch",
            ),
        )
        for kind, title, label, unit, value in charts
    )


def _stable(overhead: Overhead) -> Figure:
    lines = tuple(
        _over_time(name, trace, lambda sample: sample.results, overhead.setting.speed)
        for name, trace in overhead.traces.items()
    )
    title = "Nothing changes (figure 16.9)"
    return _figure("migration-stable", Chart(title, "seconds", "results so far", lines, (LOOKING, BLIND)))


def _changes_table(findings: Findings) -> Table:
    rows = []
    for deciding, what in ((findings.once, "one"), (findings.several, "several")):
        for road, trace in deciding.traces.items():
            for change in trace.changes:
                rows.append(
                    (
                        what,
                        road,
                        change.plan,
                        f"{change.asked_at * deciding.setting.speed:.1f}",
                        f"{change.done_at * deciding.setting.speed:.1f}",
                        _ms(change.work_seconds),
                        f"{change.rows:,}",
                    )
                )
    return Table(
        columns=(
            Columns("", ("switches", "road", "to"), text=True),
            Columns("", ("begun (s)", "done (s)", "work (ms)", "rows taken in")),
        ),
        rows=tuple(rows),
        caption="Migrations that runs decided on; the work is by the machine's clock, the rest in the dissertation's "
        "seconds.",
    )


def _over_time(name: str, trace: Trace, value: OfSample, speed: float = 1.0) -> Line:
    """A value of each batch by the clock, in seconds at normal speed."""
    return Line(name, [sample.seconds * speed for sample in trace.samples], [value(s) for s in trace.samples])


def _figure(name: str, chart: Chart) -> Figure:
    return Figure(name, draw(chart), chart.title)
