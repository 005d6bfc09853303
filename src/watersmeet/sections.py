"""One section of a job file: its keys, and its values by their kinds, each mistake told with what was expected."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from watersmeet.errors import JobError, did_you_mean

# The keys of each section; "" is the top of the file, "streams.*" any one stream.
SECTIONS: dict[str, tuple[str, ...]] = {
    "": ("query", "streams", "sink", "run", "adapt", "spark", "stats"),
    "streams.*": (
        "format",
        "path",
        "schema",
        "time",
        "lateness",
        "max_ahead",
        "ahead_of",
        "max_batch_rows",
        "max_batch_bytes",
        "moved",
        "options",
    ),
    "sink": ("format", "path", "late", "existing", "max_rows_per_file", "deliver_every", "mode"),
    "run": (
        "runtime",
        "checkpoint",
        "slots",
        "groups",
        "memory",
        "slot_memory",
        "slot_weights",
        "cores",
        "trigger",
        "at_end",
        "cache",
        "durability",
        "keep_versions",
        "keep_for",
        "max_batch_rows",
        "max_batch_bytes",
    ),
    "adapt": (
        *("plan", "replan", "replan_every", "replan_threshold", "replan_quota", "replan_scope", "migrate"),
        *("balance", "balance_every", "balance_threshold", "balance_span", "balance_least", "balance_rates"),
        *("balance_by", "ring", "ring_segment", "ring_copies"),
        *("allocate", "scale", "scale_slots", "scale_seconds", "max_candidates"),
        *("ring_slots", "ring_adapt", "ring_relocate", "ring_seconds"),
        *("spill", "spill_at", "spill_share", "merge", "smoothing", "upkeep", "force"),
    ),
    "stats": ("rates", "selectivity", "repeats"),
}

OptionValue = str | int | float | bool


def flatten(data: Mapping[str, Any], where: str, prefix: str = "") -> dict[str, OptionValue]:
    """Dotted keys that were not quoted make nested tables in TOML; join them again.

    >>> flatten({"spark": {"sql": {"ansi": True}}, "spark.ui.enabled": False}, "[spark]")
    {'spark.sql.ansi': True, 'spark.ui.enabled': False}
    """
    result: dict[str, OptionValue] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            result |= flatten(value, where, f"{prefix}{key}.")
        elif isinstance(value, str | int | float | bool):
            result[prefix + key] = value
        else:
            raise wrong_type(prefix + key, where, "a string, a number or true or false", value)
    return result


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),  # before int: a bool is an int to Python
    (int, "an integer"),
    (float, "a number"),
    (str, "a string"),
    (dict, "a section"),
    (list, "a list"),
)


def kind_of(value: object) -> str:
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "a date or time")


def wrong_type(key: str, where: str, expected: str, value: object) -> JobError:
    return JobError(
        f'"{key}" in {where} is {kind_of(value)}, not {expected}',
        detail=f"It reads {json.dumps(value, default=str)}.",
    )


class Section:
    """A table of the file, with its name for messages. Refuses keys that it does not have when it is made."""

    def __init__(self, name: str, data: Mapping[str, Any]) -> None:
        self.data = data
        self.where = f"[{name}]" if name else "the job file"
        known = SECTIONS["streams.*" if name.startswith("streams.") else name]
        for key in data:
            if key not in known:
                raise JobError(
                    f'unknown key "{key}" in {self.where}',
                    detail=f"Its keys are {', '.join(known)}.",
                    hint=did_you_mean(key, known) or _belongs(key),
                )

    def get(self, key: str, kinds: tuple[type, ...]) -> Any:
        """The value, None where there is none; of one of `kinds`, or refused."""
        value = self.data.get(key)
        if value is None or (isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))):
            return value
        raise wrong_type(key, self.where, " or ".join(name for kind, name in _KINDS if kind in kinds), value)

    def text(self, key: str) -> str | None:
        value: str | None = self.get(key, (str,))
        return value

    def place(self, key: str) -> str | None:
        """A path or an address. Empty text would be the current folder, which nobody means by it."""
        value = self.text(key)
        if value is not None and not value.strip():
            raise JobError(
                f'"{key}" in {self.where} is empty',
                detail="It names a folder.",
                hint='Write "." for the current one, or leave the key out where it is not required.',
            )
        return value

    def text_or(self, key: str, default: str) -> str:
        value = self.text(key)
        return default if value is None else value

    def table(self, key: str) -> dict[str, Any]:
        return self.get(key, (dict,)) or {}

    def positive(self, key: str, default: int) -> int:
        value: int | None = self.get(key, (int,))
        if value is not None and value < 1:
            raise JobError(f'"{key}" in {self.where} is {value}', detail="It must be 1 or more.")
        return default if value is None else value

    def choice(self, key: str, known: Sequence[str], default: str) -> str:
        value = self.text_or(key, default)
        if value not in known:
            raise JobError(
                f'unknown {key} "{value}" in {self.where}',
                detail=f"It is one of {', '.join(known)}.",
                hint=did_you_mean(value, known),
            )
        return value

    def lacks(self, key: str, detail: str, hint: str | None = None) -> JobError:
        return JobError(f'{self.where} has no "{key}"', detail=detail, hint=hint)


def _belongs(key: str) -> str | None:
    """A hint for a key that stands in the wrong section."""
    homes = [f"[{name}]" for name, keys in SECTIONS.items() if name and key in keys]
    if key == "query":
        return '"query" belongs at the top of the file, before the first section.'
    return f'"{key}" belongs in {" or ".join(homes)}.'.replace("streams.*", "streams.NAME") if homes else None
