"""Makes the golden checkpoints, from which later programs must resume.

They are of the format that this program writes, and that no release has written yet. Until a release does, make them
anew whenever the format changes: `python tests/golden/checkpoints/make.py [NAME ..]`. Afterwards they must stay as they
are, or they would show nothing: move them to a folder named after their format, beside a copy of this script.

Each folder holds

    about.json         what it is, the format, where it was made, and settings that a run must also resume with
    job.toml           the job, with paths relative to the folder (for `spark-function`: the streams of the query)
    in/                the input that was there when the run ended, one file for each batch and stream
    rest/              the input that came after it: not read yet
    ck/, out/, late/   checkpoint, results and late rows as the run left them (folders that were empty are not there)
    expected.parquet   all results over all of the input, late rows left out

They are made in a folder under `MADE_IN`. What is expected comes from DuckDB, and was compared with the nested loops of
`tests/oracle.py`. Windows are 3 seconds and a batch is a second long, so that rows of the input that was read still
meet rows of the rest.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.state.manifest import FORMAT

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from judged_jobs import (  # noqa: E402
    SECOND,
    JoinCase,
    JudgedJob,
    Streams,
    draw_streams,
    duckdb_answer,
    late_rows,
    oracle_answer,
    write_streams,
)

PIECE_BYTES = 300  # a piece of a segment is of 32 MB; in `local-pieces-spilled` it is of some rows
MADE_IN = Path("/tmp/watersmeet-golden")
os.environ["WATERSMEET_COSTS"] = str(HERE.parents[1] / "costs.json")

ABC = {"A": ("k",), "B": ("k",), "C": ("k",)}
TWO_KEYS = JoinCase(
    {"A": ("k",), "B": ("k", "m"), "C": ("m",)}, "A.k = B.k AND B.m = C.m", 3 * SECOND, lateness_us=SECOND // 2
)
ONE_KEY = JoinCase(ABC, "A.k = B.k AND B.k = C.k", 3 * SECOND, lateness_us=SECOND // 2)
CYCLE = JoinCase({"A": ("x", "z"), "B": ("x", "y"), "C": ("y", "z")}, "A.x = B.x AND B.y = C.y AND A.z = C.z")

# Statistics by which the inputs of routed joins are kept on other keys than without any.
CYCLE_STATS = 'rates = { A = 10, B = 100, C = 1 }\nselectivity = { "A B" = 0.9, "B C" = 0.01, "A C" = 0.001 }'


@dataclass(frozen=True)
class Golden:
    what: str
    case: JoinCase
    streams: Streams
    read: int  # batches whose files were there
    make: Callable[[JudgedJob], None]
    job: dict[str, str]
    also_with: tuple[tuple[str, ...], ...] = ()  # settings that it must go on with as well; -SECTION: without that one
    delivers: str = "files"  # or: to a function


def to_the_end(job: JudgedJob) -> None:
    """All of the input that was there; the run ended well, and owed nothing."""
    job.finish()


def killed(fault: str) -> Callable[[JudgedJob], None]:
    def make(job: JudgedJob) -> None:
        done = job.start(fault=fault)
        assert (done.code, job.marker(fault).exists()) == (-signal.SIGKILL, True), done.stderr
        job.marker(fault).unlink()

    return make


def with_lists(job: JudgedJob) -> None:
    """To the end of what there was, with the names of files in lists from the third on."""
    from watersmeet.state import file_lists

    listed, file_lists.LISTED = file_lists.LISTED, 2
    job.finish()
    file_lists.LISTED = listed


PROGRAM = f"""
import sys
from watersmeet.cli.main import main
from watersmeet.kernel import pieces
pieces.PIECE_BYTES = {PIECE_BYTES}
sys.exit(main(["run", "job.toml", "--json"]))
"""


def in_pieces(fault: str) -> Callable[[JudgedJob], None]:
    """Killed, with segments of several pieces, as large ones are written."""

    def make(job: JudgedJob) -> None:
        words = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(words, cwd=job.home, env=job.environment(fault), capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        job.marker(fault).unlink()

    return make


def failed_in_the_function(job: JudgedJob) -> None:
    """`foreachBatch` on Spark: rows of the first batch were taken, and the second call failed before it took any."""
    script = HERE.parents[1] / "function_sink.py"
    done = subprocess.run([sys.executable, str(script), "fail=2"], cwd=job.home, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr


GOLDENS = {
    "local-windows": Golden(
        "two stages, windows and late rows; five of eight batches read, names of files in lists",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 8, 10, 8, seed=1, late=2),
        5,
        with_lists,
        {},
    ),
    "local-spilled": Golden(
        "one join within a budget, killed after its last delivery: generations spilled, results owed, expired rows "
        "that went cold with their generation",
        ONE_KEY,
        draw_streams(ONE_KEY, 10, 12, 8, seed=2, late=2),
        8,
        killed("after-delivery:8"),
        {"run": 'memory = "4000"\nslots = 1', "adapt": 'plan = "mjoin"\nmerge = "off"'},
        (("adapt.merge=state-manager",), ("run.memory=20000",), ("run.slots=3",)),
    ),
    "local-cycle": Golden(
        "a routed join over a cycle of keys, chosen by auto from [stats]; five of eight batches read",
        CYCLE,
        draw_streams(CYCLE, 8, 8, 4, seed=3),
        5,
        to_the_end,
        {"run": "slots = 1", "adapt": 'plan = "auto"', "stats": CYCLE_STATS},
        (("-stats",), ("run.slots=2",)),
    ),
    "local-pieces-spilled": Golden(
        "one join within a budget, killed after its last delivery: generations of several pieces spilled, results owed",
        ONE_KEY,
        draw_streams(ONE_KEY, 12, 20, 12, seed=42, late=2),
        9,
        in_pieces("after-delivery:9"),
        {"run": 'memory = "6000"\nslots = 1', "adapt": 'plan = "mjoin"\nmerge = "off"'},
        (("adapt.merge=state-manager",), ("run.slots=2",)),
    ),
    "local-undelivered": Golden(
        "killed between the commit of the fourth batch and its delivery; it has late rows too",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 7, 10, 8, seed=5, late=2),
        5,
        killed("before-delivery:4"),
        {"run": "slots = 1"},
    ),
    "local-tree-spilled": Golden(
        "((A B) C) within a budget, rows traced to their groups; both joins owe results, some were merged in a batch",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 11, 10, 8, seed=6, late=2),
        9,
        killed("after-delivery:9"),
        {
            "run": 'memory = "8000"\nslots = 1',
            "adapt": 'plan = "((A B) C)"\nforce = [{ at_batch = 3, merge = ["J1:0", "J1:3", "J2:1", "J2:2"] }]',
        },
        (("run.memory=1",), ("run.slots=3",)),
    ),
    "local-round": Golden(
        "killed between the commit of a round of merges, after the last batch that there was, and its delivery",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 6, 12, 8, seed=11, late=2),
        4,
        killed("before-delivery:5"),
        {"run": 'memory = "4000"\nslots = 1', "adapt": 'plan = "((A B) C)"\nmerge = "off"'},
    ),
    "spark-undelivered": Golden(
        "on Spark: killed between the commit of the third batch and its delivery; Spark gives it again",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 6, 10, 8, seed=9, late=2),
        4,
        killed("before-delivery:3"),
        {"runtime": "spark"},
    ),
    "spark-function": Golden(
        "on Spark, within a budget, results to foreachBatch: the function took batch 0, and failed with batch 1",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 5, 14, 8, seed=10, late=2),
        3,
        failed_in_the_function,
        {"runtime": "spark", "run": 'memory = "5000"', "adapt": 'plan = "((A B) C)"\nmerge = "off"'},
        delivers="to a function",
    ),
}


def make(name: str, golden: Golden) -> None:
    home = MADE_IN / name
    shutil.rmtree(home, ignore_errors=True)
    job = JudgedJob.write(home, golden.case, **golden.job)
    write_streams(golden.case, golden.streams, home / "in", 0, golden.read)
    golden.make(job)
    write_streams(golden.case, golden.streams, home / "rest", golden.read)
    expected = duckdb_answer(golden.case, golden.streams)
    assert expected == oracle_answer(golden.case, golden.streams)
    _write_expected(home / "expected.parquet", golden.case, expected)
    about = {
        "what": golden.what,
        "format": FORMAT,
        "made_in": str(home),
        "runtime": golden.job.get("runtime", "local"),
        "delivers": golden.delivers,
        "rows": expected.total(),
        "late": late_rows(golden.case, golden.streams),
        "also_with": golden.also_with,
    }
    (home / "about.json").write_text(json.dumps(about, indent=2) + "\n")
    _keep(home, HERE / name)
    print(name, _summary(job, about), flush=True)


def _write_expected(path: Path, case: JoinCase, rows: Any) -> None:
    names = [stream.lower() for stream in case.streams]
    listed = [dict(zip(names, row, strict=True)) for row in sorted(rows.elements())]
    pq.write_table(pa.Table.from_pylist(listed, pa.schema([(name, pa.int64()) for name in names])), path)


def _keep(home: Path, target: Path) -> None:
    """Copy what a run goes on from: no lock, and no checksums of Spark's, which would not fit a changed path."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(home, target, ignore=shutil.ignore_patterns("lock", "*.crc", "__pycache__", "stdout", "stderr"))
    for folder, _, _ in os.walk(target, topdown=False):
        if not os.listdir(folder):
            os.rmdir(folder)


def _summary(job: JudgedJob, about: dict[str, Any]) -> str:
    state = job.state()
    cold = [segment for segment in state["segments"] if segment["tier"] == "cold"]
    sizes = [path.stat().st_size for path in (HERE / job.home.name).rglob("*") if path.is_file()]
    return (
        f"version {state['version']}, batch {state['batch']['number']} round {state['batch']['round']}, "
        f"{len(state['segments'])} segments, {len(cold)} cold, "
        f"{job.answer().total()} of {about['rows']} rows, {job.late()} of {about['late']} late; {sum(sizes):,} bytes "
        f"in {len(sizes)} files"
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or GOLDENS:
        make(name, GOLDENS[name])
