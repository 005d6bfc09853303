"""Worlds, one after the other: each plays a history or an episode of its own seed, and what came of all is added up."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaos.ground import Ground
from chaos.judge import Tally
from chaos.stories import AnyStory, Around
from chaos.world import DISK
from chaos.wrong import WrongError
from object_server import S3Proxy, s3_proxy, s3_server
from small_disk import small_disk
from spark_cluster import Cluster, standalone_cluster


@dataclass
class Outcome:
    """The sums over all that was played."""

    stories: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    cells: Counter[tuple[str, str]] = field(default_factory=Counter)  # episodes, by shape and fault
    fired_in: Counter[tuple[str, str]] = field(default_factory=Counter)  # faults that came to pass in them
    tally: Tally = field(default_factory=Tally)
    failures: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, story: AnyStory, world: Ground) -> None:
        self.stories += 1
        self.counts += world.counts
        self.tried += world.faults.tried
        self.fired += world.faults.fired
        for name, value in vars(world.judge.tally).items():
            setattr(self.tally, name, getattr(self.tally, name) + value)
        if story.fault is not None:
            cell = (story.shape.name, story.fault.name)
            self.cells[cell] += 1
            self.fired_in[cell] += world.faults.fired.total()
        for kind in story.medley:
            cell = (story.shape.name, kind.name)
            self.cells[cell] += 1
            self.fired_in[cell] += world.faults.fired_of[kind.name]

    @property
    def never(self) -> list[str]:
        """Faults that were tried and never came to pass: nothing was shown of these."""
        cells = [f"{fault} in {shape}" for (shape, fault) in self.cells if not self.fired_in[shape, fault]]
        return cells or [name for name in self.tried if not self.fired[name] and not self.cells]

    @property
    def good(self) -> bool:
        return not (self.failures or self.never or self.tally.wrong)


def play(
    stories: Iterable[AnyStory],
    folder: Path | None = None,
    seconds: float | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Play them, until they or the time are used up. What went wrong is kept in `folder`, with its journal."""
    folder = folder or Path(tempfile.mkdtemp(prefix="watersmeet-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    outcome = Outcome()
    with _disk(folder / "disk") as resize, _store() as store, _cluster(folder / "cluster") as cluster:
        around = Around(resize, store, cluster)
        for number, story in enumerate(stories):
            if seconds is not None and time.monotonic() - began > seconds:
                break
            faults = (*story.medley, *(() if story.fault is None else (story.fault,)))
            if resize is None and any(fault.name == "full-disk" for fault in faults):
                outcome.left_out.append(story.name)
                continue
            _play_one(story, folder, number, around, outcome, tell)
            if outcome.stories % 100 == 0 or not faults:
                tell(f"{outcome.stories} played, {outcome.counts['actions']:,} actions, {len(outcome.failures)} wrong")
    outcome.seconds = time.monotonic() - began
    return outcome


def _play_one(
    story: AnyStory,
    folder: Path,
    number: int,
    around: Around,
    outcome: Outcome,
    tell: Callable[[str], None],
) -> None:
    home, inputs, journal = folder / "disk" / f"{number}", folder / f"in-{number}", folder / f"journal-{number}.jsonl"
    world = story.world(home, inputs, around)
    try:
        try:
            world.play(story.draw(), journal)
            world.check_tidy()
        finally:
            world.end_processes()
    except Exception as error:
        kind = "wrong" if isinstance(error, WrongError) else "an error of no kind that users should see"
        kept = folder / f"failed-{number}"
        shutil.copytree(home, kept)
        text = f"{story.name}: {kind} at action {world.counts['actions']}: {error!r}"
        outcome.failures.append(f"{text}\n  again: {story.command}\n  journal {journal}, folder {kept}")
        tell(outcome.failures[-1])
        if around.resize is not None:
            around.resize(DISK)
    else:
        shutil.rmtree(inputs)
        journal.unlink() if story.fault is not None or story.medley else None
    outcome.add(story, world)
    shutil.rmtree(home)


@contextmanager
def _cluster(folder: Path) -> Iterator[Callable[[], Cluster]]:
    """A master and two workers of Spark, started for the first who asks."""
    with ExitStack() as stack:
        started: list[Cluster] = []

        def start() -> Cluster:
            if not started:
                started.append(stack.enter_context(standalone_cluster(folder, workers=2, cores=1)))
            return started[0]

        yield start


@contextmanager
def _store() -> Iterator[Callable[[], S3Proxy]]:
    """An S3 server with a proxy in front of it, started for the first who asks."""
    with ExitStack() as stack:
        started: list[S3Proxy] = []

        def start() -> S3Proxy:
            if not started:
                started.append(stack.enter_context(s3_proxy(stack.enter_context(s3_server()))))
            return started[0]

        yield start


@contextmanager
def _disk(folder: Path) -> Iterator[Callable[[str], None] | None]:
    """A disk of its own for worlds, whose size can be changed; where that needs rights that we lack, a plain folder."""
    try:
        mounted = small_disk(folder, DISK)
        resize = mounted.__enter__()
    except pytest.skip.Exception:
        yield None
        return
    try:
        yield resize
    finally:
        mounted.__exit__(None, None, None)
