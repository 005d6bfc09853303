"""Count windows, `[ROWS n]`, as comparisons of two columns that rows get when they enter the join. Pure.

Let the rows of a stream S be counted in order of (event time, arrival), and let a row of any input carry how many rows
of S are no later than itself: its *count* of S. Counts grow with time, so that the largest count in a combination is
that of its newest row: how many rows of S there are with ts <= T. A row of S that is the q-th is among the last n of
these as long as that is less than q + n, its *end*. So `s [ROWS n]` says of each other input r of the query

    count of S in r  <  end of s

and of s itself the same with its own count, where rows of S with its own time come after it. Rows that fail that are in
no result, and get an end that no count is below.

This says the same as the window, whatever is joined first, and a plan treats it as it does any predicate. What it takes
is that counts and ends are final when a row enters, which `runtime/gate.py` sees to. By its ends a state also knows how
long its rows are needed (`State.ranks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet.model.expressions import Call, Column, Expr, describe
from watersmeet.model.streams import Rows
from watersmeet.plan.query import Query


@dataclass(frozen=True)
class CountColumns:
    """What rows of a stream get: their counts of streams, and, of a stream that is counted, their ends."""

    counts: tuple[tuple[str, str], ...]  # the column, and the stream that is counted
    ends: tuple[tuple[str, int], ...]  # the column, and the rows of the window


def counted_streams(query: Query) -> tuple[str, ...]:
    """The streams that have a window of rows, in the order of the text."""
    return tuple(dict.fromkeys(e.stream.name for e in query.inputs if isinstance(e.window, Rows)))


def count_columns(query: Query) -> dict[str, CountColumns]:
    """The columns that rows of each stream get."""
    counted = counted_streams(query)
    found: dict[str, CountColumns] = {}
    for entry in query.inputs:
        stream = entry.stream.name
        sizes = sorted({e.window.count for e in query.inputs if e.stream.name == stream and isinstance(e.window, Rows)})
        found[stream] = CountColumns(
            tuple((entry.free_name(f"#n{place}"), name) for place, name in enumerate(counted)),
            tuple((entry.free_name(f"#e{size}"), size) for size in sizes),
        )
    return found


def end_column(query: Query, alias: str) -> Column | None:
    """The column with the ends of rows of an input; None where it has no window of rows."""
    entry = query.input(alias)
    if not isinstance(entry.window, Rows):
        return None
    return Column(alias, entry.free_name(f"#e{entry.window.count}"), pa.int64())


def count_conditions(query: Query) -> tuple[Expr, ...]:
    """What the windows of rows say, for each of them and each other input."""
    columns, found = count_columns(query), list[Expr]()
    for entry in query.inputs:
        if (end := end_column(query, entry.alias)) is not None:
            for other in (other for other in query.inputs if other.alias != entry.alias):
                name = next(name for name, stream in columns[other.stream.name].counts if stream == entry.stream.name)
                found.append(Call("less", (Column(other.alias, name, pa.int64()), end), pa.bool_()))
    return tuple(found)


def with_count_windows(query: Query) -> Query:
    """The query with what its windows of rows say among its predicates."""
    return replace(query, predicates=(*query.predicates, *count_conditions(query)))


def own_predicates(query: Query) -> tuple[Expr, ...]:
    """The predicates that stand in the text: all but what windows of rows say."""
    hidden = set(map(describe, count_conditions(query)))
    return tuple(expr for expr in query.predicates if describe(expr) not in hidden)


def count_condition_text(query: Query, expr: Expr) -> str | None:
    """What a predicate that stands for a window says, for people; None for any other."""
    for entry in query.inputs:
        end = end_column(query, entry.alias)
        if end is not None and isinstance(expr, Call) and expr.function == "less" and expr.args[1] == end:
            assert isinstance(entry.window, Rows) and isinstance(expr.args[0], Column)
            return f"[ROWS {entry.window.count}] of {entry.alias} at the time of {expr.args[0].alias}"
    return None


def kept_by_rows_text(query: Query, alias: str) -> str | None:
    """For how long rows of an input are kept, as a sentence; None where it has no window of rows."""
    window, stream = query.input(alias).window, query.input(alias).stream.name
    if not isinstance(window, Rows):
        return None
    others = [name for name in dict.fromkeys(e.stream.name for e in query.inputs) if name != stream]
    come, last = f"the next {window.count:,} rows of {stream} have come", "the last of them"
    if window.count == 1:
        come, last = f"the next row of {stream} has come", "it"
    passed = f", and {_marks(others)} past {last}" if others else ""
    return f"rows of {alias} are kept until {come}{passed}, because of [ROWS {window.count}]"


def waits_text(query: Query) -> str | None:
    """What results wait for, as a sentence; None where they come at once."""
    counted = counted_streams(query)
    if not counted:
        return None
    return f"results wait until {_marks(counted)} past their newest row, for no row can come then that counts before it"


def _marks(streams: Sequence[str]) -> str:
    return f"the watermark of {streams[0]} is" if len(streams) == 1 else f"the watermarks of {', '.join(streams)} are"
