"""Frozen data as plain JSON and back, by the types of its fields.

`plain` makes of a dataclass an object with its fields, of a tuple a list, and so on down; `read` makes the same data of
that. A class whose JSON is to be another has `to_json` and `from_json` of its own. What is read has exactly the fields
of its class: anything else is a `ValueError`, `LookupError` or `TypeError`. Text that must satisfy a check, such as the
name of a file, is of a type `Annotated[str, check]`: the check returns it, or raises `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader = Callable[[Any], Any]


def plain(value: Any) -> Any:
    """
    >>> plain({"a": (1, None)})
    {'a': [1, None]}
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [plain(entry) for entry in value]
    return plain_fields(value) if is_dataclass(value) else value


def plain_fields(value: Any) -> dict[str, Any]:
    """The same of a dataclass, whether or not it has a `to_json` of its own."""
    return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}


def read(kind: type[T], data: Any) -> T:
    """The value of type `kind` that `data` is the JSON of."""
    value: T = _reader(cast(Hashable, kind))(data)
    return value


def read_fields(kind: type[T], data: Mapping[str, Any]) -> T:
    """The same of a dataclass, whether or not it has a `from_json` of its own."""
    readers = _field_readers(cast(Hashable, kind))
    if data.keys() != readers.keys():
        raise ValueError(f"{kind.__name__} has {', '.join(readers)}, and not {', '.join(data)}")
    return kind(**{name: readers[name](value) for name, value in data.items()})


def _same(value: Any) -> Any:
    return value


@cache
def _field_readers(kind: Any) -> dict[str, Reader]:
    hints = get_type_hints(kind, include_extras=True)
    return {entry.name: _reader(hints[entry.name]) for entry in fields(kind)}


@cache
def _reader(kind: Any) -> Reader:
    """What reads a value of a type. Plain values are what they are in JSON."""
    if hasattr(kind, "__supertype__"):  # a NewType
        return _reader(kind.__supertype__)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        check: Reader = arguments[1]
        return check
    if origin in (Union, UnionType):
        rest = [entry for entry in arguments if entry is not NoneType]
        inner = _reader(rest[0]) if len(rest) == 1 else _same
        return inner if inner is _same else lambda value: None if value is None else inner(value)
    if origin is tuple:
        return _tuple_reader(arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of_key, of_value = map(_reader, arguments)
        if of_key is of_value is _same:
            return _same
        return lambda value: {of_key(key): of_value(entry) for key, entry in value.items()}
    if hasattr(kind, "from_json"):
        own: Reader = kind.from_json
        return own
    return partial(read_fields, cast(type[Any], kind)) if is_dataclass(kind) else _same


def _tuple_reader(arguments: tuple[Any, ...]) -> Reader:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        inner = _reader(arguments[0])
        return tuple if inner is _same else lambda value: tuple(map(inner, value))
    readers = [_reader(entry) for entry in arguments]
    return lambda value: tuple(reader(entry) for reader, entry in zip(readers, value, strict=True))
