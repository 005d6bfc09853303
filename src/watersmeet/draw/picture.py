"""A physical plan as a picture: an SVG text with the tree of joins, rates on its edges and sizes on its states.

Results stand at the top and streams at the bottom, so rows rise. A join is a card that reaches over all its inputs; an
input is a straight pipe that enters the card through a drum, the state that it keeps. A pipe is as thick as the
logarithm of its rate. Cards of one stage stand on one tint; where rows move to another stage, a dashed label says on
what they are hashed. A routed join has a drum for each key of an input, and shows its hops as columns, one stage each.

`sketch.py` says what there is to draw and gives each part of the tree a stretch of the width to itself, and `cards.py`
draws it; this file has the frame. Nothing crosses, and text can only be too long. It is cut then (`svg.py`). Pure:
reads the plan and the figures alone.
"""

from __future__ import annotations

from watersmeet.draw.cards import Flows, TreeDrawing
from watersmeet.draw.looks import FAINT, LEAST_WIDTH, MARGIN, MOST_WHY_LINES, PLAIN, RULE, SMALL, TITLE
from watersmeet.draw.sketch import sketch_plan
from watersmeet.draw.svg import WATER, Canvas, clean, wrap
from watersmeet.draw.words import counted
from watersmeet.plan.physical import PhysicalPlan


def draw_plan(plan: PhysicalPlan, flows: Flows, reason: str, source: str = "estimated") -> str:
    """The plan as SVG. `reason` says why this tree; `source` how rates and sizes are known: estimated, or measured.

    `flows` has an entry for the streams of each input of each join, and one for all streams: the results.
    """
    root = sketch_plan(plan)
    width = max(LEAST_WIDTH, root.left + root.right + 2 * MARGIN)
    canvas = Canvas(width)
    top = _draw_title(canvas, plan, reason)
    bottom = TreeDrawing(canvas, plan, flows, root, top).draw((width + root.left - root.right) / 2)
    return canvas.finish(_draw_legend(canvas, source, bottom), f"plan {plan.tree}")


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
