"""Histories: lists of actions, each a pure function of a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.feed import MAX_FILES
from chaos.ground import Action, Ground
from chaos.kinds import KINDS, ORDINARY, Kind
from chaos.ordinary import Arrive, Restart, Settle
from chaos.shapes import Shape

WARM_UP = 3  # arrivals of four files, in batches of up to three: there is state, and rows can be late
EPISODE = 7  # further actions


@dataclass(frozen=True)
class Struck:
    """A fault, with what is told to be of its kind from then on."""

    kind: str
    fault: Action

    @property
    def running(self) -> bool:
        return self.fault.running

    def apply(self, world: Ground) -> str:
        world.faults.kind = self.kind
        return self.fault.apply(world)


def draw_history(seed: int, shape: Shape, actions: int, kinds: Sequence[Kind] = KINDS) -> Iterator[Action]:
    """So many actions, drawn from `kinds` by their weights, the last of which compares everything."""
    draw = random.Random(f"history {seed} {shape.name}")
    weights = [kind.weight for kind in kinds]
    for _ in range(actions - 1):
        yield draw.choices(kinds, weights)[0].draw(draw, shape)
    yield Settle()


def draw_medley(seed: int, shape: Shape, faults: Sequence[Kind]) -> Iterator[Action]:
    """A short history of ordinary actions in which each of some kinds of faults strikes once, in any order."""
    draw = random.Random(f"medley {seed} {shape.name} {[fault.name for fault in faults]}")
    ordinary = [kind for kind in ORDINARY if kind.name != "settle"]
    yield Restart(max_files=MAX_FILES)
    for _ in range(WARM_UP):
        yield Arrive(shape.streams, 4, draw.choice(("", "swap", "hold")))
    for fault in draw.sample(faults, len(faults)):
        yield Struck(fault.name, fault.draw(draw, shape))
        for _ in range(draw.choice((1, 2, 2))):
            yield draw.choices(ordinary, [kind.weight for kind in ordinary])[0].draw(draw, shape)
    yield Settle()


def draw_episode(seed: int, shape: Shape, fault: Kind) -> Iterator[Action]:
    """A short history of ordinary actions in which one kind of fault strikes twice."""
    draw = random.Random(f"episode {seed} {shape.name} {fault.name}")
    yield Restart(max_files=MAX_FILES)
    for _ in range(WARM_UP):
        yield Arrive(shape.streams, 4, draw.choice(("", "swap", "hold")))
    strikes = sorted(draw.sample(range(EPISODE), 2))
    for place in range(EPISODE):
        if place in strikes:
            yield fault.draw(draw, shape)
        ordinary = [kind for kind in ORDINARY if kind.name != "settle"]
        yield draw.choices(ordinary, [kind.weight for kind in ordinary])[0].draw(draw, shape)
    yield Settle()
