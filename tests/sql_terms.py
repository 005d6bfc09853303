"""Values by number, and pieces of SQL beside the functions that compute them: what drawn queries are made of.

Nothing of `src` is in between: a `Term` is a text together with what it means on a combination of rows (None is NULL).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

import oracle

TIMESTAMP = pa.timestamp("us", tz="UTC")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# --- values ----------------------------------------------------------------------------------------------------------
# A family holds types that may be compared; `VALUES` maps a small number to the value of that number in each type, such
# that two values of a family are equal (to `comparable`) when their numbers are.

_DAYS = [date(2024, 2, 28), date(1969, 12, 31), date(2024, 3, 1), date(1970, 1, 1)]
_WORDS = ["", "a", "A", "ä€🙂", "aa"]
VALUES: dict[str, dict[pa.DataType, Callable[[int], Any]]] = {
    "number": {
        pa.int64(): lambda n: n - 1,
        pa.int32(): lambda n: n - 1,
        pa.int16(): lambda n: n - 1,
        pa.int8(): lambda n: n - 1,
        pa.decimal128(10, 0): lambda n: Decimal(n - 1),
        pa.decimal128(12, 2): lambda n: Decimal(n - 1).quantize(Decimal("0.01")),
        pa.decimal128(9, 3): lambda n: Decimal(n - 1).quantize(Decimal("0.001")),
    },
    "big": {
        pa.int64(): lambda n: [-(2**63), 2**63 - 1, 0, 2**53 + 1, -1][n % 5],
    },
    "fraction": {
        pa.decimal128(12, 2): lambda n: (Decimal(n) / 4 - 1).quantize(Decimal("0.01")),
        pa.decimal128(20, 4): lambda n: (Decimal(n) / 4 - 1).quantize(Decimal("0.0001")),
        pa.decimal128(30, 2): lambda n: (Decimal(n) / 4 - 1).quantize(Decimal("0.01")),
    },
    "text": {pa.string(): lambda n: _WORDS[n % len(_WORDS)]},
    "moment": {
        pa.date32(): lambda n: _DAYS[n % 4],
        TIMESTAMP: lambda n: datetime(*_DAYS[n % 4].timetuple()[:3], tzinfo=UTC),
    },
    "instant": {TIMESTAMP: lambda n: EPOCH + timedelta(microseconds=n - 1)},
}


def comparable(value: Any) -> Any:
    """`value` such that Python's == says what SQL's = says within a family: a date is its midnight in UTC."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value


# --- pieces of SQL with their meaning --------------------------------------------------------------------------------

Compute = Callable[[oracle.Combination], Any]


@dataclass(frozen=True)
class Term:
    text: str
    aliases: frozenset[str]
    compute: Compute = field(repr=False)


def column(alias: str, name: str) -> Term:
    return Term(f"{alias}.{name}", frozenset({alias}), lambda rows: rows[alias][name])


def constant(text: str, value: Any) -> Term:
    return Term(text, frozenset(), lambda rows: value)


def build(pattern: str, function: Callable[..., Any], *terms: Term) -> Term:
    """A strict function of terms: NULL if any of them is NULL."""

    def compute(rows: oracle.Combination) -> Any:
        values = [comparable(term.compute(rows)) for term in terms]
        return None if any(value is None for value in values) else function(*values)

    return Term(pattern.format(*(t.text for t in terms)), frozenset().union(*(t.aliases for t in terms)), compute)


def equal(left: Term, right: Term) -> Term:
    return build("{} = {}", lambda x, y: x == y, left, right)


def either(left: Term, right: Term) -> Term:
    def compute(rows: oracle.Combination) -> bool | None:
        values = [left.compute(rows), right.compute(rows)]
        return True if True in values else None if None in values else False

    return Term(f"({left.text} OR {right.text})", left.aliases | right.aliases, compute)


def every(terms: list[Term]) -> Callable[[oracle.Combination], bool]:
    return lambda rows: all(term.compute(rows) is True for term in terms)
