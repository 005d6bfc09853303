"""Queries that were changed between two runs of a job, and what is due then.

A result is due by the former query if all of its rows were read before the change, and by the new one if any came after
it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from judged_jobs import SECOND, JoinCase, JudgedJob, draw_streams, write_streams

CASE = JoinCase({"A": ("x",), "B": ("x", "y"), "C": ("y",)}, "A.x = B.x AND B.y = C.y", 4 * SECOND)
BATCHES, BEFORE, ROWS = 10, 5, 8
STREAMS = draw_streams(CASE, BATCHES, ROWS, 5, seed=2)
Row = dict[str, Any]
FROM = "FROM A [RANGE {a} SECONDS], B [RANGE {b} SECONDS], C [RANGE {c} SECONDS] WHERE A.x = B.x AND B.y = C.y"


def text(select: str = "A.v AS a, B.v AS b, C.v AS c", more: str = "", a: int = 4, b: int = 4, c: int = 4) -> str:
    return f"SELECT {select} {FROM.format(a=a, b=b, c=c)}{more}"


def due(
    windows: tuple[int, int, int], keep: Callable[[Row, Row, Row], bool], made: Callable[[int], bool]
) -> Counter[Any]:
    """Results by their rows, of those whose newest batch is one of `made`."""
    found: Counter[Any] = Counter()
    rows = {name: [(n, row) for n, batch in enumerate(STREAMS[name]) for row in batch] for name in CASE.streams}
    for n, a in rows["A"]:
        for m, b in rows["B"]:
            if a["x"] != b["x"]:
                continue
            for k, c in rows["C"]:
                newest = max(a["ts"], b["ts"], c["ts"])
                near = all(newest - r["ts"] < w * SECOND for r, w in zip((a, b, c), windows, strict=True))
                if b["y"] == c["y"] and near and made(max(n, m, k)) and keep(a, b, c):
                    found[a["v"], b["v"], c["v"]] += 1
    return found


def start(
    home: Path, query: str, adapt: str = "", run: str = "", end: int = BEFORE, runtime: str = "local"
) -> JudgedJob:
    write_streams(CASE, STREAMS, home / "in", 0, end)
    job = JudgedJob.write(home, CASE, run, adapt, runtime=runtime)
    return with_query(job, query)


def with_query(job: JudgedJob, query: str) -> JudgedJob:
    path = job.home / "job.toml"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([f"query = {json.dumps(query)}", *lines[1:]]) + "\n")
    return job


def answer(job: JudgedJob) -> Counter[Any]:
    """By the rows of each result; columns that are not theirs do not count."""
    rows = [row for path in (job.home / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    return Counter((row["a"], row["b"], row["c"]) for row in rows)


ANY = (4, 4, 4), lambda a, b, c: True
CHANGES = {
    "narrower windows": (text(a=2, c=3), (2, 4, 3), lambda a, b, c: True),
    "one more filter": (text(more=" AND B.v % 3 = 0"), (4, 4, 4), lambda a, b, c: b["v"] % 3 == 0),
    "one more predicate": (text(more=" AND A.v < C.v"), (4, 4, 4), lambda a, b, c: a["v"] < c["v"]),
    "other columns": (text("A.x, B.v AS b, A.v AS a, C.v AS c, C.v + B.v AS s"), *ANY),
    "all of it": (
        text("C.v AS c, A.v AS a, B.v AS b", " AND A.v <> C.v", b=3),
        (4, 3, 4),
        lambda a, b, c: a["v"] != c["v"],
    ),
}


def expected_after(change: str) -> Counter[Any]:
    """What is due if the query is changed before batch `BEFORE`."""
    _, windows, keep = CHANGES[change]
    return due(*ANY, lambda batch: batch < BEFORE) + due(windows, keep, lambda batch: batch >= BEFORE)
