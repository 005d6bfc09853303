"""Line plots in one style, as PNG.

A chart is data; `draw` turns it into a picture. matplotlib is imported when the first chart is drawn, or by
`require_matplotlib`, which a command calls before it measures anything: to lack it at the end would be late. A line's
name decides its colour and dashes, so that a plan looks the same on every chart, and lines that lie on each other can
still be told apart.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import JobError

# Okabe and Ito's colours, which people with any kind of colour vision tell apart; in order of the lines of a chart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
DASHES = ("solid", (0, (5, 2)), (0, (7, 1.5, 1.5, 1.5)), (0, (1, 1)), (0, (8, 3)), (0, (3, 2)))
SIZE_INCHES = (6.4, 3.5)
DOTS_PER_INCH = 150


@dataclass(frozen=True)
class Line:
    """What one line shows. `broken` says why it had to stop; its end is then marked with a cross."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    broken: str = ""


@dataclass(frozen=True)
class Chart:
    """What to draw. `names` are those of all lines that this chart and its neighbours may have: a line's place there is
    its look. The scale starts at 0 and reaches `y_at_least`, so that what is small looks small.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    names: tuple[str, ...]
    y_unit: str = ""
    y_at_least: float = 0.0
    limit: float | None = None
    limit_label: str = ""
    moments: tuple[float, ...] = ()  # marked on the axis below, as when something was changed
    moments_label: str = ""


def require_matplotlib() -> Any:
    """The package, ready to draw into memory; a clear error where it is missing."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise JobError(
            "experiments need the package matplotlib",
            hint='Install it with: pip install ".[bench]"',
        ) from None
    return matplotlib


def draw(chart: Chart) -> bytes:
    """The chart as a PNG image."""
    require_matplotlib()
    # The object interface: no display, no global state, nothing to close.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator

    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for line in chart.lines:
        look = chart.names.index(line.name)
        colour = COLOURS[look % len(COLOURS)]
        style = DASHES[look % len(DASHES)]
        label = f"{line.name} (× {line.broken})" if line.broken else line.name
        alone = "o" if len(line.x) == 1 else None  # a single point is no line
        axes.plot(line.x, line.y, color=colour, linestyle=style, linewidth=1.8, label=label, marker=alone)
        if line.broken:
            axes.plot(line.x[-1:], line.y[-1:], color=colour, marker="x", markersize=9, markeredgewidth=2.4)
    if chart.limit is not None:
        axes.axhline(chart.limit, color="#555555", linewidth=1, linestyle=(0, (2, 2)), label=chart.limit_label)
    for number, moment in enumerate(chart.moments):
        label = chart.moments_label if number == 0 else "_"  # what begins so is not in the legend
        axes.axvline(moment, color="#999999", linewidth=1, linestyle=(0, (4, 3)), label=label)
    axes.set_title(chart.title, loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.set_xlim(left=0)
    axes.set_ylim(0, max(axes.get_ylim()[1], chart.y_at_least))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(EngFormatter(unit=chart.y_unit, sep=" " if chart.y_unit else ""))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9, loc="best")
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()
