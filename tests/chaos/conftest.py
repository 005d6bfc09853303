"""One small job that passes every fault point, run as a process of its own, and what must be true of it at the end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forked_runs import run_forked
from watersmeet.config import load_job
from watersmeet.faults import VARIABLE
from watersmeet.lang.binder import bind
from watersmeet.runtime.events import silent
from watersmeet.runtime.local.job import run_job
from watersmeet.runtime.opening import open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.state.files import Folder
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.segment_files import file_name
from watersmeet.state.table import read_versions

SECOND = 1_000_000
STREAMS = ("A", "B", "C")
# Enough batches for the snapshot of version 20 and several collections.
BATCHES = 21
QUERY = """
SELECT A.k, A.v AS a, B.v AS b, C.v AS c
FROM A [RANGE 3 SECONDS], B [RANGE 4 SECONDS], C [RANGE 3 SECONDS]
WHERE A.k = B.k AND B.v2 = C.v2
"""


def write_streams(folder: Path) -> None:
    """A file a second for each stream, whose rows are unique; every third one also brings rows that come too late."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("v2", pa.int64()), ("ts", pa.int64())])
    for place, stream in enumerate(STREAMS):
        (folder / stream).mkdir(parents=True)
        for batch in range(BATCHES):
            rows = []
            for i in range(12):
                number = batch * 12 + i
                late = batch > 2 and batch % 3 == place and i < 2
                time = (batch - 3 if late else batch) * SECOND + i * SECOND // 12
                rows.append({"k": number * 7 % 11, "v": number, "v2": number * (place + 3) % 13, "ts": time})
            path = folder / stream / f"{batch:04d}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
            os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))


@dataclass(frozen=True)
class Answer:
    """What a run left for its users: rows, and how many files each batch and slot delivered."""

    rows: Counter[tuple[int, ...]]
    late: Counter[tuple[object, ...]]
    files: Counter[str]

    def __le__(self, other: Answer) -> bool:
        return self.rows <= other.rows and self.late <= other.late and max(self.files.values(), default=1) == 1


@dataclass(frozen=True)
class JobRun:
    """A job file in a folder of its own, with its output, late rows and checkpoint beside it."""

    home: Path

    def start(
        self, *settings: str, fault: str | None = None, marker: Path | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run the job as a process, to its end or its death."""
        command, environment = self.command(*settings), self.environment(fault, marker)
        if 'runtime = "spark"' in (self.home / "job.toml").read_text():
            return subprocess.run(
                command, cwd=self.home, env=environment, capture_output=True, text=True, timeout=timeout
            )
        out, err = self.home / "stdout", self.home / "stderr"
        code = run_forked(command[3:], self.home, environment.get(VARIABLE), out, err, timeout)
        return subprocess.CompletedProcess(command, code, out.read_text(), err.read_text())

    def finish(self, *settings: str) -> None:
        """Run the job to its end in this process, then once more, when there is nothing to do but to collect."""
        for _ in range(2):
            run_job(load_job(self.home / "job.toml", settings), silent)

    def collect(self) -> None:
        """Open and close the checkpoint, which collects garbage, without a runtime."""
        job = load_job(self.home / "job.toml")
        query = bind(job.query, job.streams())
        assert job.run.checkpoint is not None
        folders = CheckpointFolders(job.run.checkpoint)
        outputs = Outputs.of("parquet", job.sink.path, job.sink.late)
        open_run(query, job.settings, folders, outputs).close()

    def command(self, *settings: str) -> list[str]:
        chosen = [part for setting in settings for part in ("--set", setting)]
        return [sys.executable, "-m", "watersmeet", "run", "job.toml", "--json", *chosen]

    def environment(self, fault: str | None = None, marker: Path | None = None) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        if fault is not None:
            environment[VARIABLE] = f"{fault}@{marker or self.marker(fault)}"
        return environment

    def marker(self, fault: str) -> Path:
        return self.home / f"reached-{fault.partition(':')[0]}"

    def answer(self) -> Answer:
        return Answer(
            Counter(row for _, rows in _read(self.home / "out") for row in rows),
            Counter((name.split("-")[1], *row) for name, rows in _read(self.home / "late") for row in rows),
            Counter(name[:18] for name, _ in _read(self.home / "out")),  # part-BATCH-SLOT
        )

    def events(self, finished: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
        return [json.loads(line) for line in finished.stdout.splitlines()]

    def check_tidy(self) -> None:
        """After a collection: no temporary file, no waiting file, no segment beyond those of the versions kept."""
        state = self.home / "ck" / "state"
        for name in ("versions", "snapshots"):
            assert [n for n in os.listdir(state / name) if not re.fullmatch(r"\d{20}\.json", n)] == []
        found = list(read_versions(Folder(str(state))))
        kept = [manifest for manifest in found if manifest.version >= found[-1].kept_from]
        alive = {file_name(segment.file) for manifest in kept for segment in manifest.segments.values()}
        assert set(os.listdir(state / "segments")) == alive
        for folder in (self.home / "out", self.home / "late"):
            waiting = [path for path in folder.iterdir() if path.name.startswith("_watersmeet")]
            assert len(waiting) == 1
            assert list(waiting[0].iterdir()) == []
            assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def _read(folder: Path) -> list[tuple[str, list[tuple[int, ...]]]]:
    if not folder.exists():
        return []
    names = sorted(path.name for path in folder.iterdir() if path.suffix == ".parquet")
    return [(name, [tuple(row.values()) for row in pq.read_table(folder / name).to_pylist()]) for name in names]


MakeJob = Callable[..., JobRun]


@pytest.fixture(scope="session")
def chaos_inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    write_streams(folder)
    return folder


@pytest.fixture(scope="session")
def make_chaos_job(chaos_inputs: Path) -> MakeJob:
    """`make_chaos_job(home, runtime, inputs)`: the job, ready to start in `home`."""

    def make(home: Path, runtime: str = "local", inputs: Path = chaos_inputs) -> JobRun:
        home.mkdir(parents=True, exist_ok=True)
        lines = [f'query = """{QUERY}"""']
        for name in STREAMS:
            lines += [
                f"[streams.{name}]",
                'format = "parquet"',
                f'path = "{inputs / name}"',
                'schema = "k BIGINT, v BIGINT, v2 BIGINT, ts BIGINT"',
                'time_unit = "us"',
                'lateness = "500 milliseconds"',
                "options = { maxFilesPerTrigger = 1 }",
            ]
        lines += ["[sink]", f'path = "{home}/out"', f'late = "{home}/late"']
        lines += ["[run]", f'runtime = "{runtime}"', f'checkpoint = "{home}/ck"', "slots = 2", "groups = 6"]
        if runtime == "spark":
            lines += ["[spark]", 'master = "local[2]"']
        (home / "job.toml").write_text("\n".join(lines))
        return JobRun(home)

    return make


@pytest.fixture(scope="session")
def undisturbed(make_chaos_job: MakeJob, tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """The answer of a run without a fault."""
    job = make_chaos_job(tmp_path_factory.mktemp("undisturbed") / "run")
    finished = job.start()
    assert finished.returncode == 0, finished.stderr
    answer = job.answer()
    assert sum(answer.rows.values()) > 200
    assert sum(answer.late.values()) > 20
    return answer
