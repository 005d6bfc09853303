"""The query language's grammar: Spark SQL as sqlglot reads it, plus a window in brackets after a table.

    orders o [RANGE 30 MINUTES]    orders [RANGE 30 MINUTES] AS o    orders [UNBOUNDED]    orders [ROWS 100]
    orders o [RANGE 30 MINUTES SLIDE 5 MINUTES]

`parse` gives the syntax tree of one statement together with its `Source`. A window hangs on its table's (or the
table's alias') meta under "window"; `window_of` fetches it. Each operand notes in its meta under "reach" the stretch
of text that it was read from. As in Spark, identifiers are quoted with backticks, and double quotes make a string;
inside a string a doubled quote is one quote, as is a quote after a backslash. Hints to Spark's optimiser are comments.
Whatever cannot be read is a QueryError that points at the place; no error of sqlglot's gets out.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from watersmeet.errors import QueryError, Span, did_you_mean
from watersmeet.lang.intervals import MOST_TOKENS, is_unit, part_at, read_interval
from watersmeet.lang.source import Source, token_span
from watersmeet.model.quantities import UNIT_MICROSECONDS, unit_microseconds
from watersmeet.model.streams import Range, Rows, Unbounded, Window

SUPPORTED = (
    "A query is SELECT .. FROM a stream with an optional alias and window, two or more of them, joined by comma or "
    "[INNER] JOIN .. ON, and optionally WHERE, GROUP BY and HAVING. With GROUP BY or DISTINCT, one stream is enough."
)
_WINDOWS = "A window is [RANGE n UNIT], [ROWS n] or [UNBOUNDED]; where groups are emitted, [RANGE n UNIT SLIDE n UNIT]."
MOST_ROWS = 10**12  # of a window: ranks with this many added are far from the end of 64 bits
_UNITS = [unit.upper() + "S" for unit in UNIT_MICROSECONDS]


@dataclass(frozen=True)
class SlideClause:
    """How often groups are emitted, as written."""

    slide: timedelta
    span: Span


@dataclass(frozen=True)
class WindowClause:
    """A window as written."""

    window: Window
    span: Span
    slide: SlideClause | None = None


class WatersmeetParser(SparkParser):
    # Names that the user registered: calls to them are left alone even where SQL has a function of that name.
    registered: Collection[str] = ()

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
        table = super()._parse_table_parts(*args, **kwargs)
        if table is not None and (clause := self._parse_stream_window()):
            table.meta["window"] = clause
        return table

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> Any:
        alias = super()._parse_table_alias(*args, **kwargs)
        if alias is not None and (clause := self._parse_stream_window()):
            alias.meta["window"] = clause
        return alias

    def _parse_interval(self, *args: Any, **kwargs: Any) -> Any:
        first = part_at(self._next_tokens(1)) if self._match(TokenType.INTERVAL, advance=False) else None
        if first is None:
            return super()._parse_interval(*args, **kwargs)
        part, length = first
        parts = [part]
        self._advance(1 + length)
        # More follows only as a number with a unit: `INTERVAL 1 DAY - 2 HOURS`, and not `INTERVAL 1 DAY - x`.
        while part.unit is not None and (following := part_at(self._next_tokens())) is not None:
            part, length = following
            if part.unit is None or not is_unit(part.unit.text):
                break
            parts.append(part)
            self._advance(length)
        node = exp.Interval()
        node.meta["interval"] = read_interval(parts, self.sql)
        return node

    def _next_tokens(self, skipped: int = 0) -> list[Token]:
        start = self._index + skipped
        return self._tokens[start : start + MOST_TOKENS]

    def _parse_unary(self) -> Any:
        first = self._curr
        node = super()._parse_unary()
        if node is not None and first and "reach" not in node.meta:
            node.meta["reach"] = (first.start, self._prev.end)
        return node

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        if self._curr and self._curr.text.lower() in self.registered:
            kwargs["anonymous"] = True
        return super()._parse_function_call(*args, **kwargs)

    def _parse_stream_window(self) -> WindowClause | None:
        if not self._curr or self._curr.token_type != TokenType.L_BRACKET:
            return None
        opening = self._curr.start
        inside: list[Token] = []
        self._advance()
        while self._curr and not self._match(TokenType.R_BRACKET):
            inside.append(self._curr)
            self._advance()
        span = Span(opening, self._prev.end + 1)
        if self._prev.token_type != TokenType.R_BRACKET:
            raise self._window_error("window has no closing bracket", span)
        match [token.text.upper() for token in inside]:
            case ["UNBOUNDED"]:
                return WindowClause(Unbounded(), span)
            case ["ROWS", count] if count.isdecimal() and 0 < int(count) <= MOST_ROWS:
                return WindowClause(Rows(int(count)), span)
            case ["ROWS", *rest]:
                raise self._window_error(
                    f"the rows of a window are a whole number from 1 to {MOST_ROWS:,}",
                    span,
                    detail=f"They are {' '.join(rest).replace('- ', '-')}." if rest else "There is no number.",
                    hint="For example [ROWS 100].",
                )
            case ["RANGE", number, _] if _is_number(number):
                return WindowClause(Range(self._duration("width", number, inside[2], span)), span)
            case ["RANGE", number, _, "SLIDE", slide, _] if _is_number(number) and _is_number(slide):
                width = Range(self._duration("width", number, inside[2], span))
                each = SlideClause(self._duration("slide", slide, inside[5], span), span)
                return WindowClause(width, span, each)
        raise self._window_error(f'cannot read window "{self.sql[span.start : span.end]}"', span)

    def _duration(self, what: str, number: str, unit: Token, span: Span) -> timedelta:
        micros = unit_microseconds(unit.text)
        if micros is None:
            raise self._window_error(
                f'unknown unit "{unit.text}" in a window',
                token_span(unit),
                detail=f"The units are {', '.join(_UNITS)}, singular or plural.",
                hint=did_you_mean(unit.text.upper(), _UNITS),
            )
        width = Decimal(number) * micros
        try:
            duration = timedelta(microseconds=int(width))
        except OverflowError:
            duration = timedelta(0)
        if width != int(width) or duration <= timedelta(0):
            raise self._window_error(
                f"a window's {what} must be a positive whole number of microseconds, at most 999999999 days",
                span,
                detail=f"It is {number} {unit.text}.",
            )
        return duration

    def _window_error(self, primary: str, span: Span, *, detail: str = _WINDOWS, hint: str | None = None) -> QueryError:
        hint = hint or "For example [RANGE 30 MINUTES]."
        return QueryError(primary, text=self.sql, span=span, detail=detail, hint=hint)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d*)?|\.\d+", text) is not None


class Watersmeet(Spark):
    """The dialect; `parse` below is the way in."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
        TOKENS_PRECEDING_HINT: ClassVar[set[TokenType]] = set()  # a hint is a comment

    Parser = WatersmeetParser


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`, without white space and comments."""
    try:
        return Watersmeet().tokenize(text)
    except TokenError as error:
        raise _unreadable_token(text, error) from None


def parse(text: str, registered: Collection[str] = ()) -> tuple[exp.Expr, Source]:
    """The syntax tree of the one statement in `text`, and its source."""
    tokens = tokenize(text)
    source = Source(text, tuple(tokens))
    if tokens and tokens[0].text.upper() not in ("SELECT", "WITH", "("):
        source.refuse("a query must be a SELECT", token_span(tokens[0]), detail=SUPPORTED)
    parser = Watersmeet().parser(error_level=ErrorLevel.IMMEDIATE)
    assert isinstance(parser, WatersmeetParser)
    parser.registered = frozenset(name.lower() for name in registered)
    try:
        statements = [tree for tree in parser.parse(tokens, text) if tree is not None]
    except ParseError as error:
        raise _unreadable(text, error) from None
    if not statements:
        source.refuse("the query is empty", None, detail=SUPPORTED)
    if len(statements) > 1:
        semicolon = next(token for token in tokens if token.token_type == TokenType.SEMICOLON)
        rest = next(token for token in tokens if token.start > semicolon.start)
        source.refuse("more than one statement", Span(rest.start, len(text.rstrip())), detail="A query is one SELECT.")
    return statements[0], source


def window_of(table: exp.Expr, source: Source) -> WindowClause | None:
    """The window written after `table`, before or after its alias."""
    alias = table.args.get("alias")
    clauses = [node.meta["window"] for node in (table, alias) if node is not None and "window" in node.meta]
    if len(clauses) > 1:
        source.refuse("a stream can have one window", clauses[1].span, detail=_WINDOWS)
    return clauses[0] if clauses else None


def _unreadable(text: str, error: ParseError) -> QueryError:
    # sqlglot counts columns from 1 and gives that of the token's last character.
    place = error.errors[0]
    line, column, piece = place.get("line") or 1, place.get("col") or 0, place.get("highlight") or ""
    before = sum(len(row) for row in text.splitlines(keepends=True)[: line - 1])
    end = min(before + column, len(text))
    complaint = re.sub(r" but got <Token.*", "", place.get("description") or "")
    known = complaint and "<" not in complaint and not complaint.startswith("Invalid expression")
    return QueryError(
        f'cannot read the query at "{piece}"',
        text=text,
        span=Span(max(0, end - max(1, len(piece))), end),
        detail=f"{complaint}." if known else SUPPORTED,
    )


def _unreadable_token(text: str, error: TokenError) -> QueryError:
    # An opened quote or comment that never ends; the text after it holds no token, so it stands at the last opening.
    missing = re.match(r"Missing (\S+) from", str(error.__cause__))
    opening = missing[1] if missing else "/*"
    start = text.find(opening) if text.count(opening) == 1 else text.rfind(opening)
    return QueryError(
        f"{opening} is opened and never closed",
        text=text,
        span=Span(start, len(text)) if start >= 0 else None,
    )
