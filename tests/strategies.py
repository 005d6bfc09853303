"""Whole cases for the contract tests: streams with data, a query as text, and the same query as Python functions.

The text and the oracle's predicate are made side by side from one drawn structure, with nothing of `src` in between: a
`Term` is a piece of SQL together with the function that computes it on a combination of rows (None is NULL).

Rows are few and key domains small, so that joins hit; times run forward from batch to batch with some disorder, within
the lateness and beyond it.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import oracle
from drawn_plans import draw_plan, place_filters
from sql_terms import EPOCH, TIMESTAMP, VALUES, Term, build, column, constant, either, equal, every

RANDOMS = st.integers(0, 2**32 - 1).map(Random)  # st.randoms() asks for each number, and drops a run with many of them
_UNITS = {"MICROSECONDS": 1, "milliseconds": 1_000, "SECONDS": 1_000_000, "Minutes": 60_000_000}


def contract_settings(examples: int) -> settings:
    """`examples` in CI, always the same ones; WATERSMEET_EXAMPLES=5000 scales them and draws new ones each time."""
    wanted = os.environ.get("WATERSMEET_EXAMPLES")
    return settings(
        max_examples=examples if wanted is None else max(1, int(wanted) * examples // 200),
        derandomize=wanted is None,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


# --- the case --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StreamData:
    name: str
    schema: pa.Schema
    lateness_us: int
    batches: list[list[oracle.Row]]
    max_ahead: oracle.MaxAhead | None = None

    def record_batches(self) -> list[pa.RecordBatch]:
        return [pa.RecordBatch.from_pylist(rows, schema=self.schema) for rows in self.batches]


@dataclass(frozen=True)
class Case:
    text: str
    streams: dict[str, StreamData]
    inputs: tuple[oracle.Input, ...]
    equalities: list[tuple[Term, Term]]
    conditions: list[Term]
    select: list[Term]
    plan: str
    slots: int
    groups: int
    fanout: int
    chunk_rows: int
    piece_bytes: int
    clock_us: int = 0  # what the clock says, which stands still
    apart: bool = False  # equalities do not connect all inputs, so that no budget can be kept

    def __repr__(self) -> str:
        lines = [
            self.text,
            f"plan={self.plan!r} slots={self.slots} groups={self.groups} fanout={self.fanout}",
            f"chunk={self.chunk_rows} piece={self.piece_bytes}",
        ]
        for stream in self.streams.values():
            columns = ", ".join(f"{f.name} {f.type}" for f in stream.schema)
            lines.append(f"{stream.name} ({columns}) lateness {stream.lateness_us} us, {stream.max_ahead}")
            lines += [f"  batch {i}: {[tuple(row.values()) for row in rows]}" for i, rows in enumerate(stream.batches)]
        return "\n".join(lines)

    @property
    def lateness(self) -> dict[str, timedelta]:
        return {name: timedelta(microseconds=stream.lateness_us) for name, stream in self.streams.items()}

    @property
    def max_ahead(self) -> dict[str, timedelta]:
        limited = {name: stream.max_ahead for name, stream in self.streams.items()}
        return {name: timedelta(microseconds=most.most_us) for name, most in limited.items() if most is not None}

    @property
    def ahead_of(self) -> dict[str, str]:
        limited = {name: stream.max_ahead for name, stream in self.streams.items()}
        return {n: "streams" if m.clock_us is None else "clock" for n, m in limited.items() if m is not None}

    @property
    def batches(self) -> list[oracle.Batch]:
        count = max(len(stream.batches) for stream in self.streams.values())
        return [
            {name: stream.batches[i] for name, stream in self.streams.items() if i < len(stream.batches)}
            for i in range(count)
        ]

    def longer(self, rows: int) -> Case:
        """The same rows in more batches, of so many at most, with whatever follows for which are late."""

        def cut(batches: list[list[oracle.Row]]) -> list[list[oracle.Row]]:
            return [batch[at : at + rows] for batch in batches for at in range(0, max(1, len(batch)), rows)]

        return replace(self, streams={n: replace(s, batches=cut(s.batches)) for n, s in self.streams.items()})

    def answer(self, ends: Sequence[int] = ()) -> oracle.Answer:
        return oracle.answer(
            self.batches,
            self.inputs,
            every(self.conditions),
            lambda rows: tuple(term.compute(rows) for term in self.select),
            {name: stream.lateness_us for name, stream in self.streams.items()},
            max_ahead={name: s.max_ahead for name, s in self.streams.items() if s.max_ahead is not None},
            ends=ends,
        )


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """The rows of a table as a multiset."""
    columns = [column.to_pylist() for column in table.columns]
    return Counter(zip(*columns, strict=True)) if columns else Counter()


# --- drawing one -----------------------------------------------------------------------------------------------------

MOST_ROWS = {2: 36, 3: 18, 4: 9, 5: 6}  # of a stream; the oracle looks at every combination


@st.composite
def cases(
    draw: st.DrawFn,
    largest: int = 5,
    ahead: Sequence[str] = (),
    pairs: bool = False,
    least: int = 2,
    apart: bool | None = None,
    rows: bool = False,
) -> Case:
    """A case; with `ahead`, streams may limit how far rows are ahead of what it names, and rows may be far ahead.

    With `pairs`, most inputs have windows for pairs in the place of their own, and times are close to where rows go.
    `apart`: whether equalities leave some inputs unconnected, which are joined by a ring then; None: some cases do.
    With `rows`, windows are of so many rows, of one input at least; equalities connect all inputs then.
    """
    count = draw(st.sampled_from([n for n in (2, 3, 3, 3, 4, 4, 5) if least <= n <= largest]))
    aliases = ["A", "B", "C", "D", "E"][:count]
    names = _stream_names(draw, aliases)
    families = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    unit_name = draw(st.sampled_from(sorted(_UNITS)))
    unit = _UNITS[unit_name]
    origin = draw(st.sampled_from([0, -1_000_000, 1_700_000_000_000_000 // unit]))
    pace = draw(st.sampled_from([1, 2, 3, 10] if pairs else [0, 3, 10, 25]))
    clock_us = (origin + draw(st.sampled_from([0, 15, 60]))) * unit if ahead else 0
    time_type = draw(st.sampled_from([pa.int64(), TIMESTAMP])) if pairs else None
    streams = {
        name: _stream(draw, name, families, unit, origin, pace, MOST_ROWS[count], ahead, clock_us, time_type)
        for name in dict.fromkeys(names[alias] for alias in aliases)
    }
    widths = [None, None, None, 20, 60] if pairs else [None, None, 2, 8, 20, 60, 60]
    windows = {alias: draw(st.sampled_from(widths)) for alias in aliases}
    counts = {alias: draw(st.sampled_from([1, 1, 2, 3, 5])) for alias in _counted(draw, aliases)} if rows else {}
    inputs = tuple(
        oracle.Input(alias, names[alias], window_rows=counts[alias])
        if alias in counts
        else oracle.Input(alias, names[alias], None if (n := windows[alias]) is None else n * unit)
        for alias in aliases
    )
    of = {alias: streams[names[alias]] for alias in aliases}
    edges = _edges(draw, count)
    apart = not rows and draw(st.integers(0, 4)) == 4 if apart is None else apart
    if apart:
        edges = [edge for edge in edges[1:] if draw(st.booleans())]
    equalities = _equalities(draw, aliases, families, of, edges)
    conditions = [equal(*pair) for pair in equalities]
    conditions += _predicates(draw, aliases, of, unit, unit_name, least=count - 1 if apart else 0)
    conditions += _pair_windows(draw, aliases, of, unit, unit_name) if pairs else []
    conditions = draw(st.permutations(conditions))
    select, select_text = _select(draw, aliases, of)
    slots = draw(st.integers(1, 4))
    return Case(
        text=_render(draw, inputs, {a: (windows[a], unit_name) for a in aliases}, conditions, select_text),
        streams=streams,
        inputs=inputs,
        equalities=equalities,
        conditions=conditions,
        select=select,
        plan=draw(st.sampled_from(["auto", "left-deep"]))
        if draw(st.integers(0, 5)) == 5
        else place_filters(
            draw_plan(draw, aliases, equalities), conditions, lambda places: draw(st.integers(0, places - 1))
        ),
        slots=slots,
        groups=draw(st.integers(slots, 20)),
        fanout=draw(st.sampled_from([2, 2, 3, 4])),
        chunk_rows=draw(st.sampled_from([1, 2, 7, 1 << 18])),
        piece_bytes=draw(st.sampled_from([1, 60, 300, 1 << 20])),
        clock_us=clock_us,
        apart=apart,
    )


def _counted(draw: st.DrawFn, aliases: list[str]) -> list[str]:
    """Inputs with windows of rows: one, or several."""
    return draw(st.lists(st.sampled_from(aliases), min_size=1, max_size=len(aliases), unique=True))


def _stream_names(draw: st.DrawFn, aliases: list[str]) -> dict[str, str]:
    """The stream of each alias: its own, or (a self-join) that of an earlier alias."""
    names: dict[str, str] = {}
    for i, alias in enumerate(aliases):
        reuse = i > 0 and draw(st.integers(0, 4)) == 4
        names[alias] = names[draw(st.sampled_from(aliases[:i]))] if reuse else draw(st.sampled_from([alias, f"s_{i}"]))
    return names


def key_name(stream: str, attribute: int) -> str:
    # Different names in different streams, and some alike.
    return f"k{attribute}" if len(stream) == 1 else f"{stream}_key{attribute}"


def _rarely_null(draw: st.DrawFn, values: list[Any]) -> st.SearchStrategy[Any]:
    """One of `values`; in half of the columns, now and then NULL."""
    return st.sampled_from([*values * (12 // len(values) + 1), None] if draw(st.booleans()) else values)


def _stream(
    draw: st.DrawFn,
    name: str,
    families: list[str],
    unit: int,
    origin: int,
    pace: int,
    most_rows: int,
    ahead: Sequence[str],
    clock_us: int,
    paired: pa.DataType | None = None,
) -> StreamData:
    kinds = [draw(st.sampled_from(list(VALUES[family]))) for family in families]
    time_type = paired or draw(st.sampled_from([pa.int64(), pa.int64(), TIMESTAMP]))
    schema = pa.schema(
        [
            *((key_name(name, i), kind) for i, kind in enumerate(kinds)),
            ("v", pa.int64()),
            ("f", pa.float64()),
            ("t", pa.string()),
            ("p", pa.bool_()),
            ("ts", time_type),
        ]
    )
    domain = draw(st.sampled_from([1, 2, 2, 3] if most_rows > 10 else [1, 1, 2]))
    back = draw(st.sampled_from([0, 0, 5, 30] if paired is None else [-8, -5, 0, 2]))
    far = draw(st.sampled_from([[], [40], [1000], [100, 5000, 5005]])) if ahead else []
    cells = st.tuples(
        st.tuples(*(_rarely_null(draw, list(range(domain))) for _ in kinds)),
        _rarely_null(draw, [-5, 0, 1, 2, 3, 4, 9, 30]),
        _rarely_null(draw, [-1.5, 0.0, 0.25, 2.0, 1e300]),
        _rarely_null(draw, ["x", "", "y", "ß"]),
        _rarely_null(draw, [True, False]),
        _rarely_null(draw, [*range(-back, 11), *far]),
    )
    origin += draw(st.sampled_from([0, 0, 0, 12]))  # some streams run ahead of the others
    batch_count = draw(st.integers(1, 6))
    room = most_rows
    batches: list[list[oracle.Row]] = []
    for i in range(batch_count):
        full = draw(st.integers(0, 3)) > 0
        share = most_rows // batch_count
        drawn = draw(st.lists(cells, min_size=min(room, share) if full else 0, max_size=min(room, 2 * share + 1)))
        room -= len(drawn)
        rows = []
        for keys, v, f, t, p, offset in drawn:
            row: oracle.Row = {
                key_name(name, a): None if n is None else VALUES[family][kind](n)
                for a, (family, kind, n) in enumerate(zip(families, kinds, keys, strict=True))
            }
            micros = None if offset is None else (origin + i * pace + offset) * unit
            stamp = micros if time_type == pa.int64() or micros is None else EPOCH + timedelta(microseconds=micros)
            rows.append({**row, "v": v, "f": f, "t": t, "p": p, "ts": stamp})
        batches.append(rows)
    lateness = draw(st.sampled_from([0, 5, 15, 40] if paired is None else [0, 0, 2, 5])) * unit
    return StreamData(name, schema, lateness, batches, _max_ahead(draw, unit, clock_us, ahead) if ahead else None)


def _max_ahead(draw: st.DrawFn, unit: int, clock_us: int, ahead: Sequence[str]) -> oracle.MaxAhead | None:
    most = draw(st.sampled_from([None, 3, 12, 12, 50, 500]))
    if most is None:
        return None
    return oracle.MaxAhead(most * unit, clock_us if draw(st.sampled_from(ahead)) == "clock" else None)


def _edges(draw: st.DrawFn, count: int) -> list[tuple[int, int]]:
    shape = draw(st.sampled_from(["chain", "star", "clique", "tree"]))
    if shape == "chain":
        return [(i, i + 1) for i in range(count - 1)]
    if shape == "star":
        return [(0, i) for i in range(1, count)]
    if shape == "clique":
        return list(itertools.combinations(range(count), 2))
    return [(draw(st.integers(0, i - 1)), i) for i in range(1, count)]


def _equalities(
    draw: st.DrawFn,
    aliases: list[str],
    families: list[str],
    of: dict[str, StreamData],
    edges: list[tuple[int, int]],
) -> list[tuple[Term, Term]]:
    one_key = draw(st.booleans())
    result: list[tuple[Term, Term]] = []
    for i, j in edges:
        for _ in range(1 if one_key else draw(st.sampled_from([1, 1, 2]))):
            first = 0 if one_key else draw(st.integers(0, len(families) - 1))
            alike = [a for a, family in enumerate(families) if family == families[first]]
            second = first if one_key else draw(st.sampled_from(alike))
            left, right = (
                column(alias, key_name(of[alias].name, attribute))
                for alias, attribute in ((aliases[i], first), (aliases[j], second))
            )
            if draw(st.integers(0, 11)) == 11:
                left = _changed(draw, left, families[first])
            result.append((left, right) if draw(st.booleans()) else (right, left))
    return result


def _changed(draw: st.DrawFn, term: Term, family: str) -> Term:
    """A key that is not a plain column."""
    if family in ("number", "fraction"):
        return draw(
            st.sampled_from([build("{} + 1", lambda x: x + 1, term), build("abs({})", abs, term)]),
        )
    if family == "text":
        return build("upper({})", str.upper, term)
    return term


def _predicates(
    draw: st.DrawFn, aliases: list[str], of: dict[str, StreamData], unit: int, unit_name: str, least: int = 0
) -> list[Term]:
    pairs = list(itertools.combinations(aliases, 2))
    result = []
    for _ in range(least + draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        a, b = draw(st.sampled_from(pairs))
        c = draw(st.sampled_from(aliases))
        options = [
            build("{} < {}", lambda x, y: x < y, column(a, "v"), column(b, "v")),
            build("abs({} - {}) < 10", lambda x, y: abs(x - y) < 10, column(a, "v"), column(b, "v")),
            build("{} <= {}", lambda x, y: x <= y, column(b, "f"), column(a, "f")),
            build("{} <> {}", lambda x, y: x != y, column(a, "t"), column(b, "t")),
            equal(column(a, "p"), column(b, "p")),
            equal(column(a, "f"), column(b, "f")),
            build("{} + {} > {}", lambda x, y, z: x + y > z, column(a, "v"), column(b, "v"), column(c, "v")),
            either(
                build("{} > {}", lambda x, y: x > y, column(a, "v"), column(b, "v")),
                equal(column(c, "t"), constant("'x'", "x")),
            ),
            *_filters(c),
        ]
        if of[a].schema.field("ts").type == of[b].schema.field("ts").type:
            options += [_band(a, b, of[a].schema.field("ts").type, unit, unit_name)] * 2
        result.append(draw(st.sampled_from(options)))
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        result.append(draw(st.sampled_from(_filters(draw(st.sampled_from(aliases))))))
    return result


def _filters(c: str) -> list[Term]:
    """Of one input."""
    return [
        build("{} > 2", lambda x: x > 2, column(c, "v")),
        build("{} IN (0, 1, 2, 3, 4, 5, 6)", lambda x: x in range(7), column(c, "v")),
        Term(f"{c}.t IS NOT NULL", frozenset({c}), lambda rows: rows[c]["t"] is not None),
        column(c, "p"),
        Term(f"NOT {c}.p", frozenset({c}), lambda rows: None if rows[c]["p"] is None else not rows[c]["p"]),
    ]


def _band(a: str, b: str, kind: pa.DataType, unit: int, unit_name: str) -> Term:
    if kind == pa.int64():
        pattern, width = f"{{}} BETWEEN {{}} - {7 * unit} AND {{}} + {12 * unit}", unit
        return build(
            pattern,
            lambda x, y, z: y - 7 * width <= x <= z + 12 * width,
            column(a, "ts"),
            column(b, "ts"),
            column(b, "ts"),
        )
    step = timedelta(microseconds=unit)
    return build(
        f"{{}} BETWEEN {{}} - INTERVAL 7 {unit_name} AND {{}} + INTERVAL 12 {unit_name}",
        lambda x, y, z: y - 7 * step <= x <= z + 12 * step,
        column(a, "ts"),
        column(b, "ts"),
        column(b, "ts"),
    )


def _pair_windows(
    draw: st.DrawFn, aliases: list[str], of: dict[str, StreamData], unit: int, unit_name: str
) -> list[Term]:
    """Windows for pairs that all hold where each input is a little before or after the first, which is drawn too."""
    is_number = of[aliases[0]].schema.field("ts").type == pa.int64()
    offset = {alias: draw(st.sampled_from([0, 0, 0, -4, 5])) for alias in aliases}
    found: list[Term] = []
    for i, alias in enumerate(aliases[1:], 1):
        for other in {draw(st.sampled_from(aliases[:i])), aliases[i - 1]}:
            a, b = draw(st.permutations([alias, other]))
            least = offset[b] - offset[a] - draw(st.sampled_from([0, 1, 6]))
            most = offset[b] - offset[a] + draw(st.sampled_from([0, 1, 6, 15]))
            found += _pair_window(draw, a, b, least, most, unit, None if is_number else unit_name)
    return found


def _pair_window(
    draw: st.DrawFn, a: str, b: str, least: int, most: int, unit: int, unit_name: str | None
) -> list[Term]:
    """The row of b is `least` to `most` units later than that of a; or something that follows from it."""

    def amount(units: int) -> tuple[str, Any]:
        if unit_name is None:
            return str(units * unit), units * unit
        return f"INTERVAL {units} {unit_name}", timedelta(microseconds=units * unit)

    def shifted(alias: str, units: int) -> str:
        return f"{alias}.ts" if not units else f"{alias}.ts {'+' if units > 0 else '-'} {amount(abs(units))[0]}"

    x, y = column(a, "ts"), column(b, "ts")
    (_, low), (_, high), zero = amount(least), amount(most), amount(0)[1]
    widest = max(abs(least), abs(most))
    near_text, near = amount(widest)
    return draw(
        st.sampled_from(
            [
                [],
                [build(f"{{1}} <= {shifted(a, most)}", lambda s, t: t - s <= high, x, y)],
                [build(f"{shifted(a, least)} <= {{1}}", lambda s, t: low <= t - s, x, y)],
                [build(f"{{1}} - {{0}} < {amount(most + 1)[0]}", lambda s, t: t - s < amount(most + 1)[1], x, y)],
                [build(f"{near_text} >= ABS({{0}} - {{1}})", lambda s, t: abs(t - s) <= near, x, y)],
                [build(f"ABS({{1}} - {{0}}) <= {near_text}", lambda s, t: abs(t - s) <= near, x, y)],
            ]
            + [
                [
                    build(
                        f"{{1}} BETWEEN {shifted(a, least)} AND {shifted(a, most)}",
                        lambda s, t: low <= t - s <= high,
                        x,
                        y,
                    )
                ]
            ]
            * 4
            + [[build("{0} <= {1}", lambda s, t: t - s >= zero, x, y)]] * (least >= 0)
        )
    )


def _select(draw: st.DrawFn, aliases: list[str], of: dict[str, StreamData]) -> tuple[list[Term], str]:
    columns = [column(alias, name) for alias in aliases for name in of[alias].schema.names]
    if draw(st.integers(0, 5)) == 5:
        return columns, "*"
    a, b = draw(st.sampled_from(aliases)), draw(st.sampled_from(aliases))
    computed = [
        build("{} + {}", lambda x, y: x + y, column(a, "v"), column(b, "v")),
        build("{} * 2", lambda x: x * 2, column(a, "f")),
        Term(f"coalesce({a}.t, {b}.t)", frozenset({a, b}), lambda r: r[b]["t"] if r[a]["t"] is None else r[a]["t"]),
        build("{} < {}", lambda x, y: x < y, column(a, "v"), column(b, "v")),
        build("{} || '!'", lambda x: x + "!", column(b, "t")),
        constant("7", 7),
    ]
    chosen = draw(st.lists(st.sampled_from(columns + computed), min_size=1, max_size=6))
    return chosen, ", ".join(f"{term.text} AS o{i}" for i, term in enumerate(chosen))


def _render(
    draw: st.DrawFn,
    inputs: tuple[oracle.Input, ...],
    windows: dict[str, tuple[int | None, str]],
    conditions: list[Term],
    select_text: str,
) -> str:
    by_on = draw(st.booleans())
    order = {entry.alias: i for i, entry in enumerate(inputs)}
    text = f"SELECT {select_text} FROM "
    where = []
    for i, entry in enumerate(inputs):
        width, unit_name = windows[entry.alias]
        unbounded = draw(st.sampled_from(["", " [UNBOUNDED]"]))
        window = unbounded if width is None else f" [RANGE {width} {unit_name}]"
        window = window if entry.window_rows is None else f" [ROWS {entry.window_rows}]"
        if entry.alias == entry.stream and draw(st.booleans()):
            table = f"{entry.stream}{window}"
        elif draw(st.booleans()):
            table = f"{entry.stream} {entry.alias}{window}"
        else:
            table = f"{entry.stream}{window} AS {entry.alias}"
        mine = [c.text for c in conditions if max((order[a] for a in c.aliases), default=0) == i]
        if by_on and i > 0 and mine:
            text += f" JOIN {table} ON {' AND '.join(mine)}"
        else:
            text += (", " if i else "") + table
            where += mine
    return text + (f" WHERE {' AND '.join(where)}" if where else "")
