"""What a batch asks of an object store: requests by verb, against a real S3 server on loopback (moto).

Two streams of local files, joined on a key within a window; checkpoint and results on the store; two slots. The run is
a process of its own, `watersmeet run --json`, and all that it asks goes through a proxy that counts. The first batches
are left out (`--skip`), in which the checkpoint is made and the window fills; the rest of the run, snapshots and
garbage included, is divided by its batches.

With `--source DIR`, the package in DIR/src runs instead of this one: to compare with an earlier state of the code.

    python -m benchmarks.requests [--batches 60] [--skip 10] [--rows 1000] [--source DIR]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # where the server and the proxy are, which tests use too

from object_server import S3Server, s3_proxy, s3_server  # noqa: E402
from small_jobs import SmallJob, write_rows  # noqa: E402

VERBS = ("PUT", "COPY", "POST", "DELETE", "GET", "HEAD", "LIST")


def main() -> int:
    parser = argparse.ArgumentParser(description="requests a batch on S3")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--skip", type=int, default=10, help="batches at the start that do not count")
    parser.add_argument("--rows", type=int, default=1000, help="of a stream in a batch")
    parser.add_argument("--source", type=Path, default=ROOT, help="the folder whose src/ runs")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, s3_server() as server, s3_proxy(server) as proxy:
        job = make_job(Path(folder), server, args.batches, args.rows)
        marks = run(job, args.source, proxy.port, proxy.requests)
    counted = marks[-1]
    counted.subtract(marks[args.skip - 1])
    batches = len(marks) - args.skip
    print(f"{batches} batches of {2 * args.rows:,} rows, after {args.skip}; requests a batch:")
    for verb in (*VERBS, *sorted(set(counted) - set(VERBS))):
        if counted[verb]:
            print(f"  {verb:<7}{counted[verb] / batches:6.2f}")
    print(f"  {'all':<7}{sum(counted.values()) / batches:6.2f}")
    return 0 if len(marks) == args.batches else 1


def make_job(folder: Path, server: S3Server, batches: int, rows: int) -> SmallJob:
    """A second of event time a batch, and a window of ten."""
    job = SmallJob(folder).write()
    for stream in "AB":
        for number in range(batches):
            times = range(number * 1_000_000, number * 1_000_000 + rows)
            write_rows(job.input(stream, number), [{"k": i % rows, "v": i, "ts": ts} for i, ts in enumerate(times)])
    bucket = server.bucket()
    job.spoil(str(job.checkpoint), f"s3://{bucket}/ck")
    job.spoil(str(job.out), f"s3://{bucket}/out")
    job.spoil("[run]", f'[run]\ncache = "{folder}/cache"\nslots = 2')
    return job


def run(job: SmallJob, source: Path, port: int, requests: Counter[str]) -> list[Counter[str]]:
    """Run it; what was counted by the time that each batch was told of."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(source / "src"),
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ALLOW_HTTP": "true",
    }
    marks = []
    with subprocess.Popen(job.command(), stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "batch":
                marks.append(Counter(requests))
    if process.returncode:
        raise SystemExit(f"the run ended with exit code {process.returncode}")
    return marks


if __name__ == "__main__":
    sys.exit(main())
