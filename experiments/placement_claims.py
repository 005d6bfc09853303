"""What [Liu05] says of relocation, each sentence beside what the runs of `placement_runs.py` say to it.

A claim *holds* if its test, which stands in its function, comes out; the tests are ours, since the report has pictures
and few figures. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.budgeted import History
from experiments.claims import Claim
from experiments.placement import (
    ALTERNATING_SPAN,
    ALTERNATING_THRESHOLD,
    EVEN_ACTIVE,
    EVEN_LAZY,
    LAZY_DISK,
    NO_RELOCATION,
    RELOCATION,
    STILL,
    UNEVEN,
    UNEVEN_MOVED,
    level,
)
from experiments.placement_reasons import (
    WHY_CLEAN_UP,
    WHY_COST,
    WHY_DIP,
    WHY_LIMIT,
    WHY_SPANS,
)
from experiments.placement_runs import Findings, first_spill

OURS = "–"  # where the figure's number would be
NEAR = 1.5  # times: counts that differ by no more are about as many
ALIKE = 0.05  # how far apart results, or CPU, may be that do not differ
LEVEL = 0.85  # of the most loaded slot's memory: what the other has where it is level, most of the time
LITTLE = 0.02  # of CPU
MUCH = 1.15  # times as many results, for "much higher"
SETTLED = 5 * 60.0  # seconds, after which memory is looked at
PAPER_ADAPTATIONS = {(0.9, 45): 24, (0.9, 30): 27, (0.9, 15): 31, (0.5, 45): 2}


def check_claims(findings: Findings) -> tuple[Claim, ...]:
    """All of them, in the order of the figures."""
    return tuple(check(findings) for check in CHECKS)


# --- what was measured, as figures -----------------------------------------------------------------------------------


def balance_over_time(run: History, since: float = SETTLED) -> list[float]:
    """What the least loaded slot has of the most loaded one, after each batch."""
    return [min(s.slot_bytes) / max(s.slot_bytes) for s in run.run_time if s.seconds >= since and max(s.slot_bytes)]


def adaptations(findings: Findings, threshold: float, span: int) -> int:
    return len(findings.outcomes["alternating"].runs[level(threshold, span).name].moves)


def slots_that_spilled(run: History) -> int:
    """How many have groups that owe results when the input ends."""
    return sum(owed > 0 for owed in run.run_time[-1].slot_owed)


def slowest_clean_up(run: History) -> float:
    """Seconds of the slot that takes longest: what a clean-up takes where each slot is a machine."""
    return max(run.clean_up_cpu_of_slots, default=0.0)


def minutes(seconds: float) -> str:
    """
    >>> minutes(1500.0)
    '25 min'
    """
    return f"{seconds / 60:g} min"


def _full(run: History) -> str:
    first = first_spill(run)
    return "not full in 40 min" if first is None else f"full after {minutes(first.seconds)}"


def _times(run: History, other: History) -> float:
    return run.run_time_results / max(1, other.run_time_results)


# --- figure 7 --------------------------------------------------------------------------------------------------------


def _two_machines(findings: Findings) -> Claim:
    runs = findings.outcomes["machines"].runs
    two = first_spill(runs["2 slots"])
    return Claim(
        "7",
        "one machine is out of memory after 25 minutes, two after 35",
        f"one is {_full(runs['1 slot'])}, for which the limit is chosen; two are {_full(runs['2 slots'])}",
        two is not None and abs(two.seconds - 35 * 60) <= 5 * 60,
        WHY_LIMIT,
    )


def _more_machines(findings: Findings) -> Claim:
    runs = findings.outcomes["machines"].runs
    four, five = runs["4 slots"].run_time_results, runs["5 slots"].run_time_results
    return Claim(
        "7",
        "four machines and five have almost the same throughput",
        f"{four:,} and {five:,} results in 40 min",
        abs(four - five) <= ALIKE * five,
    )


def _uneven_machines(findings: Findings) -> Claim:
    runs = findings.outcomes["machines"].runs
    before, after = runs[UNEVEN], runs[UNEVEN_MOVED]
    return Claim(
        OURS,
        "of two machines that hold all of it, one with two thirds does not; relocation mends that",
        f"it is {_full(before)}; with relocation {_full(after)}, by {len(after.moves)} move(s)",
        first_spill(before) is not None and first_spill(after) is None,
    )


# --- figures 14 to 17 ------------------------------------------------------------------------------------------------


def _by_threshold(findings: Findings) -> Claim:
    counts = {t: adaptations(findings, t, ALTERNATING_SPAN) for t in findings.extent.thresholds}
    values = list(counts.values())
    return Claim(
        "14",
        "the higher the threshold, the more adaptations",
        ", ".join(f"{count} at {threshold:.0%}" for threshold, count in counts.items()),
        values == sorted(values) and values[0] < values[-1],
    )


def _counts(findings: Findings) -> Claim:
    most, least = (adaptations(findings, threshold, ALTERNATING_SPAN) for threshold in (0.9, 0.5))
    paper = (PAPER_ADAPTATIONS[0.9, 45], PAPER_ADAPTATIONS[0.5, 45])
    return Claim(
        "14",
        f"{paper[0]} adaptations at 90 % and {paper[1]} at 50 %, in 60 minutes",
        f"{most} at 90 %, {least} at 50 %",
        all(1 / NEAR <= ours / theirs <= NEAR for ours, theirs in zip((most, least), paper, strict=True)),
    )


def _by_span(findings: Findings) -> Claim:
    counts = {span: adaptations(findings, ALTERNATING_THRESHOLD, span) for span in findings.extent.spans}
    values = list(counts.values())
    paper = ", ".join(f"{PAPER_ADAPTATIONS[0.9, span]} with {span} s" for span in (15, 30, 45))
    return Claim(
        "15",
        f"the shorter the span between two, the more adaptations: {paper}",
        ", ".join(f"{count} with {span} s" for span, count in counts.items()),
        values == sorted(values, reverse=True) and values[0] > values[-1],
        WHY_SPANS,
    )


def _throughput(findings: Findings) -> Claim:
    runs = findings.outcomes["alternating"].runs
    courses = {tuple(sample.results for sample in run.run_time) for run in runs.values()}
    return Claim(
        "14, 15",
        "throughput is almost the same with all thresholds and spans, and without relocation",
        f"the results after each batch are {'the same' if len(courses) == 1 else 'not the same'} in all runs",
        len(courses) == 1,
    )


def _cost(findings: Findings) -> Claim:
    runs = findings.outcomes["alternating"].runs
    still = runs[STILL.name].run_time_cpu
    extra = {name: run.run_time_cpu / still - 1.0 for name, run in runs.items() if name != STILL.name}
    batches = len(runs[STILL.name].run_time)
    return Claim(
        "14, 15",
        "relocation costs little",
        f"{min(extra.values()):+.0%} to {max(extra.values()):+.0%} of CPU, "
        f"{max(extra.values()) * still / batches * 1e3:.1f} ms a batch at most",
        max(extra.values()) <= ALIKE,
        WHY_COST,
    )


def _level_memory(findings: Findings) -> Claim:
    runs = findings.outcomes["alternating"].runs
    span = min(findings.extent.spans)
    still, moved = (balance_over_time(runs[name]) for name in (STILL.name, level(ALTERNATING_THRESHOLD, span).name))
    share = sum(value >= LEVEL for value in moved) / max(1, len(moved))
    return Claim(
        "16",
        f"memory is balanced by relocation (90 %, {span} s), and goes to and fro without",
        f"the slot with less has {min(moved):.0%} of the other's or more from minute 5 on, and {LEVEL:.0%} or more "
        f"{share:.0%} of the time; without relocation down to {min(still):.0%}",
        share >= 0.9 and min(still) < 0.8,
    )


def _stays_in_memory(findings: Findings) -> Claim:
    runs = findings.outcomes["uneven"].runs
    before, after = runs[NO_RELOCATION.name], runs[RELOCATION.name]
    first = first_spill(before)
    spilled = "never spills" if first is None else f"spills from {minutes(first.seconds)} on"
    return Claim(
        "17",
        "the machine with most partitions overflows after 40 minutes and throughput drops; with relocation all "
        "stays in memory",
        f"it {spilled}: {before.run_time_results:,} results by 60 min; with relocation {after.spills} spills and "
        f"{after.run_time_results:,}, {_times(after, before) - 1:+.0%}",
        first is not None and not after.spills and _times(after, before) > 1 + ALIKE,
    )


# --- figures 20 and 21 -----------------------------------------------------------------------------------------------


def _lazy(findings: Findings) -> Claim:
    runs = findings.outcomes["short"].runs
    before, after = runs[NO_RELOCATION.name], runs[LAZY_DISK.name]
    return Claim(
        "20",
        "lazy-disk has a much higher throughput than no relocation",
        f"{after.run_time_results:,} against {before.run_time_results:,} results by 60 min, "
        f"{_times(after, before) - 1:+.0%}",
        _times(after, before) >= MUCH,
    )


def _who_spills(findings: Findings) -> Claim:
    runs = findings.outcomes["short"].runs
    before, after = (slots_that_spilled(runs[name]) for name in (NO_RELOCATION.name, LAZY_DISK.name))
    return Claim(
        "20",
        "without relocation one machine spills, with lazy-disk in the end all three",
        f"{before} without, {after} with",
        (before, after) == (1, 3),
    )


def _similar(findings: Findings) -> Claim:
    runs = findings.outcomes["very short"].runs
    before, after = runs[NO_RELOCATION.name], runs[LAZY_DISK.name]
    return Claim(
        "20",
        "where no machine holds what comes to it, results in 6 hours are similar",
        f"lazy-disk {after.run_time_results:,}, without {before.run_time_results:,}, "
        f"{_times(after, before) - 1:+.1%}; {after.clean_up_results:,} and {before.clean_up_results:,} left to the "
        "clean-up (in the report 2,023,781)",
        abs(_times(after, before) - 1) <= ALIKE,
    )


def _clean_up(findings: Findings) -> Claim:
    runs = findings.outcomes["very short"].runs
    before, after = (slowest_clean_up(runs[name]) for name in (NO_RELOCATION.name, LAZY_DISK.name))
    return Claim(
        "20",
        "it takes over 1600 s without relocation, and under 400 s with lazy-disk",
        f"the slowest slot takes {before:.2f} s of CPU without and {after:.2f} s with, {before / after:.1f} times less",
        before >= 4 * after,
        WHY_CLEAN_UP,
    )


def shares(amounts: Sequence[float]) -> list[float]:
    """
    >>> shares([3, 1])
    [0.75, 0.25]
    """
    return [amount / max(1, sum(amounts)) for amount in amounts]


def _clean_up_shares(findings: Findings) -> Claim:
    runs = findings.outcomes["very short"].runs
    before, after = (shares(runs[name].clean_up_results_of_slots) for name in (NO_RELOCATION.name, LAZY_DISK.name))
    texts = [" / ".join(f"{share:.0%}" for share in found) for found in (before, after)]
    return Claim(
        "20",
        "most of the clean-up is one machine's without relocation, and is evenly distributed with lazy-disk",
        f"of its results {texts[0]} by slot without, {texts[1]} with",
        max(before) > 0.5 and max(after) <= 0.4,
    )


def lead_over_time(run: History, other: History) -> list[tuple[float, float]]:
    """How far the results of one are ahead of the other's, as a share of these, by time."""
    pairs = zip(run.run_time, other.run_time, strict=True)
    return [(ours.seconds, ours.results / theirs.results - 1.0) for ours, theirs in pairs if theirs.results]


def _dips(findings: Findings) -> Claim:
    runs = findings.outcomes["productive"].runs
    lazy, active = runs[EVEN_LAZY.name], runs[EVEN_ACTIVE.name]
    pushed = first_spill(active)
    lead = lead_over_time(active, lazy)
    lowest = min(value for _, value in lead)
    at = next(seconds for seconds, value in lead if value == lowest)
    return Claim(
        "21",
        "active-disk has a drop in throughput after it starts to push partitions to disk",
        f"it pushes from {'never' if pushed is None else minutes(pushed.seconds)} on, and is behind lazy-disk by up to "
        f"{-lowest:.1%}, after {minutes(at)}",
        pushed is not None and lowest < 0,
        WHY_DIP,
    )


def _leads(findings: Findings) -> Claim:
    runs = findings.outcomes["productive"].runs
    lazy, active = runs[EVEN_LAZY.name], runs[EVEN_ACTIVE.name]
    return Claim(
        "21",
        "in the long run active-disk outperforms lazy-disk",
        f"{active.run_time_results:,} against {lazy.run_time_results:,} results by 60 min, "
        f"{_times(active, lazy) - 1:+.0%}",
        _times(active, lazy) > 1 + ALIKE,
    )


def _looks(findings: Findings) -> Claim:
    texts = [f"{entry.share:.2%} with {entry.what}" for entry in findings.looks]
    moved = sum(entry.moved for entry in findings.looks)
    return Claim(
        OURS,
        "where there is nothing to balance, lazy-disk moves nothing and costs under 2 %",
        f"{moved} groups moved; looks take {', '.join(texts)} of CPU",
        not moved and all(entry.share < LITTLE for entry in findings.looks),
    )


CHECKS: Sequence[Callable[[Findings], Claim]] = (
    _two_machines,
    _more_machines,
    _uneven_machines,
    _by_threshold,
    _counts,
    _by_span,
    _throughput,
    _cost,
    _level_memory,
    _stays_in_memory,
    _lazy,
    _who_spills,
    _similar,
    _clean_up_shares,
    _clean_up,
    _dips,
    _leads,
    _looks,
)
