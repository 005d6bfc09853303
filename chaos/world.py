"""One job, its files and its runs: carries out a history, action by action, and has everything judged as it goes.

A run of the product is under way or not. An action that needs one is carried out between two batches of a run, which is
started for it; any other ends the run first. So a long run sees many actions, and a restart is only what comes between.
Whatever ends a run must have been asked for: a death, or an error that an action has announced. All else is wrong.

Every action is a line of the journal, with what came of it and where the state stood. Two worlds of one seed write the
same journal, unless an action needs a real process.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, ClassVar, Protocol

from chaos.feed import Feed
from chaos.judge import Judge, Tally, WrongError
from chaos.mortal import Blow, Mortal
from chaos.shapes import FILE_US, LATENESS_FILES, Shape
from object_server import S3Proxy
from power_loss import MODELS, Killed, put_back
from watersmeet.config import Job, load_job
from watersmeet.errors import InternalError, WatersmeetError
from watersmeet.runtime.events import Event
from watersmeet.runtime.local.job import run_job
from watersmeet.state.files import Folder
from watersmeet.state.segment_files import file_name
from watersmeet.state.table import read_versions

GROUPS = 6
DISK = "256m"


class Action(Protocol):
    """Something that is done to a world; data, with one method."""

    running: ClassVar[bool]  # between two batches of a run, or while none is under way

    def apply(self, world: World) -> str:
        """Do it; a word for the journal."""


@dataclass(frozen=True)
class Settings:
    """What may change from one run to the next."""

    slots: int = 2
    memory: str = ""
    spill: str = "global-output-penalty"
    merge: str = "state-manager"
    max_files: int = 1
    keep_versions: int = 2
    drain: bool = False

    def overrides(self, streams: Iterable[str]) -> list[str]:
        chosen = [
            f"run.slots={self.slots}",
            f"run.keep_versions={self.keep_versions}",
            f"adapt.spill={self.spill}",
            f"adapt.merge={self.merge}",
        ]
        chosen += [f"run.memory={self.memory}"] if self.memory else []
        chosen += [f"streams.{name}.options.maxFilesPerTrigger={self.max_files}" for name in streams]
        return chosen


@dataclass
class Faults:
    """What was done on purpose, by name: how often it was tried, and how often it came to pass."""

    tried: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Places:
    """Where a job has its checkpoint and its outputs: addresses."""

    checkpoint: str
    out: str
    late: str
    cache: str | None = None

    @classmethod
    def on_disk(cls, home: Path) -> Places:
        return cls(str(home / "ck"), str(home / "out"), str(home / "late"))

    @classmethod
    def on_store(cls, proxy: S3Proxy, home: Path) -> Places:
        bucket = proxy.bucket()
        checkpoint, out, late = (proxy.address(f"{bucket}/{name}") for name in ("ck", "out", "late"))
        return cls(checkpoint, out, late, str(home / "cache"))


class World:
    def __init__(
        self,
        shape: Shape,
        home: Path,
        inputs: Path,
        seed: object,
        resize: Callable[[str], None] | None = None,
        proxy: S3Proxy | None = None,
    ) -> None:
        self.shape = shape
        self.home = home / "run"
        self.home.mkdir(parents=True)
        self.proxy = proxy  # of the object store that everything is on; None: all is in `home`
        self.places = Places.on_disk(self.home) if proxy is None else Places.on_store(proxy, self.home)
        self.resize = resize  # of the disk that `home` is on, if that can be
        self.draw = random.Random(f"world {seed}")
        self.feed = Feed(shape, inputs)
        self.settings = Settings(memory=shape.memory)
        self.mortal = Mortal(self.home, seed)
        self.faults = Faults()
        self.counts: Counter[str] = Counter()  # of what went on: actions, runs, batches, spills, merges
        self.judge = Judge(self.feed, Folder(self.places.out), Folder(self.places.late))
        self.job_file = self.feed.folder / "job.toml"
        self.job_file.write_text(self._job_text())
        self.excused: list[str] = []  # errors that may end the run that is under way
        self._actions: Iterator[Action] = iter(())
        self._next: Action | None = None
        self._journal: IO[str] | None = None
        self._full = False

    # --- a history ---------------------------------------------------------------------------------------------------

    def play(self, actions: Iterable[Action], journal: Path | None = None) -> Tally:
        """Carry out all of the actions. Raises `WrongError` where the product is wrong."""
        self._actions = iter(actions)
        with nullcontext() if journal is None else journal.open("w") as self._journal:
            while (action := self._pull()) is not None:
                if action.running:
                    self._next = action
                    self.run()
                else:
                    self._apply(action)
        return self.judge.tally

    def _pull(self) -> Action | None:
        action, self._next = self._next, None
        return action if action is not None else next(self._actions, None)

    def _apply(self, action: Action) -> None:
        self.counts["actions"] += 1
        self.counts[type(action).__name__] += 1
        try:
            word = action.apply(self)
        except BaseException as error:
            self._note(action, type(error).__name__)
            raise
        self._note(action, word)

    def _note(self, action: Action, word: str) -> None:
        if self._journal is not None:
            entry = {"action": self.counts["actions"], "what": str(action), "came": word, **self._standing()}
            self._journal.write(json.dumps(entry) + "\n")

    def _standing(self) -> dict[str, int]:
        return {"rows": self.judge.tally.rows, "late": self.judge.tally.late, "ops": self.mortal.operations.total()}

    # --- runs --------------------------------------------------------------------------------------------------------

    def job(self) -> Job:
        return load_job(self.job_file, [*self.settings.overrides(self.shape.streams), 'run.trigger="1 second"'])

    def job_to_end(self) -> Job:
        return load_job(self.job_file, self.settings.overrides(self.shape.streams))

    def run(self) -> str:
        """A run that goes on with the history until an action wants it to end, or it dies."""
        job = self.job()
        return self.guarded(lambda: run_job(job, self.hear, self._between, self.mortal.clock, self.settings.drain))

    def run_to_end(self, stopped: Callable[[], bool] = lambda: False) -> str:
        """A run over all that has arrived, which ends there, or dies."""
        job = self.job_to_end()
        return self.guarded(lambda: run_job(job, self.hear, stopped, self.mortal.clock))

    def guarded(self, run: Callable[[], None]) -> str:
        """Run, and judge how it ended and what it left: a word."""
        self.counts["runs"] += 1
        try:
            with self.mortal.alive():
                run()
            ended = "ended"
        except Killed:
            ended = "died"
        except InternalError as error:
            raise WrongError(f"an internal error: {error.render()}") from error
        except WatersmeetError as error:
            if not any(text in error.render() for text in self.excused):
                raise WrongError(f"an error that nothing has asked for: {error.render()}") from error
            ended = error.primary
        if self._full:
            self.empty_disk()
            if os.strerror(errno.ENOSPC) in ended:
                self.came_to_pass("full disk")
        blow, self.mortal.blow = self.mortal.blow, None
        self.excused = []
        if blow is not None and blow.fired:
            self.faults.fired[blow.name] += 1
            if blow.power and ended == "died":
                self._lose_power()
        self.judge.look()
        return ended

    def _between(self) -> bool:
        """Called by the run between two batches: carry out the next action, or have the run end for it."""
        self.judge.look()
        action = self._pull()
        if action is not None and action.running:
            self._apply(action)
            return False
        self._next = action
        return True

    def hear(self, event: Event) -> None:
        if event["event"] in ("batch", "merge"):
            self.counts["batches" if event["event"] == "batch" else "rounds"] += 1
            self.counts["rows merged"] += event["rows_merged"]
            for entry in event["decisions"]:
                self.counts[entry["decision"]] += 1

    def try_fault(self, name: str, blow: Blow | None = None) -> None:
        """Note that a fault is tried; a blow is dealt when its time comes."""
        self.faults.tried[name] += 1
        if blow is not None:
            self.mortal.blow = replace(blow, name=name)

    def came_to_pass(self, name: str) -> None:
        self.faults.fired[name] += 1

    def fill_disk(self, kilobytes: int) -> None:
        """The disk is this small from now on, until the run ends."""
        assert self.resize is not None
        self.resize(f"{kilobytes}k")
        self._full = True

    def empty_disk(self) -> None:
        assert self.resize is not None
        self.resize(DISK)
        self._full = False

    def _lose_power(self) -> None:
        """The disk as a loss of power may leave it, after the last operation of a run that died."""
        recorder = self.mortal.recorder
        assert recorder is not None
        image = recorder.image(len(recorder.log), self.draw.choice(MODELS), self.draw)
        for path in list(self.home.iterdir()):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        put_back(image)
        self.mortal.forget_log()
        self.judge.look_again()

    # --- where everything is exact -----------------------------------------------------------------------------------

    def settle(self, whole: bool = False) -> None:
        """Run to the end of what has arrived: now everything must have come, once."""
        if self.proxy is not None:
            self.proxy.accident = lambda method, path: None
        ended = self.run_to_end()
        if ended != "ended":
            raise WrongError(f"a run that nothing stood in the way of has {ended}")
        self.judge.check_all(whole)
        self.sweep()

    def sweep(self) -> None:
        """Take delivered results away, and files that were read; what is there counts as on disk from now on."""
        self.judge.sweep()
        self.feed.forget_read()
        self.mortal.forget_log()

    def check_tidy(self) -> None:
        """After a start that collects: nothing lies about that no version kept refers to."""
        self.settle()
        self.settle()
        state = Folder(self.places.checkpoint).sub("state")
        *_, newest = versions = list(read_versions(state))
        kept = [manifest for manifest in versions if manifest.version >= newest.kept_from]
        alive = {file_name(segment.file) for manifest in kept for segment in manifest.segments.values()}
        found = set(state.sub("segments").names())
        stray = found - alive
        stray |= {path.name for path in self.home.rglob("*") if ".tmp-" in path.name}
        stray |= {path.name for path in self.home.glob("*/_watersmeet*/*")}
        if stray or alive - found:
            raise WrongError(f"files that nothing refers to: {sorted(stray)}; missing: {sorted(alive - found)}")

    def _job_text(self) -> str:
        lines = [f'query = "{self.shape.query}"']
        for name in self.shape.streams:
            lines += [
                f"[streams.{name}]",
                'format = "parquet"',
                f'path = "{self.feed.folder / name}"',
                f'schema = "{self.shape.declared(name)}"',
                f'lateness = "{LATENESS_FILES * FILE_US} microseconds"',
                "options = { maxFilesPerTrigger = 1 }",
            ]
        lines += ["[sink]", f'path = "{self.places.out}"', f'late = "{self.places.late}"']
        lines += ["[run]", 'runtime = "local"', f'checkpoint = "{self.places.checkpoint}"', f"groups = {GROUPS}"]
        lines += [f'cache = "{self.places.cache}"'] if self.places.cache else []
        lines += ["[adapt]", f'plan = "{self.shape.plan}"']
        return "\n".join(lines) + "\n"
