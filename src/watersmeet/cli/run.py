"""`watersmeet run`: runs a job and shows its events, as JSON lines, as plain lines, or live on a terminal.

The runtime tells what happens in event dicts; this module only shows them. With `--json` nothing but events goes to
stdout. Notes go to stderr.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from watersmeet.cli.decisions import OF_THE_PLAN, decision_text
from watersmeet.cli.notes import tell
from watersmeet.cli.terminal import make_table, size_text
from watersmeet.config import Job, load_job
from watersmeet.errors import JobError
from watersmeet.secrets import hide_in

if TYPE_CHECKING:
    from watersmeet.runtime.events import Event, Report

COLUMNS = ("batch", "rows in", "rows out", "rows/s", "seconds", "state rows", "active", "cold")
TERMINATED = 143  # 128 + SIGTERM, as shells report it
BATCHES_SHOWN = 15  # fits a small terminal with the summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", help="the TOML job file")
    parser.add_argument("--json", action="store_true", help="one JSON object a line on stdout, nothing else")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="replace a setting of the job")
    parser.add_argument(
        "--drain", action="store_true", help="when interrupted, emit every result that is owed, then end"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    job = load_job(args.job, args.set)
    run_job = runner(job)
    asked: list[signal.Signals] = []
    stopped = stop_on_signals(asked, args.drain)
    if args.json:
        run_job(job, without_secrets(report_json), stopped, drain=args.drain)
    elif sys.stdout.isatty():
        with live_report() as report:
            run_job(job, without_secrets(report), stopped, drain=args.drain)
    else:
        run_job(job, without_secrets(report_lines), stopped, drain=args.drain)
    if asked and not args.drain:
        print("terminated", file=sys.stderr)
        return TERMINATED
    return 0


def without_secrets(report: Report) -> Report:
    return lambda event: report(hide_in(event))


def stop_on_signals(asked: list[signal.Signals], drain: bool) -> Callable[[], bool]:
    """Whether somebody has asked the run to end, between two batches; what they did is in `asked`.

    SIGTERM always asks, as those do who look after services; an interrupt where the run is to drain, and ends it where
    it is otherwise. To ask twice ends it at once, as without.
    """

    def ask(number: int, frame: object) -> None:
        asked.append(signal.Signals(number))
        if drain:
            tell("ending: results that are owed are emitted first; interrupt again to end at once")
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM) if drain else (signal.SIGTERM,):
        signal.signal(number, ask)
    return lambda: bool(asked)


def runner(job: Job) -> Callable[..., object]:
    """The function that runs `job`; a job of the local runtime never imports pyspark."""
    if job.run.runtime == "local":
        from watersmeet.runtime.local import job as local_job

        return local_job.run_job
    try:
        from watersmeet.runtime.spark import job as spark_job
    except ModuleNotFoundError as error:
        raise JobError(
            f"runtime spark needs the package {error.name}",
            hint="Install it with: pip install 'watersmeet[spark]', or use runtime = \"local\".",
        ) from None
    return spark_job.run_job


def report_json(event: Event) -> None:
    if event["event"] == "note":
        tell(event["text"])
    else:
        print(json.dumps(event, default=str), flush=True)


def report_lines(event: Event) -> None:
    match event["event"]:
        case "note":
            tell(event["text"])
        case "start":
            print(f"plan {event['plan']}", flush=True)
        case "batch" | "merge":
            cells = zip(COLUMNS, batch_cells(event), strict=True)
            print(", ".join(f"{name} {cell}" for name, cell in cells), flush=True)
            print_decisions(event)
        case "end":
            print_decisions(event)
            print(summary(event), flush=True)


def print_decisions(event: Event) -> None:
    for decision in event.get("decisions", ()):
        print(f"  {decision_text(decision)}", flush=True)


@contextmanager
def live_report() -> Iterator[Report]:
    """A table of the last batches, redrawn in place, with changes of the plan above it, and a closing summary."""
    recent: deque[tuple[str, ...]] = deque(maxlen=BATCHES_SHOWN)
    closing: list[Text] = []
    with Live(console=Console(highlight=False), auto_refresh=False) as live:

        def report(event: Event) -> None:
            for decision in event.get("decisions", ()):
                if decision["decision"] in OF_THE_PLAN:
                    live.console.print(Text(decision_text(decision)))
            if event["event"] == "note":
                live.console.print(f"note: {event['text']}")
            elif event["event"] in ("batch", "merge"):
                recent.append(batch_cells(event))
            elif event["event"] == "end":
                closing.append(Text(summary(event)))
            live.update(Group(make_table(COLUMNS, list(recent), right=COLUMNS), *closing), refresh=True)

        yield report


def batch_cells(event: Event) -> tuple[str, ...]:
    return (
        str(event["batch"]) if event["event"] == "batch" else f"{event['batch']} merge",
        f"{event['rows_in']:,}",
        f"{event['rows_out']:,}",
        rate_text(event["rows_in"], event["seconds"]),
        f"{event['seconds']:.2f}",
        f"{event['state_rows']:,}",
        size_text(event["active_bytes"]),
        size_text(event["cold_bytes"]),
    )


def summary(event: Event) -> str:
    ahead = f"{event['rows_ahead']:,} ahead, " if event.get("rows_ahead") else ""
    batches = "1 batch" if event["batches"] == 1 else f"{event['batches']:,} batches"
    return (
        f"done: {batches}, {event['rows_in']:,} rows in, {event['rows_out']:,} rows out, "
        f"{event['rows_late']:,} late, {ahead}{event['seconds']:.2f} seconds, "
        f"{rate_text(event['rows_in'], event['seconds'])} rows/s"
    )


def rate_text(rows: int, seconds: float) -> str:
    """Rows per second; a dash when no time has passed.

    >>> rate_text(3000, 1.5), rate_text(3000, 0.0)
    ('2,000', '-')
    """
    return f"{rows / seconds:,.0f}" if seconds > 0 else "-"
