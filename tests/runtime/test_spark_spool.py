"""On Spark, rows on their way between tasks that are more than a task may keep: written down, and gone afterwards.

How much a task keeps is a constant of `runtime/spool.py`. Python workers import a module of the name `sitecustomize`
when they start: one on their path sets it, and has each spool write down what it did, and what was left of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from function_sink import open_query
from judged_jobs import JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

CASE = JoinCase({"A": ("k",), "B": ("k", "m"), "C": ("m",)}, "A.k = B.k AND B.m = C.m")
STREAMS = draw_streams(CASE, 1, 120, 40, seed=9)
KEPT_BYTES = 2_000
CUSTOMIZED = """
import json, os
from contextlib import suppress
from pathlib import Path
from watersmeet.runtime import spool

spool.KEPT_BYTES = {kept}
spool.EXTENT_BYTES = 1 << 16
log = Path({log!r})
write, close = spool.Spool._write, spool.Spool.close

def noted_write(self, content):
    self.written = getattr(self, "written", 0) + content.size
    return write(self, content)

def still_open(folder):
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it was there to list the others
            if (link := os.readlink(path)).startswith(folder):
                yield link

def noted_close(self):
    close(self)
    left = list(still_open(self._folder)) if self._folder else []
    with log.open("a") as file:
        entry = dict(folder=self._folder, written=getattr(self, "written", 0), open=left)
        file.write(json.dumps(entry) + "\\n")

spool.Spool._write, spool.Spool.close = noted_write, noted_close
"""


@pytest.fixture
def log(spark: Any, tmp_path: Path) -> Iterator[Path]:
    """What spools have done. Python workers are told apart by their environment: these are used by nobody else."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(CUSTOMIZED.format(kept=KEPT_BYTES, log=str(tmp_path / "log")))
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment["PYTHONPATH"] = str(folder)
    try:
        yield tmp_path / "log"
    finally:
        environment.clear()
        environment.update(before)


def test_more_than_a_task_keeps_is_written_down(spark: Any, log: Path, tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path / "job", CASE, adapt='plan = "((A B) C)"', runtime="spark")
    write_streams(CASE, STREAMS, job.home / "in")
    query, options = open_query(spark, job.home)
    writer = query.writeStream.options(**options).option("path", str(job.home / "out"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert difference(job.answer(), duckdb_answer(CASE, STREAMS)) == ""
    spools = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(entry["written"] > KEPT_BYTES for entry in spools) >= 2, "in both stages"
    folders = {entry["folder"] for entry in spools}
    assert None not in folders, "Spark says where temporary files may be"
    assert [entry["open"] for entry in spools if entry["open"]] == []
    # Spark's own files lie in folders there.
    assert [path for folder in folders for path in Path(folder).iterdir() if not path.is_dir()] == []
