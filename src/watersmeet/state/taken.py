"""What was done, or tried, before a batch that is still to come, so that it is not done twice.

A manifest forgets an entry when its batch is committed, so there are only a few at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.model.origin import Origin, origin_from_json, origin_to_json
from watersmeet.model.routing import Groups
from watersmeet.model.segments import ranges_from_json

PLAN, CUT = "plan", "cut"


@dataclass(frozen=True)
class Taken:
    """A change of the plan to `what`, which may have failed, or a cut of a group of the operator `what`."""

    kind: str
    before_batch: int
    origin: Origin
    what: str
    groups: Groups | None = None  # that it was for; None: all

    def to_json(self) -> dict[str, Any]:
        groups = None if self.groups is None else [list(ends) for ends in self.groups]
        told = {"kind": self.kind, "before_batch": self.before_batch, "origin": origin_to_json(self.origin)}
        return {**told, "what": self.what, "groups": groups}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Taken:
        groups = None if data["groups"] is None else ranges_from_json(data["groups"])
        return cls(data["kind"], data["before_batch"], origin_from_json(data["origin"]), data["what"], groups)


def still_to_come(taken: Iterable[Taken], last_batch: int) -> tuple[Taken, ...]:
    """Those before batches after this one."""
    return tuple(entry for entry in taken if entry.before_batch > last_batch)
