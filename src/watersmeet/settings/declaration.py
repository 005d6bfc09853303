"""What a setting is, and how the fields of a dataclass declare settings.

A field that is made by `setting(..)` is a setting: its kind, its default and the sentence about it stand there and
nowhere else. Job files, options of Spark, Python arguments, the table in the docs and the JSON Schema follow from it.
`declared_in` lists the settings of an object, and `with_values` puts values in their fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeVar

from watersmeet.settings.kinds import Folder, Kind

T = TypeVar("T")
D = TypeVar("D")
S = TypeVar("S")
_DECLARED = "setting"


class Surface(Enum):
    """Where users write settings."""

    JOB_FILE = "a job file"
    SPARK = "Spark"
    PYTHON = "q.run()"


@dataclass(frozen=True)
class Setting:
    """One setting, as its field declares it.

    `text` is a sentence about it, `more` what the docs add to that. `unset` says the default in words where it is no
    value. `elsewhere` has, for a surface that the setting is not for, a sentence that says why or what to do there.
    """

    kind: Kind[Any]
    text: str
    more: str = ""
    unset: str = ""
    required: bool = False
    option: str = ""  # of Spark, where it is not the name in camel case
    argument: str = ""  # of Python, where it is not the name
    former: str = ""  # a name that job files had for it
    elsewhere: Mapping[Surface, str] = field(default_factory=dict)  # where it is not set
    name: str = ""
    default: Any = None

    @property
    def camel(self) -> str:
        """The name of its option.

        >>> Setting(Kind(), "", name="slot_memory").camel
        'slotMemory'
        """
        first, *rest = self.name.split("_")
        return self.option or first + "".join(word.capitalize() for word in rest)

    @property
    def keyword(self) -> str:
        """The name of its Python argument."""
        return self.argument or self.name

    def on(self, surface: Surface) -> bool:
        return surface not in self.elsewhere

    @property
    def shown_default(self) -> str:
        """The default, in words or as a job file has it."""
        if self.required:
            return "required"
        return self.unset or f"`{self.kind.written(self.default)}`"


def setting(
    kind: Kind[T],
    default: D,
    text: str,
    *,
    name: str = "",
    more: str = "",
    unset: str = "",
    required: bool = False,
    option: str = "",
    argument: str = "",
    former: str = "",
    elsewhere: Mapping[Surface, str] = MappingProxyType({}),
) -> T | D:
    """A field that is a setting, called `name` or as the field is; for the rest see `Setting`."""
    declared = Setting(kind, text, more, unset, required, option, argument, former, elsewhere, name, default)
    # An address may hold a secret.
    made: T | D = field(default=default, metadata={_DECLARED: declared}, repr=not isinstance(kind, Folder))
    return made


def declared_in(whole: Any) -> Iterator[tuple[dataclasses.Field[Any], Setting]]:
    """The fields of a dataclass that are settings."""
    for entry in dataclasses.fields(whole):
        if (found := entry.metadata.get(_DECLARED)) is not None:
            yield entry, found if found.name else replace(found, name=entry.name)


def settings_in(whole: Any) -> Iterator[Setting]:
    """All settings of an object and of the objects in it, in the order of their fields."""
    declared = {entry.name: found for entry, found in declared_in(whole)}
    for entry in dataclasses.fields(whole):
        if entry.name in declared:
            yield declared[entry.name]
        elif is_dataclass(inner := getattr(whole, entry.name)):
            yield from settings_in(inner)


def with_values(whole: S, values: Mapping[str, Any]) -> S:
    """The object with these values, by the names of settings; what is not among them stays."""
    found: Any = whole
    declared = {entry.name: known for entry, known in declared_in(found)}
    changed = {}
    for entry in dataclasses.fields(found):
        inner = getattr(found, entry.name)
        if entry.name in declared:
            if declared[entry.name].name in values:
                changed[entry.name] = values[declared[entry.name].name]
        elif is_dataclass(inner):
            changed[entry.name] = with_values(inner, values)
    made: S = replace(found, **changed)
    return made


class Checked:
    """A dataclass that refuses values of settings which are out of range when it is made."""

    def __post_init__(self) -> None:
        for entry, found in declared_in(self):
            if (value := getattr(self, entry.name)) is not None:
                found.kind.check(value, found.name)
