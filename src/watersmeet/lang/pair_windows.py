"""Finds the conjuncts that are windows for a pair of inputs: comparisons of their event times, and nothing else.

    ABS(a.ts - b.ts) < INTERVAL 5 MINUTES      a.ts BETWEEN b.ts - INTERVAL 1 HOUR AND b.ts
    a.ts >= b.ts      a.ts < b.ts + INTERVAL 5 MINUTES      a.ts - b.ts <= 300000000      a.ts = b.ts

Each side is a sum of event-time columns and constants (timestamps with intervals, or BIGINT event times with whole
numbers), and what is left when one side is taken from the other is one event time less another one, and a constant.
Such a conjunct holds exactly when its bounds do. It stays a predicate, or a key, all the same: what is found here says
how long rows are needed, and changes no result. What is not recognised (other columns, products, OR, NOT, DOUBLE) is a
predicate like any other.

Event times count in whole microseconds, so that less than x is at most x - 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import permutations

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import UserError
from watersmeet.kernel.evaluate import constant_value
from watersmeet.lang.conjuncts import split_conjuncts
from watersmeet.lang.scalars import ScalarBinder
from watersmeet.model.expressions import Call, Cast, Column, Expr, PythonCall, children, describe
from watersmeet.model.pair_windows import PairWindow
from watersmeet.model.time_units import TimeColumn, microseconds_in
from watersmeet.plan.pair_windows import bound_text
from watersmeet.plan.query import KeyClass, Query, QueryWindow

_MIRRORED = {"greater": "less", "greater_equal": "less_equal"}  # with both sides exchanged
Times = Mapping[str, TimeColumn]  # of each input


@dataclass(frozen=True)
class _Sum:
    """Event times, each so many times, and a number of the unit that they count in."""

    times: Mapping[str, int]
    units: int

    def plus(self, other: _Sum, factor: int) -> _Sum:
        counts = {alias: self.times.get(alias, 0) for alias in (*self.times, *other.times)}
        for alias, count in other.times.items():
            counts[alias] += factor * count
        return _Sum({a: n for a, n in counts.items() if n}, self.units + factor * other.units)


def find_pair_windows(predicates: Sequence[Expr], keys: Sequence[KeyClass], times: Times) -> Iterator[QueryWindow]:
    """The windows among `predicates`, with their bounds, and those that equalities of event times are."""
    for expr in predicates:
        if bounds := tuple(_bounds(expr, times)):
            yield QueryWindow(bounds, expr)
    for key in keys:
        for (_, left), (_, right) in permutations(key.terms, 2):
            equality = Call("equal", (left, right), pa.bool_())
            if bounds := tuple(_at_most(left, right, 0, times)):
                yield QueryWindow(bounds, equality)


def refuse_contradiction(query: Query, conditions: Sequence[exp.Expr], scalars: ScalarBinder) -> None:
    """Refuse windows that no result can satisfy: nothing would ever come out. `conditions` is where they stand."""
    circle = query.reach.contradiction
    if not circle:
        return
    guilty = {describe(window.expr) for window in query.pair_windows if set(window.bounds) & set(circle)}
    parts = [part for node in conditions for part in (node.flatten() if isinstance(node, exp.And) else (node,))]
    bound = ((part, scalars.condition(part, "WHERE")) for part in parts)
    found = (part for part, expr in bound if any(describe(each) in guilty for each in split_conjuncts(expr)))
    names = " and ".join(f'"{alias}"' for alias in dict.fromkeys(bound.first for bound in circle))
    told = " and ".join(dict.fromkeys(bound_text(query, bound) for bound in circle))
    scalars.source.refuse(
        f"the windows of {names} leave no result",
        next(found, parts[0]),
        detail=f"No rows can have {told}.",
        hint="See which event time is the earlier one, and how wide the windows are.",
    )


def _bounds(expr: Expr, times: Times) -> Iterator[PairWindow]:
    """What a conjunct says; nothing if it is no window."""
    if not isinstance(expr, Call) or len(expr.args) != 2:
        return
    function, (left, right) = expr.function, expr.args
    if function in _MIRRORED:
        function, left, right = _MIRRORED[function], right, left
    if function in ("less", "less_equal"):
        less = int(function == "less")
        if isinstance(left, Call) and left.function == "abs":
            # |x| <= c is x <= c and -c <= x, each a window or both none.
            inner, zero = left.args[0], _Sum({}, 0)
            found, most = _sum_of(inner, times), _sum_of(right, times)
            if found is not None and most is not None and not most.times:
                for sign in (1, -1):
                    yield from _bound(zero.plus(found, sign).plus(most, -1), less, times)
        else:
            yield from _at_most(left, right, less, times)
    elif function == "equal":
        yield from (*_at_most(left, right, 0, times), *_at_most(right, left, 0, times))


def _at_most(left: Expr, right: Expr, less: int, times: Times) -> Iterator[PairWindow]:
    """left <= right, or left < right with `less` = 1."""
    first, second = _sum_of(left, times), _sum_of(right, times)
    if first is not None and second is not None:
        yield from _bound(first.plus(second, -1), less, times)


def _bound(total: _Sum, less: int, times: Times) -> Iterator[PairWindow]:
    """What follows from total <= 0, or total < 0 with `less` = 1.

    Event times in nanoseconds are kept in microseconds, rounded down: the bound is the next larger one.
    """
    units = {times[alias].unit for alias in total.times}
    if len(units) != 1:
        return
    later = [alias for alias, count in total.times.items() if count == 1]
    earlier = [alias for alias, count in total.times.items() if count == -1]
    if len(total.times) == 2 and len(later) == len(earlier) == 1:
        yield PairWindow(earlier[0], later[0], math.ceil((-total.units - less) * microseconds_in(units.pop())))


def _sum_of(expr: Expr, times: Times) -> _Sum | None:
    """An expression as event times and units of theirs; None if it is anything else."""
    match expr:
        case Column():
            return _Sum({expr.alias: 1}, 0) if times[expr.alias].name == expr.name else None
        case Cast():
            return _sum_of(expr.arg, times) if _keeps_time(expr.arg.type, expr.type) else None
        case Call(function="add" | "subtract", args=(left, right)):
            first, second = _sum_of(left, times), _sum_of(right, times)
            if first is None or second is None or not _is_exact(expr.type):
                return None
            return first.plus(second, 1 if expr.function == "add" else -1)
        case Call(function="negate", args=(inner,)):
            found = _sum_of(inner, times)
            return None if found is None else _Sum({}, 0).plus(found, -1)
    return _constant(expr)


def _constant(expr: Expr) -> _Sum | None:
    if not _is_exact(expr.type) or pa.types.is_timestamp(expr.type) or not _is_constant(expr):
        return None
    try:
        value = constant_value(expr)
    except UserError:  # such as an overflow, which the run that computes it will tell of
        return None
    if isinstance(value, timedelta):
        return _Sum({}, value // timedelta(microseconds=1))
    return _Sum({}, value) if isinstance(value, int) else None


def _is_constant(expr: Expr) -> bool:
    return not isinstance(expr, Column | PythonCall) and all(map(_is_constant, children(expr)))


def _is_exact(kind: pa.DataType) -> bool:
    """Whether sums of this type are whole microseconds, or whole numbers."""
    is_time = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    return bool((is_time and kind.unit == "us") or pa.types.is_integer(kind))


def _keeps_time(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast leaves the microseconds as they are: from zone to zone, or to a BIGINT from a narrower integer."""
    if pa.types.is_timestamp(source):
        return bool(pa.types.is_timestamp(target)) and source.unit == target.unit
    return bool(pa.types.is_integer(source)) and target == pa.int64()
