"""A ring whose rates double and fall again: what its slowest slot takes with `ring_adapt` and without.

Two streams in the local runtime, a batch for each second, `[RANGE 4 SECONDS]` each, with a predicate that no order
helps with, a checkpoint, four slots and a ring that begins with one of them. After three tenths of the batches each
stream has twice the rows, which is four times the comparisons, and after seven tenths as many as before.

For each stretch of the run: CPU of the slowest slot and of all slots in a batch (medians; other work on the machine
disturbs CPU time less than time), ms of a commit, the length of the ring. At the end of each stretch: groups, segments
and the KB of a snapshot, which should not grow, and how many results came, which must be the same for all policies.

    python -m benchmarks.ring_adapts [--batches 1050] [--rows 400] [--seconds 0.1] [--policies off,auto,passive]
"""

import argparse
import gzip
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.cli.decisions import decision_text
from watersmeet.lang.binder import bind
from watersmeet.model.slices import BY_TIME
from watersmeet.model.streams import Stream
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.runtime.opening import open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.plan import PlanSettings
from watersmeet.settings.ring import RingSettings
from watersmeet.settings.run import RunSettings
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import Manifest

SECOND = 1_000_000
SCHEMA = pa.schema([("x", pa.float64()), ("ts", pa.int64())])
STREAMS = {name: Stream(name, SCHEMA, "ts", timedelta(0)) for name in "AB"}
TEXT = (
    "SELECT A.x AS a, B.x AS b FROM A [RANGE 4 SECONDS], B [RANGE 4 SECONDS] "
    "WHERE ABS(A.x - B.x - 0.1 * A.x * B.x) < 0.0002"
)
SLOTS, GROUPS = 4, 120
STRETCHES = (0.1, 0.3, 0.4, 0.5, 0.7, 0.8, 1.0)  # where they end, as shares of all batches
POLICIES = {"off": ("off", "aggressive"), "auto": ("auto", "aggressive"), "passive": ("auto", "passive")}


def rate(batch: int, batches: int, rows: int) -> int:
    return rows * (2 if 0.3 * batches <= batch < 0.7 * batches else 1)


def draw(seed: int, batches: int, rows: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(seed)
    for batch in range(batches):
        count = rate(batch, batches, rows)
        times = np.sort(random.integers(batch * SECOND, (batch + 1) * SECOND, count))
        yield pa.RecordBatch.from_arrays([pa.array(random.random(count)), pa.array(times)], schema=SCHEMA)


def run(policy: str, batches: int, rows: int, seconds: float) -> None:
    adapt, relocate = POLICIES[policy]
    ring = RingSettings(1, adapt, relocate, seconds)
    memory = AdaptSettings(ring=ring, balance=BalanceSettings("off", by_cpu=True))
    settings = RunSettings(PlanSettings("mjoin"), memory, SLOTS, GROUPS)
    events: list[dict[str, Any]] = []
    held: list[tuple[int, int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        opened = open_run(bind(TEXT, STREAMS), settings, CheckpointFolders(folder), Outputs())
        session = LocalRun(
            opened.plan,
            opened.checkpoint,
            opened.outputs.writer,
            controller=opened.controller,
            deliver=opened.outputs.deliver,
            report=events.append,
        )
        sources = {name: RowsSource(STREAMS[name], draw(i, batches, rows)) for i, name in enumerate(STREAMS)}
        for manifest in session.batches(sources):
            held.append(measure(manifest, Path(folder)))
        session.close()
        opened.close()
    told = [event for event in events if event["event"] == "batch"]
    begin = 0
    for share in STRETCHES:
        end = round(share * batches)
        show(policy, told[begin:end], held[end - 1], begin)
        begin = end
    for event in told:
        for entry in event["decisions"]:
            print(f"{policy:8} batch {event['batch']}: {decision_text(entry)}")
    print(f"{policy:8} results: {sum(event['rows_out'] for event in told):,}")


def measure(manifest: Manifest, home: Path) -> tuple[int, int, int]:
    """Groups, segments, and bytes of the newest snapshot."""
    snapshots = sorted((home / "state" / "snapshots").glob("*"))
    size = 0
    if snapshots:
        content = snapshots[-1].read_bytes()
        size = len(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    return manifest.placement.of(BY_TIME).groups, len(manifest.segments), size


def show(policy: str, events: list[dict[str, Any]], held: tuple[int, int, int], first: int) -> None:
    slowest = median(max(slot["cpu_seconds"] for slot in event["slots"]) for event in events)
    together = median(sum(slot["cpu_seconds"] for slot in event["slots"]) for event in events)
    commit = median(event["commit_seconds"] for event in events)
    at_work = median(sum(slot["rows_in"] > 0 for slot in event["slots"]) for event in events)
    rows = median(event["rows_in"] for event in events)
    groups, segments, size = held
    print(
        f"{policy:8} from batch {first:5}: {rows:6.0f} rows, slots {at_work:.0f}, "
        f"slowest slot {slowest * 1e3:6.1f} ms CPU, all {together * 1e3:6.1f} ms, commit {commit * 1e3:5.1f} ms; "
        f"{groups} groups, {segments} segments, snapshot {size / 1024:.1f} KB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1050)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=0.1, help="that a batch may take")
    parser.add_argument("--policies", default=",".join(POLICIES))
    given = parser.parse_args()
    for policy in given.policies.split(","):
        run(policy, given.batches, given.rows, given.seconds)


if __name__ == "__main__":
    main()
