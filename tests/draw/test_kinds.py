"""Kinds of stages: what is shown of one comes from what it registers, and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from watersmeet.draw.explain import explain_json, explain_text
from watersmeet.draw.kinds import ShownInput, ShownJoin, Sizes, all_joins, nodes_json, shown_joins
from watersmeet.draw.picture import draw_plan
from watersmeet.draw.svg import Canvas, Style
from watersmeet.errors import InternalError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.ids import Alias, Label, OperatorName
from watersmeet.model.streams import Stream
from watersmeet.optimize.flows import Flow
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import Exchange, FromInput, FromOperator, Node, PhysicalPlan, State
from watersmeet.plan.tree import choose_tree

CHAIN = "SELECT A.v FROM A, B, C WHERE A.x = B.x AND B.y = C.y"
STREAMS = {name: Stream(name, parse_schema("x BIGINT, y BIGINT, v BIGINT, ts TIMESTAMP")) for name in "ABC"}


@dataclass(frozen=True)
class CarouselStage:
    """A kind that the package does not have."""

    index: int
    wave: int
    kept: State
    exchanges: tuple[Exchange, ...] = ()
    within: None = None

    @property
    def title(self) -> Label:
        return Label("J9")

    @property
    def states(self) -> tuple[State, ...]:
        return (self.kept,)

    @property
    def reads(self) -> tuple[State, ...]:
        return self.states

    @property
    def ports(self) -> dict[int, State]:
        return {}

    @property
    def operators(self) -> tuple[Node, ...]:
        return ()

    @property
    def meetings(self) -> tuple[tuple[State, ...], ...]:
        return ()


@dataclass(frozen=True)
class Carousel(CarouselStage):
    """The same, with a way to show it."""


class Wheel:
    width, height = 60.0, 40.0

    def draw(self, canvas: Canvas, x: float, y: float, width: float) -> None:
        canvas.text(x, y, "round and round", Style(10), width)


@shown_joins.register(Carousel)
def _(stage: Carousel, plan: PhysicalPlan) -> tuple[ShownJoin, ...]:
    below = next(iter(plan.operators.values()))
    return (
        ShownJoin(
            name=OperatorName("carousel"),
            label=stage.title,
            kind="carousel",
            how=" that turns",
            tree=plan.tree,
            stages=(stage.index,),
            keys=(),
            checks=(),
            inputs=(
                ShownInput(FromOperator(below.name, below.label), (stage.kept,), ("C",)),
                ShownInput(FromInput(Alias("C")), (stage.kept,), ("J1",)),
            ),
            exchanges=(),
            part=Wheel(),
        ),
    )


@nodes_json.register(Carousel)
def _(stage: Carousel, plan: PhysicalPlan, sizes: Sizes) -> list[dict[str, Any]]:
    return [{"id": stage.title, "name": "carousel"}]


def plan_with(kind: type[CarouselStage]) -> PhysicalPlan:
    """((A B) C) with a stage of `kind` for its upper join."""
    query = bind(CHAIN, STREAMS)
    plan = lay_out(query, choose_tree(query, "left-deep"))
    below, upper = plan.stages
    return replace(plan, stages=(below, kind(1, 1, upper.states[0])))


def test_a_kind_is_shown_by_what_it_registers() -> None:
    plan = plan_with(Carousel)
    assert [join.title for join in all_joins(plan).values()] == ["J1 join", "J9 carousel"]
    text = explain_text(plan, "because")
    assert "J9 carousel that turns (stage 1)\nemits v" in text
    assert "exchange from stage 0 to stage 1, hashed on B.y" in text
    assert explain_json(plan, "because")["stages"][1]["nodes"] == [{"id": "J9", "name": "carousel"}]
    flows = {frozenset(streams): Flow(1.0, 1.0, 1.0) for streams in ("A", "B", "C", "AB", "ABC")}
    picture = draw_plan(plan, flows, "because")
    assert "round and round" in picture
    assert "J9 carousel" in picture


def test_a_kind_that_registers_nothing_is_refused() -> None:
    plan = plan_with(CarouselStage)
    with pytest.raises(InternalError, match="stage of kind CarouselStage"):
        explain_text(plan, "because")
    with pytest.raises(InternalError, match="stage of kind CarouselStage"):
        nodes_json(plan.stages[1], plan, {})
