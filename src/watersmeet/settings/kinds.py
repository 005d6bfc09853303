"""The kinds of values that settings have: how each is read, what it may be, and how it is described.

A value comes as TOML or Python has it (`read`), or as an option of Spark (`read_option`), which may be text. Both give
the same typed value. `check` refuses one that is out of range, wherever it comes from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.intake import OFF, parse_row_limit
from watersmeet.model.quantities import (
    bytes_text,
    duration_text,
    microseconds,
    parse_bytes,
    parse_duration,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """How an error names a setting: as the user wrote it and, in a job file alone, where, such as ` in [run]`."""

    name: str
    where: str = ""
    of: str = ""  # which of several it is of, such as ` of stream "A"`


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),  # before int: a bool is an int to Python
    (int, "an integer"),
    (float, "a number"),
    (str, "a string"),
    (dict, "a section"),
    (list, "a list"),
    (tuple, "a tuple"),
    (date, "a date or time"),
    (time, "a date or time"),
)


def kind_of(value: object) -> str:
    """What a value is, in words.

    >>> kind_of(True), kind_of([1]), kind_of(timedelta(1))
    ('true or false', 'a list', 'a timedelta')
    """
    return next((name for kind, name in _KINDS if isinstance(value, kind)), f"a {type(value).__name__}")


def wrong_type(place: Place, expected: str, value: object) -> JobError:
    return JobError(
        f'"{place.name}"{place.where} is {kind_of(value)}, not {expected}',
        detail=f"It reads {json.dumps(value, default=str)}.",
    )


def expect(value: Any, kinds: tuple[type, ...], place: Place) -> Any:
    """The value, if it is of one of these types; a bool is no number."""
    if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)):
        return value
    raise wrong_type(place, " or ".join(name for kind, name in _KINDS if kind in kinds), value)


def plain(value: Any) -> Any:
    """A number or an array of numpy as Python has it; anything else as it is.

    >>> plain(np.int64(3)), plain(np.array([1.0, 0.5])), plain("64MB")
    (3, [1.0, 0.5], '64MB')
    """
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def expect_list(value: Any, place: Place) -> Sequence[Any]:
    """A list; a tuple is one to Python."""
    found: Sequence[Any] = value if isinstance(value, tuple) else expect(value, (list,), place)
    return found


class Kind(Generic[T]):
    """What all kinds have; each says how a typed value is read."""

    python: ClassVar[str]  # the type of what Python users give

    def read(self, value: Any, place: Place) -> T:
        """The value that TOML or Python has as `value`."""
        raise NotImplementedError

    def read_option(self, value: Any, place: Place) -> T:
        """The value that is given to an option of Spark, as itself or as text."""
        return self.read(str(value), place)

    def check(self, value: T, name: str, where: str = "") -> None:
        """Refuse a value that is out of range."""

    def schema(self) -> dict[str, Any]:
        """What a job file may hold, as JSON Schema."""
        raise NotImplementedError

    def given(self, value: T) -> Any:
        """A value as users give it."""
        return value

    def written(self, value: T) -> str:
        """A value as a job file has it."""
        return json.dumps(self.given(value))


class Text(Kind[str]):
    python: ClassVar[str] = "str"

    def read(self, value: Any, place: Place) -> str:
        text: str = expect(value, (str,), place)
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


class Folder(Text):
    """A path or an address. Empty text would be the current folder, which nobody means by it."""

    def read(self, value: Any, place: Place) -> str:
        return self._refuse_empty(super().read(value, place), f'"{place.name}"{place.where}')

    def read_option(self, value: Any, place: Place) -> str:
        return self._refuse_empty(str(value), f'option "{place.name}"')

    def _refuse_empty(self, text: str, what: str) -> str:
        if text.strip():
            return text
        raise JobError(
            f"{what} is empty",
            detail="It names a folder.",
            hint='Write "." for the current one, or leave it out where it is not required.',
        )

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": r"\S"}


@dataclass(frozen=True)
class OneOf(Text):
    """One of several words. `called` is what they are, if the name of the setting does not say it."""

    words: tuple[str, ...]
    called: str = ""

    def read(self, value: Any, place: Place) -> str:
        text = super().read(value, place)
        if place.where:  # a job file says where; elsewhere `check` does for it
            refuse_unknown(text, self.words, place.name, place.where)
        return text

    def check(self, value: str, name: str, where: str = "") -> None:
        refuse_unknown(value, self.words, self.called or name, where)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}


def refuse_unknown(value: object, words: Sequence[str], name: str, where: str = "") -> None:
    if value not in words:
        raise JobError(
            f'unknown {name} "{value}"{where}',
            detail=f"It is one of {', '.join(words)}.",
            hint=did_you_mean(value, words) if isinstance(value, str) else None,
        )


class Flag(Kind[bool]):
    python: ClassVar[str] = "bool"

    def read(self, value: Any, place: Place) -> bool:
        flag: bool = expect(value, (bool,), place)
        return flag

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Whole(Kind[int]):
    """A whole number, from 1 on if `check` is to see to it."""

    detail: str = "It must be 1 or more."
    least: int | None = 1

    python: ClassVar[str] = "int"

    def read(self, value: Any, place: Place) -> int:
        number: int = expect(value, (int,), place)
        return number

    def read_option(self, value: Any, place: Place) -> int:
        number = int(value) if isinstance(value, str) and value.isdecimal() else value
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise JobError(f'{place.name} "{value}" is not a whole number above zero', detail=self.detail)
        return number

    def check(self, value: int, name: str, where: str = "") -> None:
        if self.least is not None and value < self.least:
            raise JobError(f'"{name}"{where} is {value}', detail=self.detail)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 1 if self.least is None else self.least}


@dataclass(frozen=True)
class Number(Kind[float]):
    """A number in a range, each bound of which may be left out; `detail` says in words what it is."""

    detail: str
    above: float = -math.inf
    least: float = -math.inf
    below: float = math.inf
    most: float = math.inf

    python: ClassVar[str] = "float"

    def read(self, value: Any, place: Place) -> float:
        return float(expect(value, (int, float), place))

    def read_option(self, value: Any, place: Place) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        try:
            return float(str(value))
        except ValueError:
            raise JobError(f'{place.name} "{value}" is not a number', detail=self.detail) from None

    def check(self, value: float, name: str, where: str = "") -> None:
        if not (self.above < value < self.below and self.least <= value <= self.most):
            raise JobError(f'"{name}"{where} is {value:g}', detail=self.detail)

    def schema(self) -> dict[str, Any]:
        bounds = {
            "exclusiveMinimum": self.above,
            "minimum": self.least,
            "exclusiveMaximum": self.below,
            "maximum": self.most,
        }
        return {"type": "number", **{key: bound for key, bound in bounds.items() if math.isfinite(bound)}}

    def written(self, value: float) -> str:
        return f"{value:g}"


_SIZE = r"^\s*\d+(\.\d+)?\s*([kKmMgGtT]([iI]?[bB])?|[bB])?\s*$"
_DURATION = r"^\s*\d+(\.\d+)?\s*([Mm]icrosecond|[Mm]illisecond|[Ss]econd|[Mm]inute|[Hh]our|[Dd]ay)s?\s*$"


class Size(Kind[int]):
    """A number of bytes, or text such as "512MB"."""

    python: ClassVar[str] = "int | str"

    def read(self, value: Any, place: Place) -> int:
        if place.where:
            expect(value, (int, str), place)
        return parse_bytes(value, place.name)

    def read_option(self, value: Any, place: Place) -> int:
        return parse_bytes(value if isinstance(value, int) else str(value), place.name)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _SIZE}]}

    def given(self, value: int) -> str:
        return bytes_text(value).replace(" ", "")


class Duration(Kind[timedelta]):
    """Text such as "10 seconds", in Python also a timedelta."""

    python: ClassVar[str] = "str | timedelta"

    def read(self, value: Any, place: Place) -> timedelta:
        if isinstance(value, timedelta) and not place.where:
            return value
        return parse_duration(expect(value, (str,), place), f"{place.name}{place.of}")

    def read_option(self, value: Any, place: Place) -> timedelta:
        return self.read(value if isinstance(value, timedelta) else str(value), place)

    def check(self, value: timedelta, name: str, where: str = "") -> None:
        if value < timedelta(0):
            raise JobError(f'"{name}"{where} is {value.total_seconds():g} seconds', detail="It cannot be negative.")

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": _DURATION}

    def given(self, value: timedelta) -> str:
        return duration_text(microseconds(value))


class RowLimit(Kind[int | str]):
    """A number of rows, or "off"."""

    python: ClassVar[str] = "int | str"

    def read(self, value: Any, place: Place) -> int | str:
        if place.where:
            expect(value, (int, str), place)
        return parse_row_limit(value, f"{place.name}{place.where}")

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer", "minimum": 1}, {"const": OFF}]}


class SizeLimit(Kind[int | str]):
    """A number of bytes, text such as "32MB", or "off"."""

    python: ClassVar[str] = "int | str"

    def read(self, value: Any, place: Place) -> int | str:
        if place.where:
            expect(value, (int, str), place)
        return OFF if value == OFF else parse_bytes(value, f"{place.name}{place.where}")

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [*Size().schema()["anyOf"], {"const": OFF}]}


@dataclass(frozen=True)
class Table(Kind[Mapping[str, Any]]):
    """A section of its own, whose keys are the user's; `of` is the JSON Schema of each value."""

    of: Mapping[str, Any]

    python: ClassVar[str] = "Mapping[str, Any]"

    def read(self, value: Any, place: Place) -> Mapping[str, Any]:
        table: Mapping[str, Any] = expect(value, (dict,), place)
        return table

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": dict(self.of)}
