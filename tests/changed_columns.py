"""Jobs over two streams whose columns beside those that the query reads differ from run to run."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from small_jobs import FILES, SmallJob, rows_of, write_rows
from watersmeet.cli.main import main

JOIN = "FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k"
QUERIES = {
    "a join": f"SELECT A.k, A.v AS a, B.v AS b {JOIN}",
    "a computed key": "SELECT A.v AS a FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k + 1 = B.k",
    "windows of rows": "SELECT A.v AS a, B.v AS b FROM A [ROWS 5], B [RANGE 10 SECONDS] WHERE A.k = B.k AND A.v < B.v",
    "groups": "SELECT A.k, COUNT(*) AS n FROM A [RANGE 2 SECONDS SLIDE 1 SECOND], B [RANGE 2 SECONDS] WHERE A.k = B.k "
    "GROUP BY A.k",
    "what is folded away": f"SELECT A.v AS a {JOIN} AND (A.v > 0 OR TRUE)",
    "a ring": "SELECT A.v AS a, B.v AS b FROM A [RANGE 1 SECOND], B [RANGE 1 SECOND] WHERE A.v < B.v",
}
READ = {"k": "BIGINT", "v": "BIGINT", "ts": "BIGINT"}
Columns = dict[str, dict[str, str]]  # by stream: names and types
BESIDE = {"x": ("STRING", "x"), "#k0": ("DOUBLE", 1.5), "#n0": ("BOOLEAN", True), "a b": ("ARRAY<INT>", [1, 2])}
ARROW = {"BIGINT": pa.int64(), "STRING": pa.string(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}


def draw_columns(draw: random.Random) -> dict[str, str]:
    """Those that are read, and some others, in any order: name and type."""
    others = {name: kind for name, (kind, _) in BESIDE.items() if draw.random() < 0.5}
    columns = list({**READ, **others}.items())
    draw.shuffle(columns)
    return dict(columns)


def arrow_type(kind: str) -> pa.DataType:
    return ARROW.get(kind, pa.list_(pa.int32()))


class ChangedJob(SmallJob):
    def declare(self, columns: Columns) -> None:
        """Write the job file, whose streams have these columns."""
        lines = [f'query = "{self.query}"']
        for name, each in columns.items():
            schema = ", ".join(f"`{column}` {kind}" for column, kind in each.items())
            lines += [f"[streams.{name}]", 'format = "parquet"', f'path = "{self.home}/in/{name}"']
            lines += [f"schema = '{schema}'", "options = { maxFilesPerTrigger = 1 }"]
        lines += [
            "[sink]",
            f'path = "{self.out}"',
            "[run]",
            f'runtime = "{self.runtime}"',
            f'checkpoint = "{self.checkpoint}"',
            "slots = 2",
        ]
        self.path.write_text("\n".join(lines))

    def add(self, files: range, columns: Columns) -> None:
        """Files in which the streams have these columns; every second row of the last one is late."""
        for name, each in columns.items():
            schema = pa.schema([(column, arrow_type(kind)) for column, kind in each.items()])
            for number in files:
                rows: list[dict[str, Any]] = rows_of(number)
                for place, row in enumerate(rows):
                    row |= {column: value for column, (_, value) in BESIDE.items() if column in each}
                    row["ts"] = row["ts"] - 10**7 if number == FILES - 1 and place % 2 else row["ts"]
                write_rows(self.input(name, number), rows, schema)


def run(home: Path, query: str, settings: tuple[str, ...], stages: list[Columns]) -> ChangedJob:
    """The job over files that come in stages, with these columns each."""
    home.mkdir()
    job = ChangedJob(home, query=query)
    for number, columns in enumerate(stages):
        job.declare(columns)
        job.add(range(number * FILES // len(stages), (number + 1) * FILES // len(stages)), columns)
        assert main(job.arguments(*settings)) == 0
    return job


def late_values(job: SmallJob) -> Counter[int]:
    files = sorted((job.home / "late").glob("*.parquet"))
    return Counter(row["v"] for path in files for row in pq.read_table(path).to_pylist())
