"""What worlds of every runtime stand on: one job, its folders and its input, the judge, the counts and the journal.

Every action is a line of the journal, with what came of it and where the state stood.
"""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol

from chaos.feed import Feed
from chaos.judge import Judge, Tally
from chaos.mortal import Blow
from chaos.shapes import FILE_US, LATENESS_FILES, Shape
from chaos.shelves import FolderShelf, Shelf
from chaos.steps import Placed, Step, name_steps
from chaos.wrong import WrongError
from object_server import S3Proxy
from watersmeet.config import Job, load_job
from watersmeet.errors import WatersmeetError
from watersmeet.runtime.events import Event
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_files import file_name
from watersmeet.state.table import read_versions

GROUPS = 6
OUTPUTS = 3  # folders that results go to, one at a time
ASIDE = ("_rolled-back-*", "_set-aside-*")  # where operations put results that were withdrawn


@dataclass(frozen=True)
class Settings:
    """What may change from one run to the next. Empty and zero: not set."""

    slots: int = 2
    memory: str = ""
    spill: str = "global-output-penalty"
    merge: str = "state-manager"
    max_files: int = 1
    max_batch_rows: int = 0
    keep_versions: int = 2
    keep_for: str = ""
    output: int = 0  # which of the outputs
    deliver_every: str = ""
    max_rows_per_file: int = 0
    drain: bool = False
    plan: str = ""
    forced: tuple[Step, ...] = ()  # changes of the plan
    placed: tuple[Placed, ...] = ()
    balance: str = ""
    balance_every: int = 1
    slot_memory: str = ""

    def overrides(self, streams: Iterable[str]) -> list[str]:
        """As `--set` takes them. Where results go is in the job file: addresses of stores have secrets in them."""
        asked = {
            "run.slots": self.slots,
            "run.memory": self.memory,
            "run.max_batch_rows": self.max_batch_rows,
            "run.keep_versions": self.keep_versions,
            "run.keep_for": self.keep_for,
            "adapt.spill": self.spill,
            "adapt.merge": self.merge,
            "sink.deliver_every": self.deliver_every,
            "sink.max_rows_per_file": self.max_rows_per_file,
            "adapt.plan": self.plan,
            "adapt.balance": self.balance,
            "adapt.balance_every": self.balance_every,
            "run.slot_memory": self.slot_memory,
        }
        chosen = [f"{name}={json.dumps(value)}" for name, value in asked.items() if value]
        return chosen + [f"streams.{name}.options.maxFilesPerTrigger={self.max_files}" for name in streams]


@dataclass
class Faults:
    """What was done on purpose, by name: how often it was tried, and how often it came to pass."""

    tried: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    fired_of: Counter[str] = field(default_factory=Counter)  # by the kind of fault that was struck last
    kind: str = ""  # that was struck last


@dataclass(frozen=True)
class Places:
    """Where a job has its checkpoint and its outputs: addresses."""

    checkpoint: str
    outs: tuple[str, ...]
    lates: tuple[str, ...]
    cache: str | None = None

    @classmethod
    def on_disk(cls, home: Path) -> Places:
        outs, lates = ([str(home / name) for name in names] for names in _names())
        return cls(str(home / "ck"), tuple(outs), tuple(lates))

    @classmethod
    def on_store(cls, proxy: S3Proxy, home: Path) -> Places:
        bucket = proxy.bucket()
        outs, lates = ([proxy.address(f"{bucket}/{name}") for name in names] for names in _names())
        return cls(proxy.address(f"{bucket}/ck"), tuple(outs), tuple(lates), str(home / "cache"))


def _names() -> tuple[list[str], list[str]]:
    ends = ["", *(f"-{number}" for number in range(1, OUTPUTS))]
    return [f"out{end}" for end in ends], [f"late{end}" for end in ends]


class Action(Protocol):
    """Something that is done to a world; data, with one method."""

    @property
    def running(self) -> bool:
        """Between two batches of a run, or while none is under way."""

    def apply(self, world: Any) -> str:  # of the kind of world that it is for
        """Do it; a word for the journal."""


class Ground(ABC):
    job_file: Path

    def __init__(self, shape: Shape, home: Path, inputs: Path, places: Places, results: Shelf | None = None) -> None:
        self.shape = shape
        self.home = home
        self.places = places
        self.feed = Feed(shape, inputs)
        self.settings = Settings(memory=shape.memory)
        self.faults = Faults()
        self.counts: Counter[str] = Counter()  # of what went on: actions, runs, batches, spills, merges
        outs = [FolderShelf(address) for address in places.outs] if results is None else [results]
        self.judge = Judge(self.feed, outs, [FolderShelf(address) for address in places.lates])
        self.excused: list[str] = []  # errors that may end the run or the command that is under way
        self.swept_at = 0  # the version before which results and input have been taken away
        self._journal: IO[str] | None = None

    # --- what operations need of a runtime ---------------------------------------------------------------------------

    @abstractmethod
    def run_to_end(self) -> str:
        """A run over all that has arrived, which ends there, or dies: a word."""

    @abstractmethod
    def command(self, *arguments: str) -> str:
        """`watersmeet ARGUMENTS`, which ends well, or dies: a word."""

    @abstractmethod
    def job(self) -> Job:
        """As the next run has it."""

    @abstractmethod
    def deal(self, blow: Blow) -> None:
        """What is to happen in the next run or command."""

    @abstractmethod
    def forget_log(self) -> None:
        """What is in the folder counts as on disk from here on."""

    # --- faults ------------------------------------------------------------------------------------------------------

    def try_fault(self, name: str, blow: Blow | None = None) -> None:
        """Note that a fault is tried; a blow is dealt when its time comes."""
        self.faults.tried[name] += 1
        if blow is not None:
            self.deal(replace(blow, name=name))

    def came_to_pass(self, name: str, kind: str | None = None) -> None:
        """A fault has; it is of this kind, or of the one that was struck last."""
        self.faults.fired[name] += 1
        self.faults.fired_of[self.faults.kind if kind is None else kind] += 1

    def hear(self, event: Event) -> None:
        if event["event"] in ("batch", "merge"):
            self.counts["batches" if event["event"] == "batch" else "rounds"] += 1
            self.counts["rows merged"] += event["rows_merged"]
            for entry in event["decisions"]:
                self.counts[entry["decision"]] += 1

    def arrive(self) -> None:
        """A file of each stream, with a row of its own that is late."""
        for name in self.shape.streams:
            self.feed.arrive(name, extra_late=1)

    @abstractmethod
    def end_processes(self) -> None:
        """End what runs of this world are still at work: one that was judged to be wrong, or cut short, leaves some."""

    # --- a history ---------------------------------------------------------------------------------------------------

    def play(self, actions: Iterable[Action], journal: Path | None = None) -> Tally:
        """Carry out all of the actions. Raises `WrongError` where the product is wrong."""
        with nullcontext() if journal is None else journal.open("w") as self._journal:
            self.carry_out(actions)
        return self.judge.tally

    def carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self.act(action)

    def act(self, action: Action) -> None:
        self.counts["actions"] += 1
        self.counts[type(action).__name__] += 1
        try:
            word = action.apply(self)
        except BaseException as error:
            self.note(action, type(error).__name__)
            raise
        self.note(action, word)

    # --- the journal -------------------------------------------------------------------------------------------------

    def note(self, action: object, word: str) -> None:
        if self._journal is not None:
            entry = {"action": self.counts["actions"], "what": str(action), "came": word, **self.standing()}
            self._journal.write(json.dumps(entry) + "\n")
            self._journal.flush()

    def standing(self) -> dict[str, int]:
        return {"rows": self.judge.tally.rows, "late": self.judge.tally.late}

    # --- where everything is exact -----------------------------------------------------------------------------------

    def settle(self, whole: bool = False) -> None:
        """Run to the end of what has arrived: now everything must have come, once."""
        ended = self.run_to_end()
        if ended != "ended":
            raise WrongError(f"a run that nothing stood in the way of has {ended}")
        self.judge.check_all(whole)
        self.sweep()

    def sweep(self) -> None:
        """Take delivered results away, and files that were read; what is there counts as on disk from now on."""
        self.judge.sweep()
        self.feed.forget_read()
        for pattern in ASIDE:
            for folder in self.home.glob(f"*/{pattern}"):
                shutil.rmtree(folder)
        self.swept_at = self.versions()[-1].version
        self.forget_log()

    def versions(self) -> list[Manifest]:
        """The versions of the state that can be read, the oldest first."""
        return list(read_versions(Folder(self.places.checkpoint).sub("state")))

    @property
    def next_batch(self) -> int:
        """That the next run begins with, if it has anything to read."""
        found = self.versions()
        return found[-1].last_batch + 1 if found else 0

    def overrides(self) -> list[str]:
        """What the settings replace in the job file, which is there."""
        chosen = self.settings.overrides(self.shape.streams)
        steps = [*self.settings.forced]
        if self.settings.placed and (versions := self._readable()):
            job = load_job(self.job_file, chosen)
            steps += name_steps(self.settings.placed, self.settings.forced, job, versions[-1])
        return chosen + ([f"adapt.force=[{', '.join(step.toml for step in steps)}]"] if steps else [])

    def _readable(self) -> list[Manifest]:
        """The versions; none where a bit has flipped."""
        try:
            return self.versions()
        except WatersmeetError:
            return []

    def check_tidy(self) -> None:
        """After a start that collects: nothing lies about that no version kept refers to."""
        self.settle()
        self.settle()
        self.check_no_strays()

    def check_no_strays(self) -> None:
        state = Folder(self.places.checkpoint).sub("state")
        *_, newest = versions = self.versions()
        kept = [manifest for manifest in versions if manifest.version >= newest.kept_from]
        alive = {file_name(segment.file) for manifest in kept for segment in manifest.segments.values()}
        found = set(state.sub("segments").names())
        stray = found - alive
        # Copies of remote files, and what is left of them, are dropped after an hour.
        cache = Path(self.places.cache) if self.places.cache else None
        ours = (path for path in self.home.rglob("*") if cache is None or cache not in path.parents)
        stray |= {path.name for path in ours if ".tmp-" in path.name}
        # What a run that died or was fenced has left uncommitted in an output which is not used any more stays there
        # until that one is used again: nobody can tell it from what a copy of the checkpoint is about to deliver there.
        used = (self.places.outs[self.settings.output], self.places.lates[self.settings.output])
        stray |= {path.name for place in used for path in Path(place).glob("_watersmeet*/*")}
        if stray or alive - found:
            raise WrongError(f"files that nothing refers to: {sorted(stray)}; missing: {sorted(alive - found)}")

    def job_text(self, runtime: str, more: Iterable[str] = ()) -> str:
        lines = [f'query = "{self.shape.query}"']
        for name in self.shape.streams:
            lines += [
                f"[streams.{name}]",
                'format = "parquet"',
                f'path = "{self.feed.folder / name}"',
                f'schema = "{self.shape.declared(name)}"',
                'time_unit = "us"',
                f'lateness = "{LATENESS_FILES * FILE_US} microseconds"',
                "options = { maxFilesPerTrigger = 1 }",
            ]
        out, late = self.places.outs[self.settings.output], self.places.lates[self.settings.output]
        lines += ["[sink]", f'path = "{out}"', f'late = "{late}"']
        lines += ["[run]", f'runtime = "{runtime}"', f'checkpoint = "{self.places.checkpoint}"', f"groups = {GROUPS}"]
        lines += ['at_end = "wait"'] if self.shape.grouped else []
        lines += [f'cache = "{self.places.cache}"'] if self.places.cache else []
        lines += [
            "[adapt]",
            f'plan = "{self.shape.plan}"',
            *([f'ring = "{self.shape.ring}"'] if self.shape.ring else []),
            *more,
        ]
        return "\n".join(lines) + "\n"
