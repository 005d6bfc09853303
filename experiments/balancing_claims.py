"""What [Zhu06, chapter 23] says of local plans and balancing, beside what the runs of `balancing_runs.py` say to it.

A claim *holds* if its test, which stands in its function, comes out; the tests are ours, since the dissertation has
pictures and few figures. What it says of section 23.2 is tested twice: with rates that fall, as printed, and with the
same rates come to from below. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean

from experiments.balancing import (
    BALANCED,
    BOTH_AUTO,
    BOTH_MOVING,
    BOTH_PARALLEL,
    CHANGE,
    LOCAL,
    NONE,
    ONE_PLAN,
    OWN_PLANS,
    Contender,
)
from experiments.balancing_reasons import (
    WHY_BOUND,
    WHY_CELLS,
    WHY_FALL,
    WHY_LEVEL,
    WHY_MOVES,
    WHY_ONE_WINDOW,
    WHY_PARALLEL,
    WHY_TOTAL,
)
from experiments.balancing_runs import Findings, Outcome
from experiments.claims import Claim
from experiments.paced import Sample, Trace

OURS = "–"  # where the figure's number would be
ABOUT = 1.3  # times, by which a gain may differ from that of the dissertation
ALIKE = 0.05  # how far apart results may be that do not differ
MUCH = 1.15  # times, for "much"
END = 0.75  # of a run, from which on its rate is that "towards the end"
FALLS, RISES = "B and C fall", "A rises"
PAPER_GAINS = {LOCAL.name: 2.0, BALANCED.name: 2.0, BOTH_PARALLEL.name: 3.3, BOTH_MOVING.name: 2.7}
MOVED_ALONE = 1.8  # MSLB-only, in figure 23.5


def check_claims(findings: Findings) -> tuple[Claim, ...]:
    """All of them, in the order of the figures."""
    both = ((FALLS, findings.fall), (RISES, findings.rise))
    return (
        *(check(outcome, how) for check in TWICE for how, outcome in both),
        *(check(findings) for check in ONCE),
    )


# --- what was measured, as figures -----------------------------------------------------------------------------------


def rows_in_system(sample: Sample) -> int:
    """Those that wait and those that are kept."""
    return sample.waiting_rows + sample.state_rows


def after_change(outcome: Outcome, contender: Contender) -> list[Sample]:
    samples = outcome.traces[contender.name].samples
    return [sample for sample in samples if outcome.normal(sample.seconds) >= CHANGE]


def rate_at_end(trace: Trace) -> float:
    """Results a second of the clock, in the last part of a run."""
    last = trace.samples[-1]
    first = max((s for s in trace.samples if s.seconds <= END * last.seconds), key=lambda s: s.seconds)
    return (last.results - first.results) / max(1e-9, last.seconds - first.seconds)


def rate_gain(outcome: Outcome, contender: Contender) -> float:
    return rate_at_end(outcome.traces[contender.name]) / max(1e-9, rate_at_end(outcome.traces[NONE.name]))


def is_about(measured: float, paper: float) -> bool:
    """
    >>> is_about(2.5, 2.0), is_about(1.2, 2.0)
    (True, False)
    """
    return 1 / ABOUT <= measured / paper <= ABOUT


def waited(findings: Findings) -> dict[tuple[float, float], float]:
    """By rate and window: how many windows of input the first change by a parallel track took, where it was done."""
    found = {}
    for key, outcome in findings.cells.items():
        if changes := outcome.changes(BOTH_PARALLEL):
            found[key] = outcome.normal(changes[0].input_seconds) / outcome.setting.window_seconds
    return found


def moving_seconds(outcome: Outcome, contender: Contender = BOTH_MOVING) -> float | None:
    """What changes by moving state took on average, at normal speed."""
    changes = outcome.changes(contender)
    return mean(outcome.normal(change.seconds) for change in changes) if changes else None


def _why(how: str, rising: str = "") -> str:
    return WHY_FALL if how == FALLS else rising


# --- section 23.2, as printed and from below -------------------------------------------------------------------------


def _local(outcome: Outcome, how: str) -> Claim:
    gain = outcome.gain(LOCAL)
    return Claim(
        f"23.1, 23.5; {how}",
        "local plans alone give about twice the results of no adaptation",
        f"{gain:.2f} times: {outcome.results(LOCAL):,} against {outcome.results(NONE):,}",
        is_about(gain, PAPER_GAINS[LOCAL.name]),
        _why(how),
    )


def _balanced(outcome: Outcome, how: str) -> Claim:
    gain = outcome.gain(BALANCED)
    paper = PAPER_GAINS[BALANCED.name]
    return Claim(
        f"23.1, 23.5; {how}",
        f"balancing alone gives {paper:g} times (PTLB) and {MOVED_ALONE:g} times (MSLB) the results",
        f"{gain:.2f} times, by {len(outcome.traces[BALANCED.name].moves)} moves; both are the same here",
        is_about(gain, paper) and is_about(gain, MOVED_ALONE),
        f"{WHY_LEVEL} {WHY_MOVES}",
    )


def _both(contender: Contender, figure: str, why: str) -> Callable[[Outcome, str], Claim]:
    def check(outcome: Outcome, how: str) -> Claim:
        gain, paper = outcome.gain(contender), PAPER_GAINS[contender.name]
        changes = outcome.changes(contender)
        done = [outcome.normal(change.done_at) for change in changes]
        at = f"; changes of the plan were done at {done[0]:.0f} to {done[-1]:.0f} s" if done else "; no change was done"
        return Claim(
            f"{figure}; {how}",
            f"both together give {paper:g} times the results ({contender.by})",
            f"{gain:.2f} times{at}",
            is_about(gain, paper),
            _why(how, why),
        )

    return check


def _more_than_either(outcome: Outcome, how: str) -> Claim:
    single = max(outcome.gain(LOCAL), outcome.gain(BALANCED))
    both = {contender.by: outcome.gain(contender) for contender in (BOTH_PARALLEL, BOTH_MOVING)}
    texts = ", ".join(f"{gain:.2f} by {way}" for way, gain in both.items())
    return Claim(
        f"23.1, 23.5; {how}",
        "both together give more than either alone, whichever way",
        f"{texts}; the better one alone {single:.2f}",
        all(gain > single * (1 + ALIKE) for gain in both.values()),
        _why(how, WHY_PARALLEL),
    )


def _total(outcome: Outcome, how: str) -> Claim:
    most = {
        contender.name: max(map(rows_in_system, after_change(outcome, contender)))
        for contender in (NONE, LOCAL, BALANCED, BOTH_MOVING)
    }
    planned, others = (LOCAL.name, BOTH_MOVING.name), (NONE.name, BALANCED.name)
    return Claim(
        f"23.2, 23.6; {how}",
        "with local plans there are far fewer rows in the system than with balancing alone or with nothing",
        "at most " + ", ".join(f"{rows:,} ({name})" for name, rows in most.items()),
        max(most[name] for name in planned) * MUCH <= min(most[name] for name in others),
        _why(how, WHY_TOTAL),
    )


def _kept(outcome: Outcome, how: str) -> Claim:
    """Cannot tell where runs with local plans are further behind: these keep less of everything."""
    ends = {c.name: outcome.traces[c.name].samples[-1] for c in (NONE, LOCAL, BALANCED, BOTH_MOVING)}
    joined = {name: sample.joined_rows for name, sample in ends.items()}
    return Claim(
        f"23.3, 23.7; {how}",
        "with local plans fewer rows are kept in the end, since there are fewer joined ones",
        "joined rows: " + ", ".join(f"{rows:,} ({name})" for name, rows in joined.items()),
        None
        if ends[LOCAL.name].taken_seconds < ends[NONE.name].taken_seconds
        else max(joined[LOCAL.name], joined[BOTH_MOVING.name]) < min(joined[NONE.name], joined[BALANCED.name]),
        _why(how),
    )


def _rates(outcome: Outcome, how: str) -> Claim:
    gains = {c.name: rate_gain(outcome, c) for c in (LOCAL, BALANCED, BOTH_PARALLEL, BOTH_MOVING)}
    single = (gains[LOCAL.name], gains[BALANCED.name])
    return Claim(
        f"23.4, 23.8; {how}",
        "towards the end results come twice as fast with either alone, and 3.3 times as fast with both (PTLB)",
        ", ".join(f"{gain:.2f} times ({name})" for name, gain in gains.items()),
        all(is_about(gain, 2.0) for gain in single) and is_about(gains[BOTH_PARALLEL.name], 3.3),
        _why(how, WHY_BOUND),
    )


TWICE: Sequence[Callable[[Outcome, str], Claim]] = (
    _local,
    _balanced,
    _both(BOTH_PARALLEL, "23.1", WHY_PARALLEL),
    _both(BOTH_MOVING, "23.5", WHY_BOUND),
    _more_than_either,
    _total,
    _kept,
    _rates,
)


# --- section 23.3 ----------------------------------------------------------------------------------------------------


def _row(findings: Findings, rate: float, contender: Contender) -> list[float]:
    """Gains at a rate, by window."""
    return [findings.cells[rate, window].gain(contender) for window in findings.extent.windows]


def _text(gains: Sequence[float]) -> str:
    return " / ".join(f"{gain:.2f}" for gain in gains)


def _lead_grows(findings: Findings) -> Claim:
    slow = [rate for rate in findings.extent.rates if rate < 50]
    rows = [_row(findings, rate, contender) for rate in slow for contender in (BOTH_PARALLEL, BOTH_MOVING)]
    gains = [[_text(_row(findings, rate, contender)) for contender in (BOTH_PARALLEL, BOTH_MOVING)] for rate in slow]
    texts = [f"at {rate:g}/s {pt} (PT), {ms} (MS)" for rate, (pt, ms) in zip(slow, gains, strict=True)]
    return Claim(
        "23.9, 23.10",
        "at 30 and 40 rows a second the lead over no adaptation grows with the window, of either way",
        f"times the results by window, {'; '.join(texts)}",
        all(row[-1] > row[0] * (1 + ALIKE) for row in rows),
        WHY_CELLS,
    )


def _moving_ahead(findings: Findings) -> Claim:
    widest = findings.extent.windows[-1]
    leads = {
        rate: findings.cells[rate, widest].gain(BOTH_MOVING) / findings.cells[rate, widest].gain(BOTH_PARALLEL)
        for rate in findings.extent.rates
    }
    narrow = findings.cells[findings.extent.rates[0], findings.extent.windows[0]]
    first = narrow.gain(BOTH_MOVING) / narrow.gain(BOTH_PARALLEL)
    return Claim(
        "23.9, 23.10",
        "moving state and parallel track differ little with small windows; with large ones moving state is ahead, by "
        "25 % at 30 rows a second",
        f"{first - 1:+.0%} at {findings.extent.rates[0]:g}/s and {findings.extent.windows[0]:g} s; with {widest:g} s "
        + ", ".join(f"{lead - 1:+.0%} at {rate:g}/s" for rate, lead in leads.items()),
        abs(first - 1) <= 2 * ALIKE and all(lead > 1 + ALIKE for lead in leads.values()),
        WHY_CELLS,
    )


def _high_rates(findings: Findings) -> Claim:
    rate = findings.extent.rates[-1]
    parallel, moving = (_row(findings, rate, contender) for contender in (BOTH_PARALLEL, BOTH_MOVING))
    return Claim(
        "23.11",
        "at 50 rows a second, small windows: parallel track 1.9 and moving state 2 times the results; as windows grow, "
        "parallel track loses its lead over none, and moving state does not",
        f"at {rate:g}/s by window {_text(parallel)} (PT), {_text(moving)} (MS)",
        is_about(parallel[0], 1.9) and is_about(moving[0], 2.0) and parallel[-1] < parallel[0] <= moving[-1],
        WHY_CELLS,
    )


def _lengths(findings: Findings) -> Claim:
    windows = waited(findings)
    moving = {key: seconds for key, o in findings.cells.items() if (seconds := moving_seconds(o)) is not None}
    shorter = [
        seconds / (windows[key] * findings.cells[key].setting.window_seconds)
        for key, seconds in moving.items()
        if key in windows
    ]
    text = f"{min(windows.values()):.2f} to {max(windows.values()):.2f} W" if windows else "not done in any run"
    took = f"{min(moving.values()):.1f} to {max(moving.values()):.1f} s" if moving else "nothing"
    return Claim(
        "23.12 to 23.14",
        "parallel track takes about 2 W, moving state much less",
        f"parallel track {text} of input, in the {len(windows)} of {len(findings.cells)} settings where it was done in "
        f"time; moving state {took}",
        bool(windows) and all(1.8 <= value <= 2.4 for value in windows.values()) and max(shorter) < 0.5,
        WHY_ONE_WINDOW,
    )


def _parallel_ahead(findings: Findings) -> Claim:
    outcome = findings.fall
    parallel, moving = outcome.results(BOTH_PARALLEL), outcome.results(BOTH_MOVING)
    seconds = sum(outcome.normal(change.seconds) for change in outcome.changes(BOTH_MOVING))
    return Claim(
        "23.15",
        "where rates have just fallen, parallel track gives more than moving state",
        f"{parallel:,} against {moving:,} results, {parallel / moving - 1:+.0%}; moving state takes {seconds:.0f} s of "
        f"the {outcome.setting.seconds:g}",
        parallel > moving,
    )


def _auto(findings: Findings) -> Claim:
    texts, good = [], []
    for how, outcome in ((FALLS, findings.fall), (RISES, findings.rise)):
        ways = {contender.by: outcome.results(contender) for contender in (BOTH_PARALLEL, BOTH_MOVING)}
        auto = outcome.results(BOTH_AUTO)
        texts.append(f"{how}: {auto:,}, against " + ", ".join(f"{count:,} ({way})" for way, count in ways.items()))
        good.append(auto >= max(ways.values()) / MUCH)
    return Claim(
        OURS,
        'balance_by = "auto" takes the better way, in both settings',
        "; ".join(texts),
        all(good),
    )


def _own_plans(findings: Findings) -> Claim:
    outcome = findings.parted
    return Claim(
        OURS,
        "where slots have data with other statistics, a plan for each slot gives more than one plan for all",
        f"{outcome.gain(OWN_PLANS):.2f} times the results without; one plan for all {outcome.gain(ONE_PLAN):.2f} times",
        outcome.gain(OWN_PLANS) > outcome.gain(ONE_PLAN) * (1 + ALIKE),
    )


ONCE: Sequence[Callable[[Findings], Claim]] = (
    _lead_grows,
    _moving_ahead,
    _high_rates,
    _lengths,
    _parallel_ahead,
    _auto,
    _own_plans,
)
