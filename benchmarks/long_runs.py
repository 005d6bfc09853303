"""Thousands of small batches with a checkpoint: whether the last ones cost what the first ones did.

Three streams, one common key, 100 rows of each in a batch (300 rows), a file for each batch and stream, read one at a
time by a job file through the command line, results as parquet files. A row meets rows of about its own time, so that a
batch has as much to do at the end as at the beginning, but for what is kept: with `[RANGE 60 SECONDS]` as much as the
last 60 batches brought, without a window everything. Both without a limit and with a memory budget: a third of what the
windows hold, and `UNBOUNDED_MEMORY` where there are none.

For each run, in a process of its own, one after the other:

- ms of a batch: from one batch event to the next, with spills, snapshots and tidying; the median of 100 batches around
  batch `--mark` (500; a quarter of the batches if there are fewer than 1,000), of the last 100, and the ratio;
- CPU ms of a batch, likewise (all processes together; other work on the machine disturbs it less than it does time);
- commit ms, likewise, where events tell the time of a commit (`commit_seconds`), without what it waited for the disk;
  and disk ms, that time (`sync_seconds`), which is the machine's and not ours: who else writes makes it longer;
- KB of the newest snapshot and entries (segments) of the manifest, at the mark and after the last batch; the largest
  active state after a batch;
- the time of the batches, and of what is paid after them;
- whether the answer is DuckDB's. Of a run that did not end in `--limit-seconds`, how far it came, and whether what it
  delivered is right as far as it goes.

    python -m benchmarks.long_runs [--batches 5000] [--runtime local|spark] [--only NAME,..] [--limit-seconds S]
                                   [--against PATH_TO_OTHER_SRC] [--json FILE]

`--against` names the `src` folder of another version, as of before a change; each run is then done with both, that one
first, and their lines stand together. On Spark there are 500 batches unless `--batches` says otherwise.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.data import FIRST_TS, ROOT, STREAMS, make_once, write_files
from benchmarks.harness import DAY, HOME, Event, Ran, align, choose, run_contender

MODULE = "benchmarks.contenders.long_run"
ROWS = 100  # of each stream in a batch, which is a second long
NEAR = 20 * ROWS  # keys of a row are among this many: it meets what came up to 20 batches before or after it
WINDOW_SECONDS = 60
MEMORY = "300KB"  # a third of the 890 KB that the windows were seen to hold
UNBOUNDED_MEMORY = "1MB"  # what about 120 batches were seen to bring
AROUND = 100  # batches that a median is taken of

RUNS = {
    "windows": (True, None),
    "windows-budget": (True, MEMORY),
    "unbounded": (False, None),
    "unbounded-budget": (False, UNBOUNDED_MEMORY),
}


@dataclass(frozen=True)
class Figures:
    """What is printed of one run; None where it is not known."""

    run: str
    source: str
    batches: int
    ended: bool
    ms: tuple[float, float] | None  # at the mark, and at the end
    cpu_ms: tuple[float, float] | None
    commit_ms: tuple[float, float] | None
    disk_ms: tuple[float, float] | None
    snapshot_bytes: tuple[int, int] | None
    entries: tuple[int, int] | None
    active_bytes: int  # the most after a batch
    batch_seconds: float
    rest_seconds: float
    answer: str


def main() -> int:
    parser = argparse.ArgumentParser(description="what batches cost in long runs")
    parser.add_argument("--batches", type=int, help="default 5000, on Spark 500")
    parser.add_argument("--runtime", choices=("local", "spark"), default="local")
    parser.add_argument("--only", default="", help=f"some of {', '.join(RUNS)}")
    parser.add_argument("--mark", type=int, help="the batch that the end is compared with")
    parser.add_argument("--limit-seconds", type=float, default=DAY, help="of each run")
    parser.add_argument("--against", type=Path, help="the src folder of another version, to run each with too")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    batches = args.batches or (5000 if args.runtime == "local" else 500)
    mark = args.mark or (500 if batches >= 1000 else batches // 4)
    sources = [HOME / "src"] if args.against is None else [args.against.resolve(), HOME / "src"]
    folder = prepare(batches)
    figures = []
    for run in choose(list(RUNS), args.only):
        for source in sources:
            figures.append(measure(run, source, folder, batches, args.runtime, args.limit_seconds, mark))
    print()
    print(f"{batches} batches of {ROWS * len(STREAMS)} rows, {args.runtime}; at batch {mark} -> at the end")
    print(table(figures))
    if args.json:
        args.json.write_text(json.dumps([asdict(entry) for entry in figures], indent=1))
    return 0 if all("WRONG" not in entry.answer for entry in figures) else 1


# ---------------------------------------------------------------- data


def prepare(batches: int) -> Path:
    """The streams; made once."""

    def fill(folder: Path) -> None:
        for number, stream in enumerate(STREAMS):
            write_files(folder / stream, tables(batches, number))

    return make_once(ROOT / f"long-runs-{batches}x{ROWS}-near{NEAR}", fill)


def tables(batches: int, number: int) -> Iterator[pa.Table]:
    """A table for each batch. Keys move on with the rows, so that each is drawn about once by every stream."""
    rng = np.random.default_rng([number, batches])
    for batch in range(batches):
        rows = np.arange(batch * ROWS, (batch + 1) * ROWS)
        yield pa.table(
            {
                "k": rows + rng.integers(0, NEAR, ROWS),
                "v": rows,
                "ts": FIRST_TS + rows * (1_000_000 // ROWS),
            }
        )


def query(windows: bool) -> str:
    window = f" [RANGE {WINDOW_SECONDS} SECONDS]" if windows else ""
    froms = ", ".join(f"{stream}{window}" for stream in STREAMS)
    return f"SELECT A.v AS a, B.v AS b, C.v AS c FROM {froms} WHERE A.k = B.k AND B.k = C.k"


def judge(out: Path, folder: Path, windows: bool, ended: bool) -> str:
    """What DuckDB says of the rows that were delivered."""
    newest = "greatest(A.ts, B.ts, C.ts)"
    inside = [f"{newest} - {s}.ts < {WINDOW_SECONDS * 1_000_000}" for s in STREAMS] if windows else []
    where = " AND ".join(["A.k = B.k", "B.k = C.k", *inside])
    with duckdb.connect() as connection:
        for stream in STREAMS:
            connection.sql(f"CREATE VIEW {stream} AS FROM read_parquet('{folder / stream}/*.parquet')")
        connection.sql(f"CREATE TABLE expected AS SELECT A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE {where}")
        found = sorted((out / "out").glob("*.parquet"))
        source = f"read_parquet('{out / 'out'}/*.parquet')" if found else "expected LIMIT 0"
        connection.sql(f"CREATE TABLE found AS FROM {source}")
        missing = count(connection, "FROM expected EXCEPT ALL FROM found")
        extra = count(connection, "FROM found EXCEPT ALL FROM expected")
        rows = count(connection, "FROM found")
    if extra or (ended and missing):
        return f"WRONG: {missing:,} missing, {extra:,} too many"
    return f"right: {rows:,}" if ended else f"right so far: {rows:,}"


def count(connection: duckdb.DuckDBPyConnection, rows: str) -> int:
    return int(connection.sql(f"SELECT count(*) FROM ({rows})").fetchall()[0][0])


# ---------------------------------------------------------------- runs


def measure(run: str, source: Path, folder: Path, batches: int, runtime: str, limit: float, mark: int) -> Figures:
    windows, memory = RUNS[run]
    name = source.resolve().parent.name
    print(f"{run}, {name} ...", end=" ", flush=True)
    arguments = ["--query", query(windows), "--runtime", runtime, *(["--memory", memory] if memory else [])]
    answers: list[str] = []
    seen: list[Event] = []

    def notice(event: Event) -> None:
        seen.append(event)
        if event["event"] == "batch" and (event["batch"] + 1) % max(1, batches // 10) == 0:
            print(event["batch"] + 1, end=" ", flush=True)

    def look(out: Path) -> None:
        answers.append(judge(out, folder, windows, bool(seen) and seen[-1]["event"] == "end"))

    ran = run_contender("long-run", MODULE, folder, arguments, limit, notice, source, look)
    if not ran.complete and not ran.stopped:
        print(f"failed: {ran.log}", flush=True)
    found = figures_of(run, name, ran, mark, answers[0])
    print(f"{found.batch_seconds + found.rest_seconds:.0f} s (load before: {ran.load_before:.1f})", flush=True)
    return found


def figures_of(run: str, source: str, ran: Ran, mark: int, answer: str) -> Figures:
    """Time and CPU of a batch are those since the batch before it; rounds of merges between two count to the later."""
    done = ran.batches
    steps = [{name: now[name] - before[name] for name in ("at", "cpu")} for before, now in pairwise(done)]
    early = slice(max(0, mark - AROUND // 2), mark + AROUND // 2)
    enough = len(done) >= mark + AROUND // 2

    def pair(values: list[float]) -> tuple[float, float] | None:
        return (1000 * median(values[early]), 1000 * median(values[-AROUND:])) if enough else None

    disk = [event.get("disk") for event in done]
    commits = [event["commit"] for event in done]
    if None not in (*disk, *commits) and sum(disk) <= sum(commits):  # on Spark it is tasks that wait
        commits = [max(0.0, commit - waited) for commit, waited in zip(commits, disk, strict=True)]
    last = done[-1] if done else None
    return Figures(
        run=run,
        source=source,
        batches=len(done),
        ended=ran.complete,
        ms=pair([step["at"] for step in steps]),
        cpu_ms=pair([step["cpu"] for step in steps]),
        commit_ms=None if None in commits else pair(commits),
        disk_ms=None if None in disk else pair(disk),
        snapshot_bytes=(done[mark]["snapshot_bytes"], done[-1]["snapshot_bytes"]) if enough else None,
        entries=(done[mark]["entries"], done[-1]["entries"]) if enough else None,
        active_bytes=max((event["active_bytes"] for event in done), default=0),
        batch_seconds=last["at"] if last else 0.0,
        rest_seconds=ran.end["at"] - last["at"] if last else 0.0,
        answer=answer if ran.complete else f"{'stopped' if ran.stopped else 'FAILED'} at batch {len(done)}, {answer}",
    )


def table(figures: list[Figures]) -> str:
    commits, disk = any(entry.commit_ms for entry in figures), any(entry.disk_ms for entry in figures)
    heads = ["run", "version", "batches", "ms a batch", "", "CPU ms", "", *(["commit ms", ""] if commits else [])]
    heads += ["disk ms", ""] if disk else []
    lines = [[*heads, "snapshot KB", "entries", "active KB", "batches s", "rest s", "answer"]]
    for entry in figures:
        cells = [entry.run, entry.source, f"{entry.batches:,}", *both(entry.ms), *both(entry.cpu_ms)]
        cells += both(entry.commit_ms) if commits else []
        cells += both(entry.disk_ms) if disk else []
        cells += [
            arrow(entry.snapshot_bytes and tuple(size / 1024 for size in entry.snapshot_bytes), ",.0f"),
            arrow(entry.entries, ",d"),
            f"{entry.active_bytes / 1024:,.0f}",
            f"{entry.batch_seconds:,.1f}",
            f"{entry.rest_seconds:,.1f}",
            entry.answer,
        ]
        lines.append(cells)
    return align(lines)


def both(values: tuple[float, float] | None) -> list[str]:
    """The two values, and how many times the first the second is."""
    return [arrow(values, ".1f"), f"x {values[1] / max(values[0], 1e-9):.2f}" if values else "-"]


def arrow(values: tuple[float, ...] | None, form: str) -> str:
    return " -> ".join(format(value, form) for value in values) if values else "-"


if __name__ == "__main__":
    sys.exit(main())
