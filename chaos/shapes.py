"""Queries whose answer is arithmetic: what each row holds follows from its number, and so does what it meets.

Row `i` of a stream has `v = i`, `ts = i * STEP_US`, and each of its columns is `i` modulo a number of that column. Two
columns that are joined have the same modulus, so that rows meet where the difference of their numbers is a multiple of
it, and a window of `span` steps bounds all differences. The results that row `a` of the first stream takes part in are
therefore `a` plus a fixed list of *offsets*, the same for every `a`: nothing has to be joined to know them.

Windows are those of streams, or conditions between the event times of each pair, which bound the same differences.
Where rows meet *by bounds*, each equality is written as two inequalities: no hash serves, and the join runs as a ring.

Where results are *grouped*, each is a group by itself, over windows that slide by as much as they are wide: a row
counts at one boundary at most, so that a result comes once or, where no boundary falls between its newest row and the
first that leaves, not at all. It comes when all watermarks are past that, since the end of what has arrived is no end
(`at_end = "wait"`).

Without windows a column counts on: it is `i % modulus` within a *block* of rows and never comes again after it, so that
the answer stays in proportion to the input. There rows meet within a block alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

FILE_ROWS = 12  # of a stream, in order of time; one file
STEP_US = 100_000  # from a row to the next
FILE_US = FILE_ROWS * STEP_US
LATENESS_FILES = 2


@dataclass(frozen=True)
class Shape:
    name: str
    columns: Mapping[str, Mapping[str, int]]  # by stream: its columns, each with its modulus
    where: str
    span: int  # rows that meet are fewer steps apart than this: the window, or the block
    windowed: bool = True
    plan: str = "auto"
    memory: str = ""  # the budget; empty: none
    plans: tuple[str, ...] = ()  # that it may be changed to
    by_pairs: bool = False  # windows are conditions between the event times of each pair
    by_bounds: bool = False  # no equality says who meets whom
    ring: str = ""  # the way of a join without an equality, if it is not the usual one
    spills: bool = True  # it can keep to a budget
    grouped: bool = False

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The columns of results."""
        return (*(name.lower() for name in self.streams), *(["n", "window_end"] if self.grouped else []))

    @property
    def query(self) -> str:
        slide = f" SLIDE {self.width} MICROSECONDS" if self.grouped else ""
        window = f" [RANGE {self.width} MICROSECONDS{slide}]" if self.windowed and not self.by_pairs else ""
        columns = ", ".join(f"{name}.v AS {name.lower()}" for name in self.streams)
        froms = ", ".join(name + window for name in self.streams)
        groups = f" GROUP BY {', '.join(f'{name}.v' for name in self.streams)}" if self.grouped else ""
        counted = ", COUNT(*) AS n" if self.grouped else ""
        return f"SELECT {columns}{counted} FROM {froms} WHERE {self.conditions}{groups}"

    @property
    def width(self) -> int:
        """Of a window, in microseconds."""
        return self.span * STEP_US

    @property
    def conditions(self) -> str:
        """As the query has them."""
        found = [self.where]
        if self.by_bounds:
            found = [f"{one} {sign} {other}" for one, other in self._met for sign in ("<=", ">=")]
        if self.by_pairs:
            pairs = itertools.combinations(self.streams, 2)
            found += [f"ABS({one}.ts - {other}.ts) < {self.width}" for one, other in pairs]
        return " AND ".join(found)

    @property
    def _met(self) -> list[tuple[str, str]]:
        """The columns on which rows meet, as pairs."""
        pairs = [condition.split("=") for condition in self.where.split(" AND ")]
        return [(one.strip(), other.strip()) for one, other in pairs]

    def declared(self, stream: str) -> str:
        return ", ".join(f"{name} BIGINT" for name in (*self.columns[stream], "v", "ts"))

    def rows(self, stream: str, numbers: np.ndarray, times: np.ndarray | None = None) -> pa.Table:
        """The rows of these numbers; `times` in steps, where they are not the numbers themselves."""
        found = {name: self._value(numbers, modulus) for name, modulus in self.columns[stream].items()}
        return pa.table({**found, "v": numbers, "ts": (numbers if times is None else times) * STEP_US})

    def _value(self, numbers: np.ndarray, modulus: int) -> np.ndarray:
        value = numbers % modulus
        return value if self.windowed else value + numbers // self.span * modulus

    @cached_property
    def offsets(self) -> np.ndarray:
        """For each result that a row of the first stream may be in: where the rows of the others are, from its own."""
        first, *others = self.streams
        reach = range(-self.span + 1, self.span)
        found = []
        for place in itertools.product(reach, repeat=len(others)):
            at = {first: 0, **dict(zip(others, place, strict=True))}
            if max(at.values()) - min(at.values()) < self.span and self._meet(at):
                found.append(place)
        return np.array(found)

    def _meet(self, at: Mapping[str, int]) -> bool:
        for pair in self._met:
            (one, column), (other, _) = (side.split(".") for side in pair)
            if (at[one] - at[other]) % self.columns[one][column]:
                return False
        return True

    @cached_property
    def lookup(self) -> np.ndarray:
        """By differences to the row of the first stream, each plus the span: which offset that is; -1 for none."""
        found = np.full((2 * self.span + 1,) * (len(self.streams) - 1), -1)
        for number, place in enumerate(self.offsets):
            found[tuple(place + self.span)] = number
        return found


WINDOW = Shape(
    "window",
    {"A": {"k": 16}, "B": {"k": 16}, "C": {"k": 16}},
    "A.k = B.k AND B.k = C.k",
    20,
    plans=("(A B C)", "((A B) C)", "((A C) B)", "(A (B C))"),
)
UNBOUNDED = Shape(
    "unbounded", {"A": {"k": 16}, "B": {"k": 16}}, "A.k = B.k", 48, windowed=False, plans=("(A B)", "(B A)")
)
TREE = Shape(
    "tree",
    {"A": {"k": 9}, "B": {"k": 9, "m": 7}, "C": {"m": 7}},
    "A.k = B.k AND B.m = C.m",
    16,
    plan="((A B) C)",
    plans=("((A B) C)", "(A (B C))", "(A B C)"),
)
ROUTED = Shape(
    "routed",
    {"A": {"k": 5, "n": 3}, "B": {"k": 5, "m": 4}, "C": {"m": 4, "n": 3}},
    "A.k = B.k AND B.m = C.m AND C.n = A.n",
    16,
    plan="mjoin",
    plans=("(A B C)", "((A B) C)", "(A (B C))", "((A C) B)"),
)
PAIRS = replace(WINDOW, name="pairs", by_pairs=True)
RING = replace(
    WINDOW,
    name="ring",
    by_bounds=True,
    spills=False,
    plans=("(A B C)", "((A B) C)", "(A (B C))"),
)
MIXED = Shape(
    "mixed",
    {"A": {"k": 9}, "B": {"k": 9}, "C": {"k": 9}},
    "A.k = B.k",
    4,
    plan="((A B) C)",
    plans=("((A B) C)", "(A B C)"),
    spills=False,
)
GROUPED = replace(
    WINDOW,
    name="grouped",
    grouped=True,
    plans=("(A B C)", "((A B) C)", "((A{} B) C{})", "(A{} B{} C{})", "(A (B C))"),
)
ALIGNED = replace(RING, name="aligned", ring="atr", spills=True)


def within(shape: Shape, memory: str) -> Shape:
    """The same shape with a budget that it does not fit into."""
    return replace(shape, name=f"{shape.name}-budget", memory=memory)


SHAPES: tuple[Shape, ...] = (
    WINDOW,
    UNBOUNDED,
    TREE,
    ROUTED,
    within(WINDOW, "3000"),
    within(UNBOUNDED, "3000"),
    within(TREE, "3000"),
    within(ROUTED, "6000"),
    PAIRS,
    within(PAIRS, "3000"),
    GROUPED,
    within(GROUPED, "4000"),
    RING,
    MIXED,
    within(ALIGNED, "6000"),
)
