"""How a routed join is shown: once, with the stage that its last hop is, and in a picture with a table of its hops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from watersmeet.draw.kinds import ShownInput, ShownJoin, Sizes, nodes_json, shown_joins, state_json
from watersmeet.draw.looks import CHECK, FAINT, SMALL, ink, tint
from watersmeet.draw.svg import Canvas, clean
from watersmeet.draw.words import check_text, classes_text, expression_text, visit_text
from watersmeet.optimize.comparisons import rings_of
from watersmeet.plan.hop import HopStage, RoutedInput, RoutedNode
from watersmeet.plan.physical import PhysicalPlan

ROW_HEIGHT = 15.0
MOST_CELL, MOST_NAME = 190.0, 130.0


@shown_joins.register(HopStage)
def _(stage: HopStage, plan: PhysicalPlan) -> tuple[ShownJoin, ...]:
    if not stage.is_last:
        return ()
    node = stage.node
    stages = tuple(range(stage.index - stage.hop, stage.index + 1))
    inputs = tuple(ShownInput(e.source, e.states, _probes(plan, node, e)) for e in node.inputs)
    return (
        ShownJoin(
            name=node.name,
            label=node.label,
            kind="ring" if node in rings_of(plan) else "routed join",
            how=", one stage a hop",
            tree=node.tree,
            stages=stages,
            keys=(),
            checks=_checks(plan, node),
            inputs=inputs,
            exchanges=stage.probes[0].exchanges,  # those of all origins are the same
            part=HopTable(stages, tuple((str(entry.source), *entry.probes) for entry in inputs)),
            filters=_filters(node),
        ),
    )


@nodes_json.register(HopStage)
def _(stage: HopStage, plan: PhysicalPlan, sizes: Sizes) -> list[dict[str, Any]]:
    node = stage.node
    return [
        {
            "id": node.label,
            "name": node.name,
            "tree": node.tree,
            "routed": True,
            "ring": node in rings_of(plan),
            "predicates": list(_checks(plan, node)),
            "filters": list(_filters(node)),
            "inputs": [
                {
                    "source": str(entry.source),
                    "route": [
                        {"input": str(node.inputs[other].source), "on": classes_text(plan, names) or "time"}
                        for other, names in entry.route
                    ],
                    "states": [state_json(state, sizes) for state in entry.states],
                }
                for entry in node.inputs
            ],
            "hop": stage.hop,
        }
    ]


def _checks(plan: PhysicalPlan, node: RoutedNode) -> tuple[str, ...]:
    return tuple(check_text(plan.query, expr) for expr in node.predicates)


def _filters(node: RoutedNode) -> tuple[str, ...]:
    return tuple(map(expression_text, node.filters))


def _probes(plan: PhysicalPlan, node: RoutedNode, entry: RoutedInput) -> tuple[str, ...]:
    return tuple(visit_text(plan, str(node.inputs[other].source), names) for other, names in entry.route)


@dataclass(frozen=True)
class HopTable:
    """A row for each input, a column for each hop; the dashes between are exchanges."""

    stages: tuple[int, ...]
    rows: tuple[tuple[str, ...], ...]  # for each input its name, then what it probes in each hop

    @property
    def width(self) -> float:
        return min(MOST_CELL * len(self.stages), sum(self._wanted()))

    @property
    def height(self) -> float:
        return (len(self.rows) + 1) * ROW_HEIGHT + 2

    def draw(self, canvas: Canvas, x: float, y: float, width: float) -> None:
        heads = [("rows of", FAINT), *((f"hop {i + 1}, stage {s}", ink(s)) for i, s in enumerate(self.stages))]
        widths = self._widths(width)
        for column, cells in enumerate(zip(*self.rows, strict=True)):
            head, colour = heads[column]
            if column:
                ground = tint(self.stages[column - 1])
                canvas.shape("rect", x=x, y=y, width=widths[column], height=self.height, fill=ground)
            if column > 1:
                ends = {"x1": x, "y1": y, "x2": x, "y2": y + self.height}
                canvas.shape("line", **ends, stroke=FAINT, stroke_width=1.4, stroke_dasharray="4 3")
            for row, text in enumerate((head, *cells)):
                style = CHECK if row else replace(SMALL, fill=colour)
                base = y + row * ROW_HEIGHT + 12
                canvas.text(x + (8 if column else 0), base, text, style, widths[column] - 12)
            x += widths[column]

    def _widths(self, width: float) -> list[float]:
        """Of the columns, if the table is `width` wide: hops share what the names leave."""
        names, *wanted = self._wanted()
        names = min(names, MOST_NAME)
        spare, share = (width - names - sum(wanted)) / len(wanted), (width - names) / sum(wanted)
        return [names, *(each + spare if spare > 0 else each * share for each in wanted)]

    def _wanted(self) -> list[float]:
        """What each column would like."""
        columns = zip(*self.rows, strict=True)
        return [max(80.0, *(CHECK.width(clean(cell)) + 16 for cell in column)) for column in columns]
