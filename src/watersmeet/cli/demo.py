"""`watersmeet demo`: the main job on generated streams, for about a minute, with its answer checked at the end.

A thread puts files of prices, volumes and reviews in place at a steady pace, and the job joins them as they come (see
`demo/job.py`). When every row has been read the job is stopped, and DuckDB computes the answer from all the input at
once; the two must be equal as multisets. On a terminal a live table shows what happens, elsewhere a line a batch.

Shown are, for each batch and in total: rows read, results, rows read a second of work, and the latency, from the moment
at which a file was put in place to the delivery of what its rows add to the answer (the mean over the rows). For each
stream: how many rows and bytes of it the join keeps.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from watersmeet.cli.run import rate_text, runner
from watersmeet.cli.terminal import make_table, size_text
from watersmeet.config import Job
from watersmeet.demo.check import check_answer, load_duckdb
from watersmeet.demo.feeder import Feeder
from watersmeet.demo.job import QUERY, write_job
from watersmeet.demo.streams import SCHEMAS, TICK, phase_of
from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.settings.run import LOCAL, SPARK

if TYPE_CHECKING:
    from watersmeet.runtime.events import Event, Report

BATCH_COLUMNS = ("batch", "rows in", "rows out", "rows/s", "latency")
STREAM_COLUMNS = ("stream", "rows in", "state rows", "state size")
BATCHES_SHOWN = 8  # with the query and the streams, this fits a terminal of 24 lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=_positive, default=60, help="how long rows keep coming (default 60)")
    parser.add_argument("--runtime", choices=(SPARK, LOCAL), default=SPARK, help="what runs the job (default spark)")
    parser.add_argument("--keep", metavar="DIR", help="keep job file, input, output and checkpoint in this folder")
    parser.set_defaults(run=run)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number above zero')
    return int(text)


def run(args: argparse.Namespace) -> int:
    load_duckdb()  # to lack it at the end would be late
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    with _folder(args.keep) as folder:
        feeder = Feeder(folder / "in", round(args.seconds / TICK.total_seconds()))
        job = write_job(folder, args.runtime)
        _run(job, feeder, console)
        console.print("checking the answer: DuckDB joins all the input at once ..")
        rows = check_answer(folder)
        console.print(f"the answer is exact: {rows:,} rows, the same as DuckDB's")
        if args.keep:
            console.print(f"job file, input, output and checkpoint are in {folder}")
    return 0


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="watersmeet-demo-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    folder = Path(keep).resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise JobError(
            f'"{keep}" is not an empty folder', detail=f"It is {folder}.", hint="Give a folder that is new or empty."
        )
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


def _run(job: Job, feeder: Feeder, console: Console) -> None:
    """Run the job until it has read every row that the feeder has to give."""
    board = Board(job, feeder)
    console.print(board.heading())
    show = _live(board, console) if console.is_terminal else _lines(board, console)
    try:
        with show as report:
            runner(job)(job, report, board.finished)
    finally:
        feeder.stop()
    console.print(board.summary())


@dataclass(frozen=True)
class Batch:
    """One batch, or the sum of them."""

    name: str
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    waited: float = 0.0  # seconds from arrival to delivery, summed over the rows

    def plus(self, other: Batch) -> Batch:
        return Batch(
            self.name,
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            self.seconds + other.seconds,
            self.waited + other.waited,
        )

    @property
    def latency(self) -> str:
        return f"{self.waited / self.rows_in:.1f} s" if self.rows_in else "-"

    @property
    def cells(self) -> tuple[str, ...]:
        rate = rate_text(self.rows_in, self.seconds)
        return self.name, f"{self.rows_in:,}", f"{self.rows_out:,}", rate, self.latency


class Board:
    """What there is to show, gathered from the events of the run."""

    def __init__(self, job: Job, feeder: Feeder) -> None:
        self.job = job
        self.feeder = feeder
        self.recent: deque[Batch] = deque(maxlen=BATCHES_SHOWN)
        self.total = Batch("total")
        self.rows_late = 0
        self.slowest = 0.0
        self.read = dict.fromkeys(SCHEMAS, 0)
        self.state = dict.fromkeys(SCHEMAS, (0, 0))
        self._query = bind(job.query, job.streams())

    def finished(self) -> bool:
        """Whether every row has been read; raises what kept the feeder from writing them."""
        if self.feeder.error is not None:
            raise self.feeder.error
        return self.total.rows_in >= self.feeder.planned_rows

    def note(self, event: Event) -> None:
        if event["event"] == "start":
            self.feeder.start()
        elif event["event"] == "batch":
            self._note_batch(event)
            self.feeder.go()

    def _note_batch(self, event: Event) -> None:
        now = self.feeder.clock.now()
        waits: list[tuple[int, float]] = []
        for name, progress in event["streams"].items():
            waits += self.feeder.waits(name, self.read[name], progress["rows"], now)
            self.read[name] = progress["rows"]
        self.slowest = max([self.slowest, *(seconds for _, seconds in waits)])
        waited = sum(rows * seconds for rows, seconds in waits)
        batch = Batch(str(event["batch"]), event["rows_in"], event["rows_out"], event["seconds"], waited)
        self.recent.append(batch)
        self.total = self.total.plus(batch)
        self.rows_late += event["rows_late"]
        self.state = dict.fromkeys(SCHEMAS, (0, 0))
        for held in event["states"].values():
            (alias,) = held["inputs"]  # one join over all inputs: no state holds more than one stream
            name = self._query.input(alias).stream.name
            rows, size = self.state[name]
            self.state[name] = (rows + held["rows"], size + held["bytes"])

    def heading(self) -> str:
        where = f"Spark ({self.job.spark.master})" if self.job.run.runtime == "spark" else "the local runtime"
        return f"prices, volumes and reviews of stocks, joined as they come on {where}:\n\n{QUERY}"

    def moment(self) -> str:
        """Where the streams are."""
        files, written = self.feeder.files, self.feeder.written
        if not written:
            return "starting .."
        phase = phase_of(written - 1, files)
        rates = ", ".join(f"{rate:,} {name}" for name, rate in phase.rates.items())
        seconds = TICK.total_seconds()
        return f"second {written * seconds:.0f} of {files * seconds:.0f}, {phase.name}: {rates} a second come in"

    def view(self) -> Group:
        batches = [batch.cells for batch in [*self.recent, self.total]]
        streams = [
            (name, f"{self.read[name]:,}", f"{rows:,}", size_text(size)) for name, (rows, size) in self.state.items()
        ]
        return Group(
            Text(self.moment()),
            Text(),
            make_table(BATCH_COLUMNS, batches, right=BATCH_COLUMNS),
            Text(),
            make_table(STREAM_COLUMNS, streams, right=STREAM_COLUMNS[1:]),
        )

    def line(self) -> str:
        """The last batch on one line."""
        cells = zip(BATCH_COLUMNS, self.recent[-1].cells, strict=True)
        states = (f"{name} {rows:,} rows {size_text(size)}" for name, (rows, size) in self.state.items())
        return f"{', '.join(f'{name} {cell}' for name, cell in cells)}; state: {', '.join(states)}"

    def summary(self) -> str:
        total = self.total
        return (
            f"\n{total.rows_in:,} rows in, {self.rows_late:,} of them late, {total.rows_out:,} rows out; "
            f"latency {total.latency} on average, {self.slowest:.1f} s at most"
        )


@contextmanager
def _live(board: Board, console: Console) -> Iterator[Report]:
    with Live(get_renderable=board.view, console=console, refresh_per_second=4):
        yield board.note


@contextmanager
def _lines(board: Board, console: Console) -> Iterator[Report]:
    moment = ""

    def report(event: Event) -> None:
        nonlocal moment
        board.note(event)
        if event["event"] == "batch":
            before, moment = moment, board.moment().partition(", ")[2]
            if moment != before:
                console.print(moment)
            console.print(board.line())

    yield report
