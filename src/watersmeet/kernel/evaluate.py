"""Computes scalar expressions on record batches, a column at a time.

`FUNCTIONS` maps every function name that a `Call` may carry to its implementation. AND, OR and NOT follow SQL's
three-valued logic. Division by zero and modulo zero give NULL. Integer arithmetic is checked: an overflow is an
InputError and never wraps round. Every argument is computed for every row, also in the branches of CASE that a row
does not take. Literals stay Arrow scalars for as long as they can; nothing loops over rows in Python.

Floating-point numbers are compared as in Spark: NaN equals NaN and is larger than any other number, and -0.0 equals
0.0. That holds in every operator and function that compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import InputError
from watersmeet.kernel.casting import Value, cast
from watersmeet.kernel.python_calls import Answer, answers, prepared_array, verdicts
from watersmeet.model.expressions import (
    Call,
    Cast,
    Column,
    Expr,
    Literal,
    PrepareCall,
    Prepared,
    PythonCall,
    columns_of,
    describe,
)

E = TypeVar("E", bound=Expr)
T = TypeVar("T")

Mask = np.ndarray[Any, np.dtype[np.bool_]]

# A batch to compute a constant on. It is made of NULLs, because pa.array imports pandas where that is installed.
ONE_ROW = pa.RecordBatch.from_arrays([pa.nulls(1)], names=[""])


def evaluate(expr: Expr, batch: pa.RecordBatch) -> pa.Array:
    """The value of `expr` for each row of `batch`, whose columns are named "alias.name".

    >>> batch = pa.record_batch({"A.v": [1, None, 3]})
    >>> evaluate(Call("add", (Column("A", "v", pa.int64()), Literal(1, pa.int64())), pa.int64()), batch).to_pylist()
    [2, None, 4]
    """
    return _as_array(_explained(expr, batch, _compute), batch.num_rows)


def constant_value(expr: Expr) -> Any:
    """The value of an expression that reads no column.

    >>> constant_value(Call("add", (Literal(1, pa.int64()), Literal(2, pa.int64())), pa.int64()))
    3
    """
    if isinstance(expr, Literal):
        return expr.value  # pa.scalar would import pandas, which takes longer than to plan a query
    return evaluate(expr, ONE_ROW)[0].as_py()


def satisfied(predicate: Expr, batch: pa.RecordBatch) -> Mask:
    """Which rows of `batch` satisfy a predicate; NULL does not."""
    if isinstance(predicate, PythonCall):
        value = _explained(predicate, batch, _answers)
        if isinstance(value, np.ndarray):
            return value
    else:
        value = _explained(predicate, batch, _compute)
    if isinstance(value, pa.Scalar):
        return np.full(batch.num_rows, value.as_py() is True)
    known = value.fill_null(False) if value.null_count else value
    mask: Mask = known.to_numpy(zero_copy_only=False)
    return mask


def passes(predicate: Expr, passed: str, batch: pa.RecordBatch) -> Mask:
    """Which rows of `batch` satisfy `predicate`. Those that column `passed` says have before are not looked at.

    >>> v, seen = pa.array([1, 5, 1]), pa.array([False, False, True])
    >>> large = Call("greater", (Column("A", "v", pa.int64()), Literal(3, pa.int64())), pa.bool_())
    >>> passes(large, "A.#f", pa.record_batch({"A.v": v, "A.#f": seen}))
    array([False,  True,  True])
    """
    mask = np.array(batch.column(passed).fill_null(False).to_numpy(zero_copy_only=False))
    rest = np.flatnonzero(~mask)
    if len(rest):
        mask[rest] = satisfied(predicate, batch if len(rest) == len(mask) else batch.take(pa.array(rest)))
    return mask


def _explained(expr: E, batch: pa.RecordBatch, compute: Callable[[E, pa.RecordBatch], T]) -> T:
    try:
        return compute(expr, batch)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise InputError(
            f"cannot compute {describe(expr)}",
            detail=f"{str(error).rstrip('.')}.",
            hint="Filter out or cast the values that do not fit.",
        ) from error


def _compute(expr: Expr, batch: pa.RecordBatch) -> Value:
    match expr:
        case Column():
            return batch.column(expr.field_name)
        case Literal():
            return pa.scalar(expr.value, expr.type)
        case Cast():
            return cast(_compute(expr.arg, batch), expr.type)
        case Call():
            args = [_compute(arg, batch) for arg in expr.args]
            return cast(FUNCTIONS[expr.function](*args), expr.type)
        case PythonCall():
            return verdicts(expr, _arguments(expr, batch), batch.num_rows)
        case PrepareCall():
            return _prepare(expr, batch)
        case Prepared():
            return batch.column(expr.column.field_name)


def _answers(call: PythonCall, batch: pa.RecordBatch) -> Answer:
    return answers(call, _arguments(call, batch), batch.num_rows)


def _arguments(call: PythonCall, batch: pa.RecordBatch) -> list[pa.Array]:
    return [evaluate(arg, batch) for arg in call.args]


def _prepare(expr: PrepareCall, batch: pa.RecordBatch) -> pa.Array:
    if batch.num_rows and not any(columns_of(expr)):  # the same for all rows
        value = prepared_array(expr, evaluate(expr.arg, batch.slice(0, 1)))
        return value.take(pa.array(np.zeros(batch.num_rows, dtype=np.int64)))
    return prepared_array(expr, evaluate(expr.arg, batch))


def _as_array(value: Value, rows: int) -> pa.Array:
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _zero_as_null(value: Value) -> Value:
    return pc.if_else(pc.equal(value, pa.scalar(0, value.type)), pa.scalar(None, value.type), value)


def _divide(left: Value, right: Value) -> Value:
    return pc.divide(left, _zero_as_null(right))


def _modulo(left: Value, right: Value) -> Value:
    # Arrow has no remainder. The sign follows the dividend, as in SQL (fmod), not the divisor (numpy's mod).
    right = _zero_as_null(right)
    if pa.types.is_decimal(left.type):
        return _modulo_of_decimals(left, right)
    null = pc.or_(pc.is_null(left), pc.is_null(right))
    kind = left.type
    one = pa.scalar(1, pa.int64()).cast(kind)
    with np.errstate(invalid="ignore"):  # infinity % x is NaN, and no reason for a warning
        values = np.fmod(_numbers(pc.coalesce(left, one)), _numbers(pc.coalesce(right, one)))
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return pa.scalar(None if null.as_py() else values.item(), kind)
    return pc.if_else(null, pa.scalar(None, kind), pa.array(values, kind))


def _modulo_of_decimals(left: Value, right: Value) -> Value:
    """The remainder of decimals of one scale; the quotient is cut off to a whole number, so that nothing is rounded."""
    left, right = _in_256_bits(left), _in_256_bits(right)
    whole = pc.trunc(pc.divide(left, right)).cast(pa.decimal256(left.type.precision, 0))
    return pc.subtract(left, pc.multiply(whole, right))


def _numbers(value: Value) -> Any:
    return np.asarray(value.as_py()) if isinstance(value, pa.Scalar) else value.to_numpy(zero_copy_only=False)


def _wide(kernel: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """`kernel` on decimals with room for any result; the cast to the bound type rounds it and checks that it fits."""
    return lambda left, right: kernel(_in_256_bits(left), _in_256_bits(right))


def _multiply_wide(left: Value, right: Value) -> Value:
    # A product has a digit more than both factors, and 256 bits hold 76: of two times 38, one factor must have 37.
    return pc.multiply(_in_256_bits(left), _in_256_bits(right, 75 - left.type.precision))


def _in_256_bits(value: Value, most: int = 76) -> Value:
    return value.cast(pa.decimal256(min(most, value.type.precision), value.type.scale))


def _equal(left: Value, right: Value) -> Value:
    equal = pc.equal(left, right)
    if not pa.types.is_floating(left.type):
        return equal
    return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(left: Value, right: Value) -> Value:
    less = pc.less(left, right)
    if not pa.types.is_floating(left.type):
        return less
    return pc.or_(less, pc.and_not(pc.is_nan(right), pc.is_nan(left)))


def _not_equal(left: Value, right: Value) -> Value:
    return pc.invert(_equal(left, right))


def _less_equal(left: Value, right: Value) -> Value:
    return pc.invert(_less(right, left))


def _in(value: Value, *items: Value) -> Value:
    if not all(isinstance(item, pa.Scalar) for item in items):
        return reduce(pc.or_kleene, (_equal(value, item) for item in items))
    known = [item for item in items if item.is_valid]
    found = _is_any_of(value, [item.as_py() for item in known])
    otherwise = pa.scalar(None if len(known) < len(items) else False, pa.bool_())
    return pc.if_else(pc.is_null(value), pa.scalar(None, pa.bool_()), pc.if_else(found, True, otherwise))


def _is_any_of(value: Value, items: list[Any]) -> Value:
    if not pa.types.is_floating(value.type):
        return pc.is_in(value, value_set=pa.array(items, value.type))
    # Arrow looks bit patterns up: adding zero makes 0.0 of -0.0, and there is more than one NaN.
    numbers = [item + 0.0 for item in items if not math.isnan(item)]
    found = pc.is_in(pc.add(value, pa.scalar(0.0, value.type)), value_set=pa.array(numbers, value.type))
    return found if len(numbers) == len(items) else pc.or_kleene(found, pc.is_nan(value))


def _case(*args: Value) -> Value:
    *branches, result = args  # condition, value, condition, value, .., value otherwise
    for i in range(len(branches) - 2, -1, -2):
        result = pc.if_else(pc.coalesce(branches[i], pa.scalar(False)), branches[i + 1], result)
    return result


def _nullif(left: Value, right: Value, result: Value) -> Value:
    equal = pc.coalesce(_equal(left, right), pa.scalar(False))
    return pc.if_else(equal, pa.scalar(None, result.type), result)


def _best(better: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    # Not min_element_wise: it has no kernel for timestamps.
    def pick(left: Value, right: Value) -> Value:
        return pc.if_else(pc.coalesce(better(right, left), pc.is_null(left)), right, left)

    return lambda *args: reduce(pick, args)


def _like(value: Value, pattern: Value, *, ignore_case: bool = False) -> Value:
    if not pattern.is_valid:
        return pa.scalar(None, pa.bool_())
    return pc.match_like(value, pattern.as_py(), ignore_case=ignore_case)


def _rlike(value: Value, pattern: Value) -> Value:
    if not pattern.is_valid:
        return pa.scalar(None, pa.bool_())
    return pc.match_substring_regex(value, pattern.as_py())


def _abs(value: Value) -> Value:
    if pa.types.is_duration(value.type):  # which Arrow has no kernel for
        return pc.abs_checked(value.cast(pa.int64())).cast(value.type)
    return pc.abs_checked(value)


def _round(value: Value, digits: Value) -> Value:
    if not digits.is_valid:
        return pa.scalar(None, value.type)
    kind, places = value.type, digits.as_py()
    if pa.types.is_floating(kind):
        return _round_floating(value, places)
    if pa.types.is_decimal(kind):
        places = max(places, kind.scale - kind.precision - 1)  # further left every value is 0
        value = value.cast(pa.decimal256(kind.precision + 2, kind.scale))  # 9.9 rounds to 10.0
    elif places < -19:  # no BIGINT has so many digits
        return pc.multiply(value, pa.scalar(0, kind))
    return pc.round(value, places, "half_towards_infinity")


def _round_floating(value: Value, places: int) -> Value:
    if places > 20:
        return value
    if places < -308:
        return pc.multiply(value, pa.scalar(0.0))
    if places <= 0:
        return pc.round(value, places, "half_towards_infinity")
    # By the digits that it is written with: 1.005 is 1.01, and less by its binary value. From 1e16 on all are whole.
    small = pc.less(pc.abs(value), pa.scalar(1e16))
    exact = cast(pc.if_else(small, value, pa.scalar(0.0)), pa.decimal256(76, 20))
    rounded = pc.round(exact, places, "half_towards_infinity")
    return pc.if_else(small, cast(rounded, pa.float64()), value)


def _to_whole(kernel: Callable[[Value], Value]) -> Callable[[Value], Value]:
    def run(value: Value) -> Value:
        if pa.types.is_decimal(value.type):
            value = value.cast(pa.decimal256(value.type.precision + 1, value.type.scale))
        return kernel(value)

    return run


def _ln(value: Value) -> Value:
    return pc.ln(pc.if_else(pc.less_equal(value, pa.scalar(0.0)), pa.scalar(None, pa.float64()), value))


def _concat(*args: Value) -> Value:
    return pc.binary_join_element_wise(*args, "", null_handling="emit_null")


def _substring(value: Value, start: Value, length: Value | None = None) -> Value:
    if not start.is_valid or (length is not None and not length.is_valid):
        return pa.scalar(None, pa.string())
    first = start.as_py()
    first = first - 1 if first > 0 else first  # counts from 1, or from the end; 0 means 1, as in Spark
    if length is None:
        return pc.utf8_slice_codeunits(value, first)
    stop = first + max(0, length.as_py())
    if first < 0 <= stop:
        return pc.utf8_slice_codeunits(value, first)
    return pc.utf8_slice_codeunits(value, first, stop)


def _trim(kernel: Callable[..., Value]) -> Callable[[Value, Value], Value]:
    return lambda value, characters: kernel(value, characters=characters.as_py())


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
    "add_decimal": _wide(pc.add),
    "subtract_decimal": _wide(pc.subtract),
    "multiply_decimal": _multiply_wide,
    "divide": _divide,
    "modulo": _modulo,
    "negate": pc.negate_checked,
    "equal": _equal,
    "not_equal": _not_equal,
    "less": _less,
    "less_equal": _less_equal,
    "greater": lambda left, right: _less(right, left),
    "greater_equal": lambda left, right: _less_equal(right, left),
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "not": pc.invert,
    "is_null": pc.is_null,
    "is_not_null": pc.is_valid,
    "in": _in,
    "like": _like,
    "ilike": lambda value, pattern: _like(value, pattern, ignore_case=True),
    "rlike": _rlike,
    "case": _case,
    "coalesce": pc.coalesce,
    "nullif": _nullif,
    "least": _best(_less),
    "greatest": _best(lambda left, right: _less(right, left)),
    "abs": _abs,
    "round": _round,
    "floor": _to_whole(pc.floor),
    "ceil": _to_whole(pc.ceil),
    "sqrt": pc.sqrt,
    "power": pc.power,
    "exp": pc.exp,
    "ln": _ln,
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "length": pc.utf8_length,
    "trim": _trim(pc.utf8_trim),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "concat": _concat,
    "substring": _substring,
}
