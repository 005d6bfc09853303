"""Watersmeet without a JVM, with the plan of `--plan`: state in memory, results taken as they come."""

import json
import time
from typing import Any

import pyarrow as pa

import watersmeet as wm
from benchmarks.contenders.progress import parser
from benchmarks.contenders.watersmeet_local import load
from benchmarks.data import STREAMS
from benchmarks.grouped.data import totals


def main() -> None:
    options = parser()
    options.add_argument("--plan", required=True)
    options.add_argument("--query", required=True)
    args = options.parse_args()
    batches = {stream: load(args.data / stream) for stream in STREAMS}
    if args.warm_up:
        run(args.query, args.plan, {stream: rows[: args.warm_up] for stream, rows in batches.items()})
    events, results, seconds, cpu = run(args.query, args.plan, batches)
    done = [event for event in events if event["event"] == "batch"]
    for event in done:
        print(json.dumps({name: event[name] for name in ("event", "batch", "rows_in", "rows_out", "seconds")}))
    end = {
        "event": "end",
        "seconds": seconds,
        "cpu_seconds": cpu,
        "state_rows": max(event["state_rows"] for event in done),
        "state_bytes": max(event["active_bytes"] for event in done),
        "totals": totals(results),
    }
    print(json.dumps(end), flush=True)


def run(
    text: str, plan: str, batches: dict[str, list[pa.RecordBatch]]
) -> tuple[list[dict[str, Any]], pa.Table, float, float]:
    """What the run reported, its results, and the seconds and the seconds of CPU that it took."""
    query = wm.sql(text, **batches)
    assert isinstance(query, wm.LocalQuery)
    events: list[dict[str, Any]] = []
    started, before = time.perf_counter(), time.process_time()
    found = list(query.stream(plan=plan, report=events.append, slots=2))
    seconds, cpu = time.perf_counter() - started, time.process_time() - before
    return events, pa.Table.from_batches(found, schema=query.schema), seconds, cpu


if __name__ == "__main__":
    main()
