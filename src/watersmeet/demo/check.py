"""Checks the demo's answer: DuckDB computes it from all the input at once, and the two are compared as multisets.

The query is written out again for DuckDB, with the windows as what they mean: with T the newest event time of a
combination, T - ts < width for every input. Nothing of Watersmeet takes part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from watersmeet.errors import InternalError, JobError

EXPECTED = """
WITH p AS (SELECT *, epoch_us(ts) AS t FROM read_parquet($prices)),
     v AS (SELECT *, epoch_us(ts) AS t FROM read_parquet($volumes)),
     r AS (SELECT *, epoch_us(ts) AS t FROM read_parquet($reviews))
SELECT p.symbol, p.price, v.shares, r.author, r.target, p.t AS priced, v.t AS traded, r.t AS reviewed
FROM p, v, r
WHERE p.symbol = v.symbol AND v.symbol = r.symbol AND r.target > p.price
  AND greatest(p.t, v.t, r.t) - p.t < 1_000_000
  AND greatest(p.t, v.t, r.t) - v.t < 1_000_000
  AND greatest(p.t, v.t, r.t) - r.t < 10_000_000
  -- follows from the above; without it DuckDB builds every pair of the day first
  AND abs(p.t - v.t) < 1_000_000 AND p.t - r.t < 10_000_000 AND r.t - p.t < 1_000_000
"""
FOUND = """
SELECT symbol, price, shares, author, target,
       epoch_us(priced) AS priced, epoch_us(traded) AS traded, epoch_us(reviewed) AS reviewed
FROM read_parquet($out)
"""
# Each row with how many times more often it should be there than it is.
DIFFERENCE = f"""
CREATE TABLE difference AS
SELECT symbol, price, shares, author, target, priced, traded, reviewed, sum(n)::BIGINT AS n
FROM (SELECT *, 1 AS n FROM ({EXPECTED}) UNION ALL SELECT *, -1 AS n FROM ({FOUND}))
GROUP BY ALL
"""
SHOWN = 3


def load_duckdb() -> Any:
    """The module duckdb, or an error that says how to get it."""
    try:
        import duckdb
    except ImportError:
        raise JobError(
            "the demo needs DuckDB",
            detail="It checks its answer against DuckDB's, and the module duckdb is not installed.",
            hint="Install it: pip install 'watersmeet[demo]'.",
        ) from None
    return duckdb


def check_answer(folder: Path) -> int:
    """The number of rows of the answer under `folder`, which must be DuckDB's; raises `InternalError` if it is not."""
    duckdb = load_duckdb()
    places = {name: str(folder / "in" / name / "*.parquet") for name in ("prices", "volumes", "reviews")}
    places["out"] = str(folder / "out" / "*.parquet")
    with duckdb.connect() as database:
        try:
            database.execute(DIFFERENCE, places)
        except duckdb.IOException as error:  # no result file at all
            raise InternalError("the answer cannot be read", detail=str(error)) from None
        missing, extra = database.execute(
            "SELECT coalesce(sum(n) FILTER (n > 0), 0), coalesce(-sum(n) FILTER (n < 0), 0) FROM difference"
        ).fetchone()
        if missing or extra:
            some = database.execute(f"SELECT * FROM difference WHERE n <> 0 ORDER BY ALL LIMIT {SHOWN}").fetchall()
            raise InternalError(
                "the answer is wrong",
                detail=f"{missing:,} rows that DuckDB finds are missing, and {extra:,} rows are too many. "
                f"The first, each with how often it is missing: {'; '.join(map(str, some))}.",
                hint="Run the demo with --keep to look at its files, and report it.",
            )
        rows: int = database.execute(f"SELECT count(*) FROM ({FOUND})", {"out": places["out"]}).fetchone()[0]
    return rows
