"""Interval literals: which tokens belong to one, and how many microseconds it says.

    INTERVAL 5 MINUTES    INTERVAL '5' MINUTE    INTERVAL -1 DAY 2 HOURS    INTERVAL '1 02:03:04.5' DAY TO SECOND
    INTERVAL '1 day 2 hours'    INTERVAL '1 day 12:00:00'    INTERVAL '2 hours ago'

The first four are Spark's spellings and so is the fifth; the last two are PostgreSQL's. A text is read to its end, or
refused at the first word that cannot be read. Months and years have no fixed length, and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise
from typing import NoReturn

from sqlglot import Token, TokenType

from watersmeet.errors import QueryError, Span, did_you_mean
from watersmeet.lang.source import token_span
from watersmeet.model.quantities import UNIT_MICROSECONDS

_MICROSECONDS = UNIT_MICROSECONDS | {"week": 7 * UNIT_MICROSECONDS["day"]}
_MONTHS = ("month", "quarter", "year")
_UNITS = [unit.upper() + "S" for unit in _MICROSECONDS]
_FIELDS = ("day", "hour", "minute", "second")  # of an interval from one unit TO another
MOST_TOKENS = 5  # of a part of an interval: a sign, a value, a unit, TO and another unit
_LONGEST = (1 << 63) - 1  # microseconds, in 64 bits

_NUMBER = r"\d+(?:\.\d*)?|\.\d+"
_SIGNED = re.compile(rf"\s*([+-]?)\s*({_NUMBER})\s*")
_TERM = re.compile(rf"\s*([+-]?)\s*(?:(\d+):(\d\d)(?::(\d\d(?:\.\d*)?))?(?![\w.:])|({_NUMBER})\s*([A-Za-z]+))")
_AGO = re.compile(r"\s+ago\s*", re.IGNORECASE)
_SPAN_PARTS = {  # of the text of an interval from the first unit TO the last, where it begins with the first
    ("day", "hour"): r"(\d+)\s+(\d+)",
    ("day", "minute"): r"(\d+)\s+(\d+):(\d+)",
    ("day", "second"): r"(\d+)\s+(\d+):(\d+):(\d+(?:\.\d*)?)",
    ("hour", "minute"): r"(\d+):(\d+)",
    ("hour", "second"): r"(\d+):(\d+):(\d+(?:\.\d*)?)",
    ("minute", "second"): r"(\d+):(\d+(?:\.\d*)?)",
}
_LIMITS = {"hour": 24, "minute": 60, "second": 60}  # of all fields but the first


@dataclass(frozen=True)
class IntervalPart:
    """One quantity of an interval as written: a value, and its unit if it is not within the value."""

    negative: bool
    value: Token
    unit: Token | None = None
    last_unit: Token | None = None  # after TO

    @property
    def span(self) -> Span:
        return Span(self.value.start, (self.last_unit or self.unit or self.value).end + 1)


def is_unit(word: str) -> bool:
    """Whether an interval may have this unit, or is refused for it.

    >>> is_unit("Minutes"), is_unit("MONTH"), is_unit("fortnight")
    (True, True, False)
    """
    return _singular(word) in (*_MICROSECONDS, *_MONTHS)


def part_at(tokens: Sequence[Token]) -> tuple[IntervalPart, int] | None:
    """The part of an interval that `tokens` begin with, and the number of its tokens; None if they begin with none."""
    signs = 0
    if tokens and tokens[0].token_type in (TokenType.DASH, TokenType.PLUS):
        signs = 1
    value, unit, to, last, *_ = (*tokens[signs : signs + 4], None, None, None, None)
    if value is None or value.token_type not in (TokenType.STRING, TokenType.NUMBER):
        return None
    negative = bool(signs) and tokens[0].token_type == TokenType.DASH
    if unit is None or not is_unit(unit.text):
        is_text = value.token_type == TokenType.STRING
        named = None if is_text or unit is None or unit.token_type != TokenType.VAR else unit
        return IntervalPart(negative, value, named), signs + 1 + (named is not None)
    if to is not None and to.text.upper() == "TO" and last is not None:
        return IntervalPart(negative, value, unit, last), signs + 4
    return IntervalPart(negative, value, unit), signs + 2


def read_interval(parts: Sequence[IntervalPart], text: str) -> timedelta:
    """The interval that `parts` of the query `text` say together; a QueryError if it cannot be read."""
    total = sum((_Reader(part, text).microseconds() for part in parts), Fraction(0))
    span = Span(parts[0].span.start, parts[-1].span.end)
    if total.denominator != 1:
        raise _error("an interval must be a whole number of microseconds", text, span)
    if abs(total) > _LONGEST:
        raise QueryError(
            "the interval is too long",
            text=text,
            span=span,
            detail=f"An interval has at most {_LONGEST // UNIT_MICROSECONDS['day']:,} days.",
        )
    return timedelta(microseconds=int(total))


@dataclass(frozen=True)
class _Reader:
    part: IntervalPart
    text: str

    def microseconds(self) -> Fraction:
        part = self.part
        if part.last_unit is not None:
            found = self._span()
        elif part.unit is not None:
            found = self._signed() * self._unit(part.unit.text, token_span(part.unit))
        elif part.value.token_type == TokenType.STRING:
            found = self._terms()
        else:
            self._refuse("the interval has no unit", part.span)
        return -found if part.negative else found

    def _signed(self) -> Fraction:
        """The number before a unit, which may stand in quotes."""
        value = self.part.value
        if value.token_type == TokenType.NUMBER:
            return Fraction(value.text)
        found = _SIGNED.fullmatch(value.text)
        if found is None:
            self._refuse(f'"{value.text}" is not a number', token_span(value))
        return Fraction(found[1] + found[2])

    def _terms(self) -> Fraction:
        """A text of numbers with units, times of day and perhaps "ago"."""
        value, total, place = self.part.value.text, Fraction(0), 0
        while (found := _TERM.match(value, place)) is not None:
            place = found.end()
            sign, hours, minutes, seconds, number, unit = found.groups()
            if unit is not None:
                width = Fraction(number) * self._unit(unit, self._inside(found.start(6), place))
            else:
                fields = {"hour": hours, "minute": minutes, "second": seconds or "0"}
                width = self._fields(fields, self._inside(found.start(2), place))
            total += -width if sign == "-" else width
        if place and (ago := _AGO.match(value, place)) is not None:
            total, place = -total, ago.end()
        rest = value[place:].strip()
        if rest or not place:
            start = value.index(rest, place)
            self._refuse(
                f'cannot read "{rest}" in the interval' if rest else "the interval is empty",
                self._inside(start, len(value.rstrip())),
            )
        return total

    def _span(self) -> Fraction:
        """Such as '1 02:03:04.5' DAY TO SECOND."""
        part = self.part
        assert part.unit is not None and part.last_unit is not None
        units = (_singular(part.unit.text), _singular(part.last_unit.text))
        for unit, token in zip(units, (part.unit, part.last_unit), strict=True):
            self._unit(unit, token_span(token))
        found = None
        if units in _SPAN_PARTS:
            found = re.fullmatch(rf"\s*([+-]?)\s*{_SPAN_PARTS[units]}\s*", part.value.text)
        if found is None:
            self._refuse(
                f'cannot read "{part.value.text}" as an interval of {part.unit.text.upper()} TO '
                f"{part.last_unit.text.upper()}",
                part.span,
            )
        first = _FIELDS.index(units[0])
        fields = dict(zip(_FIELDS[first:], found.groups()[1:], strict=False))
        width = self._fields(fields, part.span)
        return -width if found[1] == "-" else width

    def _fields(self, fields: dict[str, str], span: Span) -> Fraction:
        """Units with their numbers, the largest first: all but that are less than one of the unit before."""
        for _, unit in pairwise(fields):
            if Fraction(fields[unit]) >= _LIMITS[unit]:
                self._refuse(f"an interval has fewer than {_LIMITS[unit]} {unit}s beside larger units", span)
        return sum((Fraction(number) * _MICROSECONDS[unit] for unit, number in fields.items()), Fraction(0))

    def _unit(self, word: str, span: Span) -> int:
        """Microseconds in a unit."""
        if _singular(word) in _MONTHS:
            raise QueryError(
                f"intervals of {_singular(word)}s are not supported",
                text=self.text,
                span=span,
                detail="Months and years have no fixed length.",
                hint="Write days, such as INTERVAL 30 DAYS.",
            )
        if _singular(word) not in _MICROSECONDS:
            near = did_you_mean(word.upper(), _UNITS)
            raise _error(f'unknown unit "{word}" in an interval', self.text, span, near)
        return _MICROSECONDS[_singular(word)]

    def _inside(self, start: int, end: int) -> Span:
        """Where a piece of the text in quotes stands; all of it where quotes or backslashes in it move places."""
        value, whole = self.part.value, token_span(self.part.value)
        if whole.end - whole.start != len(value.text) + 2 or start >= end:
            return whole
        return Span(whole.start + 1 + start, whole.start + 1 + end)

    def _refuse(self, primary: str, span: Span) -> NoReturn:
        raise _error(primary, self.text, span)


def _error(primary: str, text: str, span: Span, hint: str | None = None) -> QueryError:
    units = ", ".join(_UNITS)
    return QueryError(
        primary,
        text=text,
        span=span,
        detail=f"An interval is numbers with units; the units are {units}, singular or plural.",
        hint=hint or "For example INTERVAL 5 MINUTES, or INTERVAL '1 day 12:00:00'.",
    )


def _singular(word: str) -> str:
    return word.lower().removesuffix("s")
