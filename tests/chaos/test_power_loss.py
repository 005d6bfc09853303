"""The power goes, at any point of a run: what was committed is there, and a restart delivers the right answer.

The run is real, and what it does to the disk is recorded (`power_loss.py`); from many points of the log images of the
disk are drawn, as a power loss may leave them, and a run goes on from each. With `durability = "process"` the same must
go wrong: that is what shows that the test can fail.

`WATERSMEET_POWER_LOSSES` is how many images are drawn for each case (`make test-power-loss`).
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, Result, difference, draw_streams, duckdb_answer, late_rows
from judged_jobs import write_streams as write_case
from power_loss import MODELS, Killed, Recorder, put_back
from watersmeet.state import file_lists, table
from watersmeet.state.syncing import POWER_LOSS, PROCESS

IMAGES = int(os.environ.get("WATERSMEET_POWER_LOSSES", "16"))  # of each case

TWO_KEYS = JoinCase(
    {"A": ("k",), "B": ("k", "m"), "C": ("m",)}, "A.k = B.k AND B.m = C.m", 3 * SECOND, lateness_us=SECOND // 2
)
BUDGET = {"run": 'memory = "4000"\nslots = 2', "adapt": 'plan = "((A B) C)"'}


@dataclass(frozen=True)
class Case:
    """A run to record: its settings, and how many of its batches an earlier run has done."""

    batches: int = 7
    done: int = 0
    job: dict[str, str] = field(default_factory=dict)
    lost: bool = False  # the earlier run ended by a power loss too
    killed: bool = False  # the run is killed when a version shows and is not yet on disk, and started again


CASES = {
    "windows and late rows": Case(),
    "gone on with after a restart": Case(done=3),
    "a budget, with spills and merges": Case(job=BUDGET),
    "a budget, gone on with": Case(batches=8, done=4, job=BUDGET),
    "a second power loss": Case(done=4, lost=True),
    "killed, and started again": Case(killed=True),
}


KEPT = "run.keep_versions=2"  # so that files go soon


class Lost:
    """One case, and how to lose power in it."""

    def __init__(self, case: Case, home: Path, durability: str, seed: int) -> None:
        self.case = case
        self.draw = random.Random(seed)
        self.streams = draw_streams(TWO_KEYS, case.batches, 10, 8, seed=seed, late=2)
        self.expected: Result = duckdb_answer(TWO_KEYS, self.streams)
        self.late = late_rows(TWO_KEYS, self.streams)
        self.home, self.input = home / "run", home / "in"
        self.job = JudgedJob.write(self.home, TWO_KEYS, **case.job)
        path = self.home / "job.toml"
        path.write_text(path.read_text().replace('path = "in/', f'path = "{self.input}/'))
        self.settings = (f"run.durability={durability}", KEPT)
        self.first_point = 0  # of the log, to lose power at
        write_case(TWO_KEYS, self.streams, self.input, 0, case.done or None)

    def record(self) -> Recorder:
        """The run, after what an earlier one has done."""
        if self.case.done:
            before = self._record()
            if self.case.lost:
                self.lose(before, len(before.log) * 2 // 3, MODELS[0])
            write_case(TWO_KEYS, self.streams, self.input, self.case.done)
        return self._record()

    def _record(self) -> Recorder:
        recorder = Recorder(self.home)
        with recorder.recording():
            if self.case.killed:
                recorder.kill = _third_of(str(self.home / "ck" / "state" / "versions"))
                with pytest.raises(Killed):
                    self.job.run_here(*self.settings)
                self.first_point = len(recorder.log)
                recorder.kill = lambda path: False
            self.job.finish(*self.settings)
        return recorder

    def lose(self, recorder: Recorder, point: int, model: str) -> None:
        """The disk as it may be after a power loss."""
        shutil.rmtree(self.home)
        put_back(recorder.image(point, model, self.draw))

    def go_on(self) -> str:
        """A word for how a run goes on from what is there."""
        found = self.job.run_here("run.durability=process", KEPT)
        if found.code:
            return f"refused: {found.stderr.splitlines()[0]}" if "Traceback" not in found.stderr else "a raw error"
        try:
            wrong, late = difference(self.job.answer(), self.expected), self.job.late()
        except pa.ArrowInvalid:
            return "wrong: a result that cannot be read"
        return f"wrong: {wrong}" if wrong else "right" if late == self.late else "wrong: late rows"


def _third_of(wanted: str) -> Callable[[str], bool]:
    """Whether a path is this one for the third time."""
    seen = itertools.count(1)
    return lambda path: path == wanted and next(seen) == 3


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots, and the lists of files, come after a few versions, so that short runs have some of each."""
    monkeypatch.setattr(table, "SNAPSHOT_EVERY", 4)
    monkeypatch.setattr(file_lists, "LISTED", 2)


def lose_power(case: Case, home: Path, durability: str, images: int, seed: int) -> Counter[str]:
    lost = Lost(case, home, durability, seed)
    recorder = lost.record()
    assert difference(lost.job.answer(), lost.expected) == ""
    found: Counter[str] = Counter()
    for number in range(images):
        first = lost.first_point
        point = lost.draw.randint(first, first + 40 if lost.case.killed else len(recorder.log))
        lost.lose(recorder, point, MODELS[number % len(MODELS)])
        found[lost.go_on()] += 1
    kinds = Counter(op.kind for op in recorder.log)
    outcomes = Counter(outcome.partition(":")[0] for outcome in found.elements())
    print(f"{durability}: {len(recorder.log)} operations {dict(kinds)}, {images} images: {dict(outcomes)}")
    return found


@pytest.mark.timeout(60 + 2 * IMAGES)
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_lost_and_nothing_doubled(name: str, tmp_path: Path) -> None:
    assert lose_power(CASES[name], tmp_path, POWER_LOSS, IMAGES, seed=1) == {"right": IMAGES}


@pytest.mark.timeout(60 + 2 * IMAGES)
def test_without_it_the_same_goes_wrong(tmp_path: Path) -> None:
    found = lose_power(CASES["windows and late rows"], tmp_path, PROCESS, IMAGES, seed=1)
    assert found["right"] < IMAGES
    assert "a raw error" not in found
