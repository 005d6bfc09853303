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

from chaos.history import draw_episode, draw_history
from chaos.judge import Tally
from chaos.kinds import FAULTS, ORDINARY, STORE_FAULTS, Kind, suits
from chaos.shapes import Shape
from chaos.world import DISK, Action, World
from chaos.wrong import WrongError
from object_server import S3Proxy, s3_proxy, s3_server
from small_disk import small_disk


@dataclass(frozen=True)
class Story:
    """What a world is to play, and how to have it played again."""

    shape: Shape
    seed: int
    fault: Kind | None = None  # of an episode
    actions: int = 0  # of a history
    kinds: tuple[Kind, ...] = ()  # of faults in it
    upto: int | None = None  # the last action to play

    @property
    def name(self) -> str:
        what = f"{self.actions:,} actions" if self.fault is None else self.fault.name
        return f"{self.shape.name}, {what}, seed {self.seed}"

    @property
    def on_store(self) -> bool:
        return self.fault in STORE_FAULTS

    @property
    def command(self) -> str:
        start = f"python -m chaos --shape {self.shape.name} --seed {self.seed}"
        if self.fault is not None:
            return f"{start} --seeds 1 --fault {self.fault.name}"
        some = "" if self.kinds == FAULTS else f" --fault {','.join(kind.name for kind in self.kinds)}"
        return f"{start} --actions {self.actions}{some}"

    def draw(self) -> Iterator[Action]:
        if self.fault is not None:
            actions = draw_episode(self.seed, self.shape, self.fault)
        else:
            actions = draw_history(self.seed, self.shape, self.actions, (*ORDINARY, *self.kinds))
        return (action for number, action in enumerate(actions, 1) if self.upto is None or number <= self.upto)


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

    def add(self, story: Story, world: World) -> None:
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

    @property
    def never(self) -> list[str]:
        """Faults that were tried and never came to pass: nothing was shown of these."""
        cells = [f"{fault} in {shape}" for (shape, fault) in self.cells if not self.fired_in[shape, fault]]
        return cells or [name for name in self.tried if not self.fired[name] and not self.cells]

    @property
    def good(self) -> bool:
        return not (self.failures or self.never or self.tally.wrong)


def episodes(shapes: Iterable[Shape], faults: Iterable[Kind], seeds: Iterable[int]) -> Iterator[Story]:
    """Every fault in every shape, for one seed after the other."""
    pairs = [(shape, fault) for fault in faults for shape in shapes if suits(fault, shape)]
    return (Story(shape, seed, fault) for seed in seeds for shape, fault in pairs)


def play(
    stories: Iterable[Story],
    folder: Path | None = None,
    seconds: float | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Play them, until they or the time are used up. What went wrong is kept in `folder`, with its journal."""
    folder = folder or Path(tempfile.mkdtemp(prefix="watersmeet-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    outcome = Outcome()
    with _disk(folder / "disk") as resize, _store() as proxy:
        for number, story in enumerate(stories):
            if seconds is not None and time.monotonic() - began > seconds:
                break
            if resize is None and story.fault is not None and story.fault.name == "full-disk":
                outcome.left_out.append(story.name)
                continue
            _play_one(story, folder, number, resize, proxy() if story.on_store else None, outcome, tell)
            if outcome.stories % 100 == 0 or story.fault is None:
                tell(f"{outcome.stories} played, {outcome.counts['actions']:,} actions, {len(outcome.failures)} wrong")
    outcome.seconds = time.monotonic() - began
    return outcome


def _play_one(
    story: Story,
    folder: Path,
    number: int,
    resize: Callable[[str], None] | None,
    proxy: S3Proxy | None,
    outcome: Outcome,
    tell: Callable[[str], None],
) -> None:
    home, inputs, journal = folder / "disk" / f"{number}", folder / f"in-{number}", folder / f"journal-{number}.jsonl"
    world = World(story.shape, home, inputs, story.seed, resize, proxy)
    try:
        world.play(story.draw(), journal)
        world.check_tidy()
    except Exception as error:
        kind = "wrong" if isinstance(error, WrongError) else "an error of no kind that users should see"
        kept = folder / f"failed-{number}"
        shutil.copytree(home, kept)
        text = f"{story.name}: {kind} at action {world.counts['actions']}: {error!r}"
        outcome.failures.append(f"{text}\n  again: {story.command}\n  journal {journal}, folder {kept}")
        tell(outcome.failures[-1])
        if resize is not None:
            resize(DISK)
    else:
        shutil.rmtree(inputs)
        journal.unlink() if story.fault is not None else None
    outcome.add(story, world)
    shutil.rmtree(home)


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
