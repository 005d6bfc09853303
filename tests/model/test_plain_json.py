"""Frozen data as plain JSON: what is written is read back, and anything else is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from watersmeet.model.file_names import FileName
from watersmeet.model.ids import SegmentId
from watersmeet.model.plain_json import plain, plain_fields, read, read_fields


@dataclass(frozen=True)
class Inner:
    at: tuple[int, str]
    name: FileName = "x"


@dataclass(frozen=True)
class Outer:
    inner: Inner | None
    many: tuple[Inner, ...]
    named: Mapping[FileName, tuple[int, ...]]
    id: SegmentId | None = None
    anything: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Own:
    text: str

    def to_json(self) -> str:
        return self.text

    @classmethod
    def from_json(cls, data: str) -> Own:
        return cls(data)


EXAMPLES = [
    Outer(None, (), {}),
    Outer(Inner((1, "a")), (Inner((2, "b"), "y"),), {"f": (1, 2)}, SegmentId("s"), {"a": [1, {"b": None}]}),
]


@pytest.mark.parametrize("value", EXAMPLES)
def test_there_and_back(value: Outer) -> None:
    data = json.loads(json.dumps(plain(value)))
    assert read(Outer, data) == value
    assert read(tuple[Outer, ...], [data, data]) == (value, value)


def test_a_class_with_json_of_its_own() -> None:
    assert plain((Own("a"),)) == ["a"]
    assert read(tuple[Own, ...], ["a"]) == (Own("a"),)
    assert read_fields(Own, plain_fields(Own("a"))) == Own("a")


@pytest.mark.parametrize(
    "data",
    [
        {"at": [1, "a"], "name": "../x"},
        {"at": [1, "a"]},
        {"at": [1, "a"], "name": "x", "more": 1},
        {"at": [1], "name": "x"},
        {"at": 1, "name": "x"},
        {"at": [1, "a"], "name": 7},
        [],
        None,
    ],
)
def test_what_does_not_fit_is_refused(data: Any) -> None:
    with pytest.raises((ValueError, LookupError, TypeError, AttributeError)):
        read(Inner, data)
