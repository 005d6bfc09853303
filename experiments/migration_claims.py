"""What [Zhu06, chapters 14 and 16] says, each sentence beside what the runs of `migration_runs.py` say to it.

A claim *holds* if its test, which stands in its function, comes out; the tests are ours, since the chapters have
pictures and few figures. What is not from the dissertation, as all of `seeded`, is a claim of this project's, and
marked. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from experiments.claims import Claim
from experiments.grouped_claims import check_grouped
from experiments.migration import MOVING, PARALLEL, ROADS, SEEDED
from experiments.migration_reasons import (
    LATER,
    SILENT,
    WHY_CROSSOVER,
    WHY_MEMORY,
    WHY_MORE_ROWS,
    WHY_ONE_WINDOW,
    WHY_OVERHEAD,
    WHY_POLYNOMIAL,
    WHY_SEEDED,
    WHY_SEVERAL,
    WHY_SHORT,
    WHY_SILENCE,
    WHY_STATE,
    WHY_THROUGHPUT,
)
from experiments.migration_runs import NEW_ONLY, OLD_ONLY, WITHOUT, Deciding, Effect, Findings, Length, gap_of
from experiments.paced import Sample, Trace

OURS = "–"  # where the figure's number would be
LAG_BATCHES = 3  # that a parallel track may take beyond its window, for batches and watermarks are whole
NEAR = 0.2  # how far intermediate rows may be from those of the new plan to count as arrived
ALIKE = 0.05  # how far apart output may be that does not differ
SMALL = 0.02  # of CPU, that is not visible
MUCH = 1.3  # times as many results, for "dramatically"


def check_claims(findings: Findings) -> tuple[Claim, ...]:
    """All of them, in the order of the figures."""
    return (*check_grouped(findings.grouped), *(check(findings) for check in CHECKS))


# --- what was measured, as figures -----------------------------------------------------------------------------------


def results_at(trace: Trace, seconds: float) -> int:
    """Results by this time of the clock."""
    return max((sample.results for sample in trace.samples if sample.seconds <= seconds), default=0)


def lead(trace: Trace, other: Trace, since: float, until: float) -> float:
    """How many more results came between two times of the clock, as a share of the other's."""
    ours, theirs = (results_at(run, until) - results_at(run, since) for run in (trace, other))
    return ours / max(1, theirs) - 1.0


def held_bytes(sample: Sample) -> int:
    """The state of the plan that answers, and what is made for another."""
    return sample.state_bytes + sample.cold_bytes


def mean_bytes(trace: Trace, since: float, waiting_row_bytes: float = 0.0) -> float:
    """What was held from a time on, on average; with what waits, if a row that waits has a size."""
    found = [held_bytes(s) + s.waiting_rows * waiting_row_bytes for s in trace.samples if s.seconds >= since]
    return sum(found) / max(1, len(found))


def changed_at(deciding: Deciding, road: str) -> float:
    """When the first migration was over; where there was none, the start."""
    changes = deciding.traces[road].changes
    return changes[0].done_at if changes else 0.0


def crossing(lengths: Sequence[Length], value: Callable[[Length], float | None]) -> float | None:
    """The window, in seconds, from which on moving state takes longer than `value`; between two points on a line."""
    before: tuple[float, float] | None = None
    for length in lengths:
        moving, other = length.seconds(MOVING), value(length)
        if moving is None or other is None:
            continue
        window, over = length.setting.width, moving - other
        if over >= 0:
            if before is None:
                return window
            return before[0] + (window - before[0]) * -before[1] / (over - before[1])
        before = (window, over)
    return None


# --- section 16.2 ----------------------------------------------------------------------------------------------------


def _in_windows(lengths: Sequence[Length], road: str) -> list[float]:
    """How many windows of input each migration took."""
    found = [(length.input_seconds(road), length.setting.width) for length in lengths]
    return [seconds / width for seconds, width in found if seconds is not None]


def _parallel_linear(findings: Findings) -> Claim:
    lengths = findings.lengths["set 1"]
    found = _in_windows(lengths, PARALLEL)
    most = 1.0 + LAG_BATCHES / lengths[0].setting.batches_a_window
    return Claim(
        "16.1",
        "T_PT grows linearly with W",
        f"{_range(found, '.2f')} W, with windows of {_span(lengths)} s",
        len(found) == len(lengths) and all(1.0 <= windows <= most for windows in found),
    )


def _two_windows(findings: Findings) -> Claim:
    found = _in_windows(findings.lengths["set 1"], PARALLEL)
    return Claim("16.1", "T_PT is 2 W", f"{_range(found, '.2f')} W", min(found, default=0.0) > 1.5, WHY_ONE_WINDOW)


def _polynomial(findings: Findings) -> Claim:
    lengths = findings.lengths["set 1"]
    last = lengths[-1]
    half = min(lengths, key=lambda length: abs(length.setting.width - last.setting.width / 2))
    times = (last.seconds(MOVING) or 0.0) / (half.seconds(MOVING) or math.inf)
    share = last.setting.width / half.setting.width
    return Claim(
        "16.2",
        "T_MS grows as a polynomial of W",
        f"{_ms(half.seconds(MOVING))} at W = {half.setting.width:g} s, {_ms(last.seconds(MOVING))} at "
        f"{last.setting.width:g} s: {times:.1f} times ({share:g} would be linear, {share**3:g} a cube)",
        times >= share**1.5,
        WHY_POLYNOMIAL,
    )


def _moving_by_rate(findings: Findings) -> Claim:
    lengths = findings.lengths["set 2"]
    found = [length.seconds(MOVING) or 0.0 for length in lengths]
    return Claim(
        "16.3",
        "T_MS grows with the rate of B",
        f"{_ms(found[0])} at {lengths[0].varied:.0f} rows/s, {_ms(found[-1])} at {lengths[-1].varied:.0f}",
        found[-1] > found[0] and found[-1] == max(found),
    )


def _parallel_by_rate(findings: Findings) -> Claim:
    lengths = findings.lengths["set 2"]
    found = _in_windows(lengths, PARALLEL)
    return Claim(
        "16.3",
        "the rate of B has almost no effect on T_PT",
        f"{_range(found, '.2f')} W",
        len(found) == len(lengths) and max(found) - min(found) <= LAG_BATCHES / lengths[0].setting.batches_a_window,
    )


def _small_windows(findings: Findings) -> Claim:
    first = findings.lengths["set 3"][0]
    moving, parallel = first.seconds(MOVING), first.seconds(PARALLEL)
    return Claim(
        "16.4",
        "with small windows moving state is the faster one",
        f"{_ms(moving)} and {_ms(parallel)} at W = {_ms(first.setting.width)}",
        None if moving is None or parallel is None else moving < parallel,
    )


def _crossover(findings: Findings) -> Claim:
    lengths = findings.lengths["set 3"]
    by_stream = crossing(lengths, lambda length: length.input_seconds(PARALLEL))
    by_clock = crossing(lengths, lambda length: length.seconds(PARALLEL))
    last = lengths[-1]
    return Claim(
        "16.4",
        "from some window on parallel track is the faster one",
        f"by the stream's clock {_from_window(by_stream)}; by the machine's {_from_window(by_clock)}: at "
        f"{_ms(last.setting.width)} it took {_ms(last.seconds(PARALLEL))}, moving state {_ms(last.seconds(MOVING))}",
        by_stream is not None,
        WHY_CROSSOVER,
    )


def _from_window(seconds: float | None) -> str:
    return "never" if seconds is None else f"from W = {_ms(seconds)} on"


def _seeded_first(findings: Findings) -> Claim:
    parts, before = [], True
    for name, lengths in findings.lengths.items():
        pairs = [(length.seconds(SEEDED), length.seconds(PARALLEL), length) for length in lengths]
        slower = [one for one, other, _ in pairs if one is None or (other is not None and one >= other)]
        shares = [one / other for one, other, _ in pairs if one is not None and other is not None]
        before = before and not slower
        parts.append(f"{name} {_range(shares, '.0%')}" + (f", {len(slower)} of {len(pairs)} later" if slower else ""))
    taken = {"the other way round": findings.back.traces, **{n: e.traces for n, e in findings.effects.items()}}
    for name, traces in taken.items():
        one, other = (_first_seconds(traces[road]) for road in (SEEDED, PARALLEL))
        before = before and one is not None and (other is None or one < other)
        parts.append(f"{name} {_ms(one)} against {_ms(other)}")
    return Claim(
        OURS,
        "(ours) seeded is done before parallel track; its time as a share of T_PT",
        "; ".join(parts),
        before,
        WHY_SEEDED,
    )


def _silence(findings: Findings) -> Claim:
    found = {road: gap_of(findings.back.traces[road]) for road in ROADS}
    texts = [
        f"{road} {_ms(gap['during'])} (before: {_ms(gap['before'])}, after: {_ms(gap['after'])})"
        for road, gap in found.items()
        if gap is not None
    ]
    silent = {road: gap is not None and _is_silent(gap) for road, gap in found.items()}
    return Claim(
        OURS,
        "(ours) moving state is silent while it recomputes; parallel track and seeded never are. Longest time without "
        "a result, set 1 the other way round",
        "; ".join(texts),
        silent == {MOVING: True, PARALLEL: False, SEEDED: False},
        WHY_SILENCE,
    )


def _is_silent(gap: Mapping[str, float]) -> bool:
    return gap["during"] > SILENT * gap["before"] and gap["during"] > LATER * gap["after"]


# --- section 16.3 ----------------------------------------------------------------------------------------------------


def _arrived(effect: Effect, road: str) -> float | None:
    """Seconds from when it was asked for until there are no more intermediate rows than the new plan has, or near."""
    new = [sample for sample in effect.traces[NEW_ONLY].samples if sample.seconds >= effect.migrate_at]
    wanted = (1 + NEAR) * sum(sample.joined_rows for sample in new) / max(1, len(new))
    trace = effect.traces[road]
    if not trace.changes:
        return None
    asked = trace.changes[0].asked_at
    above = [s.seconds for s in trace.samples if s.seconds > asked and s.joined_rows > wanted]
    following = [s.seconds for s in trace.samples if s.seconds > max(above, default=asked)]
    return following[0] - asked if following else None


def _low_rows(findings: Findings) -> Claim:
    effect = findings.effects["low"]
    found = {road: _arrived(effect, road) for road in ROADS}
    moving, parallel = found[MOVING], found[PARALLEL]
    rows = [effect.traces[name].samples[-1].joined_rows for name in (OLD_ONLY, NEW_ONLY)]
    return Claim(
        "16.5",
        "enough CPU: both come to the new plan's intermediate rows, moving state first",
        f"{_each(found)} after it was asked for; the old plan has {rows[0]:,}, the new one {rows[1]:,}",
        moving is not None and parallel is not None and moving < parallel,
    )


def _low_output(findings: Findings) -> Claim:
    effect = findings.effects["low"]
    new = effect.traces[NEW_ONLY].samples[-1].results
    shares = [effect.traces[name].samples[-1].results / new - 1 for name in (OLD_ONLY, *ROADS)]
    return Claim(
        "16.6",
        "enough CPU: no strong advantage in output for either",
        f"results against those of the new plan: old {shares[0]:+.1%}, "
        + ", ".join(f"{road} {share:+.1%}" for road, share in zip(ROADS, shares[1:], strict=True)),
        max(map(abs, shares)) <= ALIKE,
    )


def _high_rows(findings: Findings) -> Claim:
    effect = findings.effects["high"]
    until = effect.migrate_at + effect.setting.width
    found = {}
    for road in ROADS:
        during = [s.joined_rows for s in effect.traces[road].samples if effect.migrate_at < s.seconds <= until]
        found[road] = sum(during) / max(1, len(during))
    return Claim(
        "16.7",
        "too little CPU: parallel track has fewer intermediate rows at first",
        "on average in the first window: " + ", ".join(f"{road} {rows:,.0f}" for road, rows in found.items()),
        found[PARALLEL] < found[MOVING],
        WHY_MORE_ROWS,
    )


def _high_output(findings: Findings) -> Claim:
    effect = findings.effects["high"]
    old = effect.traces[OLD_ONLY]
    leads = {name: lead(effect.traces[name], old, effect.migrate_at, effect.seconds) for name in (NEW_ONLY, *ROADS)}
    return Claim(
        "16.8",
        "too little CPU: all that migrate outperform the old plan dramatically",
        "results since the migration: " + ", ".join(f"{name} {share:+.0%}" for name, share in leads.items()),
        min(leads.values()) >= MUCH - 1,
    )


def _high_silence(findings: Findings) -> Claim:
    found = {road: gap_of(findings.effects["high"].traces[road]) for road in ROADS}
    moving = found[MOVING]
    return Claim(
        "16.8",
        "too little CPU: a noticeable silence of moving state (10 of 50 s)",
        "longest time without a result: "
        + ", ".join(f"{road} {_ms(gap['during'])}" for road, gap in found.items() if gap is not None)
        + (f"; before {_ms(moving['before'])}" if moving is not None else ""),
        moving is not None and _is_silent(moving),
        WHY_SHORT,
    )


def _high_length(findings: Findings) -> Claim:
    effect = findings.effects["high"]
    found = {road: _first_seconds(effect.traces[road]) for road in ROADS}
    moving, parallel = found[MOVING], found[PARALLEL]
    return Claim(
        "16.8",
        "too little CPU: moving state still ends before parallel track",
        _each(found),
        moving is not None and (parallel is None or moving < parallel),
    )


def _first_seconds(trace: Trace) -> float | None:
    return trace.changes[0].seconds if trace.changes else None


# --- section 16.4 ----------------------------------------------------------------------------------------------------


def _overhead(findings: Findings) -> Claim:
    found = findings.overhead
    return Claim(
        "16.9",
        "looks at a plan that stays cost next to nothing",
        f"{found.share:+.1%} of CPU for {found.looks} looks ({_range([a / b - 1 for a, b in found.pairs], '+.1%')})",
        found.share <= SMALL,
        WHY_OVERHEAD,
    )


def _once_throughput(findings: Findings) -> Claim:
    found = findings.once
    without = found.traces[WITHOUT]
    leads = {
        road: lead(trace, without, trace.changes[0].done_at if trace.changes else 0.0, found.seconds)
        for road, trace in found.traces.items()
        if road != WITHOUT
    }
    return Claim(
        "16.10",
        "one switch: 40 to 50 % more throughput than without migration",
        ", ".join(f"{road} {share:+.0%}" for road, share in leads.items())
        + f" once it is over; the old plan needs {found.load:.1f} cores of one",
        min(leads.values()) >= 0.4,
        WHY_THROUGHPUT,
    )


def savings(deciding: Deciding, road: str, waiting: bool) -> float:
    """How much less is held than without migration since then, as a share; of the state alone, or with what waits."""
    size = deciding.setting.row_bytes if waiting else 0.0
    since = changed_at(deciding, road)
    return 1.0 - mean_bytes(deciding.traces[road], since, size) / mean_bytes(deciding.traces[WITHOUT], since, size)


def _once_memory(findings: Findings) -> Claim:
    found = findings.once
    roads = [road for road in found.traces if road != WITHOUT]
    state, all_in = ([savings(found, road, waiting) for road in roads] for waiting in (False, True))
    return Claim(
        "16.11",
        "one switch: at least 50 % less memory",
        f"{_range(all_in, '.0%')} less with what waits in queues; {_range(state, '.0%')} less of state alone",
        min(all_in) >= 0.5,
        WHY_MEMORY,
    )


def _once_state(findings: Findings) -> Claim:
    found = findings.once
    state = [savings(found, road, False) for road in found.traces if road != WITHOUT]
    return Claim(
        OURS,
        "(ours) the same of the state alone: at least 50 % less",
        f"{_range(state, '.0%')} less",
        min(state) >= 0.5,
        WHY_STATE,
    )


def _deciding_road(deciding: Deciding) -> str:
    return [road for road in deciding.traces if road != WITHOUT][-1]


def _several_throughput(findings: Findings) -> Claim:
    found = findings.several
    road = _deciding_road(found)
    trace, without = found.traces[road], found.traces[WITHOUT]
    # Not right away: what both have come to is known to within a batch.
    after = [s for s in trace.samples if s.seconds >= changed_at(found, road) + 2 * found.setting.batch_seconds]
    ahead = sum(s.results >= results_at(without, s.seconds) for s in after) / max(1, len(after))
    gain = max((s.results / max(1, results_at(without, s.seconds)) - 1 for s in after), default=0.0)
    return Claim(
        "16.12",
        "several switches: throughput is consistently higher",
        f"as many results or more at {ahead:.0%} of the times since the first migration; at most {gain:+.0%}",
        ahead >= 0.95 and gain > ALIKE,
        WHY_SEVERAL,
    )


def _several_memory(findings: Findings) -> Claim:
    found = findings.several
    road = _deciding_road(found)
    less = [savings(found, road, waiting) for waiting in (False, True)]
    return Claim(
        "16.13",
        "several switches: memory is consistently less",
        f"{less[0]:.0%} less of state on average, {less[1]:.0%} with what waits in queues",
        min(less) > 0,
    )


def _several_times(findings: Findings) -> Claim:
    found = findings.several
    switches = len(found.setting.switches) - 1
    changes = found.traces[_deciding_road(found)].changes
    at = ", ".join(f"{change.done_at * found.setting.speed:.0f}" for change in changes)
    return Claim(
        "16.12",
        "one migration for each switch (four, at about 10, 30, 70 and 130 s)",
        f"{len(changes)} migrations for {switches} switches, at {at or 'no'} s",
        len(changes) == switches,
    )


# --- as text ---------------------------------------------------------------------------------------------------------


def _ms(seconds: float | None) -> str:
    """
    >>> _ms(0.0123), _ms(1.5), _ms(None)
    ('12 ms', '1,500 ms', 'no end')
    """
    return "no end" if seconds is None else f"{seconds * 1000:,.0f} ms"


def _range(values: Iterable[float], form: str) -> str:
    """The least and the largest.

    >>> _range([0.31, 0.5, 0.4], ".0%"), _range([2.0], "g"), _range([], "g")
    ('31% to 50%', '2', 'none')
    """
    found = sorted(values)
    if not found:
        return "none"
    texts = dict.fromkeys((format(found[0], form), format(found[-1], form)))
    return " to ".join(texts)


def _span(lengths: Sequence[Length]) -> str:
    return _range([length.setting.width for length in lengths], "g")


def _each(found: dict[str, float | None]) -> str:
    return ", ".join(f"{road} {_ms(seconds)}" for road, seconds in found.items())


CHECKS: Sequence[Callable[[Findings], Claim]] = (
    _parallel_linear,
    _two_windows,
    _polynomial,
    _moving_by_rate,
    _parallel_by_rate,
    _small_windows,
    _crossover,
    _seeded_first,
    _silence,
    _low_rows,
    _low_output,
    _high_rows,
    _high_output,
    _high_silence,
    _high_length,
    _overhead,
    _once_throughput,
    _once_memory,
    _once_state,
    _several_throughput,
    _several_memory,
    _several_times,
)
