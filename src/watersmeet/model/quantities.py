"""Durations and sizes as users write them: `"30 minutes"`, `"512MB"`.

Durations take the units of the query language (microseconds to days, singular or plural, any case). Sizes take B, KB,
MB, GB, TB with 1 KB = 1024 bytes, as Spark reads them, and KiB.. as synonyms.
"""

from __future__ import annotations

import re
from datetime import timedelta

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
    return timedelta(microseconds=round(float(match[1]) * micros))


def parse_bytes(text: str | int, what: str) -> int:
    """The number of bytes that `text` says; `what` names the setting in the error.

    >>> parse_bytes("512MB", "memory")
    536870912
    """
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return text
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    power = _SIZE_UNITS.get(match[2].lower()) if match else None
    if match is None or power is None or float(match[1]) <= 0:
        raise JobError(
            f'{what} "{text}" is not a size',
            detail="A size is a positive number and a unit: B, KB, MB, GB or TB.",
            hint='For example "512MB".',
        )
    return int(float(match[1]) * 1024**power)


def microseconds(duration: timedelta) -> int:
    """The whole microseconds of `duration`, exactly."""
    return duration // timedelta(microseconds=1)
