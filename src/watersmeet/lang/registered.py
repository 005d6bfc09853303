"""Functions that users register: how they are declared, and how a call of one in a query is bound.

`predicate` is what users call. A call in a query is a `PythonCall`; an argument with a preparation becomes a
`PrepareCall`, and `hoist` makes a column of the row of each of these that reads one input, where the predicate or the
select list needs more than that row: it is computed when the row enters, and carried instead of what it was made of.

Functions have no content to be known by: a preparation is known by its name, and two of one name in a query are told
apart by their order in the text. What a state holds is named by that.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, overload

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ParseError

from watersmeet.errors import JobError, UserError
from watersmeet.kernel.python_calls import prepared_array
from watersmeet.lang.source import Source
from watersmeet.lang.types import COLUMN_TYPES, column_type
from watersmeet.model.expressions import (
    Column,
    Expr,
    PrepareCall,
    Prepared,
    PythonCall,
    aliases_of,
    describe,
    replace_children,
)
from watersmeet.model.predicates import Predicate, Preparation, function_name
from watersmeet.model.schema import normal_type

Function = Callable[..., Any]
Prepare = Function | Sequence[Function | None] | Mapping[str, Function]
Type: TypeAlias = "pa.DataType | str"
Types: TypeAlias = "Type | Sequence[Type | None] | Mapping[str, Type]"


@overload
def predicate(
    function: Function,
    *,
    cost: float | None = None,
    symmetric: bool = False,
    prepare: Prepare | None = None,
    prepared_type: Types | None = None,
) -> Predicate: ...
@overload
def predicate(
    function: None = None,
    *,
    cost: float | None = None,
    symmetric: bool = False,
    prepare: Prepare | None = None,
    prepared_type: Types | None = None,
) -> Callable[[Function], Predicate]: ...
def predicate(
    function: Function | None = None,
    *,
    cost: float | None = None,
    symmetric: bool = False,
    prepare: Prepare | None = None,
    prepared_type: Types | None = None,
) -> Predicate | Callable[[Function], Predicate]:
    """A function for `functions` of `wm.sql`, with what is known of it; also a decorator.

    `cost` is what it takes for each combination of rows, in seconds; without it that is measured. `symmetric` says that
    f(a, b) is f(b, a). `prepare` is computed once for each row and kept with it, and the function gets what it gave in
    the place of the argument: one for all arguments, a list with one (or None) for each, or a dict by the function's
    parameters. `prepared_type` is the Arrow type, or the text of an SQL type, of what it gives, in the same form;
    without it `prepare` is asked about no rows.

    Rows in which an argument is NULL do not satisfy the predicate, and nobody is asked about them.
    """
    if function is None:
        return lambda given: predicate(
            given, cost=cost, symmetric=symmetric, prepare=prepare, prepared_type=prepared_type
        )
    _check(function, cost, prepare, prepared_type)
    prepared = _preparations(function, prepare, prepared_type)
    if symmetric and isinstance(prepared, tuple) and len(set(prepared)) > 1:
        raise JobError(
            f'predicate "{function_name(function)}" is symmetric, and its arguments are prepared in different ways',
            hint="Give one function as prepare, for both arguments, or leave out symmetric.",
        )
    return Predicate(function, cost, symmetric, prepared)


def _check(function: Any, cost: Any, prepare: Any, prepared_type: Any) -> None:
    if not callable(function):
        raise JobError(f"predicate takes a function, not a {type(function).__name__}")
    if isinstance(function, Predicate):
        raise JobError("predicate was given what it has made", hint="Declare everything in one call.")
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float) or not _is_positive(cost)):
        raise JobError(
            f'cost of predicate "{function_name(function)}" is {cost!r}',
            detail="It is a positive number: the seconds for each combination of rows, such as 2e-7.",
        )
    if prepared_type is not None and prepare is None:
        raise JobError(
            f'predicate "{function_name(function)}" has prepared_type without prepare',
            hint="Give the function that makes values of this type as prepare.",
        )


def _is_positive(cost: float) -> bool:
    return math.isfinite(cost) and cost > 0


def _preparations(
    function: Function, prepare: Prepare | None, kinds: Types | None
) -> Preparation | tuple[Preparation | None, ...] | None:
    if prepare is None:
        return None
    if callable(prepare):
        if kinds is not None and not isinstance(kinds, pa.DataType | str):
            raise _other_form(function)
        return Preparation(prepare, _type(function, kinds))
    if isinstance(prepare, Mapping):
        names = _parameters(function, [*prepare, *(kinds if isinstance(kinds, Mapping) else ())])
        prepare = [prepare.get(name) for name in names]
        kinds = [kinds.get(name) for name in names] if isinstance(kinds, Mapping) else kinds
    if isinstance(kinds, Mapping) or not isinstance(prepare, Sequence):
        raise _other_form(function)
    each = [kinds] * len(prepare) if kinds is None or isinstance(kinds, pa.DataType | str) else list(kinds)
    if len(each) != len(prepare) or not all(entry is None or callable(entry) for entry in prepare):
        raise _other_form(function)
    return tuple(
        None if entry is None else Preparation(entry, _type(function, kind))
        for entry, kind in zip(prepare, each, strict=True)
    )


def _other_form(function: Function) -> JobError:
    return JobError(
        f'prepare of predicate "{function_name(function)}" is not understood',
        detail="prepare is a function, a list with a function or None for each argument, or a dict of functions by the "
        "names of parameters. prepared_type is one type, or has the form of prepare.",
    )


def _parameters(function: Function, wanted: Sequence[str]) -> list[str]:
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # as of some that are written in C
        raise JobError(
            f'the parameters of predicate "{function_name(function)}" have no names',
            hint="Give prepare as a list, with a function or None for each argument.",
        ) from None
    for name in wanted:
        if name not in names:
            raise JobError(
                f'predicate "{function_name(function)}" has no parameter "{name}"',
                detail=f"Its parameters are {', '.join(names)}.",
            )
    return names


def _type(function: Function, kind: Type | None) -> pa.DataType | None:
    if kind is None or isinstance(kind, pa.DataType):
        return None if kind is None else normal_type(kind)
    try:
        found = column_type(exp.DataType.build(kind, dialect="spark"))
    except ParseError:
        found = None
    if found is None:
        raise JobError(
            f'prepared_type of predicate "{function_name(function)}" is unknown: "{kind}"',
            detail=f"The types are {COLUMN_TYPES}. An Arrow type can be given as it is.",
        )
    return found


def call_registered(name: str, function: Function, args: Sequence[Expr], node: exp.Expr, source: Source) -> PythonCall:
    """A call of a registered function, bound."""
    place = (source.text, source.span(node))
    if not callable(function):
        given = f"what was given for it is a {type(function).__name__}"
        source.refuse(f'"{name}" is registered and is no function', node, detail=f"In functions=, {given}.")
    if not isinstance(function, Predicate):
        return PythonCall(name, function, tuple(args), pa.bool_(), place=place)
    if function.symmetric and len(args) != 2:
        source.refuse(f'"{name}" is declared as symmetric, and takes two arguments, not {len(args)}', node)
    if isinstance(function.prepare, tuple) and len(function.prepare) != len(args):
        source.refuse(
            f'"{name}" has {len(args)} arguments here',
            node,
            detail=f"It is declared with what is to be prepared of {len(function.prepare)}.",
        )
    prepared = [_prepare(name, function.preparation(i), arg, node, source) for i, arg in enumerate(args)]
    return PythonCall(
        name,
        function.function,
        tuple(prepared),
        pa.bool_(),
        cost=function.cost,
        symmetric=function.symmetric,
        skips_null=True,
        place=place,
    )


def _prepare(predicate: str, given: Preparation | None, arg: Expr, node: exp.Expr, source: Source) -> Expr:
    if given is None:
        return arg
    place = (source.text, source.span(node))
    call = PrepareCall(predicate, given.name, given.function, arg, given.type or pa.null(), place=place)
    if given.type is not None:
        return call
    try:
        kind = normal_type(prepared_array(call, pa.array([], arg.type), typed=False).type)
    except UserError as error:
        kind, why = pa.null(), error.primary
    else:
        why = "it gives values of no type"
    if pa.types.is_null(kind):
        source.refuse(
            f'what "{given.name}" prepares for "{predicate}" has no known type',
            node,
            detail=f"It was asked about no rows of type {arg.type}, to see what it gives: {why}.",
            hint=f"Declare it: wm.predicate(.., prepare={given.name}, prepared_type=pa.list_(pa.float32(), 64)).",
        )
    return replace(call, type=kind)


class Hoisting:
    """Makes columns of what is prepared of single rows; each is there once, however often the query needs it."""

    def __init__(self, columns: Mapping[str, Sequence[str]]) -> None:
        self._columns = columns  # the names that each input has
        self._functions: dict[str, list[Function]] = {}  # by the name that they have
        self._found: dict[str, Prepared] = {}

    @property
    def prepared(self) -> tuple[Prepared, ...]:
        return tuple(self._found.values())

    def hoist(self, expr: Expr) -> Expr:
        """`expr` with a column for each preparation that reads one input."""
        if isinstance(expr, PrepareCall) and len(aliases_of(expr)) == 1:
            return self._column(expr)
        return replace_children(expr, self.hoist)

    def _column(self, call: PrepareCall) -> Prepared:
        alike = self._functions.setdefault(call.name, [])
        if call.function not in alike:
            alike.append(call.function)
        number = alike.index(call.function)
        call = replace(call, name=f"{call.name}#{number + 1}") if number else call
        alias, text = min(aliases_of(call)), f"{describe(call)} {call.type}"
        if text not in self._found:
            name = f"#p{hashlib.sha256(text.encode()).hexdigest()[:8]}"
            while name in self._columns[alias]:
                name = f"#{name}"
            self._found[text] = Prepared(Column(alias, name, call.type), call)
        return self._found[text]


def described(prepared: Sequence[Prepared]) -> Iterator[tuple[str, str]]:
    """What is prepared, and the type of each, as text: part of what tells a query's checkpoint from another's."""
    return ((describe(each), str(each.type)) for each in prepared)
