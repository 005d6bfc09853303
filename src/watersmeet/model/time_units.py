"""Units that integers may count event time in. The engine itself counts microseconds since 1970, in 64 bits.

Seconds and milliseconds are multiplied; a time that 64 bits of microseconds cannot hold is refused. Nanoseconds are
rounded down: times in the same microsecond are one, for windows, watermarks and lateness. The column keeps its values.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

MICROSECONDS = "us"
_IN_MICROSECONDS = {"s": Fraction(1_000_000), "ms": Fraction(1_000), "us": Fraction(1), "ns": Fraction(1, 1_000)}
TIME_UNITS = tuple(_IN_MICROSECONDS)
_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_FIRST_US, _LAST_US = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000 for year in (1980, 2100))


@dataclass(frozen=True)
class TimeColumn:
    """The event-time column of a stream, and the unit that it counts in if it is of integers."""

    name: str
    unit: str = MICROSECONDS


def microseconds_in(unit: str) -> Fraction:
    """How many microseconds one of `unit` has.

    >>> microseconds_in("ms"), microseconds_in("ns")
    (Fraction(1000, 1), Fraction(1, 1000))
    """
    return _IN_MICROSECONDS[unit]


def unit_name(unit: str) -> str:
    """The word for a unit, as sentences have it.

    >>> unit_name("ms")
    'milliseconds'
    """
    return _NAMES[unit]


def is_usual(time_us: int) -> bool:
    """Whether a time is of the years that data usually is of: 1980 to 2099.

    >>> is_usual(1_700_000_000_000_000), is_usual(1_700_000_000_000)
    (True, False)
    """
    return _FIRST_US <= time_us < _LAST_US


def likely_unit(time: int) -> str | None:
    """The unit in which a number is a usual time; None if there is none, as for numbers that count from elsewhere.

    >>> likely_unit(1_700_000_000_000), likely_unit(1_700_000_000), likely_unit(17)
    ('ms', 's', None)
    """
    return next((unit for unit, size in _IN_MICROSECONDS.items() if is_usual(int(time * size))), None)
