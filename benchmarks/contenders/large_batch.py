"""A job's run over everything that is there at once, on either runtime; `--set` gives it settings, as on the CLI.

Nothing is run before it: memory is what is measured, and a run that warms up would have its own share of that.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.data import SCHEMA_DDL
from watersmeet.config import parse_job

KEPT = ("event", "batch", "rows_in", "rows_out", "seconds", "active_bytes")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runtime", choices=("local", "spark"), default="local")
    parser.add_argument("--query", required=True)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    args = parser.parse_args()
    job = parse_job(job_text(args.query, args.data, args.out, args.runtime), "large_batch", args.settings)

    def note(event: dict[str, Any]) -> None:
        if event["event"] in ("batch", "merge"):
            print(json.dumps({name: event[name] for name in KEPT}), flush=True)
        if event["event"] == "end":
            print(json.dumps(event), flush=True)

    if args.runtime == "spark":
        from watersmeet.runtime.spark.job import run_job as run_on_spark

        run_on_spark(job, note)
    else:
        from watersmeet.runtime.local.job import run_job

        run_job(job, note)
    sys.stdout.flush()


def job_text(query: str, data: Path, out: Path, runtime: str) -> str:
    lines = [f"query = {json.dumps(query)}"]
    for stream in sorted(path.name for path in data.iterdir()):
        lines += [f"[streams.{stream}]", 'format = "parquet"', f'path = "{data / stream}"', f'schema = "{SCHEMA_DDL}"']
    lines += ["[sink]", f'path = "{out / "results"}"']
    lines += ["[run]", f'runtime = "{runtime}"', f'checkpoint = "{out / "checkpoint"}"', "slots = 2"]
    lines += ["[spark]", 'master = "local[2]"', '"spark.driver.memory" = "2g"']
    return "\n".join(lines)


if __name__ == "__main__":
    main()
