"""Query text to a bound `Query`: every name resolved, every expression typed, every conjunct in its place.

What is not supported is refused with a QueryError that points at the place and says what is supported. Nothing is
optimised here.

Output columns are named by their alias (AS), else by the column's name, else by their SQL text. `*` and `A.*` name
columns by their own names; a name that occurs in two of the inputs which the stars of the select list cover is
written alias_name for each of them, such as `A_k` and `B_k`. Two outputs of one name, in any case, are an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn

from sqlglot import TokenType, exp

from watersmeet.errors import Span, did_you_mean
from watersmeet.lang import dialect
from watersmeet.lang.aggregates import (
    bind_groups,
    grouped_at,
    grouped_binder,
    is_grouped,
    refuse_aggregates,
    refuse_slides,
)
from watersmeet.lang.conjuncts import sort_conjuncts
from watersmeet.lang.count_windows import refuse_with_groups, refuse_without_equality
from watersmeet.lang.dialect import parse, window_of
from watersmeet.lang.pair_windows import find_pair_windows, refuse_contradiction
from watersmeet.lang.registered import Hoisting
from watersmeet.lang.scalars import ScalarBinder
from watersmeet.lang.scope import Scope, ScopeInput, match_name
from watersmeet.lang.source import Source
from watersmeet.model.aggregates import GroupBy
from watersmeet.model.expressions import Expr
from watersmeet.model.streams import Stream, Unbounded
from watersmeet.plan.count_windows import with_count_windows
from watersmeet.plan.query import OutputColumn, Query, QueryInput

_NO_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType({})
_SUPPORTED_ARGS = ("expressions", "from_", "joins", "where", "group", "having", "distinct")
_CLAUSES: dict[str, tuple[str, tuple[TokenType, ...]]] = {
    "with_": ("WITH", (TokenType.WITH,)),
    "windows": ("WINDOW", (TokenType.WINDOW,)),
    "qualify": ("QUALIFY", (TokenType.QUALIFY,)),
    "order": ("ORDER BY", (TokenType.ORDER_BY,)),
    "sort": ("SORT BY", (TokenType.SORT_BY,)),
    "cluster": ("CLUSTER BY", (TokenType.CLUSTER_BY,)),
    "distribute": ("DISTRIBUTE BY", (TokenType.DISTRIBUTE_BY,)),
    "limit": ("LIMIT", (TokenType.LIMIT, TokenType.FETCH)),
    "offset": ("OFFSET", (TokenType.OFFSET,)),
    "laterals": ("LATERAL VIEW", (TokenType.LATERAL,)),
}
_SET_OPERATIONS = (TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT)
_JOIN_WORDS = frozenset(
    ("INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "SEMI", "ANTI", "ASOF", "LATERAL")
)
_JOINS = "Streams are joined by comma, [INNER] JOIN .. ON or CROSS JOIN."


def bind(
    text: str, streams: Mapping[str, Stream], functions: Mapping[str, Callable[..., Any]] = _NO_FUNCTIONS
) -> Query:
    """The query that `text` asks over `streams`; `functions` are registered Python predicates, by name."""
    tree, source = parse(text, functions)
    select = _check_statement(tree, source)
    from_clause = select.args.get("from_")
    if from_clause is None:
        source.refuse("the query has no FROM", None, detail=dialect.SUPPORTED)
    entries: list[ScopeInput] = []
    conditions: list[tuple[exp.Expr, str]] = []
    for table, condition in _flatten_joins(from_clause.this, select.args.get("joins") or [], source):
        entries.append(_bind_table(table, streams, entries, source))
        if condition is not None:
            conditions.append((condition, "ON"))
    if where := select.args.get("where"):
        conditions.append((where.this, "WHERE"))
    grouped = is_grouped(select)
    if len(entries) < 2 and not grouped:
        source.refuse(
            "a join needs two streams or more", entries[0].table, detail=f"{_JOINS} One is enough for GROUP BY."
        )
    if grouped:
        refuse_with_groups(entries, source)
    else:
        refuse_slides(entries, source)

    scope = Scope(source, tuple(entries))
    scalars = ScalarBinder(scope, functions)
    for node, what in conditions:
        refuse_aggregates(node, what, source)
    bound = [scalars.condition(node, what) for node, what in conditions]
    group_by: GroupBy | None = None
    if grouped:
        binder = grouped_binder(select, scalars)
        group_by, outputs = bind_groups(select, binder, _bind_select(select, binder))
    else:
        outputs = _bind_select(select, scalars)
    conjuncts = sort_conjuncts(bound, [entry.alias for entry in entries])
    read = {entry.alias: scope.columns_read(entry.stream) for entry in entries}
    inputs = tuple(QueryInput(e.alias, e.stream, e.window, conjuncts.filters[e.alias], read[e.alias]) for e in entries)
    hoisting = Hoisting(read)
    predicates = tuple(map(hoisting.hoist, conjuncts.predicates))
    if group_by is None:
        outputs = tuple(replace(column, expr=hoisting.hoist(column.expr)) for column in outputs)
    else:
        group_by = group_by.reading(hoisting.hoist)
    times = {entry.alias: entry.stream.time_column for entry in entries}
    windows = tuple(find_pair_windows(conjuncts.predicates, conjuncts.keys, times))
    at = grouped_at(select, source) if grouped else None
    query = Query(text, inputs, conjuncts.keys, predicates, outputs, hoisting.prepared, group_by, windows, at)
    refuse_contradiction(query, [node for node, _ in conditions], scalars)
    refuse_without_equality(query, entries, source)
    return with_count_windows(query)


def _check_statement(tree: exp.Expr, source: Source) -> exp.Select:
    if isinstance(tree, exp.SetOperation):
        source.refuse(f"{tree.key.upper()} is not supported", source.find(_SET_OPERATIONS), detail=dialect.SUPPORTED)
    if not isinstance(tree, exp.Select):
        first = source.tokens[0]
        source.refuse("a query must be a SELECT", Span(first.start, first.end + 1), detail=dialect.SUPPORTED)
    for arg, (name, kinds) in _CLAUSES.items():
        if tree.args.get(arg):
            source.refuse(f"{name} is not supported", source.find(kinds), detail=dialect.SUPPORTED)
    for arg, value in tree.args.items():
        if value and arg not in _SUPPORTED_ARGS:
            at = source.span(value) if isinstance(value, exp.Expr) else None
            source.refuse(f"{arg.strip('_').upper()} is not supported", at, detail=dialect.SUPPORTED)
    return tree


def _flatten_joins(
    first: exp.Expr, joins: list[exp.Join], source: Source
) -> Iterator[tuple[exp.Expr, exp.Expr | None]]:
    """Each table of the FROM clause with its ON condition; inner joins may be nested, and the order says nothing."""
    yield first, None
    for nested in first.args.get("joins") or []:
        yield from _flatten_join(nested, source)
    for join in joins:
        yield from _flatten_join(join, source)


def _flatten_join(join: exp.Join, source: Source) -> Iterator[tuple[exp.Expr, exp.Expr | None]]:
    words = _join_words(join.this, source)
    spoken = source.slice(words).upper() if words else ","
    if isinstance(join.this, exp.Table) and spoken not in (",", "JOIN", "INNER JOIN", "CROSS JOIN"):
        source.refuse(f"{spoken} is not supported", words, detail=_JOINS)
    if using := join.args.get("using"):
        start = source.span(using[0]).start
        keyword = next(token for token in source.tokens_before(start) if token.text.upper() == "USING")
        end = source.text.find(")", source.span(using[-1]).end) + 1
        source.refuse(
            "USING is not supported",
            Span(keyword.start, end),
            detail=_JOINS,
            hint=f"Write ON with both sides, such as ON a.{using[0].name} = b.{using[0].name}.",
        )
    yield join.this, join.args.get("on")
    for nested in join.this.args.get("joins") or []:
        yield from _flatten_join(nested, source)


def _join_words(table: exp.Expr, source: Source) -> Span | None:
    """The keywords that join `table` to what stands before it; None for a comma."""
    before = list(source.tokens_before(source.span(table).start))
    while before and before[0].token_type == TokenType.L_PAREN:
        before.pop(0)
    if not before or before[0].token_type == TokenType.COMMA:
        return None
    start = before[0]
    for token in before[1:]:
        if token.text.upper() not in _JOIN_WORDS:
            break
        start = token
    return Span(start.start, before[0].end + 1)


def _bind_table(table: exp.Expr, streams: Mapping[str, Stream], others: list[ScopeInput], source: Source) -> ScopeInput:
    if isinstance(table, exp.Query):
        source.refuse("subqueries are not supported", table, detail=dialect.SUPPORTED)
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        source.refuse("FROM takes streams only", table, detail=dialect.SUPPORTED)
    if table.args.get("db") or any(table.args.get(arg) for arg in ("sample", "pivots", "version", "when", "hints")):
        source.refuse(f'cannot read "{source.slice(source.span(table))}" as a stream', table, detail=dialect.SUPPORTED)
    found = match_name(table.this, streams)
    if len(found) != 1:
        source.refuse(
            f'unknown stream "{table.name}"',
            table.this,
            detail=f"The streams are {', '.join(streams)}.",
            hint=did_you_mean(table.name, streams),
        )
    clause = window_of(table, source)
    alias = table.alias or found[0]
    named = table.args["alias"].this if table.alias else table.this
    if any(other.alias.lower() == alias.lower() for other in others):
        source.refuse(
            f'two inputs are named "{alias}"', named, hint=f"Give each its own alias, such as {table.name} {alias}2."
        )
    if "." in alias:
        source.refuse(f'alias "{alias}" holds a dot', named)
    window = clause.window if clause else Unbounded()
    return ScopeInput(alias, streams[found[0]], window, table, clause.slide if clause else None)


def _bind_select(select: exp.Select, scalars: ScalarBinder) -> tuple[OutputColumn, ...]:
    source = scalars.source
    spans = source.select_items()
    if len(spans) != len(select.expressions) or not spans:
        empty = next((span for span in spans if source.slice(span).upper() in (",", "FROM")), None)
        source.refuse("cannot read the select list", empty, detail="It is expressions with commas between them, or *.")
    expanded = [
        each
        for node, span in zip(select.expressions, spans, strict=True)
        if _is_star(node)
        for each in _star_inputs(node, span, scalars.scope)
    ]
    shared = Counter(
        name.lower() for entry in {e.alias: e for e in expanded}.values() for name in entry.stream.schema.names
    )
    outputs: list[OutputColumn] = []
    seen: dict[str, str] = {}
    for node, span in zip(select.expressions, spans, strict=True):
        for name, expr in _bind_item(node, span, scalars, shared):
            if name.lower() in seen:
                source.refuse(
                    f'two output columns are named "{name}"',
                    span,
                    hint="Spell the columns out instead of the star, and rename one."
                    if _is_star(node)
                    else f"Rename one, such as {source.slice(source.span(node.unalias()))} AS x.",
                )
            seen[name.lower()] = name
            outputs.append(OutputColumn(name, expr))
    return tuple(outputs)


def _bind_item(node: exp.Expr, span: Span, scalars: ScalarBinder, shared: Counter[str]) -> Iterator[tuple[str, Expr]]:
    if _is_star(node):
        for entry in _star_inputs(node, span, scalars.scope):
            for name in entry.stream.schema.names:
                column = scalars.selected(scalars.scope.read(entry, name), span)
                yield (f"{entry.alias}_{name}" if shared[name.lower()] > 1 else name), column
        return
    aliased = isinstance(node, exp.Alias)
    expr = scalars.value(node.this if aliased else node)
    yield (node.alias if aliased else scalars.own_name(node) or scalars.source.slice(span)), expr


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _star_inputs(node: exp.Expr, span: Span, scope: Scope) -> tuple[ScopeInput, ...]:
    star = node if isinstance(node, exp.Star) else node.this
    if any(star.args.values()):
        _refuse_star(span, scope)
    return scope.inputs if star is node else (scope.input(node.args["table"]),)


def _refuse_star(span: Span, scope: Scope) -> NoReturn:
    scope.source.refuse("* takes no EXCEPT, REPLACE or RENAME", span, detail="List the columns instead.")
