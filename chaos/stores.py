"""Checkpoint and outputs on an S3 server, whose requests are slow, fail, or are carried out without an answer."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from chaos.shapes import Shape
from chaos.world import World
from object_server import DROP, DROP_AFTER, FAIL, FAIL_AFTER, SLOW

ACCIDENTS = (FAIL, FAIL_AFTER, DROP, DROP_AFTER, SLOW)


@dataclass(frozen=True)
class FailStore:
    """From now on some requests have an accident, until everything is compared. No run may mind."""

    share: float
    seed: int
    running: ClassVar[bool] = True

    def apply(self, world: World) -> str:
        world.try_fault("store fails")
        assert world.proxy is not None, "a world on a store"
        draw, kind = random.Random(self.seed), world.faults.kind

        def happen(method: str, path: str) -> str | None:
            if draw.random() >= self.share:
                return None
            accident = draw.choice(ACCIDENTS)
            world.came_to_pass(f"store: {accident}", kind)
            world.came_to_pass("store fails", kind)
            return accident

        world.proxy.accident = happen
        world.arrive()
        return "fails"


def draw_fail_store(draw: random.Random, shape: Shape) -> FailStore:
    return FailStore(draw.choice((0.05, 0.1, 0.2)), draw.randrange(1 << 30))
