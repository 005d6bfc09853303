"""What every decision has, and its JSON. A decision is imperative, frozen data, with a reason for people.

Each kind has a file of its own here, with its effect beside it (`effects.py`). In the manifest operators are named by
content; `for_people` puts the labels of a plan in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from watersmeet.adapt.trials import figures_of
from watersmeet.model.ids import OperatorName
from watersmeet.model.origin import ByPolicy, Origin, origin_to_json
from watersmeet.state.learned import Trial


@dataclass(frozen=True)
class Decision:
    """The controller says which policy an `origin` is; whoever decides without one says it at once."""

    origin: Origin = field(default=ByPolicy(), kw_only=True)

    UNTOLD: ClassVar[frozenset[str]] = frozenset({"origin", "review", "spec"})  # fields that are no part of the JSON

    @property
    def by_policy(self) -> bool:
        return isinstance(self.origin, ByPolicy)

    def to_json(self) -> dict[str, Any]:
        """The decision for the manifest, with what it was decided by and what is expected of it as `figures`."""
        told: dict[str, Any] = {"decision": type(self).__name__}
        for name in (entry.name for entry in fields(self) if entry.name not in self.UNTOLD):
            value = getattr(self, name)
            if name == "trial":
                told["figures"] = figures_of(value) if isinstance(value, Trial) else {}
            else:
                told[name] = _plain(value)
        return {**told, "origin": origin_to_json(self.origin)}


def _plain(value: Any) -> Any:
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def for_people(decision: Mapping[str, Any], label: Callable[[OperatorName], str]) -> dict[str, Any]:
    """A decision of the manifest with what people call its operators.

    >>> for_people({"decision": "SpillGroups", "groups": [["A*B#1", 17]], "reason": ""}, lambda name: "J1")["groups"]
    [['J1', 17]]
    """
    told = dict(decision)
    if "groups" in told:
        told["groups"] = [[label(operator), group] for operator, group in told["groups"]]
    if "moves" in told:
        told["moves"] = [[label(operator), group, slot] for operator, group, slot in told["moves"]]
    if "operator" in told:
        told["operator"] = label(told["operator"])
    if "waiting" in told:
        told["waiting"] = [label(operator) for operator in told["waiting"]]
    return told
