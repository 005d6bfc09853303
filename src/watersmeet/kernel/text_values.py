"""Text of files (CSV fields, JSON tokens, names of partition folders) as typed values: one meaning on every runtime.

The meaning is that of Spark's CSV reader with `timeZone` UTC and mode FAILFAST, so that Spark can be told to do so too:

- Whole numbers are digits with or without a sign. Decimals may hold commas, which count for nothing, and are rounded
  half away from zero. Floating-point numbers may have white space around them, or be `NaN`, `Inf`, `-Inf`, `Infinity`.
- Booleans are `true` and `false` in any case.
- A date is `yyyy-mm-dd`; month and day may be left out or have one digit, and a time of day behind it is passed over.
- A timestamp is a date and a time after a space or a `T`; what is missing is zero, digits after the sixth of a fraction
  are cut off. One that names no zone is in UTC. A zone is `Z`, an offset, or a name such as `Europe/Berlin`.

What has the usual form is cast by Arrow all at once; the rest is brought into that form one distinct text at a time.
Text that is none of this raises `UnreadableText`. Years have four digits: what Spark reads beyond is refused, as are a
time without a date (on Spark: today), floating-point numbers in hexadecimal, and zones without a slash in their names
other than UTC and GMT.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.casting import cast

_BLANKS = "".join(map(chr, range(33)))  # what Java trims


class UnreadableText(ValueError):
    """`text`, of the row with this number from 0, says no value of `kind`."""

    def __init__(self, text: str, kind: pa.DataType, row: int) -> None:
        super().__init__(text, kind, row)
        self.text = text
        self.kind = kind
        self.row = row


def from_text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of type `kind` that `column` says; NULL stays NULL.

    >>> from_text(pa.array(["1", "+02", None]), pa.int64()).to_pylist()
    [1, 2, None]
    """
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return column.cast(kind)
    form = _form_of(kind)
    usual = pc.match_substring_regex(column, rf"^(?:{form.usual})\z")
    rest = pc.fill_null(pc.invert(usual), False)
    if not pc.any(rest, min_count=0).as_py():
        return _cast_all(column, column, kind)
    encoded = column.filter(rest).dictionary_encode()
    made_usual = [_usual(form, text) for text in encoded.dictionary.to_pylist()]
    if None in made_usual:
        text = encoded.dictionary[made_usual.index(None)].as_py()
        raise UnreadableText(text, kind, pc.index(column, text).as_py())
    replaced = pc.replace_with_mask(column, rest, pa.array(made_usual, pa.string()).take(encoded.indices))
    return _cast_all(column, replaced, kind)


def _usual(form: _Form, text: str) -> str | None:
    try:
        return form.make_usual(text)
    except ValueError:  # a day that the month does not have, a zone that nobody knows
        return None


def _cast_all(column: pa.Array, usual: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return _cast(usual, kind)
    except pa.ArrowInvalid:
        for row in range(len(usual)):  # a number that is too large, a day that is not: find the one to name
            try:
                _cast(usual.slice(row, 1), kind)
            except pa.ArrowInvalid:
                raise UnreadableText(column[row].as_py(), kind, row) from None
        raise


def _cast(usual: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) and kind.tz:
        return _cast_instants(usual, kind)
    try:
        return usual.cast(kind)
    except pa.ArrowInvalid:
        if not pa.types.is_decimal(kind):
            raise
        return cast(usual, kind)  # some have more digits than fit, and are rounded: many times slower


def _cast_instants(usual: pa.Array, kind: pa.DataType) -> pa.Array:
    """Arrow wants all texts with a zone, or none."""
    zoned = pc.match_substring_regex(usual, r"(?:Z|[+-]\d\d:\d\d)\z")
    nothing = pa.scalar(None, pa.string())
    bare = usual if not pc.any(zoned, min_count=0).as_py() else pc.if_else(zoned, nothing, usual)
    instants = bare.cast(pa.timestamp(kind.unit)).cast(kind)
    return instants if bare is usual else pc.coalesce(pc.if_else(zoned, usual, nothing).cast(kind), instants)


@dataclass(frozen=True)
class _Form:
    """How text of a type usually looks (RE2), and how to bring other text into that form: None if it says nothing."""

    usual: str
    make_usual: Callable[[str], str | None]


def _form_of(kind: pa.DataType) -> _Form:
    if pa.types.is_timestamp(kind):
        return _INSTANT if kind.tz else _WALL_CLOCK
    return next(form for fits, form in _FORMS if fits(kind))


def _integer(text: str) -> str | None:
    return text.removeprefix("+") if re.fullmatch(r"[+-]?[0-9]+", text) else None


_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = {"NaN": "nan", "Inf": "inf", "-Inf": "-inf", "Infinity": "inf", "+Infinity": "inf", "-Infinity": "-inf"}


def _floating(text: str) -> str | None:
    text = text.strip(_BLANKS)
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    text = text[:-1] if text[-1:] in tuple("dDfF") else text
    return text if _NUMBER.fullmatch(text) else None


def _decimal(text: str) -> str | None:
    text = text.replace(",", "")
    return text if _NUMBER.fullmatch(text) else None


def _boolean(text: str) -> str | None:
    return text.lower() if text.lower() in ("true", "false") else None


_DAY = r"[+]?(?P<year>[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
_DATE = re.compile(_DAY + r"(?:[ T].*)?)?)?", re.DOTALL)
_TIME = (
    r"(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<zone> ?[A-Za-z+-].*)?)?)?)?"
)
_DATE_AND_TIME = re.compile(_DAY + _TIME + r")?)?")
_OFFSET = re.compile(r"([+-])([0-9]{1,2})(?::([0-9]{2})|([0-9]{2}))?")


def _date(text: str) -> str | None:
    found = _DATE.fullmatch(text.strip(_BLANKS))
    return date(*(int(found[part] or 1) for part in ("year", "month", "day"))).isoformat() if found else None


def _wall_clock(text: str) -> str | None:
    found = _DATE_AND_TIME.fullmatch(text.strip(_BLANKS))
    return None if found is None or found["zone"] else _moment(found).isoformat(" ")


def _instant(text: str) -> str | None:
    found = _DATE_AND_TIME.fullmatch(text.strip(_BLANKS))
    if found is None:
        return None
    zone = UTC if found["zone"] is None else _zone(found["zone"].strip())
    return _moment(found).replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None).isoformat(" ")


def _moment(found: re.Match[str]) -> datetime:
    year, month, day = (int(found[part] or 1) for part in ("year", "month", "day"))
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    return datetime(year, month, day, hour, minute, second, int((found["fraction"] or "").ljust(6, "0")[:6]))


def _zone(name: str) -> timezone | ZoneInfo:
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if found := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(found[2]), minutes=int(found[3] or found[4] or 0))
        if offset > timedelta(hours=18) or int(found[3] or found[4] or 0) > 59:
            raise ValueError(name)
        return timezone(-offset if found[1] == "-" else offset)
    if "/" not in name:
        raise ValueError(name)
    try:
        return ZoneInfo(name)
    except (KeyError, OSError):  # ZoneInfoNotFoundError is a KeyError; a folder of the database is an OSError
        raise ValueError(name) from None


_CLOCK = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?"
_INSTANT = _Form(_CLOCK + r"(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d)?", _instant)
_WALL_CLOCK = _Form(_CLOCK, _wall_clock)
_FORMS: tuple[tuple[Callable[[pa.DataType], bool], _Form], ...] = (
    (pa.types.is_integer, _Form(r"-?\d+", _integer)),
    (pa.types.is_floating, _Form(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", _floating)),
    (pa.types.is_decimal, _Form(r"-?\d+(?:\.\d+)?", _decimal)),
    (pa.types.is_boolean, _Form("true|false", _boolean)),
    (pa.types.is_date, _Form(r"\d{4}-\d\d-\d\d", _date)),
)
