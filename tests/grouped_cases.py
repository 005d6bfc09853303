"""Cases for queries with groups: those of `strategies.py`, with what they join grouped, and single streams.

As there, the text and what it means are made side by side, with nothing of `src` in between: an aggregate is a piece of
SQL together with the function that computes it over the combinations of a group.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import oracle
from sql_terms import Term, build, column, every
from strategies import Case, cases

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = Context(prec=200)
Group = Sequence[oracle.Combination]


@dataclass(frozen=True)
class Output:
    """A column of the results, over a group."""

    text: str
    compute: Callable[[Group], Any] = field(repr=False)


@dataclass(frozen=True)
class GroupedCase:
    case: Case  # what is joined, with the text of the whole query
    groups: list[Term]
    outputs: list[Output]
    having: Output | None
    slide_us: int | None  # None: running totals
    time_type: pa.DataType

    def __repr__(self) -> str:
        return repr(self.case)

    def answer(self, ends: Sequence[int] = ()) -> Counter[tuple[Any, ...]]:
        """What is emitted at boundaries; for running totals, the totals in the end."""
        joined, _, _ = oracle.join(
            self.case.batches,
            self.case.inputs,
            every(self.case.conditions),
            {name: stream.lateness_us for name, stream in self.case.streams.items()},
        )
        if self.slide_us is None:
            return Counter(self._results([entry.rows for entry in joined], ()))
        found: Counter[tuple[Any, ...]] = Counter()
        for boundary, rows in oracle.at_boundaries(joined, self.slide_us, ends).items():
            found.update(self._results(rows, (self._time(boundary),)))
        return found

    def _results(self, rows: Group, end: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        groups = oracle.group(rows, self._key)
        if not rows and not self.groups and self.slide_us is None:
            groups = [[]]  # all rows are one group, even if there are none
        kept = [group for group in groups if self.having is None or self.having.compute(group) is True]
        return [(*(rounded(output.compute(group)) for output in self.outputs), *end) for group in kept]

    def _key(self, rows: oracle.Combination) -> tuple[Any, ...]:
        return tuple(term.compute(rows) for term in self.groups)

    def _time(self, boundary_us: int) -> Any:
        if self.time_type == pa.int64():
            return boundary_us
        return _EPOCH + timedelta(microseconds=boundary_us)


def rounded(value: Any) -> Any:
    """Sums of numbers with a point may differ in their last digits with the order of the rows."""
    return float(f"{value:.9e}") if isinstance(value, float) else value


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(rows_of(table))


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [map(rounded, column.to_pylist()) for column in table.columns]
    return list(zip(*columns, strict=True))


def latest(rows: Sequence[tuple[Any, ...]], group_columns: int) -> Counter[tuple[Any, ...]]:
    """The last row of each group, of rows that begin with the columns of their group."""
    return Counter({row[:group_columns]: row for row in rows}.values())


# --- aggregates ------------------------------------------------------------------------------------------------------


def _over(term: Term, function: Callable[[list[Any]], Any]) -> Callable[[Group], Any]:
    """A function of the values of a group that are not NULL; NULL where there are none."""

    def compute(group: Group) -> Any:
        values = [value for rows in group if (value := term.compute(rows)) is not None]
        return function(values) if values else None

    return compute


def _average(values: list[Any]) -> Any:
    if isinstance(values[0], Decimal):
        scale = -values[0].as_tuple().exponent + 4
        total = _EXACT.divide(sum(values, Decimal(0)), Decimal(len(values)))
        return total.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    return float(sum(map(Decimal, values))) / len(values) if isinstance(values[0], int) else sum(values) / len(values)


def _aggregates(term: Term, kind: pa.DataType) -> list[Output]:
    found = [
        Output(f"COUNT({term.text})", lambda group: sum(term.compute(rows) is not None for rows in group)),
        Output(f"min({term.text})", _over(term, min)),
        Output(f"MAX({term.text})", _over(term, max)),
    ]
    numeric = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if (numeric and kind.bit_width != 64) or kind == pa.float64() or term.text.endswith(".v"):
        total = math.fsum if kind == pa.float64() else sum
        found += [Output(f"SUM({term.text})", _over(term, total)), Output(f"AVG({term.text})", _over(term, _average))]
    return found


_ROWS = Output("COUNT(*)", len)


def _computed(a: str, b: str) -> list[Output]:
    """Expressions over aggregates."""
    both = build("{} + {}", lambda x, y: x + y, column(a, "v"), column(b, "v"))
    total = _over(column(a, "v"), sum)

    def shifted(group: Group) -> Any:
        found = total(group)
        return None if found is None else found + len(group)

    return [
        Output(f"SUM({a}.v) + COUNT(*)", shifted),
        Output(f"SUM({both.text})", _over(both, sum)),
        Output(f"coalesce(MAX({a}.v), -1)", lambda group: _or(_over(column(a, "v"), max)(group), -1)),
        Output(f"CASE WHEN COUNT(*) > 2 THEN 'many' ELSE MIN({b}.t) END", lambda g: _many(g, column(b, "t"))),
    ]


def _or(value: Any, other: Any) -> Any:
    return other if value is None else value


def _many(group: Group, term: Term) -> Any:
    return "many" if len(group) > 2 else _over(term, min)(group)


def _having(a: str) -> list[Output]:
    total = _over(column(a, "v"), sum)

    def positive(group: Group) -> bool | None:
        found = total(group)
        return None if found is None else found > 3

    return [Output("COUNT(*) > 1", lambda group: len(group) > 1), Output(f"SUM({a}.v) > 3", positive)]


# --- drawing one -----------------------------------------------------------------------------------------------------


@st.composite
def grouped_cases(
    draw: st.DrawFn, largest: int = 4, windowed: bool | None = None, apart: bool | None = None
) -> GroupedCase:
    case = draw(cases(largest=largest, apart=apart))
    if draw(st.integers(0, 4)) == 0:
        case = _single(draw, case)
    totals = draw(st.integers(0, 3)) == 0 if windowed is None else not windowed
    unit = _unit(case)
    if totals:
        case = _without_windows(case)
    elif not any(entry.window_us for entry in case.inputs):
        case = _with_windows(case, draw(st.sampled_from([8, 20, 60])), unit)
    widths = [entry.window_us for entry in case.inputs if entry.window_us is not None]
    slide_us = None
    text = case.text
    if widths:
        divisors = [n for n in (1, 2, 4, 5, 10, 20) if math.gcd(*widths) % (n * unit[0]) == 0]
        number = draw(st.sampled_from(divisors))
        slide_us = number * unit[0]
        everywhere = 0 if draw(st.booleans()) else 1
        slide = rf"[RANGE \1 \2 SLIDE {number} {unit[1]}]"
        text = re.sub(r"\[RANGE (\d+) (\w+)\]", slide, text, count=everywhere)
    return _grouped(draw, replace(case, text=text), slide_us)


def _unit(case: Case) -> tuple[int, str]:
    """That the windows of a case are in: microseconds, and how it is written."""
    found = re.search(r"\[RANGE (\d+) (\w+)\]", case.text)
    width = next((entry.window_us for entry in case.inputs if entry.window_us is not None), None)
    if found is None or width is None:
        times = [
            row["ts"] for s in case.streams.values() for batch in s.batches for row in batch if row["ts"] is not None
        ]
        steps = [t if isinstance(t, int) else (t - _EPOCH) // timedelta(microseconds=1) for t in times]
        size = math.gcd(*steps) if steps else 1
        return next(pair for pair in _UNITS if size % pair[0] == 0)
    return width // int(found[1]), found[2]


_UNITS = [(60_000_000, "MINUTES"), (1_000_000, "SECONDS"), (1_000, "MILLISECONDS"), (1, "MICROSECONDS")]


def _without_windows(case: Case) -> Case:
    inputs = tuple(replace(entry, window_us=None) for entry in case.inputs)
    return replace(case, inputs=inputs, text=re.sub(r" \[RANGE (\d+) (\w+)\]", "", case.text))


def _with_windows(case: Case, width: int, unit: tuple[int, str]) -> Case:
    """With a window for the first input."""
    first = case.inputs[0]
    text = case.text.replace(" [UNBOUNDED]", "")
    head, tail = text.split(" FROM ", 1)
    named = re.match(rf"{first.stream}( AS)?( {first.alias}\b)?", tail)
    assert named is not None
    text = f"{head} FROM {named[0]} [RANGE {width} {unit[1]}]{tail[named.end() :]}"
    return replace(case, text=text, inputs=(replace(first, window_us=width * unit[0]), *case.inputs[1:]))


def _single(draw: st.DrawFn, case: Case) -> Case:
    """One stream of a case, with nothing to join."""
    entry = draw(st.sampled_from(case.inputs))
    unit = _unit(case)
    conditions = [term for term in case.conditions if term.aliases == {entry.alias}]
    window = "" if entry.window_us is None else f" [RANGE {entry.window_us // unit[0]} {unit[1]}]"
    where = f" WHERE {' AND '.join(term.text for term in conditions)}" if conditions else ""
    return replace(
        case,
        text=f"SELECT 1 FROM {entry.stream} AS {entry.alias}{window}{where}",
        streams={entry.stream: case.streams[entry.stream]},
        inputs=(entry,),
        equalities=[],
        conditions=conditions,
        plan="auto",
    )


def _grouped(draw: st.DrawFn, case: Case, slide_us: int | None) -> GroupedCase:
    aliases = [entry.alias for entry in case.inputs]
    schemas = {entry.alias: case.streams[entry.stream].schema for entry in case.inputs}
    columns = [(column(alias, f.name), f.type) for alias in aliases for f in schemas[alias]]
    a, b = draw(st.sampled_from(aliases)), draw(st.sampled_from(aliases))
    terms = [term for term, _ in columns]
    terms += [
        build("{} % 2", lambda x: int(math.fmod(x, 2)), column(a, "v")),
        build("length({})", len, column(b, "t")),
    ]
    most = 4 if draw(st.integers(0, 3)) == 0 else 2
    groups = draw(st.lists(st.sampled_from(terms), min_size=0, max_size=most, unique_by=lambda term: term.text))
    if groups and draw(st.integers(0, 5)) == 0:
        outputs: list[Output] = []
        text = f"DISTINCT {', '.join(f'{term.text} AS g{i}' for i, term in enumerate(groups))}"
        having, tail = None, ""
    else:
        known = [_ROWS, *_computed(a, b), *(each for term, kind in columns for each in _aggregates(term, kind))]
        outputs = draw(st.lists(st.sampled_from(known), min_size=1, max_size=5))
        entries = [*(term.text for term in groups), *(output.text for output in outputs)]
        text = ", ".join(f"{entry} AS o{i}" for i, entry in enumerate(entries))
        having = draw(st.sampled_from([None, None, *_having(a)]))
        tail = f" GROUP BY {', '.join(term.text for term in groups)}" if groups else ""
        tail += f" HAVING {having.text}" if having is not None else ""
    query = re.sub(r"^SELECT .*? FROM ", lambda _: f"SELECT {text} FROM ", case.text, count=1, flags=re.DOTALL) + tail
    keys = [Output(term.text, lambda group, term=term: term.compute(group[0])) for term in groups]
    time_type = schemas[aliases[0]].field("ts").type
    return GroupedCase(replace(case, text=query), groups, [*keys, *outputs], having, slide_us, time_type)
