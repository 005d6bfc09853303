"""A physical plan as a picture: an SVG text with the tree of joins, rates on its edges and sizes on its states.

Results stand at the top and streams at the bottom, so rows rise. A join is a card that reaches over all its inputs; an
input is a straight pipe that enters the card through a drum, the state that it keeps. A pipe is as thick as the
logarithm of its rate. Cards of one stage stand on one tint; where rows move to another stage, a dashed label says on
what they are hashed. A routed join has a drum for each key of an input, and shows its hops as columns, one stage each.

Every part of the tree has a stretch of the width to itself, and pipes are vertical: so nothing crosses, and text can
only be too long. It is cut then (`svg.py`). Pure: reads the plan and the figures alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from watersmeet.draw.explain import (
    classes_text,
    counted,
    expression_text,
    filters_text,
    find_node,
    hashed_on,
    key_text,
    node_keys,
    outgoing,
    window_text,
)
from watersmeet.draw.svg import WATER, WATER_LIGHT, Canvas, Style, clean, wrap
from watersmeet.model.quantities import bytes_text, count_text
from watersmeet.plan.physical import AnyStage, Node, PhysicalPlan, RoutedNode, RoutedStage, State


class FlowLike(Protocol):
    """Rows a second into an input, and the rows and bytes that its state holds; 0 bytes where they are not known."""

    @property
    def rate(self) -> float: ...
    @property
    def rows(self) -> float: ...
    @property
    def bytes(self) -> float: ...


Flows = Mapping[frozenset[str], FlowLike]

# Lengths are in pixels. Sizes were settled by looking at pictures of 2 to 12 streams.
MARGIN = 28.0
LEAST_WIDTH = 640.0
GAP = 22.0  # between two inputs of a join
PAD = 14.0  # inside a card
HALO = 9.0  # the tint of the stage round a card
DRUM_WIDTH, DRUM_HEIGHT, DRUM_TILT = 112.0, 62.0, 6.0
DRUM_GAP = 10.0
COLUMN = 124.0  # the least width of an input
MOST_CARD = 380.0  # a card grows to this for the sake of its text; inputs may make it wider
MOST_STREAM = 200.0
MOST_CELL, MOST_NAME = 190.0, 130.0  # in the table of a routed join
NECK = 96.0  # of the tint between two cards of one stage
RESULTS_HEIGHT = 42.0
ROW_HEIGHT = 15.0
PIPE_ROOM = 54.0  # under a card, for the label with the rate
EXCHANGE_ROOM = 26.0  # and for that of an exchange
MOST_CHECKS, MOST_PROBE_LINES, MOST_WHY_LINES = 5, 4, 8

FAINT, RULE = "#5c6b7a", "#b8c4cf"
WATER_DARK = "#1c5a88"
STAGES = (  # tint and ink of each stage, over and over
    ("#f3ecdd", "#7a5a10"),
    ("#e4f1e4", "#2d6e3a"),
    ("#efe6f5", "#6a3d92"),
    ("#fbe6e2", "#a03a2a"),
    ("#dff0ef", "#17696b"),
    ("#e9e9ee", "#4c5566"),
)
MANY_STAGES = "#e9edf1"  # round a routed join


def draw_plan(plan: PhysicalPlan, flows: Flows, reason: str, source: str = "estimated") -> str:
    """The plan as SVG. `reason` says why this tree; `source` how rates and sizes are known: estimated, or measured.

    `flows` has an entry for the streams of each input of each join, and one for all streams: the results.
    """
    last = plan.stages[-1]
    root = _sketch_join(plan, last, last.node if isinstance(last, RoutedStage) else last.nodes[-1])
    width = max(LEAST_WIDTH, root.left + root.right + 2 * MARGIN)
    canvas = Canvas(width)
    top = _draw_title(canvas, plan, reason)
    bottom = _Drawing(canvas, plan, flows, root, top).draw((width + root.left - root.right) / 2)
    return canvas.finish(_draw_legend(canvas, source, bottom), f"plan {plan.tree}")


TITLE = Style(16, bold=True)
PLAIN = Style(11.5, fill=FAINT)
NAME = Style(13, bold=True)
KEY = Style(11, mono=True)
CHECK = Style(10, fill=FAINT, mono=True)
SMALL = Style(10, fill=FAINT)
RATE = Style(10.5, fill=WATER_DARK)
AMOUNT = Style(11.5, fill=WATER_DARK, bold=True)
STATE_KEY = Style(9, fill=FAINT, mono=True)


# --- what is drawn ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    text: str
    style: Style
    tooltip: str = ""

    @property
    def width(self) -> float:
        return self.style.width(clean(self.text))


@dataclass(frozen=True)
class _Leaf:
    """A stream: the card at the foot of a pipe."""

    lines: tuple[_Line, ...]
    width: float
    level: int = 0

    @property
    def left(self) -> float:
        return self.width / 2

    right = left

    @property
    def height(self) -> float:
        return 14 + sum(line.style.height for line in self.lines)


@dataclass(frozen=True)
class _Input:
    """One input of a join: its drums, the pipe into them, and what stands at its foot."""

    streams: frozenset[str]
    drums: tuple[tuple[State, str], ...]  # with the key that each is kept on
    probes: str  # empty for a routed join, whose hops say more
    child: _Leaf | _Join
    exchange: str  # empty where rows stay in their stage

    @property
    def column(self) -> float:
        """The width of its drums and of the text above them."""
        return max(COLUMN, len(self.drums) * (DRUM_WIDTH + DRUM_GAP) - DRUM_GAP)

    @property
    def probe_lines(self) -> list[str]:
        return wrap(self.probes, SMALL, self.column, MOST_PROBE_LINES)

    @property
    def left(self) -> float:
        return max(self.column / 2, self.child.left)

    @property
    def right(self) -> float:
        return max(self.column / 2, self.child.right)


@dataclass(frozen=True)
class _Join:
    """A join as a card. `left` and `right`: how far it and all below it reach from its middle."""

    title: str
    tree: str
    stages: tuple[int, ...]  # several for a routed join: one a hop
    lines: tuple[_Line, ...]
    hops: tuple[tuple[str, ...], ...]  # of a routed join: for each input its name, then what it probes in each hop
    inputs: tuple[_Input, ...]
    offsets: tuple[float, ...] = ()  # of each input from the middle
    width: float = 0.0
    left: float = 0.0
    right: float = 0.0

    @property
    def level(self) -> int:
        return 1 + max(entry.child.level for entry in self.inputs)

    @property
    def foot(self) -> float:
        """The room under the drums, where pipes enter and may fork."""
        return 18.0 if all(len(entry.drums) == 1 for entry in self.inputs) else 34.0

    @property
    def height(self) -> float:
        text = NAME.height + sum(line.style.height for line in self.lines)
        probes = max(len(entry.probe_lines) for entry in self.inputs) * SMALL.height
        table = (len(self.hops) + 1) * ROW_HEIGHT + 8 if self.hops else 0.0
        return 8 + text + 6 + probes + table + 6 + DRUM_HEIGHT + self.foot

    def joins(self) -> Iterator[_Join]:
        yield self
        for entry in self.inputs:
            if isinstance(entry.child, _Join):
                yield from entry.child.joins()


def _sketch_join(plan: PhysicalPlan, stage: AnyStage, node: Node | RoutedNode) -> _Join:
    keys: list[str] = []
    hops: tuple[tuple[str, ...], ...] = ()
    if isinstance(node, RoutedNode):
        title = f"{node.id} routed join"
        stages = tuple(range(stage.index - len(node.inputs) + 2, stage.index + 1))
        checks = [expression_text(expr) for expr in node.predicates]
        hops = tuple(
            (entry.source, *(f"{node.inputs[i].source} on {classes_text(plan, names)}" for i, names in entry.route))
            for entry in node.inputs
        )
    else:
        title, stages, keys = f"{node.id} join", (stage.index,), node_keys(plan, node)
        checks = [expression_text(expr) for _, expr in node.predicates]
    shown = checks if len(checks) <= MOST_CHECKS else checks[: MOST_CHECKS - 1]
    lines = [_Line(text if i == 0 else f"and {text}", KEY) for i, text in enumerate(keys)]
    lines += [_Line(f"checks {text}", CHECK) for text in shown]
    if len(shown) < len(checks):
        lines.append(_Line(f"and {len(checks) - len(shown)} more", CHECK, tooltip="\n".join(checks)))
    inputs = tuple(_sketch_input(plan, stage, node, index) for index in range(len(node.inputs)))
    head = NAME.width(title) + NAME.size + SMALL.width(_stages_text(stages))
    wanted = min(MOST_CARD, max(head, *(line.width for line in lines), 0.0))
    wanted = max(wanted, min(MOST_CELL * len(stages), sum(_cell_widths(hops))))
    return _place_inputs(_Join(title, node.tree, stages, tuple(lines), hops, inputs), wanted + 2 * PAD)


def _place_inputs(join: _Join, wanted: float) -> _Join:
    """`join` with its inputs side by side, each with all that is below it, and a card at least `wanted` wide."""
    inputs = join.inputs
    steps = [before.right + GAP + entry.left for before, entry in itertools.pairwise(inputs)]
    margins = inputs[0].column / 2 + inputs[-1].column / 2 + 2 * PAD
    more = max(0.0, wanted - sum(steps) - margins) / len(steps)
    places = list(itertools.accumulate((step + more for step in steps), initial=0.0))
    width = places[-1] + margins
    middle = width / 2 - inputs[0].column / 2 - PAD
    return replace(
        join,
        offsets=tuple(place - middle for place in places),
        width=width,
        left=max(width / 2 + HALO, middle + inputs[0].left),
        right=max(width / 2 + HALO, places[-1] - middle + inputs[-1].right),
    )


def _sketch_input(plan: PhysicalPlan, stage: AnyStage, node: Node | RoutedNode, index: int) -> _Input:
    if isinstance(node, RoutedNode):
        source, states, probes = node.inputs[index].source, node.inputs[index].states, ""
    else:
        source, states = node.inputs[index].source, (node.inputs[index].state,)
        probes = "probes " + ", ".join(clean(node.inputs[other].source) for other in node.orders[index])
    found = find_node(plan, node, source)
    exchange = ""
    if found is None:
        child: _Leaf | _Join = _sketch_leaf(plan, source)
    else:
        below, under = found
        child = _sketch_join(plan, below, under)
        if below is not stage:
            exchange = "exchange on " + " and on ".join(hashed_on(plan, each) for each in outgoing(below))
    drums = tuple((state, ", ".join(key_text(plan, field) for field in state.key_fields)) for state in states)
    return _Input(frozenset(states[0].aliases), drums, probes, child, exchange)


def _sketch_leaf(plan: PhysicalPlan, alias: str) -> _Leaf:
    entry = plan.query.input(alias)
    lines = [_Line(alias, NAME)]
    if alias != entry.stream.name:
        lines.append(_Line(f"stream {entry.stream.name}", SMALL))
    lines.append(_Line(window_text(entry.window), SMALL))
    if entry.filters:
        lines.append(_Line(f"where {filters_text(entry)}", CHECK))
    return _Leaf(tuple(lines), min(MOST_STREAM, max(COLUMN - 10, *(line.width + 20 for line in lines))))


def _stages_text(stages: tuple[int, ...]) -> str:
    return f"stage {stages[0]}" if len(stages) == 1 else f"stages {stages[0]} to {stages[-1]}"


def _cell_widths(hops: tuple[tuple[str, ...], ...]) -> list[float]:
    """What each column of a table of hops would like."""
    return [max(80.0, *(CHECK.width(clean(cell)) + 16 for cell in column)) for column in zip(*hops, strict=True)]


# --- the drawing ------------------------------------------------------------------------------------------------------


class _Drawing:
    """Puts the tree under `top`: works out how high each row of it stands, then draws from the results down."""

    def __init__(self, canvas: Canvas, plan: PhysicalPlan, flows: Flows, root: _Join, top: float) -> None:
        self.canvas, self.plan, self.flows, self.root, self.top = canvas, plan, flows, root, top
        self.bottoms: dict[int, float] = {}  # of the cards of each level
        y = top + RESULTS_HEIGHT + PIPE_ROOM
        for level in range(root.level, 0, -1):
            row = [join for join in root.joins() if join.level == level]
            self.bottoms[level] = y + max(join.height for join in row)
            crossed = any(entry.exchange for join in row for entry in join.inputs)
            y = self.bottoms[level] + PIPE_ROOM + (EXCHANGE_ROOM if crossed else 0.0)
        leaves = [e.child for join in root.joins() for e in join.inputs if isinstance(e.child, _Leaf)]
        self.leaf_top, self.leaf_height = y, max(leaf.height for leaf in leaves)

    def draw(self, x: float) -> float:
        """Draw everything, with the root's middle at `x`; the y of the lower end."""
        self._tints(self.root, x)
        self._results(x)
        self._join(self.root, x)
        return self.leaf_top + self.leaf_height

    def _card_top(self, child: _Leaf | _Join) -> float:
        return self.leaf_top if isinstance(child, _Leaf) else self.bottoms[child.level] - child.height

    def _tints(self, join: _Join, x: float) -> None:
        tint = _tint(join.stages[0]) if len(join.stages) == 1 else MANY_STAGES
        top, bottom = self._card_top(join) - HALO, self.bottoms[join.level] + HALO
        box = {"x": x - join.width / 2 - HALO, "width": join.width + 2 * HALO}
        self.canvas.shape("rect", **box, y=top, height=bottom - top, rx=14, fill=tint)
        for entry, offset in zip(join.inputs, join.offsets, strict=True):
            if not isinstance(entry.child, _Join):
                continue
            if not entry.exchange:  # the same stage goes on below
                neck = min(NECK, entry.child.width)
                low = self._card_top(entry.child)
                self.canvas.shape(
                    "rect", x=x + offset - neck / 2, y=bottom - HALO, width=neck, height=low - bottom + HALO, fill=tint
                )
            self._tints(entry.child, x + offset)

    def _results(self, x: float) -> None:
        names = ", ".join(column.name for column in self.plan.query.select)
        flow = self.flows[frozenset(self.plan.query.aliases)]
        bottom = self.top + RESULTS_HEIGHT
        width = min(max(MOST_CARD, self.root.width), max(COLUMN, SMALL.width(clean(names)) + 2 * PAD))
        with self.canvas.group("results"):
            box = {"x": x - width / 2, "y": self.top, "width": width, "height": RESULTS_HEIGHT}
            self.canvas.shape("rect", **box, rx=20, fill=WATER_LIGHT, stroke=WATER)
            self.canvas.text(x, self.top + 17, "results", NAME, width - 20, "middle")
            self.canvas.text(x, self.top + 32, names, SMALL, width - 20, "middle")
        with self.canvas.group("flow"):
            self.canvas.pipe(x, self._card_top(self.root), bottom, _thickness(flow.rate))
            self.canvas.label(x, bottom + 23, f"{count_text(flow.rate)} rows/s", RATE, MOST_CARD)

    def _join(self, join: _Join, x: float) -> None:
        canvas, left, inner = self.canvas, x - join.width / 2 + PAD, join.width - 2 * PAD
        y = self._card_top(join)
        with canvas.group("join", join.tree):
            box = {"x": x - join.width / 2, "y": y, "width": join.width, "height": join.height}
            canvas.shape("rect", **box, rx=8, fill="#ffffff", stroke=RULE)
            y += 8 + NAME.height
            stage = replace(SMALL, fill=_ink(join.stages[0])) if len(join.stages) == 1 else SMALL
            canvas.text(left, y - 5, join.title, NAME, inner - SMALL.width(_stages_text(join.stages)) - 8)
            canvas.text(left + inner, y - 5, _stages_text(join.stages), stage, inner, "end")
            for line in join.lines:
                y += line.style.height
                canvas.text(left, y - 4, line.text, line.style, inner, tooltip=line.tooltip)
            if join.hops:
                self._hops(join, left, y + 6, inner)
        bottom = self.bottoms[join.level]
        for entry, offset in zip(join.inputs, join.offsets, strict=True):
            self._probes(entry, x + offset, bottom - join.foot - DRUM_HEIGHT - 6)
            self._flow(join, entry, x + offset, bottom)
            if isinstance(entry.child, _Join):
                self._join(entry.child, x + offset)
            else:
                self._leaf(entry.child, x + offset)

    def _hops(self, join: _Join, x: float, y: float, width: float) -> None:
        """A table: a row for each input, a column for each hop; the dashes between are exchanges."""
        names, *wanted = _cell_widths(join.hops)
        names = min(names, MOST_NAME)
        spare, share = (width - names - sum(wanted)) / len(wanted), (width - names) / sum(wanted)
        widths = [names, *(each + spare if spare > 0 else each * share for each in wanted)]
        heads = [("rows of", FAINT), *((f"hop {i + 1}, stage {s}", _ink(s)) for i, s in enumerate(join.stages))]
        height = (len(join.hops) + 1) * ROW_HEIGHT + 2
        for column, cells in enumerate(zip(*join.hops, strict=True)):
            head, ink = heads[column]
            if column:
                tint = _tint(join.stages[column - 1])
                self.canvas.shape("rect", x=x, y=y, width=widths[column], height=height, fill=tint)
            if column > 1:
                ends = {"x1": x, "y1": y, "x2": x, "y2": y + height}
                self.canvas.shape("line", **ends, stroke=FAINT, stroke_width=1.4, stroke_dasharray="4 3")
            for row, text in enumerate((head, *cells)):
                style = CHECK if row else replace(SMALL, fill=ink)
                base = y + row * ROW_HEIGHT + 12
                self.canvas.text(x + (8 if column else 0), base, text, style, widths[column] - 12)
            x += widths[column]

    def _probes(self, entry: _Input, x: float, bottom: float) -> None:
        lines = entry.probe_lines
        whole = "" if " ".join(lines) == entry.probes else entry.probes
        for i, line in enumerate(lines):
            base = bottom - 3 - (len(lines) - 1 - i) * SMALL.height
            self.canvas.text(x, base, line, SMALL, entry.column, "middle", whole)

    def _flow(self, join: _Join, entry: _Input, x: float, bottom: float) -> None:
        """The pipe from what is below up into the drums, with its rate; forked where there are several drums."""
        flow = self.flows[entry.streams]
        thickness = _thickness(flow.rate)
        low, high = self._card_top(entry.child), bottom - join.foot
        pitch = DRUM_WIDTH + DRUM_GAP
        first = x - (len(entry.drums) - 1) * pitch / 2
        with self.canvas.group("flow"):
            if len(entry.drums) == 1:
                self.canvas.pipe(x, low, high, thickness)
            else:
                fork = bottom - 10
                last = first + (len(entry.drums) - 1) * pitch
                self.canvas.shape("line", x1=x, y1=low, x2=x, y2=fork, stroke=WATER, stroke_width=thickness)
                ends = {"x1": first - thickness / 2, "x2": last + thickness / 2, "y1": fork, "y2": fork}
                self.canvas.shape("line", **ends, stroke=WATER, stroke_width=thickness)
                for i in range(len(entry.drums)):
                    self.canvas.pipe(first + i * pitch, fork, high, thickness)
            room = entry.column if isinstance(entry.child, _Leaf) else entry.child.width
            self.canvas.label(x, bottom + HALO + 15, f"{count_text(flow.rate)} rows/s", RATE, room)
            if entry.exchange:
                self.canvas.label(x, bottom + HALO + 41, entry.exchange, SMALL, room, dashes="4 3")
        for i, (state, key) in enumerate(entry.drums):
            self._drum(state, key, flow, first + i * pitch, high - DRUM_HEIGHT)

    def _drum(self, state: State, key: str, flow: FlowLike, x: float, y: float) -> None:
        columns = ", ".join(name for name, _ in state.fields)
        with self.canvas.group("state", f"state {state.name}: {columns}"):
            self.canvas.drum(x - DRUM_WIDTH / 2, y, DRUM_WIDTH, DRUM_HEIGHT, DRUM_TILT)
            self.canvas.text(x, y + 23, f"by {key}", STATE_KEY, DRUM_WIDTH - 10, "middle")
            self.canvas.text(x, y + 38, f"{count_text(flow.rows)} rows", AMOUNT, DRUM_WIDTH - 8, "middle")
            if flow.bytes > 0:
                self.canvas.text(x, y + 52, bytes_text(flow.bytes), RATE, DRUM_WIDTH - 8, "middle")

    def _leaf(self, leaf: _Leaf, x: float) -> None:
        with self.canvas.group("stream"):
            box = {"x": x - leaf.width / 2, "y": self.leaf_top, "width": leaf.width, "height": self.leaf_height}
            self.canvas.shape("rect", **box, rx=8, fill=WATER_LIGHT, stroke=WATER)
            y = self.leaf_top + (self.leaf_height - leaf.height) / 2 + 4
            for line in leaf.lines:
                y += line.style.height
                self.canvas.text(x, y, line.text, line.style, leaf.width - 12, "middle")


def _thickness(rate: float) -> float:
    """Of a pipe: grows with the logarithm of the rate, and stays thin enough to pass between texts."""
    return min(12.0, 1.5 + 1.4 * math.log10(1 + rate))


def _tint(stage: int) -> str:
    return STAGES[stage % len(STAGES)][0]


def _ink(stage: int) -> str:
    return STAGES[stage % len(STAGES)][1]


def _draw_title(canvas: Canvas, plan: PhysicalPlan, reason: str) -> float:
    """What the picture shows and why the plan has this shape; the y where the tree may begin."""
    room = canvas.width - 2 * MARGIN
    y = MARGIN + 10
    canvas.text(MARGIN, y, f"plan {plan.tree}", TITLE, room)
    stages = counted(len(plan.stages), "stage")
    exchanges = counted(sum(len(stage.exchanges) for stage in plan.stages), "exchange")
    y += 20
    canvas.text(MARGIN, y, f"{stages}, {exchanges}", PLAIN, room)
    why = clean(f"why: {reason}")
    lines = wrap(why, PLAIN, room, MOST_WHY_LINES)
    for line in lines:
        y += PLAIN.height
        canvas.text(MARGIN, y, line, PLAIN, room, tooltip="" if " ".join(lines) == why else why)
    return y + 22


def _draw_legend(canvas: Canvas, source: str, y: float) -> float:
    """What the shapes mean and where the figures come from; the y of the lower end of the picture."""
    room = canvas.width - 2 * MARGIN
    y += 26
    canvas.shape("line", x1=MARGIN, y1=y, x2=canvas.width - MARGIN, y2=y, stroke=RULE)
    x, y = MARGIN, y + 22
    for sign, text in (
        ("pipe", "rate, on a log scale"),
        ("drum", "state that an input keeps"),
        ("dashes", "exchange between stages"),
    ):
        width = 34 + SMALL.width(text)
        if x > MARGIN and x + width > MARGIN + room:
            x, y = MARGIN, y + 20
        if sign == "pipe":
            canvas.shape("line", x1=x, y1=y - 4, x2=x + 26, y2=y - 4, stroke=WATER, stroke_width=6)
        elif sign == "drum":
            canvas.drum(x + 4, y - 12, 18, 16, 3)
        else:
            look = {"fill": "#ffffff", "stroke": FAINT, "stroke_dasharray": "4 3"}
            canvas.shape("rect", x=x, y=y - 10, width=26, height=12, rx=6, **look)
        canvas.text(x + 34, y, text, SMALL, room - 34)
        x += width + 20
    y += 6
    for line in wrap(clean(f"Rates and sizes are {source}."), SMALL, room, 3):
        y += SMALL.height
        canvas.text(MARGIN, y, line, SMALL, room)
    return y + MARGIN - 8
