"""A run of a judged job on Spark whose results go to a function of `foreachBatch` that writes down every call.

`python tests/function_sink.py [fail=CALL] [OPTION=VALUE ..]` in the folder of a job runs the job file's query over its
streams to the end of the input; the function raises in its call number CALL (from 1) of this process, before it takes
the rows. Options are those of `writeStream`, and go before the job file's; `master` and those that begin with `spark.`
are Spark's. Exit code 3 if the run failed.

The function is what a user's should be: idempotent by id. Each call is a line of `calls.jsonl`, with the id, the rows,
and whether it took them.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

CALLS = "calls.jsonl"


@dataclass(frozen=True)
class Call:
    id: int
    rows: tuple[tuple[Any, ...], ...]
    took: bool


class FunctionSink:
    """The function, and what it was called with, in `home`. `fail` is the call of this object that raises."""

    def __init__(self, home: Path, fail: int | None = None) -> None:
        self._path = home / CALLS
        self._fail = fail
        self._calls = 0

    def __call__(self, frame: Any, batch_id: int) -> None:
        self._calls += 1
        rows = sorted(list(row) for row in frame.collect())
        took = self._calls != self._fail
        with self._path.open("a") as file:
            file.write(json.dumps({"id": batch_id, "rows": rows, "took": took}) + "\n")
        if not took:
            raise RuntimeError("this call was to fail")


def calls(home: Path) -> list[Call]:
    if not (home / CALLS).exists():
        return []
    lines = [json.loads(line) for line in (home / CALLS).read_text().splitlines()]
    return [Call(line["id"], tuple(map(tuple, line["rows"])), line["took"]) for line in lines]


def taken(made: list[Call]) -> Counter[tuple[Any, ...]]:
    """The rows of all ids that were taken, each id once."""
    by_id = {call.id: call.rows for call in made if call.took}
    return Counter(row for rows in by_id.values() for row in rows)


def check_ids(made: list[Call]) -> None:
    """What an id stands for never changes; ids are not negative, and a new one is larger than all before it."""
    content: dict[int, tuple[tuple[Any, ...], ...]] = {}
    for call in made:
        assert call.id >= 0, f"id {call.id} is negative; ids so far: {list(content)}"
        if call.id not in content:
            assert call.id > max(content, default=-1), f"id {call.id} came after {list(content)}"
        assert content.setdefault(call.id, call.rows) == call.rows, f"id {call.id} came with other rows than before"


def open_query(session: Any, home: Path) -> tuple[Any, dict[str, str]]:
    """The query of the job file in `home` over its streams, and the options that it asks for."""
    import watersmeet as wm

    job = tomllib.loads((home / "job.toml").read_text())
    frames = {}
    for name, stream in job["streams"].items():
        reader = session.readStream.schema(stream["schema"]).options(**stream["options"])
        frames[name] = reader.parquet(str(home / stream["path"]))
    query = wm.sql(job["query"], lateness={name: s["lateness"] for name, s in job["streams"].items()}, **frames)
    asked = {name: str(value) for name, value in job["run"].items() if name in ("memory", "slots", "groups")}
    asked |= {name: str(value) for name, value in job["adapt"].items() if name in ("plan", "spill", "merge", "ring")}
    asked |= {"atEnd": job["run"]["at_end"]} if "at_end" in job["run"] else {}
    return query, asked | {"checkpointLocation": str(home / "ck")}


def new_session(master: str = "local[2]", conf: Mapping[str, str] = MappingProxyType({})) -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2")
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def main() -> int:
    chosen = dict(argument.split("=", 1) for argument in sys.argv[1:])
    fail = chosen.pop("fail", None)
    master = chosen.pop("master", "local[2]")
    conf = {name: chosen.pop(name) for name in list(chosen) if name.startswith("spark.")}
    home = Path.cwd()
    query, options = open_query(new_session(master, conf), home)
    writer = query.writeStream.foreachBatch(FunctionSink(home, None if fail is None else int(fail)))
    try:
        writer.options(**options | chosen).trigger(availableNow=True).start().awaitTermination()
    except Exception as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
