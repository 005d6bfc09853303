"""The kinds of actions of histories on Spark, and the histories: some fifteen actions of one seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from chaos import operations, ordinary, placements
from chaos.ground import Action
from chaos.mortal import Blow
from chaos.shapes import Shape
from chaos.spark import actions
from watersmeet.faults import ROLLBACK_POINTS

ACTIONS = 14  # of a history, unless asked otherwise
WARM_UP = 4  # files of each stream
FILES, FUNCTION = "files", "function"  # where results go
BOTH = (FILES, FUNCTION)
SHARE_OF_FUNCTIONS = 0.35

# Points that the driver comes to, and those that its tasks come to, in every run with new rows that meet.
DRIVER_POINTS = (
    "before-commit",
    "in-commit",
    "after-commit",
    "before-delivery",
    "after-delivery",
    "before-collect-garbage",
    "after-collect-garbage",
)
TASK_POINTS = ("before-prepare", "in-task", "before-segment", "in-segment", "after-segment", "in-result", "after-late")
IN_A_ROW = 15


@dataclass(frozen=True)
class SparkKind:
    name: str
    weight: float
    draw: Callable[[random.Random, Shape], Action]
    sinks: tuple[str, ...] = BOTH
    on_cluster: bool = False  # alone


# Beside `output` and `deliver_every`, which are for files alone.
CHOICES = {name: ordinary.CHOICES[name] for name in ("slots", "memory", "spill", "merge", "max_files", "keep_versions")}


def draw_restart(draw: random.Random, shape: Shape) -> ordinary.Restart:
    return ordinary.draw_change(draw, shape, CHOICES)


def draw_other_output(draw: random.Random, shape: Shape) -> ordinary.Restart:
    return ordinary.draw_change(draw, shape, {name: ordinary.CHOICES[name] for name in ("output", "deliver_every")})


def draw_terminate(draw: random.Random, shape: Shape) -> actions.Terminate:
    return actions.Terminate(draw.choice((1, 2, 3)))


def draw_kill_driver(draw: random.Random, shape: Shape) -> actions.KillDriver:
    versions = draw.choice((0, 1, 2, 3))
    return actions.KillDriver(versions, draw.uniform(0, 0.6 if versions else 6))


def draw_die_at(draw: random.Random, shape: Shape) -> actions.DieAtPoint:
    return actions.DieAtPoint(draw.choice((*DRIVER_POINTS, *TASK_POINTS)), draw.choice((1, 1, 2)))


def draw_in_a_row(draw: random.Random, shape: Shape) -> actions.DieAgainAndAgain:
    points = ("before-commit", "in-commit", "after-commit", "before-collect-garbage")
    return actions.DieAgainAndAgain(tuple((draw.choice(points), draw.choice((1, 2))) for _ in range(IN_A_ROW)))


def draw_fail_function(draw: random.Random, shape: Shape) -> actions.FailFunction:
    return actions.FailFunction(tuple(draw.choice((1, 2)) for _ in range(draw.choice((1, 1, 3)))))


def draw_start_twice(draw: random.Random, shape: Shape) -> actions.StartTwice:
    return actions.StartTwice()


def draw_back_up(draw: random.Random, shape: Shape) -> actions.BackUpWhileRunning:
    return actions.BackUpWhileRunning(draw.choice((1, 2, 3)))


def draw_roll_back(draw: random.Random, shape: Shape) -> operations.RollBack:
    point = draw.choice(("", "in-commit", "after-commit", *ROLLBACK_POINTS))
    blow = Blow(1, point) if point else None
    return operations.RollBack(1, draw.random(), draw.choice(("aside", "remove")), blow)


def draw_kill_executors(draw: random.Random, shape: Shape) -> actions.KillExecutors:
    picks = tuple(draw.random() for _ in range(draw.choice((1, 2))))
    return actions.KillExecutors(draw.choice((1, 2)), draw.uniform(0, 0.8), picks)


def draw_hold_up_executor(draw: random.Random, shape: Shape) -> actions.HoldUpExecutor:
    return actions.HoldUpExecutor(draw.choice((0, 1, 2)), draw.random(), draw.choice((0.5, 2.0, 6.0)))


ORDINARY: tuple[SparkKind, ...] = (
    SparkKind("arrive", 3, ordinary.draw_arrive),
    SparkKind("run", 1, lambda draw, shape: actions.Run()),
    SparkKind("restart", 2, draw_restart),
    SparkKind("other-output", 1, draw_other_output, (FILES,)),
    SparkKind("force-placement", 1, placements.draw_force_placement, (FILES,)),
    SparkKind("balance", 0.7, ordinary.draw_balance, (FILES,)),
    SparkKind("settle", 1, ordinary.draw_settle),
    SparkKind("verify", 0.6, lambda draw, shape: actions.VerifyWhileRunning()),
)

FAULTS: tuple[SparkKind, ...] = (
    SparkKind("dies-at", 3, draw_die_at),
    SparkKind("driver-killed", 2.5, draw_kill_driver),
    SparkKind("terminated", 0.8, draw_terminate, (FILES,)),
    SparkKind("second-driver", 0.7, draw_start_twice, (FILES,)),
    SparkKind("backup", 0.7, draw_back_up, (FILES,)),
    SparkKind("rollback", 0.8, draw_roll_back, (FILES,)),
    SparkKind("compact", 0.5, lambda draw, shape: operations.Compact()),
    SparkKind("function-fails", 3, draw_fail_function, (FUNCTION,)),
    SparkKind("executor-killed", 5, draw_kill_executors, BOTH, on_cluster=True),
    SparkKind("executor-held", 2, draw_hold_up_executor, BOTH, on_cluster=True),
    SparkKind("in-a-row", 0.1, draw_in_a_row),
)


def faults_of(runtime: str) -> tuple[SparkKind, ...]:
    return tuple(kind for kind in FAULTS if runtime == "cluster" or not kind.on_cluster)


def draw_sink(seed: int, shape: Shape, faults: Sequence[SparkKind]) -> str:
    """Where results of a history go: to files or to a function; where only one of them suits its faults, there."""
    can = [sink for sink in BOTH if all(sink in kind.sinks for kind in faults)] or list(BOTH)
    draw = random.Random(f"sink {seed} {shape.name}")
    return FUNCTION if FUNCTION in can and (len(can) == 1 or draw.random() < SHARE_OF_FUNCTIONS) else FILES


def draw_history(seed: int, shape: Shape, count: int, faults: Sequence[SparkKind], sink: str) -> Iterator[Action]:
    """A run over a few files, then so many actions, half of them faults, the last of which compares everything."""
    draw = random.Random(f"spark {seed} {shape.name}")
    kinds = [[kind for kind in group if sink in kind.sinks] for group in (faults, ORDINARY)]
    yield ordinary.Arrive(shape.streams, WARM_UP, draw.choice(("", "swap", "hold")))
    yield actions.Run()
    for number in range(count - 3):
        some = kinds[number % 2] or kinds[1]
        yield draw.choices(some, [kind.weight for kind in some])[0].draw(draw, shape)
    yield ordinary.Settle()
