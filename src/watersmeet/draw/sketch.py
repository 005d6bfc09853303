"""What the picture of a plan is made of: cards, the inputs that enter them, and how much room each takes.

Every part of the tree has a stretch of the width to itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from watersmeet.draw.kinds import Part, ShownInput, ShownJoin, all_joins
from watersmeet.draw.looks import (
    CHECK,
    COLUMN,
    DRUM_GAP,
    DRUM_HEIGHT,
    DRUM_WIDTH,
    GAP,
    HALO,
    KEY,
    MOST_CARD,
    MOST_CHECKS,
    MOST_PROBE_LINES,
    MOST_STREAM,
    NAME,
    PAD,
    SMALL,
)
from watersmeet.draw.svg import Style, clean, wrap
from watersmeet.draw.words import filters_text, key_text, stages_text, where_to, window_text
from watersmeet.model.ids import OperatorName
from watersmeet.plan.pair_windows import stay_text
from watersmeet.plan.physical import FromInput, PhysicalPlan, State
from watersmeet.plan.tree import marks_of


@dataclass(frozen=True)
class Line:
    text: str
    style: Style
    tooltip: str = ""

    @property
    def width(self) -> float:
        return self.style.width(clean(self.text))


@dataclass(frozen=True)
class LeafCard:
    """A stream: the card at the foot of a pipe."""

    lines: tuple[Line, ...]
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
class CardInput:
    """One input of a join: its drums, the pipe into them, and what stands at its foot."""

    streams: frozenset[str]
    drums: tuple[tuple[State, str], ...]  # with the key that each is kept on
    probes: str  # empty where the part of the card says more
    child: LeafCard | JoinCard
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
class JoinCard:
    """A join as a card. `left` and `right`: how far it and all below it reach from its middle."""

    title: str
    tree: str
    stages: tuple[int, ...]
    lines: tuple[Line, ...]
    part: Part | None
    inputs: tuple[CardInput, ...]
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
        part = self.part.height + 6 if self.part else 0.0
        return 8 + text + 6 + probes + part + 6 + DRUM_HEIGHT + self.foot

    def joins(self) -> Iterator[JoinCard]:
        yield self
        for entry in self.inputs:
            if isinstance(entry.child, JoinCard):
                yield from entry.child.joins()


def sketch_plan(plan: PhysicalPlan) -> JoinCard:
    """The card of the join that emits results, with all that is below it."""
    joins = all_joins(plan)
    *_, last = joins.values()
    return _sketch_join(plan, joins, last)


def _sketch_join(plan: PhysicalPlan, joins: dict[OperatorName, ShownJoin], join: ShownJoin) -> JoinCard:
    inputs = tuple(_sketch_input(plan, joins, join, entry) for entry in join.inputs)
    card = JoinCard(join.title, join.tree, join.stages, _sketch_lines(join), join.part, inputs)
    head = NAME.width(join.title) + NAME.size + SMALL.width(stages_text(join.stages))
    wanted = min(MOST_CARD, max(head, *(line.width for line in card.lines), 0.0))
    return _place_inputs(card, max(wanted, join.part.width if join.part else 0.0) + 2 * PAD)


def _sketch_lines(join: ShownJoin) -> tuple[Line, ...]:
    """Keys and checks, and filters that stand above it; of many of these the first few."""
    checks = (*(f"checks {text}" for text in join.checks), *(f"then filters {text}" for text in join.filters))
    shown = checks if len(checks) <= MOST_CHECKS else checks[: MOST_CHECKS - 1]
    lines = [Line(text if i == 0 else f"and {text}", KEY) for i, text in enumerate(join.keys)]
    lines += [Line(text, CHECK) for text in (*shown, *join.notes)]
    if len(shown) < len(checks):
        lines.append(Line(f"and {len(checks) - len(shown)} more", CHECK, tooltip="\n".join(checks)))
    return tuple(lines)


def _place_inputs(join: JoinCard, wanted: float) -> JoinCard:
    """`join` with its inputs side by side, each with all that is below it, and a card at least `wanted` wide."""
    inputs = join.inputs
    steps = [before.right + GAP + entry.left for before, entry in itertools.pairwise(inputs)]
    margins = inputs[0].column / 2 + inputs[-1].column / 2 + 2 * PAD
    more = max(0.0, wanted - sum(steps) - margins) / max(1, len(steps))
    places = list(itertools.accumulate((step + more for step in steps), initial=0.0))
    width = max(wanted, places[-1] + margins) if not steps else places[-1] + margins
    middle = (width / 2 - inputs[0].column / 2 - PAD) if steps else 0.0
    return replace(
        join,
        offsets=tuple(place - middle for place in places),
        width=width,
        left=max(width / 2 + HALO, middle + inputs[0].left),
        right=max(width / 2 + HALO, places[-1] - middle + inputs[-1].right),
    )


def _sketch_input(
    plan: PhysicalPlan, joins: dict[OperatorName, ShownJoin], join: ShownJoin, entry: ShownInput
) -> CardInput:
    exchange = ""
    if isinstance(entry.source, FromInput):
        child: LeafCard | JoinCard = _sketch_leaf(plan, entry.source.alias)
    else:
        below = joins[entry.source.name]
        child = _sketch_join(plan, joins, below)
        if join.receives(below):
            exchange = f"exchange {where_to(plan, below.exchanges)}"
    probes = "" if join.part or not entry.probes else f"probes {', '.join(map(clean, entry.probes))}"
    drums = tuple((state, key_text(plan, state.key)) for state in entry.states)
    return CardInput(join.streams or frozenset(entry.states[0].aliases), drums, probes, child, exchange)


def _sketch_leaf(plan: PhysicalPlan, alias: str) -> LeafCard:
    entry = plan.query.input(alias)
    lines = [Line(alias, NAME)]
    if alias != entry.stream.name:
        lines.append(Line(f"stream {entry.stream.name}", SMALL))
    lines.append(Line(window_text(entry.window), SMALL))
    if plan.spec.pairs:
        lines.append(Line(stay_text(plan.query.reach_with(plan.spec.pairs), alias), SMALL))
    if filters := plan.filters_at(alias):
        lines.append(Line(f"where {filters_text(filters)}", CHECK))
    if alias in marks_of(plan.spec.tree):
        lines.append(Line("alike combined" if marks_of(plan.spec.tree)[alias] else "weighed", CHECK))
    return LeafCard(tuple(lines), min(MOST_STREAM, max(COLUMN - 10, *(line.width + 20 for line in lines))))
