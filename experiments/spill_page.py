"""The findings of `spill_runs.py` as a page, as a table of claims, and as the rows of a table for a terminal.

A claim is what a paper says beside what was measured, and whether it came out. Whether it did is worked out from the
runs. Why one did not is text (`WHY`), shown only where it did not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.budgeted import History, Sample
from experiments.figures import Chart, Line, draw
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
    Tone,
)
from experiments.spill import (
    HIGH,
    JOIN_TEXT,
    LOW,
    MINUTES,
    PUSHES,
    TREE_PLAN,
    TREE_RANGE,
    TREE_ROWS,
    TREE_TEXT,
    Extent,
)
from experiments.spill_runs import Findings, Outcome

PENALTY, GLOBAL, LOCAL, BOTTOM = "global-output-penalty", "global-output", "local-output", "bottom-up"
UNLIMITED = "no budget"
UPKEEP_GOAL = 0.05
LEVEL = 0.05  # policies that differ by no more change places with the seed

CameOut = Literal["yes", "no", "level"]
Kind = Literal["local", "penalty", "spills", "clean-up", "shares", "ends"]

TITLE = "What to spill when memory is short"

INTRODUCTION = (
    "When the state of a join outgrows its memory, some groups go cold: rows that come later do not meet them, and "
    "what they owe is paid in a clean-up at the end. Liu, Zhu and Rundensteiner (SIGMOD 2006) compare policies that "
    "choose groups from a plan of three joins; Liu and Rundensteiner (WPI-CS-TR-05-04, 2005) ask how much of the state "
    "of one join to spill at a time, and which groups. This page does the same in the local runtime: every line and "
    "every measured figure comes from a run. All runs of a setting have the same rows, and with the clean-up each of "
    "them gave as many results as the run without a budget."
)

METHOD = (
    "Rows arrive by a virtual clock, at their event time; a batch takes what has come since the last one. The machine "
    "is taken to be fast enough, as in the papers, so lines differ only by what was in memory when a row came. Results "
    "at run time are counted by that clock, the clean-up by the rows that it emits and by CPU seconds of the process. "
    "Nothing is merged before the clean-up.",
    "A value appears R times (its join ratio) in every K rows (the tuple range) of a stream. The paper of 2006 names "
    "the average ratio of each join, but neither K nor how ratios differ by group. Here a third of the groups has "
    f"twice the average and the others have half of it; K is {TREE_RANGE / TREE_ROWS:g} times the rows of a stream, "
    "with which policies spill about as often as in the paper. The columns of a row are drawn independently.",
    "The papers' budgets are 60 MB for each of two machines and 200 MB. Our rows take far fewer bytes than Java "
    "objects of 2005, so budgets are a share of what the same run keeps without one. A spill begins at the budget and "
    "takes 30 % of the active state, unless the figure says otherwise. There is one budget and one decision for both "
    "slots, where each of the paper's machines decided for itself.",
    "The share of one late spill (setting “mixed, late”) follows from the report: of some 11.5 million results that "
    "its rows make, its clean-ups have 2 and 9 %, which is what is owed if 92 % of the rows had come by the spill. "
    "So the size of these two figures is fitted; that one share gives both of them is found.",
    "The tuple range and the budget of the plans of three joins were chosen among some half dozen that were tried, by "
    "the number of spills. In all of these global-output was ahead of bottom-up; for penalty see above.",
)


def scale_text(extent: Extent) -> str:
    trees, joins = extent.trees, extent.joins
    return (
        f"Rates, rows and tuple ranges are those of the papers divided by {trees.scale} for plans of three joins and "
        f"by {joins.scale} for one join, in {trees.batches} and {joins.batches} batches over {MINUTES} minutes and in "
        f"{trees.groups} and {joins.groups} groups. That leaves the number of tuple ranges that pass, and so the "
        "results of a row and the course of the lines, as they are."
    )


@dataclass(frozen=True)
class Claim:
    """What a paper says, what was measured, and whether that agrees; `about` says where the paper says it."""

    kind: Kind
    about: str
    paper: str
    measured: str
    came_out: CameOut


# --- claims ----------------------------------------------------------------------------------------------------------


def claims(findings: Findings) -> list[Claim]:
    """All of them, in the order of the page."""
    shares, mixed, late, uniform = findings.joins
    found = [claim for outcome in findings.trees for claim in _tree_claims(outcome)]
    found += [_spill_count(findings.trees[0]), *_clean_ups(findings)]
    found += [_shares_output(shares), _shares_spills(shares), _ends(mixed), *_late_clean_up(late), _ends(uniform)]
    return found


def _yes(agrees: bool) -> CameOut:
    return "yes" if agrees else "no"


def _ahead(more: float, less: float) -> CameOut:
    """Whether the first is more than the second, as a paper says, by more than runs differ by themselves."""
    if abs(more - less) <= LEVEL * max(more, less):
        return "level"
    return _yes(more > less)


def _tree_claims(outcome: Outcome) -> list[Claim]:
    where = f"figure {outcome.setting.figures.split()[0]}, results, {outcome.setting.name}"
    results = {name: outcome.results(name) for name in outcome.runs}
    ahead = _ahead(results[GLOBAL], max(results[LOCAL], results[BOTTOM]))
    measured = f"global {results[GLOBAL]:,}, local {results[LOCAL]:,}, bottom-up {results[BOTTOM]:,}"
    penalty = results[PENALTY] / results[GLOBAL] - 1.0
    return [
        Claim("local", where, "global > local, bottom-up", measured, ahead),
        Claim(
            "penalty",
            where,
            "penalty ≥ global",
            f"penalty {results[PENALTY]:,}, {penalty:+.1%}",
            _ahead(results[PENALTY], results[GLOBAL]),
        ),
    ]


def _spill_count(outcome: Outcome) -> Claim:
    spills = {name: run.spills for name, run in outcome.runs.items()}
    return Claim(
        "spills",
        "figures 17 and 18, spills, " + outcome.setting.name,
        "bottom-up 7, penalty 10, global 13",
        f"bottom-up {spills[BOTTOM]}, penalty {spills[PENALTY]}, global {spills[GLOBAL]}",
        _yes(spills[BOTTOM] < spills[PENALTY] < spills[GLOBAL]),
    )


def _clean_ups(findings: Findings) -> list[Claim]:
    papers = (
        (findings.trees[0], (496, 306)),
        (findings.trees[1], (278, 363)),
    )
    found = []
    for outcome, said in papers:
        seconds = {name: run.clean_up_cpu for name, run in outcome.runs.items()}
        found.append(
            Claim(
                "clean-up",
                f"section 6.2, clean-up, {outcome.setting.name}",
                f"penalty {said[0]} s, global {said[1]} s",
                f"penalty {seconds[PENALTY]:.1f} s, global {seconds[GLOBAL]:.1f} s of CPU",
                _ahead(*(seconds[name] for name in ((PENALTY, GLOBAL) if said[0] > said[1] else (GLOBAL, PENALTY)))),
            )
        )
        found.append(
            Claim(
                "clean-up",
                f"section 6.2, clean-up, {outcome.setting.name}",
                "bottom-up much longer than both",
                f"bottom-up {seconds[BOTTOM]:.1f} s of CPU",
                _ahead(seconds[BOTTOM], max(seconds[PENALTY], seconds[GLOBAL])),
            )
        )
    return found


def _shares_output(outcome: Outcome) -> Claim:
    results = [outcome.unlimited.results, *(run.run_time_results for run in outcome.runs.values())]
    names = ["0 %", *outcome.runs]
    return Claim(
        "shares",
        "report, figure 9, results",
        "fewer, the more each spill takes",
        ", ".join(f"{name} {count / results[0]:.0%}" for name, count in zip(names, results, strict=True)) + " of all",
        _yes(results == sorted(results, reverse=True)),
    )


def _shares_spills(outcome: Outcome) -> Claim:
    spills = [run.spills for run in outcome.runs.values()]
    return Claim(
        "shares",
        "report, figure 10, spills",
        "fewer, the more each takes",
        ", ".join(f"{name}: {run.spills}" for name, run in outcome.runs.items()),
        _yes(spills == sorted(spills, reverse=True) and len(set(spills)) > 1),
    )


def _ends(outcome: Outcome) -> Claim:
    low, high = outcome.results(LOW), outcome.results(HIGH)
    uniform = outcome.setting.name == "uniform"
    return Claim(
        "ends",
        f"report, figure {outcome.setting.figures}, results, {outcome.setting.name}",
        f"low output first {'slightly' if uniform else 'far'} ahead of high",
        f"{low:,} against {high:,}, {low / high - 1:+.0%}",
        _yes(low > high) if uniform else _ahead(low, high),
    )


def _late_clean_up(outcome: Outcome) -> list[Claim]:
    low, high = outcome.runs[LOW], outcome.runs[HIGH]
    where = "report, section 4.4, clean-up "
    return [
        Claim(
            "ends",
            where + "rows, mixed, late",
            "low output first 194,308, high 992,893",
            f"low {low.clean_up_results:,}, high {high.clean_up_results:,}",
            _ahead(high.clean_up_results, low.clean_up_results),
        ),
        Claim(
            "clean-up",
            where + "time, mixed, late",
            "low output first 27 s, high 359 s",
            f"low {low.clean_up_cpu:.2f} s, high {high.clean_up_cpu:.2f} s of CPU",
            _ahead(high.clean_up_cpu, low.clean_up_cpu),
        ),
    ]


# --- the page --------------------------------------------------------------------------------------------------------


def make_page(findings: Findings, machine: str) -> Page:
    """The page; `machine` says what it ran on."""
    found = claims(findings)
    blocks: list[Block] = [
        Paragraph(INTRODUCTION),
        _claims_table(found),
        Paragraph(f"Run on {machine}, in {findings.seconds:.0f} seconds. {scale_text(findings.extent)}"),
        Heading("Which groups of a plan: the paper of 2006"),
        Code(TREE_TEXT + f"\n-- plan {TREE_PLAN}"),
        _runs_table(findings.trees),
        *(Figures(tuple(_figures(outcome))) for outcome in findings.trees),
        Heading("How much at a time, and which groups of one join: the report of 2005"),
        Code(JOIN_TEXT),
        _runs_table(findings.joins),
        Figures(tuple(figure for outcome in findings.joins for figure in _figures(outcome))),
        *_whys(found),
        Heading("What keeping figures of groups costs"),
        Paragraph(UPKEEP),
        _upkeep_table(findings),
        Heading("How it was done"),
        *map(Paragraph, METHOD),
    ]
    return Page(TITLE, tuple(blocks))


UPKEEP = (
    "Policies choose by what groups have earned, which is counted in every batch: rows that come, results that go, and "
    "which groups below they came through. Here the same run has a budget that is never reached, or none; state is in "
    "files both times. Given is the median over pairs of runs of the CPU time with figures over that without."
)

# From runs beside the command's, with the seeds that the text says. Shown where a claim of the kind did not come out.
WHY: Mapping[Kind, str] = {
    "penalty": "Penalty behind global. Over six seeds it was 6 to 11 % behind with ratios 3, 1, 1, between 2 % behind "
    "and 5 % ahead with 1, 3, 3, and between 7 % behind and level with 3, 2, 3; with the first and the last "
    "it spilled less often, as in the paper. Two things work against it, each seen by a variant of the policy "
    "(three seeds each). Between joins: every result of the first join is stored above it, so the penalty "
    "charges its groups for nearly the whole state, which the joins above are charged for as well, and could "
    "spill; with 3, 1, 1 the first join is left 18 % of the memory where global leaves it 27 %. With the "
    "penalty scaled so that it moves nothing between joins, half of the loss is gone there (0 to 8 % behind). "
    "To favour the first join instead, by a factor of two, loses as much (4 to 12 %): global's own shares are "
    "near the best. Within a join: groups with many results of the query are those with many intermediate "
    "ones, so to divide by these levels out what tells groups apart; with 3, 2, 3 that alone costs 4 to 14 %. "
    "Ruled out: charges that outlive intermediate results spilled meanwhile (charged for those in memory "
    "alone, results stay the same within 1 %, four seeds), and data that lacks the paper's example: with "
    "groups of four times the intermediate results for as many results of the query, penalty is 6 to 11 % "
    "behind, too (three seeds). In the paper a spill takes time, and penalty has three in four of global's; "
    "on this clock it takes none.",
    "local": "Global level with local, with ratios 1, 3, 3. Results are few there, and in the first 6 of 13 spills, "
    "until minute 29, global-output chooses among groups of which none has had a result of the query: it "
    "spills the largest of them; local-output does so in its first 3. Whether that is the cause was not "
    "tested. Over six seeds local is between 2 % behind and 47 % ahead of global there; with 3, 1, 1 it is 57 "
    "to 66 % behind, and with 3, 2, 3 between 4 and 18 %.",
    "clean-up": "The time of clean-ups. Over these runs it grows with the rounds that it takes, and with how often "
    "each group was spilled, more than with rows: at the report's own size a million rows take a tenth of a "
    "second. A round reads and emits what fits into the budget, a megabyte here, and half of its time goes "
    "into the account of a thousand groups. So bottom-up, which spills least often, does not take longest, "
    "although it owes more rows than the global policies; and low output first, which spills many small "
    "groups, takes as long as high output first for a sixth of the rows. The report's clean-ups took 0.14 and "
    "0.36 ms for each row, on disks and in Java.",
}


def _whys(found: Sequence[Claim]) -> list[Block]:
    missing = {claim.kind for claim in found if claim.came_out != "yes"}
    texts = [Paragraph(text) for kind, text in WHY.items() if kind in missing]
    return [Heading("What did not come out, and why"), *texts] if texts else []


def _claims_table(found: Sequence[Claim]) -> Table:
    return Table(
        columns=(Columns("", ("where", "the paper", "measured", "came out"), text=True),),
        rows=tuple((claim.about, claim.paper, claim.measured, _verdict(claim)) for claim in found),
        caption=f"What the papers say, and what was measured. Level: within {LEVEL:.0%}.",
    )


TONES: Mapping[CameOut, Tone] = {"yes": "good", "no": "bad", "level": "plain"}


def _verdict(claim: Claim) -> Marked:
    return Marked(claim.came_out, TONES[claim.came_out])


RUN_COLUMNS = (
    "at run time",
    "of all",
    "spills",
    "groups spilled",
    "most active",
    "clean-up rows",
    "clean-up CPU",
    "run-time CPU",
)


def _runs_table(outcomes: Sequence[Outcome]) -> Table:
    return Table(
        columns=(
            Columns("", ("setting", "budget", "contender"), text=True),
            Columns("results", RUN_COLUMNS[:2]),
            Columns("memory", RUN_COLUMNS[2:5]),
            Columns("work", RUN_COLUMNS[5:]),
        ),
        rows=tuple(row for outcome in outcomes for row in _run_rows(outcome)),
        caption="All runs. Budgets are a share of what the run without one keeps. The most that was active, before a "
        "spill, is a share of the budget. A group counts as often as it was spilled.",
    )


def _run_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    setting = outcome.setting
    budget = f"{outcome.budget_bytes / 1e6:.2f} MB ({setting.budget_share:.0%})"
    runs = {UNLIMITED: outcome.unlimited, **outcome.runs}
    return [
        (setting.name, budget, name, *_run_cells(outcome, run))
        if place == 0
        else ("", "", name, *_run_cells(outcome, run))
        for place, (name, run) in enumerate(runs.items())
    ]


def _run_cells(outcome: Outcome, run: History) -> tuple[str, ...]:
    most = max(sample.peak_bytes for sample in run.run_time)
    return (
        f"{run.run_time_results:,}",
        f"{run.run_time_results / outcome.unlimited.results:.1%}",
        str(run.spills),
        f"{run.spilled_groups:,}",
        f"{most / outcome.budget_bytes:.0%}",
        f"{run.clean_up_results:,}",
        f"{run.clean_up_cpu:.2f} s",
        f"{run.run_time_cpu:.2f} s",
    )


def _upkeep_table(findings: Findings) -> Table:
    return Table(
        columns=(
            Columns("", ("run",), text=True),
            Columns("", ("rows a batch", "CPU without", "overhead", "least", "most")),
            Columns("", ("under 5 %",), text=True),
        ),
        rows=tuple(
            (
                entry.what,
                f"{entry.batch_rows:,}",
                f"{min(without for _, without in entry.pairs):.2f} s",
                f"{entry.overhead:+.1%}",
                f"{entry.ratios[0] - 1:+.1%}",
                f"{entry.ratios[-1] - 1:+.1%}",
                Marked("yes", "good") if entry.overhead < UPKEEP_GOAL else Marked("no", "bad"),
            )
            for entry in findings.upkeep
        ),
        caption="The cost of figures, as a share of the CPU time of the run without them.",
    )


# --- charts ----------------------------------------------------------------------------------------------------------


# Which lines are drawn over memory, where the papers do, and one more for each other plan of three joins.
MEMORY: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "ratios 3, 1, 1": (("figure 17", (PENALTY, GLOBAL)), ("figure 18", (PENALTY, BOTTOM))),
    "ratios 1, 3, 3": (("not in the paper", (PENALTY, GLOBAL, BOTTOM)),),
    "ratios 3, 2, 3": (("not in the paper", (PENALTY, GLOBAL, BOTTOM)),),
    "shares": (("figure 10", tuple(contender.name for contender in PUSHES)),),
}


def _figures(outcome: Outcome) -> list[Figure]:
    """Results over time, and memory."""
    setting = outcome.setting
    names = (*outcome.runs, UNLIMITED)
    title = f"{setting.name[0].upper()}{setting.name[1:]}"
    stem = "spill-" + setting.name.replace(", ", "-").replace(" ", "-")
    lines = [_results_line(name, run) for name, run in outcome.runs.items()]
    if setting.name == "shares":  # its 0 % line; elsewhere it would flatten the others, and the papers have none
        lines.append(_results_line(UNLIMITED, outcome.unlimited))
    results = Chart(
        title=f"{title}: results at run time (figure {setting.figures.split()[0]})",
        x_label="minutes",
        y_label="results so far",
        lines=tuple(lines),
        names=names,
    )
    charts = {f"{stem}-results": results}
    for place, (where, shown) in enumerate(MEMORY.get(setting.name, ()), 1):
        charts[f"{stem}-memory-{place}"] = Chart(
            title=f"{title}: memory ({where})",
            x_label="minutes",
            y_label="active state",
            lines=tuple(_memory_line(name, outcome.runs[name]) for name in shown),
            names=names,
            y_unit="B",
            y_at_least=1.5 * outcome.budget_bytes,
            limit=float(outcome.budget_bytes),
            limit_label="budget",
        )
    return [Figure(name, draw(chart), chart.title) for name, chart in charts.items()]


def _results_line(name: str, run: History) -> Line:
    samples = run.run_time
    return Line(name, [0.0, *map(_minutes, samples)], [0.0, *(float(sample.results) for sample in samples)])


def _memory_line(name: str, run: History) -> Line:
    """Before and after each spill."""
    points = [
        (_minutes(sample), float(size)) for sample in run.run_time for size in (sample.peak_bytes, sample.active_bytes)
    ]
    return Line(name, [0.0, *(x for x, _ in points)], [0.0, *(y for _, y in points)])


def _minutes(sample: Sample) -> float:
    return sample.seconds / 60


# --- the terminal ----------------------------------------------------------------------------------------------------

TERMINAL_COLUMNS = ("where", "the paper", "measured", "came out")


def terminal_rows(found: Sequence[Claim]) -> list[tuple[str, ...]]:
    return [(claim.about, claim.paper, claim.measured, claim.came_out) for claim in found]
