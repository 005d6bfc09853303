"""Turns the syntax tree of a scalar expression into a typed `Expr`, or says what is wrong with it and where.

Integer arithmetic is done in BIGINT. `+ - * %` of decimals give the precision and scale that Spark gives them, but sums
of more than 38 digits keep their scale. `/` gives DOUBLE, also between integers and between decimals. Functions are in
`lang/functions.py`, and the rules for mixed types in `lang/coercion.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import reduce
from typing import Any, NoReturn

import pyarrow as pa
from sqlglot import exp

from watersmeet.errors import InputError, Span, did_you_mean
from watersmeet.kernel.evaluate import ONE_ROW, evaluate
from watersmeet.lang import types
from watersmeet.lang.coercion import (
    MOST_DIGITS,
    as_decimal_type,
    coerce,
    common_type,
    common_type_of,
    decimal_type,
    is_comparable,
    is_moment,
    is_number,
    is_text,
    narrow_literals,
    plain,
    product_type,
    result_type,
)
from watersmeet.lang.functions import FUNCTIONS, NAMES
from watersmeet.lang.registered import call_registered
from watersmeet.lang.scope import Scope, match_name
from watersmeet.lang.source import Source
from watersmeet.lang.types import DURATION, TIMESTAMP
from watersmeet.model.expressions import Call, Cast, Column, Expr, Literal, columns_of
from watersmeet.model.sql_names import sql_type

BOOL = pa.bool_()
AGGREGATES = "The aggregates are COUNT(*), COUNT, SUM, MIN, MAX and AVG, each over one expression"
COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
}
ARITHMETIC: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Add: ("add", "+"),
    exp.Sub: ("subtract", "-"),
    exp.Mul: ("multiply", "*"),
    exp.Div: ("divide", "/"),
    exp.Mod: ("modulo", "%"),
}
SUPPORTED = (
    "Expressions take columns, literals, + - * / %, comparisons, AND, OR, NOT, IS [NOT] NULL, IN, BETWEEN, LIKE, "
    f"RLIKE, CASE, CAST and the functions {', '.join(NAMES)}."
)


@dataclass(frozen=True)
class ScalarBinder:
    """Binds expressions in one scope; `functions` are the predicates that the user registered."""

    scope: Scope
    functions: Mapping[str, Callable[..., Any]]

    @property
    def source(self) -> Source:
        return self.scope.source

    def condition(self, node: exp.Expr, what: str) -> Expr:
        """`node`, which must be a boolean; `what` names the place in the error."""
        expr = self.operand(node)
        if pa.types.is_null(expr.type):
            return Literal(None, BOOL)
        if not pa.types.is_boolean(expr.type):
            self.source.refuse(
                f"{what} needs a condition, not a value of type {sql_type(expr.type)}",
                node,
                detail="A condition is a comparison, or anything else of type BOOLEAN.",
            )
        return expr

    def value(self, node: exp.Expr) -> Expr:
        """`node` as it stands alone: in the select list, or as the argument of a registered function."""
        return self._bind(node)

    def operand(self, node: exp.Expr) -> Expr:
        """`node` as part of a larger expression."""
        return plain(self._bind(node))

    def selected(self, column: Column, at: Span) -> Expr:
        """A column that a star at `at` stands for."""
        return column

    def own_name(self, node: exp.Expr) -> str | None:
        """What an entry of the select list is called that has no alias; None: what its text is."""
        expr = self._bind(node)
        return expr.name if isinstance(expr, Column) else None

    def unify(self, nodes: Sequence[exp.Expr], what: str) -> list[Expr]:
        """`nodes` brought to their common type."""
        exprs = self._read_moments([self.operand(node) for node in nodes], nodes)
        exprs = narrow_literals(exprs)
        kind = common_type_of(expr.type for expr in exprs)
        if kind is None:
            for node, expr in zip(nodes, exprs, strict=True):
                if common_type(exprs[0].type, expr.type) is None:
                    self.mismatch(f"{what} mixes {sql_type(exprs[0].type)} with {sql_type(expr.type)}", node)
            self.mismatch(f"{what} mixes types that do not go together", nodes[-1])
        return [coerce(expr, kind) for expr in exprs]

    def comparable(self, nodes: Sequence[exp.Expr], what: str, at: exp.Expr) -> list[Expr]:
        """`nodes` brought to their common type, whose values have an order."""
        exprs = self.unify(nodes, what)
        if not is_comparable(exprs[0].type):
            self.mismatch(f"{what} cannot compare values of type {sql_type(exprs[0].type)}", at)
        return exprs

    def mismatch(self, primary: str, node: exp.Expr, hint: str | None = None) -> NoReturn:
        self.source.refuse(
            primary,
            node,
            detail="Numbers go with numbers, text with text, dates and timestamps with each other.",
            hint=hint or "Convert one of them with CAST, for example CAST(x AS BIGINT).",
        )

    def _bind(self, node: exp.Expr) -> Expr:
        match node:
            case exp.Paren():
                return self._bind(node.this)
            case exp.Column():
                return self.scope.column(node)
            case exp.Literal():
                return Literal(node.this, pa.string()) if node.is_string else self._number(node)
            case exp.Boolean():
                return Literal(bool(node.this), BOOL)
            case exp.Null():
                return Literal(None, pa.null())
            case exp.Neg():
                return self._negate(node)
            case exp.And() | exp.Or():
                name = "and" if isinstance(node, exp.And) else "or"
                terms = [self.condition(part, name.upper()) for part in node.flatten(unnest=False)]
                return reduce(lambda left, right: Call(name, (left, right), BOOL), terms)
            case exp.Not():
                return self._not(node)
            case exp.Is():
                return self._is(node)
            case exp.Between():
                return self._between(node)
            case exp.In() if not node.args.get("query") and not node.args.get("unnest"):
                return Call("in", tuple(self.comparable([node.this, *node.expressions], "IN", node)), BOOL)
            case exp.Like() | exp.ILike():
                return self._like(node)
            case exp.RegexpLike() if not node.args.get("flag"):
                return self._rlike(node)
            case exp.Case():
                return self._case(node)
            case exp.Interval():
                return self._interval(node)
            case exp.Cast() if not node.args.get(
                "safe"
            ):  # Spark's CAST is a TryCast to sqlglot, safe if TRY_ is written
                return self._cast(node)
            case exp.Anonymous():
                return self._call_registered(node)
        if type(node) in COMPARISONS:
            return self._compare(COMPARISONS[type(node)], node.this, node.expression, node)
        if type(node) in ARITHMETIC:
            return self._arithmetic(node)
        if type(node) in FUNCTIONS:
            return FUNCTIONS[type(node)](self, node)
        return self._refuse(node)

    def _refuse(self, node: exp.Expr) -> NoReturn:
        if isinstance(node, exp.Window):
            self.source.refuse("window functions are not supported", node, detail=SUPPORTED)
        listed = isinstance(node, exp.SubqueryPredicate) and isinstance(node.this, exp.Tuple)  # ANY ('a', 'b')
        if isinstance(node, exp.Query | exp.Exists | exp.In | exp.SubqueryPredicate) and not listed:
            self.source.refuse(
                "subqueries are not supported", node, detail="Expressions take the columns of the streams in FROM."
            )
        if isinstance(node, exp.AggFunc):
            self.source.refuse(
                f"aggregate function {self._called(node) or node.key.upper()} is not supported here",
                node,
                detail=f"{AGGREGATES}. They stand in the select list and in HAVING.",
            )
        if isinstance(node, exp.Collate):  # the parser leaves no trace of what follows the word
            self.source.refuse("COLLATE is not supported", node, detail="Text is compared by its bytes.")
        if isinstance(node, exp.Func) and (name := self._called(node)):
            self._refuse_function(name, node)
        self.source.refuse(
            f'"{self.source.slice(self.source.span(node))}" is not supported here', node, detail=SUPPORTED
        )

    def _refuse_function(self, name: str, node: exp.Expr) -> NoReturn:
        known = [*NAMES, *self.functions]
        near = did_you_mean(name.upper(), NAMES) or did_you_mean(name, self.functions)
        self.source.refuse(
            f'unknown function "{name}"', node, detail=f"The functions are {', '.join(known)}.", hint=near
        )

    def _called(self, node: exp.Expr) -> str | None:
        """The name of a function as it was written; None for an operator, of which some are functions to sqlglot."""
        # Between two operands stands an operator, and only operands note their reach.
        return self.source.called(self.source.span(node)) if "reach" in node.meta else None

    def _call_registered(self, node: exp.Anonymous) -> Expr:
        found = match_name(exp.Identifier(this=node.name, quoted=False), self.functions)
        if len(found) != 1:
            self._refuse_function(node.name, node)
        args = tuple(_for_python(self.value(arg)) for arg in node.expressions)
        return call_registered(found[0], self.functions[found[0]], args, node, self.source)

    def _compare(self, function: str, left: exp.Expr, right: exp.Expr, node: exp.Expr) -> Expr:
        exprs = self._read_moments([self.operand(left), self.operand(right)], [left, right])
        exprs = narrow_literals(exprs)
        first, second = exprs[0].type, exprs[1].type
        kind = common_type(first, second)
        if kind is None or not is_comparable(kind):
            counts = pa.types.is_duration(first) != pa.types.is_duration(second) and is_number(
                common_number(first, second)
            )
            hint = "Times of type BIGINT are in microseconds: write the interval as a number." if counts else None
            if pa.types.is_interval(first) or pa.types.is_interval(second):
                hint = "Months have no fixed length: give the column as an Arrow duration."
            self.mismatch(f"cannot compare {sql_type(first)} with {sql_type(second)}", node, hint)
        if pa.types.is_null(kind):
            return Literal(None, BOOL)
        return Call(function, (coerce(exprs[0], kind), coerce(exprs[1], kind)), BOOL)

    def _read_moments(self, exprs: Sequence[Expr], nodes: Sequence[exp.Expr]) -> list[Expr]:
        # A string literal beside a date or timestamp is one.
        moment = common_type_of(expr.type for expr in exprs if is_moment(expr.type))
        if moment is None or pa.types.is_null(moment):
            return list(exprs)
        return [
            self.read_moment(expr, moment, node) if isinstance(expr, Literal) and is_text(expr.type) else expr
            for expr, node in zip(exprs, nodes, strict=True)
        ]

    def read_moment(self, literal: Literal, target: pa.DataType, node: exp.Expr) -> Expr:
        """A string literal as a date or timestamp."""
        try:
            return coerce(literal, target)
        except ValueError:
            self.source.refuse(
                f'"{literal.value}" is not a {sql_type(target)}',
                node,
                detail="Dates are written 2024-12-31, timestamps 2024-12-31 23:59:59, at most 6 digits after a point.",
            )

    def _number(self, node: exp.Literal) -> Literal:
        if "e" in node.this.lower():
            return self._double(node)
        if node.this.isdigit() and int(node.this) < 2**63:
            return Literal(int(node.this), pa.int64())
        return self._decimal(node)

    def _double(self, node: exp.Literal) -> Literal:
        number = float(node.this)
        if number == math.inf:
            self.source.refuse(f'"{node.this}" is too large for a DOUBLE', node, detail="The largest is 1.797..e308.")
        return Literal(number, pa.float64())

    def _decimal(self, node: exp.Literal) -> Literal:
        """A number as it is written, as in Spark: 0.06 is a DECIMAL(2, 2)."""
        value = Decimal(node.this)
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int), "a number in the text is finite"
        scale = max(0, -exponent)
        precision = max(len(digits) + max(0, exponent), scale)
        if precision > MOST_DIGITS:
            self.source.refuse(
                f'"{node.this}" has more than {MOST_DIGITS} digits',
                node,
                detail=f"It has {precision}. A number with a point is a DECIMAL with all of its digits.",
                hint="Leave digits out, or write it with an exponent, such as 1.5e0, for a DOUBLE.",
            )
        return Literal(value, pa.decimal128(precision, scale))

    def _negate(self, node: exp.Neg) -> Expr:
        expr = self.operand(node.this)
        if isinstance(expr, Literal) and _is_numeric(expr.value):
            if expr.value == 2**63:  # the one number that is a BIGINT only with its sign
                return Literal(-(2**63), pa.int64())
            # Decimal's own minus would round to 28 digits.
            negative = expr.value.copy_negate() if isinstance(expr.value, Decimal) else -expr.value
            return Literal(negative, expr.type)
        if pa.types.is_integer(expr.type) or pa.types.is_null(expr.type):
            expr = coerce(expr, pa.int64())
        elif not (is_number(expr.type) or pa.types.is_duration(expr.type)):
            self.mismatch(f"cannot negate a value of type {sql_type(expr.type)}", node)
        return Call("negate", (expr,), expr.type)

    def _not(self, node: exp.Not) -> Expr:
        inner = node.this.unnest()
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return Call("is_not_null", (self.operand(inner.this),), BOOL)
        return Call("not", (self.condition(node.this, "NOT"),), BOOL)

    def _is(self, node: exp.Is) -> Expr:
        match node.expression:
            case exp.Null():
                return Call("is_null", (self.operand(node.this),), BOOL)
            case exp.Boolean() as wanted:
                condition = self.condition(node.this, "IS")
                holds = condition if wanted.this else Call("not", (condition,), BOOL)
                return Call("coalesce", (holds, Literal(False, BOOL)), BOOL)
        return self._refuse(node)

    def _between(self, node: exp.Between) -> Expr:
        if node.args.get("symmetric"):
            self._refuse(node)
        low = self._compare("greater_equal", node.this, node.args["low"], node)
        high = self._compare("less_equal", node.this, node.args["high"], node)
        return Call("and", (low, high), BOOL)

    def _like(self, node: exp.Like | exp.ILike) -> Expr:
        name = "like" if isinstance(node, exp.Like) else "ilike"
        value = self.text(node.this, name.upper())
        pattern = self._pattern(node.expression, name.upper())
        if re.fullmatch(r"(?s:[^\\]|\\[%_\\])*", pattern.value or "") is None:
            self.source.refuse(
                f"the pattern of {name.upper()} has a backslash with nothing to escape",
                node.expression,
                detail="A backslash stands before %, _ or another backslash.",
                hint="In a string literal it is written twice: 'a\\\\\\\\b' matches a\\b.",
            )
        found = Call(name, (value, pattern), BOOL)
        return Call("not", (found,), BOOL) if node.args.get("negate") else found

    def _rlike(self, node: exp.RegexpLike) -> Expr:
        pattern = self._pattern(node.expression, "RLIKE")
        found = Call("rlike", (self.text(node.this, "RLIKE"), pattern), BOOL)
        try:
            evaluate(Call("rlike", (Literal("", pa.string()), pattern), BOOL), ONE_ROW)
        except InputError as error:
            self.source.refuse(
                f'"{pattern.value}" is not a regular expression',
                node.expression,
                detail=error.detail,
                hint="The syntax is RE2's: there are no back-references and no look-around.",
            )
        return found

    def _pattern(self, node: exp.Expr, what: str) -> Literal:
        pattern = self.text(node, what)
        if not isinstance(pattern, Literal):
            self.source.refuse(f"the pattern of {what} must be a string literal", node)
        return pattern

    def text(self, node: exp.Expr, what: str) -> Expr:
        """`node`, which must be text."""
        expr = self.operand(node)
        if not (is_text(expr.type) or pa.types.is_null(expr.type)):
            self.source.refuse(
                f"{what} needs text, not a value of type {sql_type(expr.type)}", node, hint="Write CAST(x AS STRING)."
            )
        return coerce(expr, pa.string())

    def number(self, node: exp.Expr, what: str) -> Expr:
        """`node`, which must be a number; integers come as BIGINT."""
        expr = self.operand(node)
        if pa.types.is_null(expr.type):
            return Literal(None, pa.int64())
        if not is_number(expr.type):
            self.mismatch(f"{what} needs a number, not a value of type {sql_type(expr.type)}", node)
        return coerce(expr, pa.int64()) if pa.types.is_integer(expr.type) else expr

    def constant(self, node: exp.Expr, what: str, kind: pa.DataType) -> Literal:
        """`node`, which must be a literal of `kind`: the Arrow kernel takes no column in its place."""
        expr = self.operand(node)
        if not isinstance(expr, Literal) or common_type(expr.type, kind) != kind:
            self.source.refuse(f"{what} must be a literal of type {sql_type(kind)}", node)
        return Literal(expr.value, kind)

    def _case(self, node: exp.Case) -> Expr:
        branches = node.args["ifs"]
        if node.this:
            conditions = [self._compare("equal", node.this, branch.this, branch) for branch in branches]
        else:
            conditions = [self.condition(branch.this, "WHEN") for branch in branches]
        results = [branch.args["true"] for branch in branches] + [node.args.get("default") or exp.Null()]
        return self.choose(conditions, results, "CASE")

    def choose(self, conditions: Sequence[Expr], results: Sequence[exp.Expr], what: str) -> Expr:
        """The first of `results` whose condition holds, or the last of them."""
        *values, default = self.unify(results, what)
        pairs = [part for pair in zip(conditions, values, strict=True) for part in pair]
        return Call("case", (*pairs, default), result_type(default.type))

    def _interval(self, node: exp.Interval) -> Expr:
        if "interval" not in node.meta:
            self.source.refuse(
                "cannot read the interval",
                node,
                detail="An interval is a literal: a number and a unit, or several of them.",
                hint="For example INTERVAL 5 MINUTES.",
            )
        return Literal(node.meta["interval"], DURATION)

    def _cast(self, node: exp.Cast) -> Expr:
        target = types.arrow_type(node.to)
        if target is None:
            name, numbers = node.to.sql(dialect="spark"), ", ".join(param.name for param in node.to.expressions)
            name = f"{name}({numbers})" if numbers and not name.endswith((")", ">")) else name
            self.source.refuse(f"cannot cast to {name}", node, detail=f"The types are {types.SUPPORTED}.")
        if (number := self._suffixed(node, target)) is not None:
            return number
        expr = self.operand(node.this)
        if isinstance(expr, Literal) and is_text(expr.type) and is_moment(target):
            return self.read_moment(expr, target, node)  # DATE '..' and TIMESTAMP '..' are casts, too
        if not _can_cast(expr.type, target):
            self.source.refuse(f"cannot cast {sql_type(expr.type)} to {sql_type(target)}", node)
        return expr if expr.type == target and not isinstance(expr, Literal) else Cast(expr, target)

    def _suffixed(self, node: exp.Cast, target: pa.DataType) -> Literal | None:
        """A number such as 1.5D or 1.5BD, which the parser reads as a cast."""
        number = node.this
        if not isinstance(number, exp.Literal) or number.is_string:
            return None
        if pa.types.is_float64(target):
            return self._double(number)
        return self._decimal(number) if self.source.slice(self.source.span(node)).upper().endswith("BD") else None

    def _arithmetic(self, node: exp.Expr) -> Expr:
        function, sign = ARITHMETIC[type(node)]
        left, right = narrow_literals([self.operand(node.this), self.operand(node.expression)])
        if is_number(left.type) and pa.types.is_null(right.type):
            right = coerce(right, left.type)
        elif pa.types.is_null(left.type) and is_number(right.type):
            left = coerce(left, right.type)
        elif pa.types.is_null(left.type) and pa.types.is_null(right.type):
            left = right = Literal(None, pa.int64())
        if is_number(left.type) and is_number(right.type):
            return self._arithmetic_of_numbers(function, left, right, node)
        moment = _arithmetic_of_times(function, left, right)
        if moment is None:
            self.mismatch(f"cannot compute {sql_type(left.type)} {sign} {sql_type(right.type)}", node)
        return moment

    def _arithmetic_of_numbers(self, function: str, left: Expr, right: Expr, node: exp.Expr) -> Expr:
        if function == "divide" or pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
            kind = pa.float64()
        elif pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
            kind = pa.int64()
        else:
            return self._arithmetic_of_decimals(function, left, right, node)
        return Call(function, (coerce(left, kind), coerce(right, kind)), kind)

    def _arithmetic_of_decimals(self, function: str, left: Expr, right: Expr, node: exp.Expr) -> Expr:
        first, second = as_decimal_type(left.type), as_decimal_type(right.type)
        scale = max(first.scale, second.scale)
        whole = first.precision - first.scale, second.precision - second.scale
        needed, most = max(whole) + scale + 1, 76
        kind = decimal_type(min(MOST_DIGITS, needed), scale)
        if function == "multiply":
            needed, most = first.precision + second.precision + 1, 77  # of two times 38 digits, if one has one less
            kind = product_type(needed, first.scale + second.scale)
        elif function == "modulo":
            first, second = (decimal_type(digits + scale, scale) for digits in whole)
            needed = first.precision + second.precision + 2
            kind = decimal_type(max(1, min(whole) + scale), scale)
        if needed > most:
            self.mismatch(
                f"cannot compute {sql_type(first)} {ARITHMETIC[type(node)][1]} {sql_type(second)}",
                node,
                "Cast one side to DOUBLE, or to a DECIMAL with fewer digits.",
            )
        # Past 38 digits it is computed in 256 bits, rounded to the scale of the result, and must fit 38 in the end.
        name = f"{function}_decimal" if needed > MOST_DIGITS and function != "modulo" else function
        return Call(name, (coerce(left, first), coerce(right, second)), kind)


def _arithmetic_of_times(function: str, left: Expr, right: Expr) -> Expr | None:
    first, second = left.type, right.type
    if function == "add" and pa.types.is_duration(first) and is_moment(second):
        return _arithmetic_of_times(function, right, left)
    if function not in ("add", "subtract"):
        return None
    if pa.types.is_duration(first) and pa.types.is_duration(second):
        kind: Any = common_type(first, second)
        return Call(function, (coerce(left, kind), coerce(right, kind)), kind)
    if is_moment(first) and pa.types.is_duration(second):
        moment = TIMESTAMP if pa.types.is_date(first) else first
        kind = common_type(moment, pa.timestamp(second.unit, tz=moment.tz))
        return Call(function, (coerce(left, kind), coerce(right, pa.duration(kind.unit))), kind)
    if function == "subtract" and is_moment(first) and is_moment(second):
        kind = common_type(first, second)
        kind = TIMESTAMP if pa.types.is_date(kind) else kind
        return Call(function, (coerce(left, kind), coerce(right, kind)), pa.duration(kind.unit))
    return None


def common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Of two types, the one that is a number; the first where neither is."""
    return right if is_number(right) else left


def _for_python(expr: Expr) -> Expr:
    """An argument of a registered function. A decimal that is the same for all rows is a DOUBLE, like 0.5 in Python."""
    is_constant = bool(pa.types.is_decimal(expr.type)) and not any(columns_of(expr))
    return coerce(expr, pa.float64()) if is_constant else expr


def _is_numeric(value: object) -> bool:
    return isinstance(value, int | float | Decimal | timedelta) and not isinstance(value, bool)


def _can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    if source == target or pa.types.is_null(source) or is_text(source):
        return True
    if is_text(target):
        return not pa.types.is_nested(source) and not pa.types.is_duration(source)
    if is_number(source) or pa.types.is_boolean(source):
        return is_number(target) or bool(pa.types.is_boolean(target))
    return is_moment(source) and is_moment(target)
