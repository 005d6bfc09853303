"""A job of benchmarks.long_runs through the command line, as a user runs it, with the time and the CPU of each event.

Knows nothing of watersmeet but `watersmeet run job.toml --json`, so that it runs with any version of it: the first on
PYTHONPATH. CPU is that of this process and its descendants (on Spark, the JVM and the Python workers).
"""

import argparse
import io
import json
import sys
import time
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import psutil

from benchmarks.data import STREAMS
from watersmeet.cli.main import main as watersmeet

LOOK_EVERY = 25  # batches, at the size of the newest snapshot


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--query", required=True)
    parser.add_argument("--runtime", default="local")
    parser.add_argument("--memory")
    args = parser.parse_args()
    (args.out / "job.toml").write_text(job_text(args))
    with chdir(args.out), redirect_stdout(Stamped(sys.stdout, args.out / "ck", args.runtime == "spark")):
        return watersmeet(["run", "job.toml", "--json"])


def job_text(args: argparse.Namespace) -> str:
    lines = [f'query = "{args.query}"']
    for stream in STREAMS:
        lines += [
            f"[streams.{stream}]",
            'format = "parquet"',
            f'path = "{args.data / stream}"',
            'schema = "k BIGINT, v BIGINT, ts BIGINT"',
            "options = { maxFilesPerTrigger = 1 }",
        ]
    lines += ["[sink]", 'path = "out"', "[run]", f'runtime = "{args.runtime}"', 'checkpoint = "ck"']
    lines += [f'memory = "{args.memory}"'] if args.memory else []
    lines += ["[spark]", 'master = "local[2]"'] if args.runtime == "spark" else []
    return "\n".join(lines) + "\n"


class Stamped(io.TextIOBase):
    """Takes the lines of a run, and passes on what is wanted of each event, with the time and the CPU so far."""

    def __init__(self, out: Any, checkpoint: Path, tree: bool) -> None:
        self._out = out
        self._checkpoint = checkpoint
        self._tree = tree
        self._part = ""
        self._snapshot_bytes = 0
        self._began = time.perf_counter()

    def write(self, text: str) -> int:
        self._part += text
        while "\n" in self._part:
            line, self._part = self._part.split("\n", 1)
            print(json.dumps(self._stamp(json.loads(line))), file=self._out, flush=True)
        return len(text)

    def _stamp(self, event: dict[str, Any]) -> dict[str, Any]:
        number = event.get("batch", 0)
        if event["event"] == "batch" and number % LOOK_EVERY == 0:
            self._snapshot_bytes = newest_snapshot_bytes(self._checkpoint)
        return {
            "event": event["event"],
            "batch": number,
            "at": time.perf_counter() - self._began,
            "cpu": tree_cpu() if self._tree else time.process_time(),
            "commit": event.get("commit_seconds"),
            "disk": event.get("sync_seconds"),
            "entries": sum(state["segments"] for state in event.get("states", {}).values()),
            "active_bytes": event.get("active_bytes", 0),
            "cold_bytes": event.get("cold_bytes", 0),
            "snapshot_bytes": self._snapshot_bytes,
        }


def newest_snapshot_bytes(checkpoint: Path) -> int:
    """Size of the newest snapshot of the state; 0 where there is none."""
    found = sorted(checkpoint.glob("state/snapshots/*.json"))
    return found[-1].stat().st_size if found else 0


def tree_cpu() -> float:
    """Seconds of CPU of this process and its descendants that are alive, with the children that these waited for."""
    total = 0.0
    this = psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue  # ended while we looked
        total += times.user + times.system + times.children_user + times.children_system
    return total


if __name__ == "__main__":
    sys.exit(main())
