"""The findings of `ring_runs.py` as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from experiments import claims, ring
from experiments.figures import Chart, Line, draw
from experiments.page import Block, Code, Columns, Figure, Figures, Heading, Page, Paragraph, Table
from experiments.ring import Extent
from experiments.ring_claims import check_claims, modelled, ms
from experiments.ring_runs import TEXT, Adaptation, Curve, Findings, Point, central_load, expected_cpu, prices_text
from watersmeet.optimize.ring_cost import latency, response

TITLE = "Joins that no hash serves: a ring of time slices"

INTRODUCTION = (
    "Where no equality says which rows can meet, every row has to be compared with all that are in time for it. Wang "
    "and Rundensteiner (EDBT 2009) cut the windows of all streams into slices of time, one for each machine, and "
    "send rows and partial results round the ring that these form (PSP; with several rows at a time PSP-I). They ask "
    "how long it should be, and compare it with two ways that copy state: aligned (ATR) and coordinated tuple "
    "routing (CTR). This page does the same on a virtual clock, for 4 to 19 slots, with what comparing and sending "
    "pictures costs on this machine; and for real with one slot and two."
)

CAPTION = "What the paper says, and what came out here. A dash marks a claim of ours."

METHOD = (
    "Rows come as Poisson processes, 50 a second of each of three streams, with windows of 10 seconds. Each slot is "
    "a server with a queue. A row enters at the head, goes along the ring, and is compared with each slice of the "
    "next stream; what matches goes once round from where it was found, and so on; each visit takes its price for "
    "every row sent and every pair compared. How many pairs match is drawn. Response is the time from a row to a "
    "result of it, on average over results, with all waiting; the first window of a run does not count.",
    "Prices are measured: a comparison of two pictures in the way that the kernel brings pairs together, and rows "
    "with a picture sent over a pair of sockets, one by one. On a gigabit network, which the paper had, a picture "
    "takes its bytes in addition, and waits for those before it; without, it is the sockets of this machine. A "
    "partial result is sent as one row. Rows that age go from slot to slot, and cost a send at each.",
    "ATR and CTR have the same rows, prices and network. The first of ATR's streams is the master; others probe it "
    "first, so that no pair is compared twice. CTR keeps segments of one second in as many slots as there are "
    "copies, next to those of the segment before, and begins a segment when the one before is done. What it costs to "
    "find covers is left out.",
    "A ring that adapts is looked at every two seconds: by the rates of these, the cost model says how long it "
    "should be, up to 19 slots. Passive relocation leaves rows where they are; aggressive relocation stops the ring "
    "for as long as the slot with most to send takes. By count, a slice holds as many rows as were even at the last "
    "look.",
)


def scale_text(findings: Findings) -> str:
    cores = ", ".join(f"{central_load(findings, paper):.2f} at {paper:g}" for paper in ring.SELECTIVITIES)
    return (
        f"Rates are those of the paper divided by {findings.divisor}: {findings.rate:.1f} rows a second of each "
        "stream, the most with which four slots are half busy at the highest selectivity. One slot for all would "
        f"have to do {cores} of what it can. Runs last for {findings.extent.seconds:g} seconds, of ATR "
        f"{findings.extent.segment_seconds:g}, not 600; each point is the average of {len(findings.extent.seeds)} (of "
        "ATR and CTR one). Selectivities, windows, lengths, segments and copies are the paper's. Where more than "
        "three streams are joined, a row becomes one partial result at each step: with a selectivity of .1 there "
        "would be many times as many at every further one."
    )


def make_page(findings: Findings, machine: str) -> Page:
    """The page; `machine` says what it ran on."""
    found = check_claims(findings)
    curves = findings.curves
    blocks: list[Block] = [
        Paragraph(INTRODUCTION),
        claims.claims_table(found, CAPTION),
        Heading("Why, where it is otherwise"),
        *claims.reasons(found),
        Paragraph(f"Run on {machine}, in {findings.seconds:.0f} seconds. {scale_text(findings)}"),
        Heading("How long a ring should be (figures 8(a) and 8(b))"),
        Figures(tuple(_selectivities(findings))),
        Heading("More streams, larger pictures, fewer rows in flight"),
        Figures(tuple(_variants(findings))),
        Heading("Aligned tuple routing (figures 8(c) and 8(d))"),
        Figures(tuple(_atr(curves["atr"]))),
        Heading("Coordinated tuple routing (figures 8(e) and 8(f))"),
        Figures(tuple(_ctr(curves["ctr"]))),
        Heading("When rates double (figures 8(g) and 8(h))"),
        Figures(tuple(_doubled(findings))),
        _adaptations(findings),
        Heading("For real, with one slot and two"),
        Code(TEXT),
        Paragraph(REAL),
        _real(findings),
        Heading("How it was done"),
        *map(Paragraph, METHOD),
        _prices(findings),
        Heading("All lengths"),
        _lengths(curves, findings.extent),
    ]
    return Page(TITLE, tuple(blocks))


REAL = (
    "A ring of this package in the local runtime, over three streams of 400 rows a second by event time, read as "
    "fast as it goes. Slots are threads here: the CPU of the slot that takes most, batch by batch, is what a batch "
    "would take if each slot were a machine."
)

# --- tables -----------------------------------------------------------------------------------------------------------


def _prices(findings: Findings) -> Table:
    return Table(
        columns=(
            Columns("", ("pictures",), text=True),
            Columns("", ("bytes", "on a gigabit")),
            Columns("", ("measured",), text=True),
        ),
        rows=tuple(
            (picture.name, f"{picture.bytes:,}", ms(picture.wired.wire), prices_text(picture.prices))
            for picture in findings.pictures.values()
        ),
    )


def _adaptations(findings: Findings) -> Table:
    return Table(
        columns=(
            Columns("", ("run",), text=True),
            Columns("response", ("before", "window after", "then")),
            Columns("", ("busiest slot", "slots")),
        ),
        rows=tuple(
            (
                entry.name,
                ms(entry.before),
                ms(entry.during),
                ms(entry.after),
                f"{entry.busy:.0%}",
                " → ".join(str(slots) for _, slots in entry.lengths),
            )
            for entry in (*findings.doubled, *findings.bursts)
        ),
        caption="Rates double half-way. In the last two runs they come in bursts from the start.",
    )


def _real(findings: Findings) -> Table:
    return Table(
        columns=(
            Columns("", ("slots", "rows", "results", "rows kept")),
            Columns("seconds", ("by the clock", "CPU", "CPU of slowest slot")),
            Columns("comparisons", ("all", "each (ns)", "expected CPU (s)")),
        ),
        rows=tuple(
            (
                str(run.slots),
                f"{run.rows:,}",
                f"{run.results:,}",
                f"{run.most_state_rows:,}",
                f"{run.seconds:.2f}",
                f"{run.cpu_seconds:.2f}",
                f"{run.slowest_cpu:.2f}",
                f"{run.comparisons:,}",
                f"{run.compare * 1e9:.1f}",
                f"{expected_cpu(run):.2f}",
            )
            for run in findings.real
        ),
    )


def _lengths(curves: Mapping[str, tuple[Curve, ...]], extent: Extent) -> Table:
    rows = [
        (
            group,
            curve.name,
            *(
                next((ms(point.response) for point in curve.points if point.slots == slots), "")
                for slots in extent.lengths
            ),
        )
        for group, entries in curves.items()
        for curve in entries
    ]
    return Table(
        columns=(
            Columns("", ("", "run"), text=True),
            Columns("response by slots", tuple(map(str, extent.lengths))),
        ),
        rows=tuple(rows),
    )


# --- charts -----------------------------------------------------------------------------------------------------------

CROWDED = 0.85  # of a slot: where it is busier, the response is that of a queue that has not settled, and not drawn


def _selectivities(findings: Findings) -> Iterable[Figure]:
    for name, title in (("gigabit", "on a gigabit network"), ("sockets", "with the sockets of this machine")):
        yield _responses(f"ring-8a-{name}", f"Response of the ring {title}", findings.curves[name])
    yield _states("ring-8b-state", "State of the ring", findings.curves["gigabit"])
    yield _models(findings)


def _models(findings: Findings) -> Figure:
    """What was run beside what the cost model has for it."""
    curve, lengths = findings.curves["gigabit"][1], findings.extent.lengths
    joined = modelled(findings, ring.MIDDLE)
    names = ("simulated", "model with queues", "equation 5")
    lines = (
        Line(names[0], *_points(curve, lambda point: point.response * 1e3)),
        Line(names[1], lengths, [response(joined, slots) * 1e3 for slots in lengths]),
        Line(names[2], lengths, [latency(joined, slots) * 1e3 for slots in lengths]),
    )
    return _figure(
        "ring-model", Chart("The cost model, selectivity 0.1, gigabit", "slots", "response, ms", lines, names)
    )


def _variants(findings: Findings) -> Iterable[Figure]:
    curves = findings.curves
    yield _responses("ring-streams", "Joins of more streams, one partial result at each step", curves["streams"])
    yield _responses("ring-pictures", "Pictures of 5, 10 and 20 thousand pixels", curves["pictures"])
    flights = (*curves["in flight"], Curve("PSP-I, any number", curves["gigabit"][-1].points))
    yield _responses("ring-in-flight", "Rows in flight at a time, selectivity 0.5", flights)


def _atr(curves: Sequence[Curve]) -> Iterable[Figure]:
    yield _responses("ring-8c-response", "Response of ATR", curves)
    yield _states("ring-8d-state", "State of ATR, purged by what arrives", curves, lambda point: point.kept_rows)
    yield _states("ring-8d-alive", "State of ATR, purged by time", curves)


def _ctr(curves: Sequence[Curve]) -> Iterable[Figure]:
    yield _responses("ring-8e-response", "Response of CTR", curves)
    yield _states("ring-8f-state", "State of CTR", curves)


def _doubled(findings: Findings) -> Iterable[Figure]:
    short, still, passive, aggressive, smoothed = findings.doubled
    at = findings.extent.adapting_seconds / 2
    yield _course("ring-8g-adaptation", "With adaptation", (aggressive, smoothed), at)
    yield _course("ring-8h-none", "Without adaptation", (still,), at)
    yield _course("ring-8h-short", "Without adaptation, the shortest ring", (short,), at)
    yield _course("ring-passive", "Two ways to a longer ring", (passive, aggressive), at)
    yield _course("ring-bursts", "Slices by time and by count, rates in bursts", findings.bursts, None)


def _course(name: str, title: str, runs: Sequence[Adaptation], at: float | None) -> Figure:
    names = tuple(run.name for run in runs)
    lines = tuple(Line(run.name, run.times, [1e3 * value for value in run.responses]) for run in runs)
    chart = Chart(
        title,
        "seconds",
        "response, ms",
        lines,
        names,
        moments=() if at is None else (at,),
        moments_label="rates double",
    )
    return _figure(name, chart)


ROOM = 1.4  # times the largest state, that charts of it reach: the legend has to stand somewhere


def _states(
    name: str, title: str, curves: Sequence[Curve], value: Callable[[Point], float] = lambda point: point.state_rows
) -> Figure:
    lines = _lines(curves, value)
    top = ROOM * max(value for line in lines for value in line.y)
    names = tuple(curve.name for curve in curves)
    return _figure(name, Chart(title, "slots", "rows in all slots", lines, names, y_at_least=top))


def _responses(name: str, title: str, curves: Sequence[Curve]) -> Figure:
    lines = _lines(curves, lambda point: point.response * 1e3)
    return _figure(name, Chart(title, "slots", "response, ms", lines, tuple(curve.name for curve in curves)))


def _lines(curves: Sequence[Curve], value: Callable[[Point], float]) -> tuple[Line, ...]:
    return tuple(Line(curve.name, *_points(curve, value)) for curve in curves)


def _points(curve: Curve, value: Callable[[Point], float]) -> tuple[list[float], list[float]]:
    drawn = [point for point in curve.points if point.busy < CROWDED]
    return [point.slots for point in drawn], [value(point) for point in drawn]


def _figure(name: str, chart: Chart) -> Figure:
    return Figure(name, draw(chart), chart.title)
