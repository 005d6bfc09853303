"""Every kind of action that a history may hold: how often it is drawn, and what by."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from chaos import deaths, disks, operations, ordinary, placements, plans, processes, rivals, stores
from chaos.ground import Action
from chaos.shapes import Shape
from watersmeet.faults import POINTS


@dataclass(frozen=True)
class Kind:
    name: str
    weight: float  # among all of a history
    draw: Callable[[random.Random, Shape], Action]


ORDINARY: tuple[Kind, ...] = (
    Kind("arrive", 60, ordinary.draw_arrive),
    Kind("wait", 6, ordinary.draw_wait),
    Kind("restart", 7, ordinary.draw_restart),
    Kind("force-plan", 4, plans.draw_force_plan),
    Kind("ask-for-plan", 1, plans.draw_ask_for_plan),
    Kind("force-placement", 4, placements.draw_force_placement),
    Kind("balance", 3, ordinary.draw_balance),
    Kind("settle", 2, ordinary.draw_settle),
    Kind("verify", 1.5, operations.draw_verify),
)

FAULTS: tuple[Kind, ...] = (
    Kind("dies-at", 8, deaths.draw_die_at),
    Kind("dies-anywhere", 3, deaths.draw_die_anywhere),
    Kind("power-loss", 4, deaths.draw_power_loss),
    Kind("in-a-row", 0.2, deaths.draw_in_a_row),
    Kind("disk-fails", 2, disks.draw_fail_disk),
    Kind("full-disk", 2, disks.draw_fill_disk),
    Kind("bit-flips", 1, disks.draw_flip_bit),
    Kind("dies-gathering", 0.5, deaths.draw_die_gathering),
    Kind("dies-migrating", 1.5, plans.draw_die_migrating),
    Kind("dies-placing", 1.5, placements.draw_die_placing),
    Kind("backup", 0.5, operations.draw_back_up),
    Kind("rollback", 1, operations.draw_roll_back),
    Kind("backup-rollback", 0.4, operations.draw_back_up_roll_back),
    Kind("compact", 0.6, operations.draw_compact),
    Kind("clock-jumps", 1, ordinary.draw_jump),
    Kind("second-start", 1, rivals.draw_start_twice),
    Kind("takeover", 1.5, rivals.draw_take_over),
)

KINDS = (*ORDINARY, *FAULTS)

# With real processes, for episodes: when a signal arrives is not drawn from the seed, so they do not repeat exactly.
PROCESS_FAULTS: tuple[Kind, ...] = (
    Kind("sigkill", 1, processes.draw_kill_process),
    Kind("process-dies-at", 1, processes.draw_die_in_process),
)

# Of worlds on an object store; there nothing has a lock, and a takeover needs no pretence.
STORE_FAULTS: tuple[Kind, ...] = (
    Kind("store-fails", 1, stores.draw_fail_store),
    Kind("store-sigkill", 1, processes.draw_kill_process),
    Kind("store-dies-at", 1, processes.draw_die_in_process),
    Kind("store-takeover", 1, rivals.draw_take_over),
)


def _dies_at(point: str) -> Kind:
    return Kind(f"dies-{point}", 0, lambda draw, shape: deaths.DieAt(point, draw.choice((1, 2, 3))))


# A kind for each named point, for episodes: a history draws one of all with `dies-at`.
POINT_FAULTS: tuple[Kind, ...] = tuple(_dies_at(point) for point in POINTS)


EPISODE_FAULTS = (*FAULTS, *PROCESS_FAULTS, *STORE_FAULTS)
ALL_FAULTS = (*EPISODE_FAULTS, *POINT_FAULTS)


def fault_named(name: str) -> Kind:
    return next(kind for kind in ALL_FAULTS if kind.name == name)


def suits(kind: Kind, shape: Shape) -> bool:
    """Whether a fault can come to pass in runs of a shape: without a budget nothing is spilled, nor merged."""
    return kind not in POINT_FAULTS or kind.name.removeprefix("dies-") in deaths.points_of(shape)
