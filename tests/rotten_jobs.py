"""A job with some of everything in its checkpoint, stopped before its last delivery: to be damaged, and put back."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, late_rows, write_streams
from watersmeet.model.ids import DeliveryId
from watersmeet.runtime.outputs import Outputs
from watersmeet.state import file_lists, table
from watersmeet.state.manifest import Delivery

CASE = JoinCase(
    {"A": ("k",), "B": ("k", "m"), "C": ("m",)}, "A.k = B.k AND B.m = C.m", 3 * SECOND, lateness_us=SECOND // 2
)
BATCHES, READ = 9, 7
STREAMS = draw_streams(CASE, BATCHES, 10, 8, seed=3, late=2)
EXPECTED = duckdb_answer(CASE, STREAMS)

# Where the files of each kind lie.
KINDS = {
    "newest version": "ck/state/versions/*",
    "versions": "ck/state/versions/*",
    "snapshots": "ck/state/snapshots/*",
    "head": "ck/state/head",
    "lists of files": "ck/state/files/*",
    "segments": "ck/state/segments/*",
    "waiting results": "out/_watersmeet*/*",
    "waiting late rows": "late/_watersmeet*/*",
}


class Rotten:
    """A job that was stopped before its last delivery, and can be put back as it was."""

    def __init__(self, home: Path) -> None:
        self.job = JudgedJob.write(home / "run", CASE, run='memory = "6000"', adapt='plan = "((A B) C)"')
        self.sound = home / "sound"
        write_streams(CASE, STREAMS, self.job.home / "in", 0, READ)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(table, "SNAPSHOT_EVERY", 4)
            patch.setattr(file_lists, "LISTED", 2)
            patch.setattr(Outputs, "deliver", _stop_at(READ - 1, Outputs.deliver))
            assert self.job.run_here("run.durability=process").code
        write_streams(CASE, STREAMS, self.job.home / "in", READ)
        shutil.copytree(self.job.home, self.sound)

    def files(self, kind: str) -> list[Path]:
        found = sorted(self.job.home.glob(KINDS[kind]))
        return found[-1:] if kind == "newest version" else found

    def put_back(self) -> None:
        shutil.rmtree(self.job.home)
        shutil.copytree(self.sound, self.job.home)

    def go_on(self) -> str:
        """What comes of it: "right", "told", or what is wrong."""
        found = self.job.run_here("run.durability=process")
        try:
            answer = self.job.answer()
        except pa.ArrowInvalid:
            return "a result that cannot be read"
        if found.code:
            told = found.stderr.startswith("error: ") and "detail:" in found.stderr and "internal" not in found.stderr
            return f"a raw error: {found.stderr}" if not told else "told" if answer <= EXPECTED else "wrong, then told"
        wrong = difference(answer, EXPECTED)
        return wrong or ("right" if self.job.late() == late_rows(CASE, STREAMS) else "late rows are wrong")


def _stop_at(id_: int, deliver: Callable[[Outputs, Delivery], object]) -> Callable[[Outputs, Delivery], object]:
    def stop(outputs: Outputs, delivery: Delivery) -> object:
        if delivery.id >= DeliveryId(id_) and delivery.late_files and delivery.results:
            raise RuntimeError
        return deliver(outputs, delivery)

    return stop


def flip(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def swap(one: Path, other: Path) -> None:
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
