"""Made the golden checkpoints of format 2, which a later program must be able to go on with.

DO NOT RUN THIS AGAIN. The checkpoints beside this file are of format 2, made with the code as it was when that was the
newest format (git log of this file). With a later program they would come out in a later format and show nothing. It is
kept to say what is in them; a golden of another format gets a script and a folder of its own.

Each folder holds

    about.json         what it is, the format, the folder that it was made in, and settings that it must also go on with
    job.toml           the job, with paths relative to the folder (for `spark-function`: the streams of the query)
    in/                the input that was there when the run ended, one file for each batch and stream
    rest/              the input that came after it: not read yet
    ck/, out/, late/   checkpoint, results and late rows as the run left them (folders that were empty are not there)
    expected.parquet   all results over all of the input, late rows left out

How they were made, in a folder under `MADE_IN`: `python tests/golden/checkpoints/make.py [NAME ..]`. What is expected
comes from DuckDB, and was compared with the nested loops of `tests/oracle.py`. Windows are 3 seconds and a batch is
a second long, so that rows of the input that was read still meet rows of the rest.
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

FORMAT = 2
MADE_IN = Path("/tmp/watersmeet-golden")
os.environ["WATERSMEET_COSTS"] = str(HERE.parents[1] / "costs.json")

ABC = {"A": ("k",), "B": ("k",), "C": ("k",)}
TWO_KEYS = JoinCase(
    {"A": ("k",), "B": ("k", "m"), "C": ("m",)}, "A.k = B.k AND B.m = C.m", 3 * SECOND, lateness_us=SECOND // 2
)
ONE_KEY = JoinCase(ABC, "A.k = B.k AND B.k = C.k", 3 * SECOND, lateness_us=SECOND // 2)
CYCLE = JoinCase({"A": ("x", "z"), "B": ("x", "y"), "C": ("y", "z")}, "A.x = B.x AND B.y = C.y AND A.z = C.z")
SQUARE = JoinCase(
    {"A": ("w", "z"), "B": ("w", "x"), "C": ("x", "y"), "D": ("y", "z")},
    "A.w = B.w AND B.x = C.x AND C.y = D.y AND A.z = D.z",
)

# Statistics by which the inputs of routed joins are kept on other keys than without any.
CYCLE_STATS = 'rates = { A = 10, B = 100, C = 1 }\nselectivity = { "A B" = 0.9, "B C" = 0.01, "A C" = 0.001 }'
SQUARE_STATS = (
    "rates = { A = 10, B = 1, C = 100, D = 10 }\n"
    'selectivity = { "A B" = 0.0001, "B C" = 0.1, "C D" = 0.001, "A D" = 0.9 }'
)
# With these, D would also be kept on D.y: a state that is not in the checkpoint.
OTHER_SQUARE_STATS = (
    "stats={rates={A=1000, B=1, C=1, D=10}, selectivity={'A B'=0.0001, 'B C'=0.9, 'C D'=0.01, 'A D'=0.01}}"
)


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


def interrupted_after(batches: int) -> Callable[[JudgedJob], None]:
    """Stopped by Ctrl-C while it waited for input: what is owed stays owed."""

    def make(job: JudgedJob) -> None:
        process = subprocess.Popen(
            job.command("run.trigger=300 milliseconds"), cwd=job.home, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event.get("batch") == batches - 1:
                process.send_signal(signal.SIGINT)
                break
        process.communicate(timeout=120)
        assert process.returncode == 130

    return make


def failed_in_the_function(job: JudgedJob) -> None:
    """`foreachBatch` on Spark: rows of the first batch were taken, and the second call failed before it took any."""
    script = HERE.parents[1] / "function_sink.py"
    done = subprocess.run([sys.executable, str(script), "fail=2"], cwd=job.home, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr


GOLDENS = {
    "local-windows": Golden(
        "two stages, windows and late rows; five of eight batches read, and the run ended by itself",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 8, 10, 8, seed=1, late=2),
        5,
        to_the_end,
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
    "local-square": Golden(
        "a routed join over a square of keys under mjoin, its hops chosen by [stats]; three of six batches read",
        SQUARE,
        draw_streams(SQUARE, 6, 7, 3, seed=4),
        3,
        to_the_end,
        {"run": "slots = 1", "adapt": 'plan = "mjoin"', "stats": SQUARE_STATS},
        ((OTHER_SQUARE_STATS,), ("-stats",)),
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
    "spark-windows": Golden(
        "on Spark: two stages, windows and late rows; three of six batches read, and the run ended by itself",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 6, 10, 8, seed=7, late=2),
        3,
        to_the_end,
        {"runtime": "spark"},
    ),
    "spark-spilled": Golden(
        "on Spark: ((A B) C) within a budget, interrupted while it waited for more; groups owe results",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 6, 14, 8, seed=8, late=2),
        4,
        interrupted_after(4),
        {"runtime": "spark", "run": 'memory = "5000"', "adapt": 'plan = "((A B) C)"\nmerge = "off"'},
    ),
    "spark-undelivered": Golden(
        "on Spark: killed between the commit of the third batch and its delivery; Spark gives it again",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 6, 10, 8, seed=9, late=2),
        4,
        killed("before-delivery:3"),
        {"runtime": "spark"},
    ),
    "spark-round": Golden(
        "on Spark: killed between the commit of a round of merges, after the last batch there was, and its delivery",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 5, 12, 8, seed=12, late=2),
        3,
        killed("before-delivery:5"),
        {"runtime": "spark", "run": 'memory = "4000"\nslots = 1', "adapt": 'plan = "((A B) C)"\nmerge = "off"'},
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
    shutil.copytree(home, target, ignore=shutil.ignore_patterns("lock", "*.crc", "__pycache__"))
    for folder, _, _ in os.walk(target, topdown=False):
        if not os.listdir(folder):
            os.rmdir(folder)


def _summary(job: JudgedJob, about: dict[str, Any]) -> str:
    state = job.state()
    cold = [segment for segment in state["segments"] if segment["tier"] == "cold"]
    closed = {operator: max(map(int, groups.values())) for operator, groups in state["closed"].items()}
    cooled = [s for s in cold if _is_live(state, s)]
    size = sum(path.stat().st_size for path in (HERE / job.home.name).rglob("*") if path.is_file())
    files = sum(path.is_file() for path in (HERE / job.home.name).rglob("*"))
    return (
        f"version {state['version']}, batch {state['batch']['number']} round {state['batch']['round']}, "
        f"{len(state['segments'])} segments, {len(cold)} cold ({len(cooled)} of a live generation), "
        f"generations closed {closed}, traced {state['traced']}, "
        f"{job.answer().total()} of {about['rows']} rows, {job.late()} of {about['late']} late; {size:,} bytes in "
        f"{files} files"
    )


def _is_live(state: dict[str, Any], segment: dict[str, Any]) -> bool:
    return any(
        segment["generation"] == closed
        for groups in state["closed"].values()
        for group, closed in groups.items()
        if any(low <= int(group) < high for low, high in segment["groups"])
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or GOLDENS:
        make(name, GOLDENS[name])
