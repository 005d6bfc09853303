"""What [Wang09] says of its ring and its rivals, each sentence beside what the runs of `ring_runs.py` say to it.

A claim *holds* if its test, which stands in its function, comes out; the tests are ours, since the paper has pictures
and few figures. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from experiments import ring
from experiments.claims import Claim
from experiments.ring_reasons import (
    WHY_ATR_STATE,
    WHY_DIRECTION,
    WHY_FLAT,
    WHY_LOADS,
    WHY_MODEL,
    WHY_PASSIVE,
    WHY_REAL,
)
from experiments.ring_rivals import atr_copies
from experiments.ring_runs import Adaptation, Curve, Findings, expected_cpu
from watersmeet.optimize.ring_cost import Ring, alike, latency, response, results, state_rows

OURS = "–"
RISE = 1.05  # times the least response, from which on it has risen
FLAT = 0.05  # how far apart states may be that do not differ
NEAR = 3  # slots
CLOSE = 1.15  # times the least response, that a good length has at most
STEADY = 1.5  # times as long as before, for a response that is as it was
UPSET = 5.0  # times as much worse, for what is much worse
SLOW = 2.0  # times as long, for what takes long
SHARED = 1.6  # times less CPU in the slowest of two slots


def check_claims(findings: Findings) -> tuple[Claim, ...]:
    """All of them, in the order of the figures."""
    return tuple(check(findings) for check in CHECKS)


# --- what was measured, as figures ------------------------------------------------------------------------------------


def ms(seconds: float) -> str:
    """
    >>> ms(0.01234), ms(2.5)
    ('12.3 ms', '2.5 s')
    """
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def best_texts(curves: Iterable[Curve]) -> str:
    return ", ".join(f"{curve.best.slots} slots ({ms(curve.best.response)}) with {curve.name}" for curve in curves)


def spread(values: Iterable[float]) -> float:
    """How far the largest is from the smallest, as a share of it.

    >>> spread((100.0, 103.0))
    0.03
    """
    each = list(values)
    return round(max(each) / min(each) - 1, 9)


def modelled(findings: Findings, selectivity: float) -> Ring:
    """What the cost model is given for a selectivity."""
    return alike(ring.STREAMS, findings.rate, ring.WINDOW, selectivity, findings.wired)


def modelled_best(findings: Findings, selectivity: float, seconds: Callable[[Ring, int], float]) -> int:
    """The length that the model would choose, of those that were run."""
    joined = modelled(findings, selectivity)
    return min(findings.extent.lengths, key=lambda slots: (seconds(joined, slots), slots))


def rises(curve: Curve) -> bool:
    """Whether the response is more with the longest ring than with the best."""
    return curve.points[-1].response > RISE * curve.best.response


# --- figures 8(a) and 8(b) --------------------------------------------------------------------------------------------


def _loads(findings: Findings) -> Claim:
    most = max(ring.SELECTIVITIES)
    printed = alike(ring.STREAMS, ring.RATE, ring.WINDOW, most, findings.prices)
    scaled = modelled(findings, most)
    return Claim(
        "8(a)",
        "50 rows a second of each stream, windows of 10 s, selectivities of .05, .1 and .5",
        f"not run as printed: {results(printed):,.0f} results a row at .5. With rates divided by {findings.divisor}, "
        f"{results(scaled):,.0f}",
        None,
        WHY_LOADS,
    )


def _more_matches(findings: Findings) -> Claim:
    curves = findings.curves["gigabit"]
    ordered = all(
        low.at(slots).response <= high.at(slots).response * RISE
        for low, high in pairwise(curves)
        for slots in findings.extent.lengths
    )
    middle = findings.extent.lengths[len(findings.extent.lengths) // 2]
    texts = ", ".join(f"{ms(curve.at(middle).response)} with {curve.name}" for curve in curves)
    return Claim("8(a)", "the response time increases with selectivity", f"with {middle} slots {texts}", ordered)


def _minimum(findings: Findings) -> Claim:
    curves = findings.curves["gigabit"]
    return Claim(
        "8(a)",
        "more nodes do not always lower the response time: it rises again where there are too many",
        f"least with {best_texts(curves)}; with {findings.extent.lengths[-1]} slots "
        + ", ".join(ms(curve.points[-1].response) for curve in curves),
        all(map(rises, curves)),
    )


def _fourteen(findings: Findings) -> Claim:
    wired, sockets = findings.curves["gigabit"][-1].best.slots, findings.curves["sockets"][-1].best.slots
    return Claim(
        "8(a)",
        "with a selectivity of .5 it rises from 14 nodes on",
        f"from {wired} on with a gigabit network, from {sockets} on with the sockets of this machine",
        min(abs(wired - 14), abs(sockets - 14)) <= NEAR,
    )


def _direction(findings: Findings) -> Claim:
    wired = [curve.best.slots for curve in findings.curves["gigabit"]]
    sockets = [curve.best.slots for curve in findings.curves["sockets"]]
    model = [modelled_best(findings, paper, response) for paper in ring.SELECTIVITIES]
    return Claim(
        "8(a)",
        "for smaller selectivities longer rings are best",
        f"best lengths at .05, .1 and .5: {_list(wired)} on a gigabit network, {_list(sockets)} with sockets; by the "
        f"cost model {_list(model)}",
        wired == sorted(wired, reverse=True) and wired[0] > wired[-1],
        WHY_DIRECTION,
    )


def _model(findings: Findings) -> Claim:
    """What the length that a model asks for costs, against the best that was run."""
    losses = {
        seconds: [
            curve.at(modelled_best(findings, paper, seconds)).response / curve.best.response
            for paper, curve in zip(ring.SELECTIVITIES, findings.curves["gigabit"], strict=True)
        ]
        for seconds in (latency, response)
    }
    five, ours = (_list(f"{loss - 1:.0%}" for loss in losses[key]) for key in (latency, response))
    return Claim(
        OURS,
        "the cost model finds the best length",
        f"with the length of equation 5 the response is {five} above the least that was run, with that of the model "
        f"with queues {ours}",
        max(losses[response]) <= CLOSE,
        WHY_MODEL,
    )


def _flat_state(findings: Findings) -> Claim:
    rows = [point.state_rows for curve in findings.curves["gigabit"] for point in curve.points if point.busy < 0.8]
    return Claim(
        "8(b)",
        "memory is about the same with all lengths and selectivities: no state is there twice",
        f"{min(rows):,.0f} to {max(rows):,.0f} rows, {spread(rows):.1%} apart, of which "
        f"{state_rows(modelled(findings, ring.MIDDLE)):,.0f} are within their windows and the rest wait for rows in "
        "flight",
        spread(rows) <= FLAT,
    )


def _streams(findings: Findings) -> Claim:
    curves = findings.curves["streams"]
    return Claim(
        "8(a)",
        "joins of more streams (3 to 9 ways) were run; no figure is given",
        f"least with {best_texts(curves)}",
        None,
    )


def _pictures(findings: Findings) -> Claim:
    curves = findings.curves["pictures"]
    best = [curve.best.response for curve in curves]
    return Claim(
        "8(a)",
        "dearer comparisons (pictures of 5, 10 and 20 thousand pixels) were run; no figure is given",
        f"least with {best_texts(curves)}: a larger picture is dearer to send too",
        best == sorted(best),
    )


def _interleaving(findings: Findings) -> Claim:
    curves = findings.curves["in flight"]
    longest = [curve.points[-1].response for curve in curves]
    return Claim(
        "4.4",
        "interleaving rows (PSP-I) makes up for idle nodes",
        f"with {findings.extent.lengths[-1]} slots "
        + ", ".join(f"{ms(value)} with {curve.name}" for curve, value in zip(curves, longest, strict=True)),
        longest[0] > RISE * longest[-1],
    )


# --- figures 8(c) to 8(f) ---------------------------------------------------------------------------------------------


def _atr_response(findings: Findings) -> Claim:
    curves = findings.curves["atr"]
    change = max(spread(point.response for point in curve.points) for curve in curves)
    first, last = curves[0], curves[-1]
    return Claim(
        "8(c)",
        "ATR: the response time does not fall with more nodes, since one node does all the work on a row",
        f"{ms(first.best.response)} with {first.name}, {ms(last.best.response)} with {last.name}, whatever the slots "
        f"({change:.0%} apart); the ring has {ms(findings.curves['gigabit'][1].best.response)}",
        change <= 0.1 or all(curve.points[-1].response >= 0.9 * curve.points[0].response for curve in curves),
    )


def _atr_state(findings: Findings) -> Claim:
    first = findings.curves["atr"][0]
    kept, alive = ([getattr(point, name) for point in first.points] for name in ("kept_rows", "state_rows"))
    grows = all(before < after for before, after in pairwise(kept))
    return Claim(
        "8(d)",
        "ATR: memory grows steadily with the nodes",
        f"{first.name}: {kept[0]:,.0f} rows with {first.points[0].slots} slots, {kept[-1]:,.0f} with "
        f"{first.points[-1].slots}, where only rows that come purge; {alive[0]:,.0f} and {alive[-1]:,.0f} that have "
        "not expired",
        grows,
        WHY_ATR_STATE,
    )


def _atr_copies(findings: Findings) -> Claim:
    curves = findings.curves["atr"]
    rows = findings.rate * ring.WINDOW
    measured = [(curve.points[0].state_rows - rows) / (2 * rows) for curve in (curves[0], curves[-1])]
    segments = (findings.extent.segments[0], findings.extent.segments[-1])
    expected = [atr_copies(ring.WINDOW, ring.WINDOW, segment) for segment in segments]
    return Claim(
        OURS,
        f"ATR: rows of slaves are there {expected[0]:.1f} times with segments of {segments[0]:g} s, {expected[1]:.1f} "
        f"times with {segments[1]:g} s",
        f"{measured[0]:.2f} and {measured[1]:.2f} times",
        all(abs(a / b - 1) <= 0.1 for a, b in zip(measured, expected, strict=True)),
    )


def _ctr_response(findings: Findings) -> Claim:
    curves = findings.curves["ctr"]
    falls = [curve for curve in curves if len(curve.points) > 1]
    return Claim(
        "8(e)",
        "CTR: the response time falls with more nodes",
        ", ".join(
            f"{ms(curve.points[0].response)} to {ms(curve.points[-1].response)} with {curve.name}" for curve in falls
        ),
        all(curve.points[-1].response < curve.points[0].response for curve in falls),
    )


def _ctr_copies(findings: Findings) -> Claim:
    curves = findings.curves["ctr"]
    last = findings.extent.lengths[-1]
    values = [curve.at(last).response for curve in curves]
    return Claim(
        "8(e)",
        "CTR: with more copies fewer nodes take part, and the response time is larger",
        f"with {last} slots "
        + ", ".join(f"{ms(value)} ({curve.name})" for curve, value in zip(curves, values, strict=True)),
        values == sorted(values) and values[0] < values[-1],
    )


def _ctr_state(findings: Findings) -> Claim:
    curves = findings.curves["ctr"]
    change = max(spread(point.state_rows for point in curve.points) for curve in curves)
    rows = [curve.points[-1].state_rows for curve in curves]
    return Claim(
        "8(f)",
        "CTR: memory is stable with more nodes and grows with the copies",
        f"{rows[0]:,.0f} rows with {curves[0].name}, {rows[-1]:,.0f} with {curves[-1].name}; {change:.1%} apart by "
        "slots",
        change <= FLAT and rows == sorted(rows),
    )


# --- figures 8(g) and 8(h) --------------------------------------------------------------------------------------------


def _named(runs: Sequence[Adaptation], part: str) -> Adaptation:
    return next(run for run in runs if part in run.name)


def _adapted(findings: Findings) -> Claim:
    still, moved = findings.doubled[1], _named(findings.doubled, "smoothed")
    lengths = " to ".join(str(slots) for _, slots in moved.lengths)
    return Claim(
        "8(g), 8(h)",
        "adaptation makes the response much more stable when rates double",
        f"{still.name}: {ms(still.before)} before, {ms(still.after)} after; with adaptation {ms(moved.before)} and "
        f"{ms(moved.after)}, from {lengths} slots",
        still.after / still.before >= UPSET * moved.after / moved.before,
    )


def _level(findings: Findings) -> Claim:
    moved = _named(findings.doubled, "smoothed")
    return Claim(
        "8(g)",
        "with adaptation it stays as it was",
        f"{ms(moved.before)} before, {ms(moved.during)} in the window after rates doubled, {ms(moved.after)} from "
        f"then on: {moved.after / moved.before:.1f} times as long",
        max(moved.during, moved.after) <= STEADY * moved.before,
        WHY_FLAT,
    )


def _passive(findings: Findings) -> Claim:
    passive, aggressive = (_named(findings.doubled, part) for part in (" passive", " aggressive"))
    return Claim(
        "6",
        "passive adjustment induces no migration cost, but may take long with a large window",
        f"in the window after the change {ms(passive.during)} with passive relocation, {ms(aggressive.during)} with "
        f"aggressive; then {ms(passive.after)} and {ms(aggressive.after)}",
        passive.during >= SLOW * aggressive.during,
        WHY_PASSIVE,
    )


def _smoothed(findings: Findings) -> Claim:
    by_time, by_count = findings.bursts
    low, high, lasts = ring.BURST[0] * findings.rate, ring.BURST[1] * findings.rate, ring.BURST[2]
    return Claim(
        "6",
        "count-based slices smooth the workload where rates fluctuate",
        f"{low:.1f} and {high:.1f} rows a second in turns of {lasts:g} s, {ring.SHORTEST} slots: {ms(by_time.after)} "
        f"with slices by time, {ms(by_count.after)} by count; the busiest slot works {by_time.busy:.0%} and "
        f"{by_count.busy:.0%} of the time",
        by_count.after < by_time.after / RISE and by_count.busy < by_time.busy,
    )


# --- for real ---------------------------------------------------------------------------------------------------------


def _real_share(findings: Findings) -> Claim:
    one, two = findings.real
    times = one.slowest_cpu / two.slowest_cpu
    return Claim(
        OURS,
        "a ring of two slots shares the work of one, and keeps each row once",
        f"the slowest slot takes {one.slowest_cpu:.2f} s of CPU with one slot and {two.slowest_cpu:.2f} s with two, "
        f"{times:.2f} times less; {one.results:,} results both; {one.most_state_rows:,} and {two.most_state_rows:,} "
        "rows at most",
        times >= SHARED and one.most_state_rows == two.most_state_rows,
        WHY_REAL if times < SHARED else "",
    )


def _real_price(findings: Findings) -> Claim:
    one = findings.real[0]
    ratio = one.all_cpu / expected_cpu(one)
    return Claim(
        OURS,
        "T_j times the comparisons is what a ring takes",
        f"{one.comparisons:,} comparisons at {one.compare * 1e9:.0f} ns are {expected_cpu(one):.2f} s of CPU; the "
        f"tasks took {one.all_cpu:.2f} s, {ratio:.2f} times that",
        0.5 <= ratio <= 2.0,
    )


def _list(values: Iterable[object]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}"


CHECKS: Sequence[Callable[[Findings], Claim]] = (
    _loads,
    _more_matches,
    _minimum,
    _fourteen,
    _direction,
    _model,
    _flat_state,
    _streams,
    _pictures,
    _interleaving,
    _atr_response,
    _atr_state,
    _atr_copies,
    _ctr_response,
    _ctr_copies,
    _ctr_state,
    _adapted,
    _level,
    _passive,
    _smoothed,
    _real_share,
    _real_price,
)
