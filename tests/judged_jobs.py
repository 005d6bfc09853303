"""Jobs over small drawn streams, run through the command line, and DuckDB as the judge of what they deliver.

A `JoinCase` is a query with its streams' columns, windows and lateness; `draw_streams` makes rows for it, a list for
each batch; `write_streams` writes them, a file for each batch and stream; `duckdb_answer` says what must come out. A
`JudgedJob` is a folder with a job file, its input, output and checkpoint, which knows nothing of the program but its
commands. Paths in the job file are relative: a job may be copied, and runs in its own folder.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import oracle
from forked_runs import run_forked
from watersmeet.cli.main import main

SECOND = 1_000_000
FAULT = "WATERSMEET_FAULT"
Rows = list[dict[str, int]]
Streams = Mapping[str, Sequence[Rows]]  # by stream: the rows of each batch
Result = Counter[tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class JoinCase:
    """A join of streams whose columns are all integers: those named here, `v` (unique in its stream) and `ts`."""

    columns: Mapping[str, tuple[str, ...]]
    where: str
    window_us: int | None = None  # of every stream; None is unbounded
    lateness_us: int = 0

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @property
    def query(self) -> str:
        window = "" if self.window_us is None else f" [RANGE {self.window_us} MICROSECONDS]"
        froms = ", ".join(f"{name}{window}" for name in self.streams)
        return f"SELECT {self._select} FROM {froms} WHERE {self.where}"

    @property
    def sql(self) -> str:
        """The same for DuckDB, over the rows that are not late."""
        newest = f"greatest({', '.join(f'{name}.ts' for name in self.streams)})"
        windows = [] if self.window_us is None else [f"{newest} - {n}.ts < {self.window_us}" for n in self.streams]
        if self.window_us is not None:  # which follows for each pair, and lets DuckDB drop what is too far apart early
            windows += [f"{a}.ts < {b}.ts + {self.window_us}" for a, b in itertools.permutations(self.streams, 2)]
        where = " AND ".join([self.where, *windows])
        return f"SELECT {self._select} FROM {', '.join(self.streams)} WHERE {where}"

    @property
    def _select(self) -> str:
        return ", ".join(f"{name}.v AS {name.lower()}" for name in self.streams)

    def schema(self, stream: str) -> pa.Schema:
        return pa.schema([(name, pa.int64()) for name in (*self.columns[stream], "v", "ts")])

    def declared(self, stream: str) -> str:
        return ", ".join(f"{name} BIGINT" for name in self.schema(stream).names)


def draw_streams(
    case: JoinCase, batches: int, rows: int, domain: int | Mapping[str, int], seed: int = 1, late: int = 0
) -> dict[str, list[Rows]]:
    """`rows` rows of each stream in each batch, which is a second long; every third batch has `late` late ones.

    Columns are drawn from `domain` values, evenly.
    """
    draw = random.Random(seed)
    found: dict[str, list[Rows]] = {}
    for place, stream in enumerate(case.streams):
        found[stream] = []
        for batch in range(batches):
            held: Rows = []
            for i in range(rows):
                behind = 3 if batch > 2 and batch % 3 == place % 3 and i < late else 0
                row = {
                    name: draw.randrange(domain if isinstance(domain, int) else domain[name])
                    for name in case.columns[stream]
                }
                held.append(row | {"v": batch * rows + i, "ts": (batch - behind) * SECOND + i * SECOND // rows})
            found[stream].append(held)
    return found


def write_streams(case: JoinCase, streams: Streams, folder: Path, first: int = 0, end: int | None = None) -> None:
    """A parquet file for each stream and batch from `first` to before `end`, each with its time when it is seen."""
    for stream, batches in streams.items():
        (folder / stream).mkdir(parents=True, exist_ok=True)
        for number, rows in list(enumerate(batches))[first:end]:
            path = folder / stream / f"{number:05d}.parquet"
            hidden = path.with_name(f".{path.name}")
            pq.write_table(pa.Table.from_pylist(rows, schema=case.schema(stream)), hidden, compression="none")
            set_time(hidden)
            hidden.rename(path)


def set_time(path: Path) -> None:
    """Modification times follow the numbers in names: files are read in that order."""
    time = 1_700_000_000 + int(path.stem.removeprefix("."))
    os.utime(path, (time, time))


def punctual(case: JoinCase, batches: Sequence[Rows]) -> Rows:
    """The rows of a stream that are not late."""
    newest: int | None = None
    kept: Rows = []
    for rows in batches:
        kept += [row for row in rows if newest is None or row["ts"] >= newest - case.lateness_us]
        newest = max([row["ts"] for row in rows] + ([] if newest is None else [newest]))
    return kept


def late_rows(case: JoinCase, streams: Streams) -> int:
    return sum(sum(map(len, batches)) - len(punctual(case, batches)) for batches in streams.values())


def duckdb_answer(case: JoinCase, streams: Streams) -> Result:
    """What DuckDB makes of the rows that are not late."""
    with duckdb.connect() as connection:
        for stream, batches in streams.items():
            connection.register(stream, pa.Table.from_pylist(punctual(case, batches), schema=case.schema(stream)))
        return Counter(connection.sql(case.sql).fetchall())


def oracle_answer(case: JoinCase, streams: Streams) -> Result:
    """What nested loops make of them. For a few hundred rows; `where` must be equalities between columns."""
    sides = [tuple(side.strip().split(".") for side in part.split("=")) for part in case.where.split(" AND ")]
    batches = [dict(zip(streams, rows, strict=True)) for rows in zip(*streams.values(), strict=True)]
    return oracle.answer(
        batches,
        [oracle.Input(name, name, case.window_us) for name in case.streams],
        lambda row: all(row[a][x] == row[b][y] for (a, x), (b, y) in sides),
        lambda row: tuple(row[name]["v"] for name in case.streams),
        dict.fromkeys(case.streams, case.lateness_us),
    ).rows


@dataclass(frozen=True)
class JudgedJob:
    """A job file in a folder of its own; input, output, late rows and checkpoint lie beside it."""

    home: Path

    @classmethod
    def write(
        cls,
        home: Path,
        case: JoinCase,
        run: str = "",
        adapt: str = "",
        stats: str = "",
        runtime: str = "local",
        sink: str = "parquet",
    ) -> JudgedJob:
        """`run`, `adapt` and `stats` are further lines of these sections."""
        home.mkdir(parents=True, exist_ok=True)
        lines = [f'query = "{case.query}"']
        for name in case.streams:
            lines += [
                f"[streams.{name}]",
                'format = "parquet"',
                f'path = "in/{name}"',
                f'schema = "{case.declared(name)}"',
                'time_unit = "us"',
                f'lateness = "{case.lateness_us} microseconds"',
                "options = { maxFilesPerTrigger = 1 }",
            ]
        lines += ["[sink]", f'format = "{sink}"', 'path = "out"', 'late = "late"']
        lines += ["[run]", f'runtime = "{runtime}"', 'checkpoint = "ck"', "groups = 6" if "groups" not in run else ""]
        lines += [run, "[adapt]", adapt, "[stats]", stats]
        if runtime == "spark":
            lines += ["[spark]", 'master = "local[2]"', '"spark.sql.shuffle.partitions" = 2']
        (home / "job.toml").write_text("\n".join(line for line in lines if line) + "\n")
        return cls(home)

    def drop_section(self, name: str) -> None:
        """Take a section out of the job file."""
        lines = (self.home / "job.toml").read_text().splitlines()
        begin = lines.index(f"[{name}]")
        end = next((i for i in range(begin + 1, len(lines)) if lines[i].startswith("[")), len(lines))
        (self.home / "job.toml").write_text("\n".join(lines[:begin] + lines[end:]) + "\n")

    def start(self, *settings: str, fault: str | None = None, timeout: float = 240) -> Finished:
        """Run it as a process, to its end or its death."""
        out, err = self.home / "stdout", self.home / "stderr"
        if self._on_spark:
            with out.open("w") as stdout, err.open("w") as stderr:
                code = self._run_apart(self.command(*settings), fault, stdout, stderr, timeout)
        else:
            code = self.fork(self.command(*settings)[3:], fault, out, err, timeout)
        return Finished.of(code, out.read_text(), err.read_text())

    def _run_apart(self, command: list[str], fault: str | None, out: IO[str], err: IO[str], timeout: float) -> int:
        environment = self.environment(fault)
        done = subprocess.run(command, cwd=self.home, env=environment, stdout=out, stderr=err, timeout=timeout)
        return done.returncode

    def fork(self, arguments: list[str], fault: str | None, out: Path, err: Path, timeout: float = 120) -> int:
        """A command without a JVM, as a process of its own, to its end or its death: the exit code."""
        return run_forked(arguments, self.home, self.environment(fault).get(FAULT), out, err, timeout)

    def finish(self, *settings: str) -> list[dict[str, Any]]:
        """Run it to its end, which must be a good one; the events. A local one runs in this process."""
        done = self.start(*settings) if self._on_spark else self.run_here(*settings)
        assert done.code == 0, done.stderr
        return done.events

    def run_here(self, *settings: str) -> Finished:
        """Run the job in this process, which takes no time to start."""
        code, out, err = self.call(*self.command(*settings)[3:])
        return Finished.of(code, out, err)

    def call(self, *arguments: str) -> tuple[int, str, str]:
        """A command in this process: exit code, stdout and stderr."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.home), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(arguments))
        return code, out.getvalue(), err.getvalue()

    @property
    def _on_spark(self) -> bool:
        return 'runtime = "spark"' in (self.home / "job.toml").read_text()

    def command(self, *settings: str) -> list[str]:
        chosen = [part for setting in settings for part in ("--set", setting)]
        return [sys.executable, "-m", "watersmeet", "run", "job.toml", "--json", *chosen]

    def environment(self, fault: str | None = None) -> dict[str, str]:
        """With `fault`, as in "after-commit:3", the process dies there, once."""
        environment = {name: value for name, value in os.environ.items() if name != FAULT}
        if fault is not None:
            environment[FAULT] = f"{fault}@{self.marker(fault)}"
        return environment

    def marker(self, fault: str) -> Path:
        """The file that is there once the fault has happened."""
        return self.home / f"reached-{fault.replace(':', '-')}"

    def answer(self, folder: str = "out") -> Result:
        """The rows that were delivered."""
        return Counter(row for rows in self._delivered(folder) for row in rows)

    def late(self) -> int:
        return sum(map(len, self._delivered("late")))

    def _delivered(self, folder: str) -> list[list[tuple[Any, ...]]]:
        files = sorted((self.home / folder).glob("*.parquet"))
        return [[tuple(row.values()) for row in pq.read_table(path).to_pylist()] for path in files]

    def state(self) -> dict[str, Any]:
        """The newest version of the state, as `watersmeet state show --json` gives it."""
        code, out, err = self.call("state", "show", "ck", "--json")
        assert code == 0, err
        shown: dict[str, Any] = json.loads(out)
        return shown


@dataclass(frozen=True)
class Finished:
    """How a process ended, what it said at its start, the events that it printed then, and what it said on stderr."""

    code: int
    start: dict[str, Any] | None = field(repr=False)  # None where it was refused
    events: list[dict[str, Any]] = field(repr=False)
    stderr: str

    @classmethod
    def of(cls, code: int, out: str, err: str) -> Finished:
        told = [json.loads(line) for line in out.splitlines()]
        start = told.pop(0) if told else None
        assert start is None or start["event"] == "start", "it is the first event"
        return cls(code, start, told, err)


def difference(found: Result, expected: Result) -> str:
    """What is missing and what is too much, for a message: empty if nothing is.

    >>> difference(Counter({(1,): 2}), Counter({(1,): 1, (2,): 1}))
    '2 of 2 rows: 1 missing, 1 too many'
    """
    if found == expected:
        return ""
    missing, extra = (expected - found).total(), (found - expected).total()
    return f"{found.total():,} of {expected.total():,} rows: {missing:,} missing, {extra:,} too many"


def decisions(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The decisions of a kind that events tell of."""
    return [entry for event in events for entry in event.get("decisions", ()) if entry["decision"] == kind]


def check_answer(job: JudgedJob, case: JoinCase, streams: Streams, expected: Result) -> None:
    """A job that is done has delivered what it should, late rows too, and its checkpoint is whole."""
    assert expected.total() > 100
    assert not difference(job.answer(), expected)
    assert job.late() == late_rows(case, streams)
    code, out, err = job.call("state", "verify", "ck")
    assert code == 0, out + err
