"""One section of a job file: its keys, and its values by their declarations, each mistake with what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watersmeet.errors import JobError, did_you_mean
from watersmeet.settings.declaration import Setting
from watersmeet.settings.every import ADAPT, OF_A_RUN, SETTINGS, STREAM, TOP
from watersmeet.settings.kinds import Place, expect

KEYS_OF_TOP = ("query", "streams", "sink", "run", "adapt", "spark", "stats")


class Section:
    """A table of the file, with its name for messages. Refuses keys that it does not have when it is made."""

    def __init__(self, name: str, data: Mapping[str, Any]) -> None:
        self.data = data
        self.name = name
        self.where = f"[{name}]" if name else "the job file"
        self._kind = STREAM if name.startswith("streams.") else name
        known = keys_of(self._kind)
        for key in data:
            if key not in known and key not in _former(self._kind):
                raise JobError(
                    f'unknown key "{key}" in {self.where}',
                    detail=f"Its keys are {', '.join(known)}.",
                    hint=did_you_mean(key, known) or _belongs(key),
                )

    def get(self, key: str, *kinds: type) -> Any:
        """The value, None where there is none; of one of `kinds`, or refused."""
        value = self.data.get(key)
        return None if value is None else expect(value, kinds, Place(key, f" in {self.where}"))

    def table(self, key: str) -> dict[str, Any]:
        return self.get(key, dict) or {}

    def values(self, of: str = "") -> dict[str, Any]:
        """The settings that the section has, by name; `of` names the one of several sections in errors."""
        found = {}
        for setting in SETTINGS[self._kind]:
            for key in filter(None, (setting.former, setting.name)):  # the present name goes before the former one
                if self.data.get(key) is not None:
                    found[setting.name] = self._read(setting, key, of)
        return found

    def _read(self, setting: Setting, key: str, of: str) -> Any:
        place = Place(key, f" in {self.where}", of)
        value = setting.kind.read(self.data[key], place)
        if value is not None and self.name != ADAPT:  # whose settings check themselves
            setting.kind.check(value, key, place.where)
        return value

    def lacks(self, key: str, detail: str, hint: str | None = None) -> JobError:
        return JobError(f'{self.where} has no "{key}"', detail=detail, hint=hint)


def keys_of(section: str) -> tuple[str, ...]:
    return KEYS_OF_TOP if section == TOP else tuple(setting.name for setting in SETTINGS[section])


def _former(section: str) -> tuple[str, ...]:
    return () if section == TOP else tuple(setting.former for setting in SETTINGS[section] if setting.former)


def _belongs(key: str) -> str | None:
    """A hint for a key that stands in the wrong section, or is close to one of another."""
    homes = [f"[{name}]" for name in SETTINGS if key in keys_of(name)]
    if key == "query":
        return '"query" belongs at the top of the file, before the first section.'
    if homes:
        return f'"{key}" belongs in {" or ".join(homes)}.'.replace(STREAM, "streams.NAME")
    return did_you_mean(key, OF_A_RUN)
