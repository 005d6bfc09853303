"""How a decision that takes steps turned out, as a value that the caller acts on.

`recorded` is the decision as the manifest has it, for people. No code reads it back to learn what happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Done:
    """The run is where the decision was to bring it."""

    recorded: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Abandoned:
    """The decision changed nothing, and will not be tried again by itself."""

    reason: str
    recorded: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting:
    """Further steps follow. `for_what` names the stream or event that the next one needs; empty if it needs none."""

    for_what: str = ""
    recorded: Mapping[str, Any] = field(default_factory=dict)


Outcome = Done | Abandoned | Waiting
