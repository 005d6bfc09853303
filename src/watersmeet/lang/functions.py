"""The SQL functions, each with the rule that types its arguments and result.

`FUNCTIONS` maps sqlglot's node to that rule; the functions themselves are in the table of `kernel/evaluate.py`.
LENGTH counts characters. ROUND rounds half away from zero. FLOOR and CEIL of a DOUBLE give BIGINT, as in Spark. LEAST
and GREATEST pass over NULL; CONCAT and || give NULL if any part is NULL; LN of zero or less is NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from watersmeet.lang.coercion import coerce, decimal_type, result_type
from watersmeet.model.expressions import Call, Expr, Literal

if TYPE_CHECKING:
    from watersmeet.lang.scalars import ScalarBinder

Rule = Callable[["ScalarBinder", exp.Expr], Expr]


def _of_text(function: str, kind: pa.DataType) -> Rule:
    return lambda binder, node: Call(function, (binder.text(node.this, function.upper()),), kind)


def _of_double(function: str) -> Rule:
    def rule(binder: ScalarBinder, node: exp.Expr) -> Expr:
        args = [node.this, node.expression] if node.args.get("expression") else [node.this]
        doubles = (coerce(binder.number(arg, function.upper()), pa.float64()) for arg in args)
        return Call(function, tuple(doubles), pa.float64())

    return rule


def _abs(binder: ScalarBinder, node: exp.Expr) -> Expr:
    value = binder.operand(node.this)
    if not pa.types.is_duration(value.type):
        value = binder.number(node.this, "ABS")
    return Call("abs", (value,), value.type)


def _round(binder: ScalarBinder, node: exp.Expr) -> Expr:
    value = binder.number(node.this, "ROUND")
    decimals = node.args.get("decimals")
    digits = binder.constant(decimals, "the number of digits", pa.int64()) if decimals else Literal(0, pa.int64())
    kind = value.type
    if pa.types.is_decimal(kind):
        scale = min(kind.scale, max(0, digits.value or 0))
        kind = decimal_type(min(38, kind.precision - kind.scale + scale + 1), scale)
    elif pa.types.is_floating(kind):
        kind = pa.float64()
        value = coerce(value, kind)
    return Call("round", (value, digits), kind)


def _whole(function: str) -> Rule:
    def rule(binder: ScalarBinder, node: exp.Expr) -> Expr:
        if node.args.get("decimals") or node.args.get("to"):
            binder.source.refuse(f"{function.upper()} takes one argument", node)
        value = binder.number(node.this, function.upper())
        if pa.types.is_integer(value.type):
            return value
        if pa.types.is_decimal(value.type):
            whole = min(38, value.type.precision - value.type.scale + 1)
            return Call(function, (value,), pa.decimal128(whole, 0))
        return Call(function, (value,), pa.int64())

    return rule


def _trim(binder: ScalarBinder, node: exp.Expr) -> Expr:
    function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
    characters = node.args.get("expression")
    taken = binder.constant(characters, "what TRIM removes", pa.string()) if characters else Literal(" ", pa.string())
    if taken.value is None:
        return Literal(None, pa.string())
    return Call(function, (binder.text(node.this, function.upper()), taken), pa.string())


def _concat(binder: ScalarBinder, node: exp.Expr) -> Expr:
    parts = list(node.flatten()) if isinstance(node, exp.DPipe) else node.expressions
    name = "||" if isinstance(node, exp.DPipe) else "CONCAT"
    return Call("concat", tuple(binder.text(part, name) for part in parts), pa.string())


def _substring(binder: ScalarBinder, node: exp.Expr) -> Expr:
    value = binder.text(node.this, "SUBSTRING")
    numbers = [node.args[arg] for arg in ("start", "length") if node.args.get(arg)]
    if not node.args.get("start"):
        binder.source.refuse("SUBSTRING needs a start", node)
    limits = (binder.constant(number, "start and length of SUBSTRING", pa.int64()) for number in numbers)
    return Call("substring", (value, *limits), pa.string())


def _of_one_type(function: str, *, ordered: bool) -> Rule:
    def rule(binder: ScalarBinder, node: exp.Expr) -> Expr:
        nodes = [node.this, *node.expressions] if node.this else node.expressions
        name = function.upper()
        args = binder.comparable(nodes, name, node) if ordered else binder.unify(nodes, name)
        kind = args[0].type
        return Call(function, tuple(args), result_type(kind)) if not pa.types.is_null(kind) else args[0]

    return rule


def _nullif(binder: ScalarBinder, node: exp.Expr) -> Expr:
    left, right = binder.comparable([node.this, node.expression], "NULLIF", node)
    result = binder.value(node.this)
    if pa.types.is_null(left.type):
        return result
    return Call("nullif", (left, right, result), result.type)


def _if(binder: ScalarBinder, node: exp.Expr) -> Expr:
    results = [node.args["true"], node.args.get("false") or exp.Null()]
    return binder.choose([binder.condition(node.this, "IF")], results, "IF")


FUNCTIONS: dict[type[exp.Expr], Rule] = {
    exp.Abs: _abs,
    exp.Ceil: _whole("ceil"),
    exp.Coalesce: _of_one_type("coalesce", ordered=False),
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.Exp: _of_double("exp"),
    exp.Floor: _whole("floor"),
    exp.Greatest: _of_one_type("greatest", ordered=True),
    exp.If: _if,
    exp.Least: _of_one_type("least", ordered=True),
    exp.Length: _of_text("length", pa.int64()),
    exp.Ln: _of_double("ln"),
    exp.Lower: _of_text("lower", pa.string()),
    exp.Nullif: _nullif,
    exp.Pow: _of_double("power"),
    exp.Round: _round,
    exp.Sqrt: _of_double("sqrt"),
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.Upper: _of_text("upper", pa.string()),
}
# As users write them; TRIM's node also stands for LTRIM and RTRIM, and || is no name.
NAMES = (*sorted({kind.sql_name() for kind in FUNCTIONS if issubclass(kind, exp.Func)}), "LTRIM", "RTRIM")
