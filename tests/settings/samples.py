"""Values of settings to try them with: one that is right and not the default, and some that are wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.settings.declaration import Setting
from watersmeet.settings.forced_step import Steps
from watersmeet.settings.kinds import Duration, Folder, Kind, Number, OneOf, RowLimit, Size, SizeLimit, Text, Whole
from watersmeet.settings.ring import RingSlots
from watersmeet.settings.run import Cores, Trigger, Weights
from watersmeet.settings.scale import SlotLimits


@dataclass(frozen=True)
class Sample:
    """A value as TOML and Python have it, and as the text of an option."""

    value: Any
    text: str


# A kind that is new needs its line here; a setting does not. More special kinds come first.
SAMPLES: tuple[tuple[type[Kind[Any]], Sample], ...] = (
    (Folder, Sample("a/folder", "a/folder")),
    (Trigger, Sample("7 seconds", "7 seconds")),
    (Duration, Sample("7 seconds", "7 seconds")),
    (Whole, Sample(3, "3")),
    (Cores, Sample(1.5, "1.5")),
    (Size, Sample("64MB", "64MB")),
    (SizeLimit, Sample("64MB", "64MB")),
    (RowLimit, Sample(3, "3")),
    (Weights, Sample([1, 0.5, 2], "1, 0.5, 2")),
    (SlotLimits, Sample([2, 3], "2, 3")),
    (RingSlots, Sample(3, "3")),
    (Steps, Sample([{"at_batch": 1, "spill": ["J1:0"]}], '[{at_batch = 1, spill = ["J1:0"]}]')),
)
# What else must be set with some settings.
NEEDS: Mapping[str, Mapping[str, Any]] = {
    "ring_segment": {"ring": "atr"},
    "ring_copies": {"ring": "ctr"},
    "ring_slots": {"slots": 3},
    "slot_weights": {"slots": 3},
    "groups": {"slots": 2},
    "scale": {"scale_seconds": 1.0},
}


def sample(setting: Setting) -> Sample:
    kind = setting.kind
    if isinstance(kind, OneOf):
        word = next(word for word in kind.words if word != setting.default)
        return Sample(word, word)
    if isinstance(kind, Number):
        number = next(n for n in (0.5, 1.5) if _is_in_range(kind, n) and n != setting.default)
        return Sample(number, str(number))
    for known, found in SAMPLES:
        if isinstance(kind, known):
            return found
    assert isinstance(kind, Text), f"no sample for {type(kind).__name__}"
    return Sample("left-deep", "left-deep")


def _is_in_range(kind: Number, value: float) -> bool:
    return kind.above < value < kind.below and kind.least <= value <= kind.most


def wrong(setting: Setting) -> list[Any]:
    """Values that every surface refuses: of another type, of no known word, out of range."""
    found: list[Any] = [[[1]]] if isinstance(setting.kind, Weights | SlotLimits | Steps) else []
    if isinstance(setting.kind, OneOf):
        return [*found, "nothing-of-the-kind"]
    if isinstance(setting.kind, Folder):
        return [*found, " "]
    if type(setting.kind) is Text:
        return found
    return [*found, "nothing of the kind", *([-1] if not isinstance(setting.kind, Duration | Weights) else [])]


def as_toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {as_toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)
