"""How stages are shown, by their kind: the one dispatch of this folder, and what the kinds fill in.

Each kind has a file of its name that registers two functions: `shown_joins`, for the text and the picture, and
`nodes_json`. Everything else here knows joins as `ShownJoin` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol

from watersmeet.draw.svg import Canvas
from watersmeet.errors import InternalError
from watersmeet.model.ids import Label, OperatorName
from watersmeet.plan.physical import Exchange, PhysicalPlan, Source, Stage, State

Sizes = Mapping[str, Mapping[str, Any]]  # state name -> {"rows": .., "bytes": ..}, as in a batch event


class Part(Protocol):
    """What the card of a join shows of its own, in place of the probes of each input."""

    @property
    def width(self) -> float:
        """What it would like."""

    @property
    def height(self) -> float: ...
    def draw(self, canvas: Canvas, x: float, y: float, width: float) -> None:
        """Draw it with its upper left corner at (x, y)."""


@dataclass(frozen=True)
class ShownInput:
    """One input of a join: where its rows come from, what it keeps, and what its rows probe, one after the other."""

    source: Source
    states: tuple[State, ...]
    probes: tuple[str, ...]


@dataclass(frozen=True)
class ShownJoin:
    """A join as text and pictures have it, whatever stages it runs in."""

    name: OperatorName
    label: Label
    kind: str
    how: str  # goes on from the kind: on which keys, or in which way
    tree: str
    stages: tuple[int, ...]
    keys: tuple[str, ...]
    checks: tuple[str, ...]
    inputs: tuple[ShownInput, ...]
    exchanges: tuple[Exchange, ...]  # where its results go, if they leave the stage and are not those of the query
    part: Part | None = None
    filters: tuple[str, ...] = ()  # of its inputs, that stand above it
    notes: tuple[str, ...] = ()  # what else there is to say
    streams: frozenset[str] = frozenset()  # whose rows it gets, where its states do not say

    @property
    def title(self) -> str:
        return f"{self.label} {self.kind}"

    def receives(self, below: ShownJoin) -> bool:
        """Whether the results of `below`, which feeds this one, come from another stage."""
        return below.stages[-1] not in self.stages


@singledispatch
def shown_joins(stage: Stage, plan: PhysicalPlan) -> tuple[ShownJoin, ...]:
    """The joins whose results come out of `stage`, each after those that feed it."""
    raise InternalError(f"nothing says how to show a stage of kind {type(stage).__name__}")


@singledispatch
def nodes_json(stage: Stage, plan: PhysicalPlan, sizes: Sizes) -> list[dict[str, Any]]:
    """The joins that `stage` works on, as plain JSON data."""
    raise InternalError(f"nothing says how to show a stage of kind {type(stage).__name__}")


def all_joins(plan: PhysicalPlan) -> dict[OperatorName, ShownJoin]:
    """The joins of a plan, each after those that feed it: the last one emits the results of the query."""
    return {join.name: join for stage in plan.stages for join in shown_joins(stage, plan)}


def state_json(state: State, sizes: Sizes) -> dict[str, Any]:
    return {
        "name": state.name,
        "columns": {name: str(kind) for name, kind in state.fields},
        **sizes.get(state.name, {}),
    }
