"""Durations and sizes as users write them, `"30 minutes"` and `"512MB"`; numbers and event times as users read them.

Durations take the units of the query language (microseconds to days, singular or plural, any case). Sizes take B, KB,
MB, GB, TB with 1 KB = 1024 bytes, as Spark reads them, and KiB.. as synonyms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from watersmeet.errors import JobError, did_you_mean

UNIT_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
}
_SIZE_UNITS = {"": 0, "b": 0, "k": 1, "kb": 1, "kib": 1, "m": 2, "mb": 2, "mib": 2, "g": 3, "gb": 3, "gib": 3}
_SIZE_UNITS |= {"t": 4, "tb": 4, "tib": 4}
_NEVER = (1 << 63) - 1
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def unit_microseconds(unit: str) -> int | None:
    """Microseconds in one `unit`, or None if there is no such unit.

    >>> unit_microseconds("MINUTES"), unit_microseconds("fortnight")
    (60000000, None)
    """
    return UNIT_MICROSECONDS.get(unit.lower().removesuffix("s"))


def parse_duration(text: str, what: str) -> timedelta:
    """The duration that `text` says; `what` names the setting in the error.

    >>> parse_duration("10 seconds", "lateness")
    datetime.timedelta(seconds=10)
    """
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    micros = unit_microseconds(match[2]) if match else None
    if match is None or micros is None:
        known = [unit + "s" for unit in UNIT_MICROSECONDS]
        raise JobError(
            f'{what} "{text}" is not a duration',
            detail=f"A duration is a number and a unit: {', '.join(known)}.",
            hint=(did_you_mean(match[2].lower(), known) if match and match[2] else None) or 'For example "10 seconds".',
        )
    try:
        return timedelta(microseconds=round(float(match[1]) * micros))
    except OverflowError:
        raise JobError(
            f'{what} "{text}" is too long', detail=f"A duration is at most {timedelta.max.days} days."
        ) from None


def parse_bytes(text: str | int, what: str) -> int:
    """The number of bytes that `text` says; `what` names the setting in the error.

    >>> parse_bytes("512MB", "memory")
    536870912
    """
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return text
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    power = _SIZE_UNITS.get(match[2].lower()) if match else None
    if match is None or power is None or not 0 < float(match[1]) < float("inf"):
        raise JobError(
            f'{what} "{text}" is not a size',
            detail="A size is a positive number and a unit: B, KB, MB, GB or TB.",
            hint='For example "512MB".',
        )
    return int(float(match[1]) * 1024**power)


def parse_cores(value: float | str | None) -> float | None:
    """How many cores a plan may be estimated to use; None for no limit."""
    if value is None:
        return None
    try:
        cores = float(value)
    except ValueError:
        cores = 0.0
    if not 0 < cores < float("inf"):
        raise JobError(
            f'cores "{value}" is not a number above zero',
            detail="It is the CPU that the chosen plan may be estimated to need.",
            hint="Leave it out for no limit.",
        )
    return cores


def microseconds(duration: timedelta) -> int:
    """The whole microseconds of `duration`, exactly."""
    return duration // timedelta(microseconds=1)


def duration_text(micros: int) -> str:
    """A length of time in the largest unit that needs no fraction.

    >>> duration_text(300_000_000), duration_text(3_600_000_000), duration_text(1_500)
    ('5 minutes', '1 hour', '1500 microseconds')
    """
    unit, size = next((u, s) for u, s in reversed(UNIT_MICROSECONDS.items()) if micros % s == 0)
    return f"{micros // size} {unit}{'' if micros == size else 's'}"


def time_text(time_us: int | None) -> str:
    """An event time, which is kept in microseconds of UTC.

    >>> time_text(1_500_000), time_text(None), time_text((1 << 63) - 1)
    ('1970-01-01 00:00:01.500000', '-', 'never')
    """
    if time_us is None:
        return "-"
    if time_us >= _NEVER:
        return "never"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
    except OverflowError:  # integer event times need not be dates
        return str(time_us)
    return moment.replace(tzinfo=None).isoformat(sep=" ")


def parse_time(text: str, what: str, whole_numbers: bool = False) -> int:
    """The event time that `text` says, in microseconds since 1970; `what` names the setting in the error.

    It is a date with or without a time of day, in UTC unless it says otherwise; with `whole_numbers` also a number.

    >>> parse_time("1970-01-01 00:00:01.5", "time"), parse_time("1970-01-01T02:00+02:00", "time")
    (1500000, 0)
    >>> parse_time("-7", "time", whole_numbers=True)
    -7
    """
    if whole_numbers and re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        numbers = ", or a whole number of microseconds" if whole_numbers else ""
        raise JobError(
            f'{what} "{text}" is not a time',
            detail=f"A time is a date, a time of day if needed, and an offset if it is not in UTC{numbers}.",
            hint='For example "2026-11-17 09:30:00".',
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return microseconds(moment - datetime(1970, 1, 1, tzinfo=UTC))


def count_text(number: float) -> str:
    """A number of rows for people.

    >>> [count_text(n) for n in (0, 0.0312, 7.25, 999.7, 1234, 3_400_000, 56e6, 5.6e17)]
    ['0', '0.031', '7.2', '1K', '1.2K', '3.4M', '56M', '5.6e17']
    """
    return _scaled(number, 1000, ("", "K", "M", "G", "T"))


def bytes_text(number: float) -> str:
    """A number of bytes for people; 1 KB is 1024 bytes, as in settings.

    >>> bytes_text(500), bytes_text(1536), bytes_text(56 << 20)
    ('500 B', '1.5 KB', '56 MB')
    """
    return _scaled(number, 1024, (" B", " KB", " MB", " GB", " TB", " PB"))


def _scaled(number: float, step: int, units: Sequence[str]) -> str:
    scaled, power = number, 0
    while round(scaled) >= step and power < len(units):
        scaled, power = scaled / step, power + 1
    if number < 1 or power == len(units):  # too small or too large for a unit
        return f"{number:.2g}".replace("e+", "e").replace("e-0", "e-") + units[0]
    return (f"{scaled:.0f}" if scaled >= 9.95 else f"{scaled:.1f}".removesuffix(".0")) + units[power]
