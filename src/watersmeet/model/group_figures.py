"""What the groups of an operator have earned: figures by group that spill and merge policies go by. Plain JSON.

Totals count since the live generation of a group was opened. Recent figures are what a smoothing method
(`smoothing.py`) makes of the observations of single batches; for that it may keep several of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Then = Callable[[tuple[Floats, ...], Floats], tuple[Floats, ...]]  # what a smoothing method keeps after an observation


@dataclass(frozen=True)
class GroupObservation:
    """What one batch, or one task of it, saw of an operator, by group."""

    arrivals: tuple[Floats, ...]  # rows that came, by input
    local: Floats  # results of the operator
    traced: Floats  # results of the query that came through the group
    inter_bytes: Floats  # of its results that operators above have stored

    @classmethod
    def nothing(cls, inputs: int, groups: int) -> GroupObservation:
        arrivals = tuple(np.zeros(groups) for _ in range(inputs))
        return cls(arrivals, np.zeros(groups), np.zeros(groups), np.zeros(groups))

    def plus(self, other: GroupObservation) -> GroupObservation:
        """Both together. A task that saw only results of the operator has no arrivals."""
        arrivals = self.arrivals
        if other.arrivals:
            arrivals = tuple(a + b for a, b in zip(self.arrivals, other.arrivals, strict=True))
        return GroupObservation(
            arrivals,
            self.local + other.local,
            self.traced + other.traced,
            self.inter_bytes + other.inter_bytes,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "arrivals": [_whole(entry) for entry in self.arrivals],
            "local": _whole(self.local),
            "traced": _whole(self.traced),
            "inter_bytes": _whole(self.inter_bytes),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GroupObservation:
        arrivals = tuple(map(_array, data["arrivals"]))
        return cls(arrivals, _array(data["local"]), _array(data["traced"]), _array(data["inter_bytes"]))


@dataclass(frozen=True)
class GroupFigures:
    """What is known of an operator's groups. The last three are what a smoothing method keeps of recent figures."""

    local_output: Floats  # totals, as are the next three
    global_output: Floats
    inter_bytes: Floats
    came: Floats  # rows of all inputs
    last_use: Floats  # the last batch in which a row came; -1 for never
    arrivals: tuple[tuple[Floats, ...], ...]  # by input
    recent_local: tuple[Floats, ...]
    recent_global: tuple[Floats, ...]

    @classmethod
    def nothing(cls, inputs: int, groups: int) -> GroupFigures:
        zeros = np.zeros(groups)
        return cls(zeros, zeros, zeros, zeros, np.full(groups, -1.0), tuple(() for _ in range(inputs)), (), ())

    def then(self, batch: int, seen: GroupObservation, then: Then) -> GroupFigures:
        """After a batch."""
        came = sum(seen.arrivals, np.zeros_like(seen.local))
        return GroupFigures(
            self.local_output + seen.local,
            self.global_output + seen.traced,
            self.inter_bytes + seen.inter_bytes,
            self.came + came,
            np.where(came > 0, float(batch), self.last_use),
            tuple(then(kept, new) for kept, new in zip(self.arrivals, seen.arrivals, strict=True)),
            then(self.recent_local, seen.local),
            then(self.recent_global, seen.traced),
        )

    def opened(self, groups: Sequence[int]) -> GroupFigures:
        """After these groups have opened a new generation."""
        kept = np.ones_like(self.local_output)
        kept[list(groups)] = 0.0
        return replace(
            self,
            local_output=self.local_output * kept,
            global_output=self.global_output * kept,
            inter_bytes=self.inter_bytes * kept,
            came=self.came * kept,
        )

    def cut(self, group: int, share: float) -> GroupFigures:
        """After a group has been cut in two, the first of which gets this share of what came and went.

        Smoothing methods keep weighted sums of observations, so what they have kept can be shared out like these.
        """

        def split(values: Floats) -> Floats:
            halves = [values[group] * share, values[group] * (1 - share)]
            return np.concatenate([values[:group], halves, values[group + 1 :]])

        return GroupFigures(
            split(self.local_output),
            split(self.global_output),
            split(self.inter_bytes),
            split(self.came),
            np.insert(self.last_use, group, self.last_use[group]),
            tuple(tuple(map(split, kept)) for kept in self.arrivals),
            tuple(map(split, self.recent_local)),
            tuple(map(split, self.recent_global)),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupFigures) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def to_json(self) -> dict[str, Any]:
        return {entry.name: _nested(getattr(self, entry.name)) for entry in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GroupFigures:
        return cls(
            local_output=_array(data["local_output"]),
            global_output=_array(data["global_output"]),
            inter_bytes=_array(data["inter_bytes"]),
            came=_array(data["came"]),
            last_use=_array(data["last_use"]),
            arrivals=tuple(tuple(map(_array, kept)) for kept in data["arrivals"]),
            recent_local=tuple(map(_array, data["recent_local"])),
            recent_global=tuple(map(_array, data["recent_global"])),
        )


def _array(values: Sequence[float]) -> Floats:
    return np.array(values, dtype=np.float64)


def _nested(value: Any) -> Any:
    return [_nested(entry) for entry in value] if isinstance(value, tuple) else _plain(value)


def _whole(values: Floats) -> list[int]:
    result: list[int] = np.rint(values).astype(np.int64).tolist()
    return result


def _plain(values: Floats) -> list[float]:
    """To three places, and whole numbers as such: figures are estimates, and manifests are to stay small."""
    return [int(value) if value == int(value) else value for value in np.round(values, 3).tolist()]
