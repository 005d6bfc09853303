"""The same as batches of deltas in DuckDB, with two threads: tables in memory, and its own cosine of two arrays.

Each batch joins the new rows of one stream with what the others have, the streams before it with their new rows
already. Reading files is part of it, delivery is one parquet file for each batch. There is no checkpoint.
"""

import json
import shutil
import time
from pathlib import Path

import duckdb

from benchmarks.contenders.progress import parser
from benchmarks.data import first_files
from benchmarks.similarity.bare import ROUTES
from benchmarks.similarity.data import ALIKE, DIMENSIONS, SECOND, STREAMS


def main() -> None:
    options = parser()
    options.add_argument("--window", type=int, required=True)
    options.add_argument("--threads", type=int, default=2)
    args = options.parse_args()
    if args.warm_up:
        warm = first_files(args.data, args.warm_up, args.out / "warm-up-data")
        run(warm, args.out / "warm-up", args.window, args.threads)
        shutil.rmtree(args.out / "warm-up")
    began, cpu = time.perf_counter(), time.process_time()
    rows = run(args.data, args.out / "results", args.window, args.threads)
    spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps({"event": "end", "rows_in": rows, **spent}), flush=True)


def run(data: Path, out: Path, window: int, threads: int) -> int:
    out.mkdir(parents=True)
    database = duckdb.connect(config={"threads": threads})
    for stream in STREAMS:
        for table in (stream, f"new_{stream}"):
            database.execute(f"CREATE TABLE {table} (id BIGINT, v DOUBLE[{DIMENSIONS}], ts BIGINT)")
    rows = 0
    for number, files in enumerate(zip(*(sorted((data / stream).iterdir()) for stream in STREAMS), strict=True)):
        database.execute("CREATE OR REPLACE TABLE answer (a BIGINT, b BIGINT, c BIGINT)")
        for origin, file in zip(STREAMS, files, strict=True):
            read = f"SELECT id, v::DOUBLE[{DIMENSIONS}], ts FROM '{file}'"
            database.execute(f"CREATE OR REPLACE TABLE new_{origin} AS {read.replace('],', '] AS v,')}")
            rows += database.execute(f"SELECT count(*) FROM new_{origin}").fetchall()[0][0]
            database.execute(f"INSERT INTO answer {delta(origin, window * SECOND)}")
            database.execute(f"INSERT INTO {origin} FROM new_{origin}")
        newest = " UNION ALL ".join(f"SELECT max(ts) AS ts FROM {stream}" for stream in STREAMS)
        for stream in STREAMS:
            database.execute(f"DELETE FROM {stream} WHERE ts <= (SELECT max(ts) FROM ({newest})) - {window * SECOND}")
        database.execute(f"COPY answer TO '{out / f'part-{number}.parquet'}' (FORMAT parquet)")
    return rows


def delta(origin: str, window_us: int) -> str:
    """What new rows of one stream add."""
    near, far = ROUTES[origin]
    tables = {stream: f"{'new_' if stream == origin else ''}{stream} AS {stream}" for stream in STREAMS}
    both = f"""
        SELECT {origin}.id AS {origin}_id, {origin}.v AS {origin}_v, {origin}.ts AS {origin}_ts,
               {near}.id AS {near}_id, {near}.v AS {near}_v, {near}.ts AS {near}_ts
        FROM {tables[origin]}, {tables[near]}
        WHERE abs({origin}.ts - {near}.ts) < {window_us}
          AND array_cosine_similarity({origin}.v, {near}.v) > {ALIKE}"""
    ids = {far: f"{far}.id", origin: f"{origin}_id", near: f"{near}_id"}
    return f"""
        WITH found AS MATERIALIZED ({both})
        SELECT {", ".join(ids[stream] for stream in STREAMS)} FROM found, {tables[far]}
        WHERE greatest({origin}_ts, {near}_ts, {far}.ts) - least({origin}_ts, {near}_ts, {far}.ts) < {window_us}
          AND array_cosine_similarity(B_v, {far}.v) > {ALIKE}"""


if __name__ == "__main__":
    main()
