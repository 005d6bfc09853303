"""Predicates that keep a value of the rows met between two bounds, which the visiting row alone decides.

`B.x < A.x`, `ABS(A.x - B.x) < 3`, `B.ts BETWEEN A.ts - INTERVAL 1 SECOND AND A.ts` and, for B visited by A, even
`(A.x - B.x) * (A.x - B.x) + (A.y - B.y) * (A.y - B.y) < 9` say of each row of A that only a stretch of B, in the order
of x, can satisfy them. A *band* is one such reading of a predicate: the path from its comparison down to the largest
part that reads the rows met alone, less sums and products with constants, so that bands of one value are known as such
(`A.x - 1 <= B.x` and `B.x <= A.x + 1`, for A visited by B). To find the stretch, what the comparison allows is carried
down that path, each operation undone in turn; whatever else stands on the path reads the visiting row alone and is
computed as ever.

Invariant: a pair that satisfies the predicate has its value within the bounds. The opposite is not promised, since who
uses bands checks the predicate all the same. So bounds are in 64-bit floating point, whatever the types, and each step
widens them by more than it, and the arithmetic that it undoes, can have rounded. What floating point does not order
like numbers (NaN, which is larger than all others here, and infinities) is left out of it: a visiting row with such
a value has no bounds, and a row met with one is `apart`, to be met by everybody. What can be NaN for numbers on both
sides (a root, or a sum with a part that reads other columns) is a band only where it is limited from above, which NaN
never satisfies. NULL satisfies no band, on either side.

Pairs that are not proposed are not computed. So a predicate whose arithmetic would overflow for such a pair stops no
run: as a number its value is outside, and the answer is the same.

Known limits: a comparison under OR, NOT or CASE is none; nor is one where the rows met stand in two places, unless one
of these is part of a sum of what is never negative. Nor are comparisons of text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import UserError
from watersmeet.kernel.casting import cast
from watersmeet.kernel.evaluate import ONE_ROW, evaluate
from watersmeet.model.expressions import Call, Cast, Expr, aliases_of, columns_of, python_calls

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

# By how much each step widens, of the numbers in it. Each rounds at most a few times by 2**-53 of one of these.
_SLACK = 2.0**-48
_LEAST = 1e-300  # where numbers are so small that rounding is no longer relative to them
_LARGEST = 1e308  # what is beyond has overflowed, here or where the predicate is computed
_FACTORS = (2.0**-64, 2.0**64)

_MICROSECONDS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_UNITS = tuple(_MICROSECONDS)
_DAY = 86_400e6

# What a comparison says of its left side: whether the right one limits it from below, and from above.
_LIMITS = {
    "less": (False, True),
    "less_equal": (False, True),
    "greater": (True, False),
    "greater_equal": (True, False),
    "equal": (True, True),
}


@dataclass(frozen=True)
class Bounds:
    """For each visiting row, the least and the largest value that it can meet, both included."""

    low: FloatArray
    high: FloatArray

    def widened(self, around: FloatArray | float = 0.0) -> Bounds:
        """With room for the rounding of numbers as large as these and `around`."""
        around = np.abs(around)
        low = self.low - ((np.abs(self.low) + around) * _SLACK + _LEAST)
        high = self.high + ((np.abs(self.high) + around) * _SLACK + _LEAST)
        return Bounds(np.minimum(low, _LARGEST), np.maximum(high, -_LARGEST))


class Step(Protocol):
    """An operation on the path, to be undone."""

    def undone(self, bounds: Bounds, rows: pa.RecordBatch) -> Bounds:
        """Bounds of what it is applied to, given those of its result."""


@dataclass(frozen=True)
class Plus:
    other: Expr

    def undone(self, bounds: Bounds, rows: pa.RecordBatch) -> Bounds:
        by = _finite(self.other, rows)
        return Bounds(bounds.low - by, bounds.high - by).widened(np.abs(by) + _magnitude(bounds))


@dataclass(frozen=True)
class Minus:
    other: Expr

    def undone(self, bounds: Bounds, rows: pa.RecordBatch) -> Bounds:
        by = _finite(self.other, rows)
        return Bounds(bounds.low + by, bounds.high + by).widened(np.abs(by) + _magnitude(bounds))


@dataclass(frozen=True)
class Negated:
    def undone(self, bounds: Bounds, rows: pa.RecordBatch) -> Bounds:
        return Bounds(-bounds.high, -bounds.low)


@dataclass(frozen=True)
class Times:
    factor: float  # 1 for a conversion, which may round

    def undone(self, bounds: Bounds, rows: pa.RecordBatch) -> Bounds:
        ends = bounds.low / self.factor, bounds.high / self.factor
        return Bounds(*(ends if self.factor > 0 else ends[::-1])).widened()


@dataclass(frozen=True)
class Magnitude:
    def undone(self, bounds: Bounds, rows: pa.RecordBatch) -> Bounds:
        return Bounds(-bounds.high, bounds.high)


@dataclass(frozen=True)
class Squared:
    def undone(self, bounds: Bounds, rows: pa.RecordBatch) -> Bounds:
        root = np.where(bounds.high < 0, -_LARGEST, np.sqrt(np.maximum(bounds.high, 0.0)))
        return Bounds(-root, root).widened()


@dataclass(frozen=True)
class Rooted:
    def undone(self, bounds: Bounds, rows: pa.RecordBatch) -> Bounds:
        square = np.where(bounds.high < 0, -_LARGEST, bounds.high * bounds.high)
        return Bounds(np.full_like(square, -np.inf), square).widened()


@dataclass(frozen=True)
class PlusSomeMore:
    """The sum with something that depends on both rows, and is never negative."""

    def undone(self, bounds: Bounds, rows: pa.RecordBatch) -> Bounds:
        return Bounds(np.full_like(bounds.low, -np.inf), bounds.high).widened()


@dataclass(frozen=True)
class Band:
    """One reading of a predicate: `value`, of the rows met, lies where `limits` and `steps` allow it to."""

    value: Expr
    limit: Expr  # of the visiting row
    limits: tuple[bool, bool]  # from below, from above
    steps: tuple[Step, ...]  # from the comparison down

    def bounds(self, rows: pa.RecordBatch) -> Bounds | None:
        """For each visiting row, in which range `value` can be. None where that cannot be computed."""
        try:
            with np.errstate(all="ignore"):
                return self._bounds(rows)
        except UserError:
            return None

    def _bounds(self, rows: pa.RecordBatch) -> Bounds:
        limit = _finite(self.limit, rows)
        unknown = np.where(np.isnan(limit), np.nan, np.inf)
        below, above = self.limits
        bounds = Bounds(limit if below else -unknown, limit if above else unknown).widened()
        for step in self.steps:
            bounds = step.undone(bounds, rows)
        bounds = bounds.widened()  # for the rounding of what they are compared with
        anything = np.isnan(bounds.low) | np.isnan(bounds.high)
        low, high = np.where(anything, -np.inf, bounds.low), np.where(anything, np.inf, bounds.high)
        nothing = self._is_null(rows)
        return Bounds(np.where(nothing, np.inf, low), np.where(nothing, -np.inf, high))

    def _is_null(self, rows: pa.RecordBatch) -> BoolArray:
        parts = [self.limit, *(step.other for step in self.steps if isinstance(step, Plus | Minus))]
        found: BoolArray = np.any([_nulls(evaluate(part, rows)) for part in parts], axis=0)
        return found

    def values(self, rows: pa.RecordBatch) -> tuple[FloatArray, BoolArray] | None:
        """The value of each row met, NaN for what has no order, and which are NULL. None if it cannot be computed."""
        try:
            found = evaluate(self.value, rows)
        except UserError:
            return None
        return _numbers(found), _nulls(found)


def find_bands(predicate: Expr, met: Collection[str]) -> Iterator[Band]:
    """The ways in which `predicate` limits the rows over the inputs `met`, each by the others that it reads.

    >>> from watersmeet.model.expressions import Column
    >>> a, b = Column("A", "x", pa.int64()), Column("B", "x", pa.int64())
    >>> [band.value for band in find_bands(Call("less", (b, a), pa.bool_()), "B")] == [b]
    True
    """
    if not isinstance(predicate, Call) or predicate.function not in _LIMITS or any(python_calls(predicate)):
        return
    left, right = predicate.args
    if not _is_ordered(left.type):
        return
    below, above = _LIMITS[predicate.function]
    for value, limit, limits in ((left, right, (below, above)), (right, left, (above, below))):
        if not aliases_of(limit) & set(met):
            for steps, inner in _paths(value, frozenset(met)):
                if limits[1] or not (pa.types.is_floating(value.type) and _may_be_nan(steps)):
                    yield Band(inner, limit, limits, steps)


def _may_be_nan(steps: Sequence[Step]) -> bool:
    """Whether they may make NaN of a number; it is larger than all others, and no limit from below keeps it out."""
    return any(isinstance(step, Rooted | PlusSomeMore) for step in steps)


def _paths(expr: Expr, met: frozenset[str]) -> Iterator[tuple[tuple[Step, ...], Expr]]:
    """The ways down from `expr` to parts that read the rows met, and nothing else."""
    read = aliases_of(expr)
    if not read & met:
        return
    if read <= met:
        if _is_ordered(expr.type):
            yield _without_constants(expr, met)
        return
    for steps, inner in _first_steps(expr, met):
        for rest, value in _paths(inner, met):
            yield (*steps, *rest), value


def _without_constants(expr: Expr, met: frozenset[str]) -> tuple[tuple[Step, ...], Expr]:
    """What is left of a value without sums and products with constants: `x - 1` and `x + 1` have one order."""
    for steps, inner in _first_steps(expr, met):
        if (
            aliases_of(inner)
            and _is_ordered(inner.type)
            and all(isinstance(step, Plus | Minus | Negated | Times) for step in steps)
        ):
            rest, value = _without_constants(inner, met)
            return (*steps, *rest), value
    return (), expr


def _first_steps(expr: Expr, met: frozenset[str]) -> Iterator[tuple[tuple[Step, ...], Expr]]:
    """The operation that `expr` is, and what it is applied to, for each of these that reads the rows met."""
    if isinstance(expr, Cast):
        if _keeps_value(expr.arg.type, expr.type):
            yield (Times(1.0),), expr.arg
        return
    if not isinstance(expr, Call) or (pa.types.is_float32(expr.type) and len(expr.args) > 1) or _is_rounded(expr):
        return
    match expr.function, expr.args:
        case ("negate", (inner,)):
            yield (Negated(),), inner
        case ("abs", (inner,)):
            yield (Magnitude(),), inner
        case ("sqrt", (inner,)):
            yield (Rooted(),), inner
        case ("power", (inner, exponent)) if _constant(exponent) == 2.0:
            yield (Squared(),), inner
        case ("multiply" | "multiply_decimal", (left, right)):
            if left == right:
                yield (Squared(),), left
            for inner, other in ((left, right), (right, left)):
                if (factor := _constant(other)) is not None and _FACTORS[0] <= abs(factor) <= _FACTORS[1]:
                    yield (Times(factor),), inner
        case ("divide", (inner, other)) if pa.types.is_float64(expr.type):
            if (factor := _constant(other)) is not None and _FACTORS[0] <= abs(factor) <= _FACTORS[1]:
                yield (Times(1.0 / factor),), inner
        case ("add" | "add_decimal", (left, right)):
            for inner, other in ((left, right), (right, left)):
                if not aliases_of(other) & met:
                    yield (Plus(other),), inner
                elif _is_never_negative(other):
                    yield (PlusSomeMore(),), inner
        case ("subtract" | "subtract_decimal", (left, right)):
            if not aliases_of(right) & met:
                yield (Minus(right),), left
            if not aliases_of(left) & met:
                yield (Negated(), Minus(left)), right


def _is_rounded(expr: Call) -> bool:
    """Whether it is arithmetic of decimals whose result has fewer digits after the point than it would need."""
    if not expr.function.endswith("_decimal"):
        return False
    scales = [arg.type.scale for arg in expr.args]
    needed = sum(scales) if expr.function == "multiply_decimal" else max(scales)
    return bool(expr.type.scale < needed)


def _is_never_negative(expr: Expr) -> bool:
    """Whether `expr` is no less than 0 where it is a number, whatever it reads."""
    match expr:
        case Cast(arg=arg, type=kind):
            return _keeps_value(arg.type, kind) and _is_never_negative(arg)
        case Call(function="abs" | "sqrt"):
            return True
        case Call(function="power", args=(_, exponent)):
            return _constant(exponent) == 2.0
        case Call(function="multiply" | "multiply_decimal", args=(left, right)):
            return left == right or all(_is_never_negative(each) for each in (left, right))
        case Call(function="add" | "add_decimal", args=args):
            return all(_is_never_negative(each) for each in args)
    value = _constant(expr)
    return value is not None and value >= 0


def _constant(expr: Expr) -> float | None:
    """The number that `expr` is in all rows, if it is one."""
    if any(columns_of(expr)) or not _is_ordered(expr.type):
        return None
    try:
        value = float(_numbers(evaluate(expr, ONE_ROW))[0])
    except UserError:
        return None
    return value if np.isfinite(value) else None


def _is_ordered(kind: pa.DataType) -> bool:
    """Whether values of this type are numbers, or times."""
    return any(test(kind) for test in _NUMBERS) or any(test(kind) for test in _TIMES)


_NUMBERS: tuple[Callable[[Any], bool], ...] = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_TIMES: tuple[Callable[[Any], bool], ...] = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_date)


def _keeps_value(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a conversion changes no value, but for the rounding of 64-bit floating point."""
    if source == target:
        return True
    if any(test(source) for test in _NUMBERS):
        if pa.types.is_decimal(target):
            return bool(pa.types.is_integer(source) or (pa.types.is_decimal(source) and source.scale <= target.scale))
        return bool(pa.types.is_float64(target) or (pa.types.is_integer(source) and pa.types.is_integer(target)))
    if pa.types.is_date(source):
        return bool(pa.types.is_timestamp(target))
    for test in (pa.types.is_timestamp, pa.types.is_duration):
        if test(source) and test(target):
            return _UNITS.index(source.unit) <= _UNITS.index(target.unit)
    return False


def _finite(expr: Expr, rows: pa.RecordBatch) -> FloatArray:
    return _numbers(evaluate(expr, rows))


def _numbers(values: pa.Array) -> FloatArray:
    """Numbers as they are, times in microseconds; NaN for NULL and for what is not finite."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if any(test(kind) for test in _NUMBERS):
        found: FloatArray = cast(values, pa.float64()).to_numpy(zero_copy_only=False)
    else:
        found = _microseconds(values)
    return np.where(np.isfinite(found), found, np.nan)


def _microseconds(values: pa.Array) -> FloatArray:
    kind = values.type
    if pa.types.is_date(kind):
        counted, unit = values.cast(pa.date32()).cast(pa.int32()), _DAY
    else:
        counted, unit = values.cast(pa.int64()), _MICROSECONDS[kind.unit]
    found: FloatArray = counted.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found * unit


def _nulls(values: pa.Array) -> BoolArray:
    found: BoolArray = values.is_null().to_numpy(zero_copy_only=False)
    return found


def _magnitude(bounds: Bounds) -> FloatArray:
    """The larger of the finite ends, where there is one."""
    low, high = (np.where(np.isinf(end), 0.0, np.abs(end)) for end in (bounds.low, bounds.high))
    return np.maximum(low, high)
