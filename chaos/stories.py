"""What a world is to play, and how to have it played again: on the local runtime, and on Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from chaos.ground import Action, Ground
from chaos.history import draw_episode, draw_history, draw_medley
from chaos.kinds import FAULTS, ORDINARY, PROCESS_FAULTS, STORE_FAULTS, Kind, suits
from chaos.shapes import Shape
from chaos.spark import kinds as spark_kinds
from chaos.spark.kinds import FUNCTION, SparkKind, draw_sink, faults_of
from chaos.spark.world import SparkWorld
from chaos.world import World
from object_server import S3Proxy
from spark_cluster import DRIVER_SETTINGS, Cluster

LOCAL, SPARK, CLUSTER = RUNTIMES = ("local", "spark", "cluster")
TOGETHER = 8  # faults of an episode of several, at most
# A task that failed is tried again, as on a cluster; and where it is not, the run fails.
MASTERS = ("local[2,4]", "local[2]")


@dataclass(frozen=True)
class Around:
    """What worlds have to themselves: a disk that can be made small, a store, a cluster. Started for who asks."""

    resize: Callable[[str], None] | None
    store: Callable[[], S3Proxy]
    cluster: Callable[[], Cluster]


class AnyStory(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def fault(self) -> Kind | None:
        """Of an episode."""

    @property
    def medley(self) -> tuple[Kind, ...]:
        """The same, of one with several."""

    @property
    def command(self) -> str:
        """That plays it again."""

    def draw(self) -> Iterator[Action]: ...

    def world(self, home: Path, inputs: Path, around: Around) -> Ground: ...


@dataclass(frozen=True)
class Story:
    """On the local runtime: a history of many kinds of faults, or an episode of one."""

    shape: Shape
    seed: int
    fault: Kind | None = None  # of an episode
    actions: int = 0  # of a history
    medley: tuple[Kind, ...] = ()  # the faults of an episode of several
    kinds: tuple[Kind, ...] = ()  # of faults in it
    upto: int | None = None  # the last action to play

    @property
    def name(self) -> str:
        if self.medley:
            return f"{self.shape.name}, {'+'.join(kind.name for kind in self.medley)}, seed {self.seed}"
        what = f"{self.actions:,} actions" if self.fault is None else self.fault.name
        return f"{self.shape.name}, {what}, seed {self.seed}"

    @property
    def on_store(self) -> bool:
        return self.fault in STORE_FAULTS or any(kind in STORE_FAULTS for kind in self.medley)

    @property
    def command(self) -> str:
        start = f"python -m chaos --shape {self.shape.name} --seed {self.seed}"
        if self.fault is not None:
            return f"{start} --seeds 1 --fault {self.fault.name}"
        if self.medley:
            return f"{start} --seeds 1 --medleys --fault {','.join(kind.name for kind in self.medley)}"
        some = "" if self.kinds == FAULTS else f" --fault {','.join(kind.name for kind in self.kinds)}"
        return f"{start} --actions {self.actions}{some}"

    def draw(self) -> Iterator[Action]:
        if self.medley:
            actions = draw_medley(self.seed, self.shape, self.medley)
        elif self.fault is not None:
            actions = draw_episode(self.seed, self.shape, self.fault)
        else:
            actions = draw_history(self.seed, self.shape, self.actions, (*ORDINARY, *self.kinds))
        return _first(actions, self.upto)

    def world(self, home: Path, inputs: Path, around: Around) -> World:
        return World(self.shape, home, inputs, self.seed, around.resize, around.store() if self.on_store else None)


@dataclass(frozen=True)
class SparkStory:
    """On Spark, in this machine's cores or on a standalone cluster: a short history."""

    runtime: str
    shape: Shape
    seed: int
    actions: int
    kinds: tuple[SparkKind, ...]
    upto: int | None = None
    fault: Kind | None = None
    medley: tuple[Kind, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.runtime}, {self.shape.name}, {self.actions} actions, results to {self.sink}, seed {self.seed}"

    @property
    def sink(self) -> str:
        asked = () if self.kinds == faults_of(self.runtime) else self.kinds
        return draw_sink(self.seed, self.shape, asked)

    @property
    def command(self) -> str:
        start = f"python -m chaos --runtime {self.runtime} --shape {self.shape.name} --seed {self.seed} --seeds 1"
        all_of_them = self.kinds == faults_of(self.runtime)
        some = "" if all_of_them else f" --fault {','.join(kind.name for kind in self.kinds)}"
        return f"{start} --actions {self.actions}{some}"

    def draw(self) -> Iterator[Action]:
        actions = spark_kinds.draw_history(self.seed, self.shape, self.actions, self.kinds, self.sink)
        return _first(actions, self.upto)

    def world(self, home: Path, inputs: Path, around: Around) -> SparkWorld:
        function = self.sink == FUNCTION
        if self.runtime == SPARK:
            return SparkWorld(self.shape, home, inputs, MASTERS[self.seed % 2], {}, function)
        cluster = around.cluster()
        conf, of_cluster = DRIVER_SETTINGS, (cluster.executors, cluster.held_up)
        return SparkWorld(self.shape, home, inputs, cluster.address, conf, function, *of_cluster)


def _first(actions: Iterator[Action], upto: int | None) -> Iterator[Action]:
    return (action for number, action in enumerate(actions, 1) if upto is None or number <= upto)


def episodes(shapes: Iterable[Shape], faults: Iterable[Kind], seeds: Iterable[int]) -> Iterator[Story]:
    """Every fault in every shape, for one seed after the other."""
    pairs = [(shape, fault) for fault in faults for shape in shapes if suits(fault, shape)]
    return (Story(shape, seed, fault) for seed in seeds for shape, fault in pairs)


def medleys(shapes: Iterable[Shape], faults: Sequence[Kind], seeds: Iterable[int]) -> Iterator[Story]:
    """Every fault in every shape, for one seed after the other, several in an episode: those that one world can have.

    Costs a third of `episodes`, and has faults meet each other.
    """
    apart = (*PROCESS_FAULTS, *STORE_FAULTS)
    for seed in seeds:
        for shape in shapes:
            fitting = [fault for fault in faults if suits(fault, shape)]
            mixed = [fault for fault in fitting if fault not in apart]
            random.Random(f"medleys {seed} {shape.name}").shuffle(mixed)
            together = [mixed[at : at + TOGETHER] for at in range(0, len(mixed), TOGETHER)]
            together += [[fault for fault in fitting if fault in kinds] for kinds in (PROCESS_FAULTS, STORE_FAULTS)]
            yield from (Story(shape, seed, medley=tuple(some)) for some in together if some)
