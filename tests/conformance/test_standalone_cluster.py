"""The same job on a real standalone cluster (a master and a worker on loopback) and in the local runtime.

Executors are other processes with another current folder, so this is where a path that only means something to the
driver, or a module that only the driver has, shows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_cluster import standalone_cluster

pytestmark = pytest.mark.spark

QUERY = "SELECT A.k, A.v AS av, B.v AS bv, C.v AS cv FROM A, B, C WHERE A.k = B.k AND B.v = C.v"


def test_a_plan_with_an_exchange_runs_on_a_standalone_cluster(tmp_path: Path) -> None:
    job = _job(tmp_path)
    with standalone_cluster(tmp_path / "daemons") as cluster:
        settings = [f'spark.master="{cluster.address}"', 'spark."spark.driver.host"="127.0.0.1"']
        on_cluster = _run(tmp_path, job, "cluster", ["run.runtime=spark", *settings])
    assert on_cluster == _run(tmp_path, job, "local", ["run.runtime=local"])
    assert on_cluster.total() > 100


def _job(folder: Path) -> Path:
    lines = [f'query = "{QUERY}"']
    for number, stream in enumerate("ABC"):
        (folder / stream).mkdir()
        for part in range(2):
            rows = range(part * 500, part * 500 + 500)
            columns = {
                "k": [(row * (number + 3)) % 211 for row in rows],
                "v": [(row * 7 + number) % 97 for row in rows],
                "ts": list(rows),
            }
            pq.write_table(pa.table(columns), folder / stream / f"part-{part}.parquet")
            os.utime(folder / stream / f"part-{part}.parquet", (part + 1, part + 1))
        lines += [f"[streams.{stream}]", 'format = "parquet"', f'path = "{folder / stream}"']
        lines += ['schema = "k BIGINT, v BIGINT, ts BIGINT"', "options = { maxFilesPerTrigger = 1 }"]
    lines += ["[sink]", 'path = "out"', "[run]", 'checkpoint = "ck"']
    (folder / "job.toml").write_text("\n".join(lines))
    return folder / "job.toml"


def _run(folder: Path, job: Path, name: str, settings: list[str]) -> Counter[tuple[int, ...]]:
    """The answer of a run whose output and checkpoint are relative paths."""
    (folder / name).mkdir()
    command = [sys.executable, "-m", "watersmeet", "run", str(job), "--json"]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, cwd=folder / name, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(folder / name / "out").to_pylist()
    return Counter(tuple(row.values()) for row in rows)
