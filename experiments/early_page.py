"""The findings of `early_runs.py` as a page, and as the rows of a table for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments import claims
from experiments.early import (
    AGF,
    AGF_SM,
    BATCH_SECONDS,
    COMPARED,
    FLUSHING,
    GROUPS,
    HASH_MERGE,
    ONE_KEY_GROUPS,
    PAPER_ROWS,
    RATE,
    SMOOTHINGS,
    STATE_SPILL,
    STATE_SPILL_SM,
    Case,
    Method,
    Plan,
    Setting,
    query_text,
)
from experiments.early_claims import check_claims
from experiments.early_runs import Outcome, Outcomes
from experiments.figures import Chart, Line, draw
from experiments.page import (
    Block,
    Code,
    Columns,
    Figure,
    Figures,
    Heading,
    Page,
    Paragraph,
    Table,
)

TITLE = "Early results inside a memory budget: AdaptiveGlobalFlush and the state manager"

INTRODUCTION = (
    "Levandoski, Khalefa and Mokbel ask how many results of a chain of joins come before the input ends, if memory "
    "holds a tenth of it. Their answer is to flush by what is expected of a group (AdaptiveGlobalFlush, AGF), and to "
    "merge flushed groups while the query runs where that gives more than memory does (the state manager). They "
    "compare it with state-spill (global-output here), and with the flushing of two single joins, RPJ (rate-based) and "
    "HMJ (hash-merge). This page does the same in the local runtime, on a virtual clock: every line and every figure "
    "comes from a run."
)

NAMES = (*(method.name for method in COMPARED), AGF.name, STATE_SPILL_SM.name)
SEPARATE = (
    "Every setting of this page was run with one seed. Figures in this section that are not in the table come of "
    "separate runs of the full setting, with other seeds or with a rule changed to see what it does; they are not made "
    "anew with the page. The setting with one key was added after flushing alone had not come out, to find out why."
)
CAPTION = (
    "What the paper says, and what was measured. SM is the state manager. Results, and leads in results, are at the "
    "end of the input."
)
FEW = 10.0  # results that a scale reaches at least, so that none looks like none
SMOOTHING_NAMES = tuple(method.smoothing for method in SMOOTHINGS)


def make_page(plan: Plan, outcomes: Outcomes) -> Page:
    base = plan.base
    found = check_claims(plan, outcomes)
    blocks: list[Block] = [
        Paragraph(INTRODUCTION),
        claims.claims_table(found, CAPTION),
        Heading("Why, where it is otherwise"),
        Paragraph(SEPARATE),
        *claims.reasons(found),
        Paragraph(_machine_time(outcomes)),
        Heading("How the input behaves (figure 9)"),
        Paragraph(
            "Results over the time of the input, which ends where the lines end. On the left the whole methods: AGF "
            "with the state manager, and the others as they are, which leave all merges to the end. On the right "
            "flushing alone, on another scale."
        ),
        Figures(tuple(figure for setting in plan.behaviours for figure in _behaviour(setting, outcomes))),
        Heading("One key for all joins (not in the paper)"),
        Figures(tuple(figure for setting in plan.one_key for figure in _behaviour(setting, outcomes))),
        Heading("How figures are smoothed (figure 8)"),
        Figures(tuple(_smoothing(setting, outcomes) for setting in plan.behaviours[:2])),
        Heading("Memory and flush size (figures 10 and 11)"),
        Figures((*_memory(plan, outcomes), *_flush(plan, outcomes))),
        Heading("Join ratios, and more joins (figures 12 and 13)"),
        Figures((*_ratio(plan, outcomes), *_chain(plan, outcomes))),
        Heading("How it was done"),
        *map(Paragraph, _method(base)),
        Code(query_text(base)),
        Heading("All runs"),
        _all_runs(outcomes),
    ]
    return Page(TITLE, tuple(blocks))


def _method(base: Setting) -> tuple[str, ...]:
    return (
        f"The paper has {PAPER_ROWS:,} rows of each stream; here there are {base.rows:,}, at the same {RATE:g} rows a "
        f"second, so that a run covers some {base.rows / RATE:g} seconds of input and not {PAPER_ROWS / RATE:,.0f}. "
        f"Memory is {_percent(base.memory_share)} of the bytes of the input; it has to hold what joins put out for the "
        f"joins above, too. Every join has {GROUPS} groups ({ONE_KEY_GROUPS} with one key for all). A batch takes what "
        f"came in {BATCH_SECONDS:g} second; figures are taken with each batch (in the paper every 5 seconds). Bursty "
        "inputs have bursts and silences of Pareto-distributed lengths, and the same rate in the long run.",
        "Keys: of the groups of a join each of its inputs has half, drawn at random, so that about a quarter of them "
        "can have results; within its groups an input's keys are uniform. A row finds 2 partners in each join. The "
        "paper's key range, twice the number of rows, would leave half a partner, and 37,500 results in all, where its "
        "figures show up to 500,000; the range as printed is in the first table.",
        "State-spill, rate-based and hash-merge flush as much at a time as AGF, and merge when the input has ended. "
        "The disk phases of RPJ and HMJ, which begin when both inputs of a join are silent, are not built. The state "
        "manager merges at most one group with a batch or in a silent second, and takes a disk to read two million "
        "rows a second. Alpha of the EWMA (figure 7) is no setting of a run, and was not varied.",
    )


def _machine_time(outcomes: Outcomes) -> str:
    dearest = max(outcomes.values(), key=lambda outcome: outcome.cpu_seconds / outcome.seconds[-1])
    return (
        "Time is that of the input. Had rows come by the wall clock, the CPU would have kept up: the dearest run, "
        f"{dearest.case.method.name} over {dearest.case.setting.name}, took {dearest.cpu_seconds:.1f} CPU seconds for "
        f"{dearest.seconds[-1]:.0f} "
        "seconds of input, merges included. That is CPU time: what a slow disk would add is not in it."
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def _all_runs(outcomes: Outcomes) -> Table:
    return Table(
        columns=(
            Columns("", ("joins", "inputs", "method", "smoothing"), text=True),
            Columns("setting", ("ratio", "memory", "flush")),
            Columns("results", ("at half time", "at the end of input", "whole answer")),
            Columns("", ("spills", "a flush took", "merges", "most memory", "CPU (s)")),
        ),
        rows=tuple(_run_row(outcome) for outcome in outcomes.values()),
        caption="Flushes and the most that was active are in shares of the memory.",
    )


def _run_row(outcome: Outcome) -> tuple[str, ...]:
    setting, method = outcome.case.setting, outcome.case.method
    return (
        str(len(setting.streams) - 1),
        setting.name,
        method.name,
        method.smoothing,
        f"{setting.ratio:g}",
        _percent(setting.memory_share),
        _percent(setting.flush_share),
        f"{outcome.by(0.5):,}",
        f"{outcome.early:,}",
        f"{outcome.answer:,}",
        str(outcome.spills),
        _percent(outcome.flushed_share),
        str(outcome.merges),
        _percent(outcome.most_bytes / outcome.budget_bytes),
        f"{outcome.cpu_seconds:.1f}",
    )


def _percent(share: float) -> str:
    """
    >>> _percent(0.05)
    '5 %'
    """
    return f"{100 * share:.0f} %"


def terminal_rows(plan: Plan, outcomes: Outcomes) -> list[tuple[str, ...]]:
    """The table of claims for a terminal."""
    return claims.terminal_rows(check_claims(plan, outcomes))


# --- charts ----------------------------------------------------------------------------------------------------------


def _behaviour(setting: Setting, outcomes: Outcomes) -> tuple[Figure, Figure]:
    kind = f"{setting.bursty.lower() or 'steady'}{'-one-key' if setting.one_key else ''}"
    return (
        _over_time(f"early-{kind}", setting.name, setting, COMPARED, outcomes),
        _over_time(f"early-{kind}-flushing", f"{setting.name}: flushing alone", setting, FLUSHING, outcomes),
    )


def _over_time(name: str, title: str, setting: Setting, methods: Sequence[Method], outcomes: Outcomes) -> Figure:
    lines = tuple(_line(method.name, outcomes[Case(setting, method)]) for method in methods)
    return _figure(name, Chart(title, "seconds of input", "results so far", lines, NAMES, y_at_least=FEW))


def _line(name: str, outcome: Outcome) -> Line:
    return Line(name, (0.0, *outcome.seconds), (0, *outcome.results))


def _smoothing(setting: Setting, outcomes: Outcomes) -> Figure:
    lines = tuple(_line(method.smoothing, outcomes[Case(setting, method)]) for method in SMOOTHINGS)
    chart = Chart(f"{setting.name}: AGF + state manager", "seconds of input", "results so far", lines, SMOOTHING_NAMES)
    return _figure(f"early-smoothing-{setting.bursty.lower()}", chart)


def _memory(plan: Plan, outcomes: Outcomes) -> tuple[Figure, Figure]:
    return _by_share("memory", plan.memories, lambda setting: setting.memory_share, "memory, % of the input", outcomes)


def _flush(plan: Plan, outcomes: Outcomes) -> tuple[Figure, Figure]:
    return _by_share(
        "flush", plan.flushes, lambda setting: setting.flush_share, "flush asked for, % of memory", outcomes
    )


def _by_share(
    name: str, settings: Sequence[Setting], share: Callable[[Setting], float], label: str, outcomes: Outcomes
) -> tuple[Figure, Figure]:
    """Results at the end of the input by a share: of all methods, and of those without merges on their own scale."""
    x = [100 * share(setting) for setting in settings]

    def chart(title: str, methods: Sequence[Method]) -> Chart:
        lines = tuple(
            Line(method.name, x, [outcomes[Case(setting, method)].early for setting in settings]) for method in methods
        )
        return Chart(title, label, "early results", lines, NAMES)

    what = f"Early results by {'memory' if name == 'memory' else 'flush size'}"
    return (
        _figure(f"early-{name}", chart(what, (AGF_SM, STATE_SPILL, HASH_MERGE))),
        _figure(f"early-{name}-flushing", chart(f"{what}: without merges", (STATE_SPILL, HASH_MERGE))),
    )


def _ratio(plan: Plan, outcomes: Outcomes) -> tuple[Figure, ...]:
    return tuple(
        _over_time(
            f"early-ratio-{setting.ratio:g}",
            f"Join ratio 1:{setting.ratio:g}, {setting.name}",
            setting,
            (AGF_SM, STATE_SPILL),
            outcomes,
        )
        for setting in plan.ratios
    )


def _chain(plan: Plan, outcomes: Outcomes) -> tuple[Figure, ...]:
    return tuple(
        _over_time(
            f"early-joins-{len(setting.keys)}",
            f"{len(setting.keys)} joins, {setting.name}",
            setting,
            (AGF_SM, STATE_SPILL),
            outcomes,
        )
        for setting in plan.chains
    )


def _figure(name: str, chart: Chart) -> Figure:
    return Figure(name, draw(chart), chart.title)
