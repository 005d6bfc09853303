"""The findings of `plan_runs.py` as a page, and as the rows of a table for a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.banded import query_text
from experiments.figures import Chart, Line, draw
from experiments.paced import Sample
from experiments.page import (
    Block,
    Code,
    Columns,
    Figure,
    Figures,
    Heading,
    Marked,
    Page,
    Paragraph,
    Table,
)
from experiments.plan_runs import PlanOutcome, SetOutcome, verdict_text
from experiments.plans import BATCHES_A_WINDOW, CPU_LIMIT, Verdict, predict_state_rows
from watersmeet.optimize import CostConstants

PLANS = ("mjoin", "bjtree", "hybrid")
NONE = "–"

TITLE = "Which plan qualifies: mjoin, bjtree and hybrid under limits on CPU and memory"

INTRODUCTION = (
    "Zhu's dissertation (experiment sets 1 to 4, table 8.1) runs the same join as one multi-way join (mjoin), as a "
    "tree of binary joins (bjtree) and as something between (hybrid), with more or less CPU and memory, and asks which "
    "plan lives with what there is. This page does the same on this machine, in the local runtime: every line and "
    "every measured figure comes from a run."
)

METHOD = (
    "The dissertation ran nested loops at 20 rows a second on 1.5 GHz. To load a CPU of today, every set runs in many "
    "copies side by side, told apart by a key that all streams share, and time runs faster: rates are multiplied and "
    "windows divided by the speed, which leaves the sizes of states as they are. Within a copy, rates, windows and "
    "selectivities are those of the table, and all rows of a copy are compared: the predicates are bands, which no "
    "hash serves. The number of copies is chosen from the predicted costs so that one core, the CPU limit, lies where "
    "the set wants it: well above what every plan needs, or between the plans.",
    f"The CPU limit is {CPU_LIMIT:g} core: the run has one slot. Rows arrive by the clock as a Poisson process, and a "
    f"batch takes what has arrived, 1/{BATCHES_A_WINDOW} of a window or more; a plan that needs more than a core falls "
    "behind, and its queue grows. The memory limit is checked against the bytes of active state after every batch. A "
    "line ends with a cross where its plan exceeded it; the run goes on unseen, so that what the plan needs can be "
    "measured all the same.",
    "Measured CPU is the CPU time spent in batches over the seconds of input that they took: the cores that the plan "
    "needs to keep up, whether it got them or not. It and the measured sizes of states are means over the time after "
    "the windows have filled. A ratio is measured over predicted. A plan qualifies in the run if it kept up with its "
    "input and stayed under the memory limit.",
)

DEPARTURE = (
    "The table has a window of {table:g} s for this set. With it, every copy would have 16 million results a second, "
    "at normal speed. The window is {window:g} s here: 100 rows of each stream, 200 pairs AB, 500 pairs CD, and 16 "
    "thousand results a second in every copy."
)

NOTES = (
    "What the model leaves out: a batch has a price of its own, some 10 ms, which weighs most where there is little "
    "else to do; and an expired row leaves a state only with the segment that it lies in, so states hold more rows "
    "than are alive, which have to be compared and sorted out. That is little for streams, and much for intermediate "
    "results, most of which have but a part of a window left when they are made. The model also takes a combined row "
    "to be as wide as its parts together, while a state keeps only the columns that are still needed (56 bytes instead "
    "of 88 for AB); in bytes the two errors about make up for each other."
)

CLOCK_TEXTS = {
    "wall": "Seconds are those of the wall clock.",
    "cpu": "Seconds are those of a clock that counts the CPU time of the process and the time in which it has nothing "
    "to do: as if it had a core of its own, however busy the machine is.",
}


def make_page(outcomes: Sequence[SetOutcome], prices: CostConstants, machine: str, clock: str) -> Page:
    """The page; `prices` were the model's, `machine` says what it ran on, `clock` by which of `CLOCK_TEXTS`."""
    run_on = f"Run on {machine}, {outcomes[0].seconds:g} seconds for each plan. {CLOCK_TEXTS[clock]}"
    blocks: list[Block] = [Paragraph(INTRODUCTION), _verdicts(outcomes), Paragraph(run_on)]
    disturbed = [f"{plan.name} of set {o.setting.number}" for o in outcomes for plan in o.plans if plan.disturbed]
    if disturbed:
        words = "The machine was busy with other work. These plans fell behind although they need less than a core: "
        blocks.append(Paragraph(f"{words}{', '.join(disturbed)}."))
    for outcome in outcomes:
        blocks += _set_blocks(outcome)
    blocks += [Heading("How it was done"), *map(Paragraph, METHOD)]
    blocks += [Heading("What was done, and what the model leaves out"), _work(outcomes)]
    blocks += [Paragraph(_prices(prices)), Paragraph(NOTES)]
    return Page(TITLE, tuple(blocks))


def _prices(prices: CostConstants) -> str:
    return (
        "The prices of the model were measured on this machine by themselves, with other joins than these: "
        f"{prices.insert * 1e9:.0f} ns for a row that enters a state and {prices.delete * 1e9:.0f} ns for one that "
        f"leaves it, {prices.probe * 1e9:.0f} ns for a probe, {prices.compare * 1e9:.0f} ns for a pair compared and "
        f"{prices.join * 1e9:.0f} ns for a pair joined."
    )


def _set_blocks(outcome: SetOutcome) -> list[Block]:
    setting = outcome.setting
    blocks: list[Block] = [
        Heading(f"Set {setting.number}: {setting.what}"),
        Paragraph(f"The dissertation: {setting.found}"),
        Paragraph(f"Here: {finding(outcome)}"),
    ]
    if setting.table_window_seconds is not None:
        blocks.append(Paragraph(DEPARTURE.format(table=setting.table_window_seconds, window=setting.window_seconds)))
    blocks += [
        _parameters(outcome),
        _states(outcome),
        Figures(tuple(_figure(outcome, panel) for panel in PANELS)),
        Code(query_text(setting)),
    ]
    return blocks


def finding(outcome: SetOutcome) -> str:
    """What came out of the set, in a sentence or two."""
    sentences = []
    for plan in outcome.plans:
        trace, steady = plan.trace, plan.trace.steady
        said = f"the {plan.name} {plan.plan.tree} {verdict_text(plan.observed)}"
        if plan.observed == "CPU" and steady is not None:
            said += f" (needs {steady.cores:.1f} cores, {trace.lag_seconds:.1f} s behind at the end)"
        elif plan.observed == "memory":
            said += f" (limit exceeded after {trace.exceeded_at:.1f} s)"
        elif steady is not None:
            said += f" ({steady.cores:.2f} cores)"
        sentences.append(said)
    text = f"{'; '.join(sentences)}."
    results = {plan.name: plan.results for plan in outcome.plans}
    if outcome.setting.number == 2 and results["mjoin"]:
        text += f" The bjtree has {results['bjtree'] / results['mjoin']:.1f} times the mjoin's results."
    return text


# --- tables ----------------------------------------------------------------------------------------------------------


def _verdicts(outcomes: Sequence[SetOutcome]) -> Table:
    three = ("predicted", "measured", "ratio")
    return Table(
        columns=(
            Columns("", ("set", "plan", ""), text=True),
            Columns("CPU (cores)", three),
            Columns("state (rows)", three),
            Columns("state (MB)", three),
            Columns("verdict", ("predicted", "in the run", "dissertation"), text=True),
        ),
        rows=tuple(
            (
                _set_cell(outcome, plan),
                plan.name,
                str(plan.plan.tree),
                *_compared(plan),
                _marked(plan.foreseen),
                _marked(plan.observed),
                _marked(plan.expected),
            )
            for outcome in outcomes
            for plan in outcome.plans
        ),
        caption="Predicted and measured costs, and which plans qualify.",
    )


def _set_cell(outcome: SetOutcome, plan: PlanOutcome) -> str:
    """The number of the set, at its first plan."""
    return str(outcome.setting.number) if plan is outcome.plans[0] else ""


def _compared(plan: PlanOutcome) -> tuple[str, ...]:
    steady = plan.trace.steady
    return (
        *_three(plan.predicted.cpu, None if steady is None else steady.cores, "{:.2f}"),
        *_three(plan.predicted_rows, None if steady is None else steady.state_rows, "{:,.0f}"),
        *_three(plan.predicted.memory / 1e6, None if steady is None else steady.state_bytes / 1e6, "{:.2f}"),
    )


def _three(predicted: float, measured: float | None, form: str) -> tuple[str, str, str]:
    if measured is None:
        return form.format(predicted), NONE, NONE
    return form.format(predicted), form.format(measured), f"{measured / predicted:.2f}"


def _marked(verdict: Verdict) -> Marked:
    return Marked(verdict_text(verdict), "good" if verdict == "qualifies" else "bad")


def _work(outcomes: Sequence[SetOutcome]) -> Table:
    return Table(
        columns=(
            Columns("", ("set", "plan"), text=True),
            Columns("measured", ("batches", "input (s)", "rows in", "results", "CPU (s)", "µs a row in")),
            Columns("as the model counts", ("inserts", "probes", "compared", "joined")),
            Columns("measured", ("ns a pair compared",)),
        ),
        rows=tuple(
            (_set_cell(outcome, plan), plan.name, *_work_cells(plan)) for outcome in outcomes for plan in outcome.plans
        ),
        caption="What was done once the windows were full; rows and pairs in thousands. Pairs are compared if they "
        "have the same key, and joined if they match, results included.",
    )


def _work_cells(plan: PlanOutcome) -> tuple[str, ...]:
    steady = plan.trace.steady
    if steady is None:
        return (NONE,) * 11
    work, seconds = plan.work, steady.input_seconds
    return (
        f"{steady.batches:,}",
        f"{seconds:.1f}",
        _thousands(steady.rows_in),
        _thousands(steady.results),
        f"{steady.cpu_seconds:.2f}",
        f"{steady.cpu_seconds / steady.rows_in * 1e6:,.0f}",
        _thousands(work.inserts * seconds),
        _thousands(work.probes * seconds),
        _thousands(work.candidates * seconds),
        _thousands(work.joined * seconds),
        f"{steady.cpu_seconds / (work.candidates * seconds) * 1e9:.0f}",
    )


def _thousands(count: float) -> str:
    """A count in thousands.

    >>> _thousands(1_234_567), _thousands(1_234)
    ('1,235', '1.2')
    """
    return f"{count / 1e3:,.0f}" if count >= 1e4 else f"{count / 1e3:.1f}"


def _parameters(outcome: SetOutcome) -> Table:
    setting = outcome.setting
    limit = setting.limits.memory
    rates = tuple(f"rate {name}" for name in setting.streams)
    pairs = tuple(f"σ {''.join(pair)}" for pair in setting.selectivities)
    table_window = setting.table_window_seconds or setting.window_seconds
    return Table(
        columns=(
            Columns("", ("",), text=True),
            Columns("", (*rates, *pairs, "window", "copies", "speed", "CPU limit", "memory limit")),
        ),
        rows=(
            (
                "in the table",
                *(f"{rate:g}/s" for rate in setting.rates.values()),
                *(f"{value:g}" for value in setting.selectivities.values()),
                f"{table_window:g} s",
                "1",
                "1",
                NONE,
                NONE,
            ),
            (
                "in the run",
                *(f"{setting.rate(name):,g}/s" for name in setting.streams),
                *(f"{outcome.realised[pair]:.3g}" for pair in setting.selectivities),
                f"{setting.width:g} s",
                str(setting.copies),
                f"{setting.speed:g}",
                f"{setting.limits.cpu:g} core",
                "none" if math.isinf(limit) else f"{limit / 1e6:.2f} MB",
            ),
        ),
        caption="Selectivities in the run are those within a copy, measured on the rows.",
    )


def _states(outcome: SetOutcome) -> Table:
    measured = {plan.name: plan.trace.steady.rows_by_state for plan in outcome.plans if plan.trace.steady is not None}
    names = dict.fromkeys(name for rows in measured.values() for name in rows)
    predicted = {name: predict_state_rows(outcome.setting, name.split()) for name in names}
    return Table(
        columns=(
            Columns("", ("rows in state",), text=True),
            Columns("", tuple(name.replace(" ", "") for name in names)),
        ),
        rows=(
            ("predicted", *(f"{predicted[name]:,.0f}" for name in names)),
            *(
                (
                    plan,
                    *(
                        f"{rows[name]:,.0f} ({rows[name] / predicted[name]:.2f})" if name in rows else ""
                        for name in names
                    ),
                )
                for plan, rows in measured.items()
            ),
        ),
        caption="Rows of each state, means once the windows were full, with their ratio to the prediction.",
    )


TERMINAL_COLUMNS = ("set", "plan", "tree", "cores", "state rows", "state MB", "predicted", "in the run", "dissertation")


def terminal_rows(outcomes: Sequence[SetOutcome]) -> list[tuple[str, ...]]:
    """The table of all sets for a terminal; costs as "predicted / measured (ratio)"."""
    rows = []
    for outcome in outcomes:
        for plan in outcome.plans:
            figures = _compared(plan)
            pairs = [figures[start : start + 3] for start in (0, 3, 6)]
            rows.append(
                (
                    str(outcome.setting.number),
                    plan.name,
                    str(plan.plan.tree),
                    *(f"{predicted} / {measured} ({ratio})" for predicted, measured, ratio in pairs),
                    verdict_text(plan.foreseen),
                    verdict_text(plan.observed),
                    verdict_text(plan.expected),
                )
            )
    return rows


# --- charts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """One of the charts that every set has."""

    name: str
    title: str
    y_label: str
    value: Callable[[Sample], float]
    y_unit: str = ""
    with_limit: bool = False  # on memory
    beside_window: bool = False  # on a scale that reaches the rows of a window of input


PANELS = (
    Panel("results", "results so far", "results", lambda sample: sample.results),
    Panel("queues", "rows waiting in input queues", "rows", lambda sample: sample.waiting_rows, beside_window=True),
    Panel("state-rows", "rows in states", "rows", lambda sample: sample.state_rows),
    Panel("state-bytes", "bytes in states", "bytes", lambda sample: sample.state_bytes, "B", with_limit=True),
)


def _figure(outcome: SetOutcome, panel: Panel) -> Figure:
    setting = outcome.setting
    title = f"Set {setting.number}: {panel.title}"
    limited = panel.with_limit and not math.isinf(setting.limits.memory)
    chart = Chart(
        title=title,
        x_label="seconds",
        y_label=panel.y_label,
        lines=tuple(_line(plan, panel) for plan in outcome.plans),
        names=PLANS,
        y_unit=panel.y_unit,
        y_at_least=setting.window_rows if panel.beside_window else 0.0,
        limit=setting.limits.memory if limited else None,
        limit_label="memory limit",
    )
    return Figure(f"set{setting.number}-{panel.name}", draw(chart), title)


def _line(plan: PlanOutcome, panel: Panel) -> Line:
    samples = plan.trace.allowed()
    return Line(
        plan.name,
        [sample.seconds for sample in samples],
        [panel.value(sample) for sample in samples],
        broken="out of memory" if plan.trace.exceeded_at is not None else "",
    )
