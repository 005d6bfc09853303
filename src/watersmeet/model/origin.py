"""Who wanted a decision. Behaviour goes by this; the `reason` of a decision is for people alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Forced:
    """A step of `[[adapt.force]]`."""


@dataclass(frozen=True)
class ByHand:
    """Somebody who called a method of the run."""


@dataclass(frozen=True)
class BySettings:
    """The settings that a run was started with, where its checkpoint has others."""


@dataclass(frozen=True)
class ByPolicy:
    """A policy in force. Its decisions give way to those of people, and it is asked again."""

    name: str = ""


Origin = Forced | ByHand | BySettings | ByPolicy

_NAMES: dict[type[Origin], str] = {Forced: "forced", ByHand: "hand", BySettings: "settings", ByPolicy: "policy"}


def origin_to_json(origin: Origin) -> dict[str, str]:
    """
    >>> origin_to_json(Forced()), origin_to_json(ByPolicy("scale-slots"))
    ({'by': 'forced'}, {'by': 'policy', 'name': 'scale-slots'})
    """
    by = {"by": _NAMES[type(origin)]}
    return {**by, "name": origin.name} if isinstance(origin, ByPolicy) else by


def origin_from_json(data: Mapping[str, Any]) -> Origin:
    """
    >>> origin_from_json({"by": "policy", "name": "scale-slots"}), origin_from_json({"by": "hand"})
    (ByPolicy(name='scale-slots'), ByHand())
    """
    kinds = {name: kind for kind, name in _NAMES.items()}
    kind = kinds[data["by"]]
    return ByPolicy(data["name"]) if kind is ByPolicy else kind()
