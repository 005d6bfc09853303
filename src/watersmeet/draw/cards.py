"""Draws the tree of cards: results at the top, joins row by row under them, streams at the bottom.

Pipes are vertical, and everything below an input stays in the stretch that the sketch gave it: so nothing crosses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from watersmeet.draw.looks import (
    AMOUNT,
    COLUMN,
    DRUM_GAP,
    DRUM_HEIGHT,
    DRUM_TILT,
    DRUM_WIDTH,
    EXCHANGE_ROOM,
    HALO,
    MANY_STAGES,
    MOST_CARD,
    NAME,
    NECK,
    PAD,
    PIPE_ROOM,
    RATE,
    RESULTS_HEIGHT,
    RULE,
    SMALL,
    STATE_KEY,
    ink,
    tint,
)
from watersmeet.draw.sketch import CardInput, JoinCard, LeafCard
from watersmeet.draw.svg import WATER, WATER_LIGHT, Canvas, clean
from watersmeet.draw.words import stages_text
from watersmeet.model.quantities import bytes_text, count_text
from watersmeet.plan.physical import PhysicalPlan, State


class FlowLike(Protocol):
    """Rows a second into an input, and the rows and bytes that its state holds; 0 bytes where they are not known."""

    @property
    def rate(self) -> float: ...
    @property
    def rows(self) -> float: ...
    @property
    def bytes(self) -> float: ...


Flows = Mapping[frozenset[str], FlowLike]


class TreeDrawing:
    """Puts the tree under `top`: works out how high each row of it stands, then draws from the results down."""

    def __init__(self, canvas: Canvas, plan: PhysicalPlan, flows: Flows, root: JoinCard, top: float) -> None:
        self.canvas, self.plan, self.flows, self.root, self.top = canvas, plan, flows, root, top
        self.bottoms: dict[int, float] = {}  # of the cards of each level
        y = top + RESULTS_HEIGHT + PIPE_ROOM
        for level in range(root.level, 0, -1):
            row = [join for join in root.joins() if join.level == level]
            self.bottoms[level] = y + max(join.height for join in row)
            crossed = any(entry.exchange for join in row for entry in join.inputs)
            y = self.bottoms[level] + PIPE_ROOM + (EXCHANGE_ROOM if crossed else 0.0)
        leaves = [e.child for join in root.joins() for e in join.inputs if isinstance(e.child, LeafCard)]
        self.leaf_top, self.leaf_height = y, max(leaf.height for leaf in leaves)

    def draw(self, x: float) -> float:
        """Draw everything, with the root's middle at `x`; the y of the lower end."""
        self._tints(self.root, x)
        self._results(x)
        self._join(self.root, x)
        return self.leaf_top + self.leaf_height

    def _card_top(self, child: LeafCard | JoinCard) -> float:
        return self.leaf_top if isinstance(child, LeafCard) else self.bottoms[child.level] - child.height

    def _tints(self, join: JoinCard, x: float) -> None:
        ground = tint(join.stages[0]) if len(join.stages) == 1 else MANY_STAGES
        top, bottom = self._card_top(join) - HALO, self.bottoms[join.level] + HALO
        box = {"x": x - join.width / 2 - HALO, "width": join.width + 2 * HALO}
        self.canvas.shape("rect", **box, y=top, height=bottom - top, rx=14, fill=ground)
        for entry, offset in zip(join.inputs, join.offsets, strict=True):
            if not isinstance(entry.child, JoinCard):
                continue
            if not entry.exchange:  # the same stage goes on below
                neck = min(NECK, entry.child.width)
                low = self._card_top(entry.child)
                self.canvas.shape(
                    "rect",
                    x=x + offset - neck / 2,
                    y=bottom - HALO,
                    width=neck,
                    height=low - bottom + HALO,
                    fill=ground,
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

    def _join(self, join: JoinCard, x: float) -> None:
        canvas, left, inner = self.canvas, x - join.width / 2 + PAD, join.width - 2 * PAD
        y = self._card_top(join)
        with canvas.group("join", join.tree):
            box = {"x": x - join.width / 2, "y": y, "width": join.width, "height": join.height}
            canvas.shape("rect", **box, rx=8, fill="#ffffff", stroke=RULE)
            y += 8 + NAME.height
            stage = replace(SMALL, fill=ink(join.stages[0])) if len(join.stages) == 1 else SMALL
            canvas.text(left, y - 5, join.title, NAME, inner - SMALL.width(stages_text(join.stages)) - 8)
            canvas.text(left + inner, y - 5, stages_text(join.stages), stage, inner, "end")
            for line in join.lines:
                y += line.style.height
                canvas.text(left, y - 4, line.text, line.style, inner, tooltip=line.tooltip)
            if join.part:
                join.part.draw(canvas, left, y + 6, inner)
        bottom = self.bottoms[join.level]
        for entry, offset in zip(join.inputs, join.offsets, strict=True):
            self._probes(entry, x + offset, bottom - join.foot - DRUM_HEIGHT - 6)
            self._flow(join, entry, x + offset, bottom)
            if isinstance(entry.child, JoinCard):
                self._join(entry.child, x + offset)
            else:
                self._leaf(entry.child, x + offset)

    def _probes(self, entry: CardInput, x: float, bottom: float) -> None:
        lines = entry.probe_lines
        whole = "" if " ".join(lines) == entry.probes else entry.probes
        for i, line in enumerate(lines):
            base = bottom - 3 - (len(lines) - 1 - i) * SMALL.height
            self.canvas.text(x, base, line, SMALL, entry.column, "middle", whole)

    def _flow(self, join: JoinCard, entry: CardInput, x: float, bottom: float) -> None:
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
            room = entry.column if isinstance(entry.child, LeafCard) else entry.child.width
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
            if state.partials is not None:
                return  # how many groups there are is not estimated
            self.canvas.text(x, y + 38, f"{count_text(flow.rows)} rows", AMOUNT, DRUM_WIDTH - 8, "middle")
            if flow.bytes > 0:
                self.canvas.text(x, y + 52, bytes_text(flow.bytes), RATE, DRUM_WIDTH - 8, "middle")

    def _leaf(self, leaf: LeafCard, x: float) -> None:
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
