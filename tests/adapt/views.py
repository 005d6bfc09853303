"""Views for the tests of policies: short to write by hand, and random ones with many ties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from watersmeet.adapt.view import ColdView, GroupView, MemoryView, OperatorView
from watersmeet.model.ids import OperatorName

# ((A B) C) with one operator over the other.
LOWER = OperatorView("J1", depth=1, level=0, inputs=("A", "B"), row_bytes=(10.0, 8.0), spillable=True)
ROOT = OperatorView("J2", depth=0, level=1, inputs=("J1", "C"), row_bytes=(18.0, 10.0), spillable=True)


def group(operator: str, number: int, **figures: Any) -> GroupView:
    """A group of a two-way join with 100 bytes in memory, and whatever else is said."""
    defaults: dict[str, Any] = {
        "slot": 0,
        "rows": (5, 5),
        "bytes": (50, 50),
        "unique": 5.0,
        "last_use": 0.0,
        "local_output": 0.0,
        "global_output": 0.0,
        "inter_bytes": 0.0,
        "arrivals": (0.0, 0.0),
        "recent_local": 0.0,
        "recent_global": 0.0,
    }
    return GroupView(operator, number, **{**defaults, **figures})


def cold(operator: str, number: int, *generations: Sequence[int], unique: float = 1.0, size: int = 100) -> ColdView:
    """The closed generations of a group, each given as its rows by input."""
    together = tuple(map(sum, zip(*generations, strict=True)))
    within = float(sum(map(math.prod, generations)))
    return ColdView(OperatorName(operator), number, len(generations), together, within, size, unique)


def memory(*groups: GroupView, **figures: Any) -> MemoryView:
    """A view of ((A B) C) after batch 9."""
    defaults: dict[str, Any] = {
        "batch": 9,
        "budget_bytes": None,
        "active_bytes": sum(entry.size_bytes for entry in groups),
        "seconds": 1.0,
        "arrivals_total": 100.0,
        "operators": (LOWER, ROOT),
        "groups": groups,
    }
    return MemoryView(**{**defaults, **figures})


@st.composite
def operators(draw: st.DrawFn, most_inputs: int = 4) -> tuple[OperatorView, ...]:
    """A plan of up to four joins, each fed by streams and by any joins that feed nothing yet; the last is the root."""
    count = draw(st.integers(1, 4))
    loose: list[str] = []
    feeds: dict[str, tuple[str, ...]] = {}
    for number in range(1, count + 1):
        fed_by = loose if number == count else [id for id in loose if draw(st.booleans())]
        fed_by = fed_by[:most_inputs]
        streams = draw(st.integers(max(0, 2 - len(fed_by)), most_inputs - len(fed_by)))
        feeds[f"J{number}"] = (*fed_by, *(f"S{number}{place}" for place in range(streams)))
        loose = [id for id in loose if id not in fed_by] + [f"J{number}"]
    above = {source: id for id, sources in feeds.items() for source in sources}

    def depth(id: str) -> int:
        return 1 + depth(above[id]) if id in above else 0

    def level(id: str) -> int:
        return max((1 + level(source) for source in feeds[id] if source in feeds), default=0)

    widths = st.sampled_from([1.0, 8.0, 10.0, 100.0])
    return tuple(
        OperatorView(
            id, depth(id), level(id), sources, tuple(draw(widths) for _ in sources), draw(st.integers(0, 5)) > 0
        )
        for id, sources in feeds.items()
    )


@st.composite
def views(draw: st.DrawFn, most_inputs: int = 4) -> MemoryView:
    """Any plan, groups and cold generations. Figures are small, so that many are equal or nothing."""
    plan = draw(operators(most_inputs))
    counts, figures = st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0, 3.0, 0.1])
    groups, colds = [], []
    for operator in plan:
        sides = len(operator.inputs)
        for number in draw(st.sets(st.integers(0, 9), max_size=6)):
            groups.append(
                GroupView(
                    operator.id,
                    number,
                    slot=number % 2,
                    rows=tuple(draw(counts) for _ in range(sides)),
                    bytes=tuple(10 * draw(counts) for _ in range(sides)),
                    unique=draw(figures),
                    last_use=float(draw(st.integers(0, 9))),
                    local_output=draw(figures),
                    global_output=draw(figures),
                    inter_bytes=draw(figures) * 100,
                    arrivals=tuple(draw(figures) for _ in range(sides)),
                    recent_local=draw(figures),
                    recent_global=draw(figures),
                )
            )
        for number in draw(st.sets(st.integers(0, 9), max_size=4)):
            generations = tuple(tuple(draw(counts) for _ in range(sides)) for _ in range(draw(st.integers(1, 3))))
            made = cold(operator.id, number, *generations, size=draw(counts) * 10, unique=draw(figures))
            cooled = tuple(draw(counts) for _ in range(sides)) if draw(st.booleans()) else ()
            colds.append(replace(made, passed=draw(st.booleans()), cooled=cooled, cooled_bytes=10 * sum(cooled)))
    return MemoryView(
        batch=draw(st.integers(9, 12)),
        budget_bytes=draw(st.none() | st.integers(1, 1000)),
        active_bytes=sum(entry.size_bytes for entry in groups),
        seconds=draw(st.sampled_from([0.5, 1.0, 2.0])),
        arrivals_total=sum(sum(entry.arrivals) for entry in groups),
        operators=plan,
        groups=tuple(groups),
        cold=tuple(colds),
    )
