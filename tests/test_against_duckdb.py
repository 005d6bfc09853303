"""Real queries on generated data agree with DuckDB: Nexmark's joins, and the join of TPC-H Q3, on both runtimes.

DuckDB has no windows over streams; where a case has them, they are written out for it as what they mean: the newest row
of a combination is less than the width younger than the windowed row.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from strategies import counted
from watersmeet.generate import nexmark

Tables = dict[str, pa.Table]
Batches = dict[str, list[pa.RecordBatch]]
Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Checked:
    """A query of ours, and where it differs (windows) the same for DuckDB."""

    select: str
    windowed_from: str
    where: str
    windows: str = ""  # the windows as a condition

    @property
    def ours(self) -> str:
        return f"SELECT {self.select} FROM {self.windowed_from} WHERE {self.where}"

    @property
    def streams(self) -> list[str]:
        return [entry.split()[0] for entry in self.windowed_from.split(", ")]

    @property
    def theirs(self) -> str:
        plain = ", ".join(entry.split(" [")[0] for entry in self.windowed_from.split(", "))
        return f"SELECT {self.select} FROM {plain} WHERE {self.where}{self.windows}"


NEXMARK = {
    "q3": Checked(
        "P.name, P.city, P.state, A.id",
        "auction A, person P",
        "A.seller = P.id AND A.category = 10 AND P.state IN ('OR', 'ID', 'CA')",
    ),
    "q20": Checked(
        "B.auction, B.bidder, B.price, A.itemName, A.category, A.ts AS opened, B.ts AS placed",
        "bid B, auction A",
        "B.auction = A.id AND A.category = 10",
    ),
    "q23": Checked(
        "B.auction, B.price, P.name, A.id",
        "bid B, person P, auction A",
        "P.id = B.bidder AND A.seller = B.bidder",
    ),
    "two keys": Checked(
        "B.price, A.id AS auction, P.id AS person, P.state",
        "bid B, auction A, person P",
        "B.auction = A.id AND A.seller = P.id",
    ),
    "two keys, windows": Checked(
        "B.price, A.id AS auction, P.id AS person, P.state",
        "bid B [RANGE 500 MILLISECONDS], auction A [RANGE 1 SECOND], person P [RANGE 2 SECONDS]",
        "B.auction = A.id AND A.seller = P.id",
        " AND greatest(B.ts, A.ts, P.ts) - B.ts < 500000 AND greatest(B.ts, A.ts, P.ts) - A.ts < 1000000"
        " AND greatest(B.ts, A.ts, P.ts) - P.ts < 2000000",
    ),
}
PAIRS = {
    "an interval join": Checked(
        "B.auction, B.price, A.ts AS opened, B.ts AS placed",
        "bid B, auction A",
        "B.auction = A.id AND B.ts BETWEEN A.ts AND A.ts + 700000",
    ),
    "windows for pairs": Checked(
        "B.price, A.id AS auction, P.id AS person, P.state",
        "bid B, auction A, person P [RANGE 2 SECONDS]",
        "B.auction = A.id AND A.seller = P.id AND ABS(A.ts - B.ts) < 500000 AND P.ts <= A.ts",
        " AND greatest(B.ts, A.ts, P.ts) - P.ts < 2000000",
    ),
}
TPCH_Q3 = Checked(
    "l_orderkey, l_extendedprice, l_discount, o_orderdate, o_shippriority",
    "customer, orders, lineitem",
    "c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey "
    "AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'",
)


def expected(query: Checked, tables: Tables) -> Rows:
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(name, table)
        rows = Counter(database.execute(query.theirs).fetchall())
    assert rows, "a query with no answer checks nothing"
    return rows


def local(query: Checked, batches: Batches, **options: Any) -> Rows:
    events: list[dict[str, Any]] = []
    table = wm.sql(query.ours, **{name: batches[name] for name in query.streams}).run(report=events.append, **options)
    assert events[-1]["rows_late"] == 0
    return counted(table)


def on_spark(session: Any, query: Checked, batches: Batches, folder: Path, **options: Any) -> Rows:
    frames = {}
    for name in query.streams:
        (folder / name).mkdir()
        for number, piece in enumerate(batches[name]):
            path = folder / name / f"{number:03d}.parquet"
            pq.write_table(pa.Table.from_batches([piece]), path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        schema = session.read.parquet(str(folder / name)).schema
        frames[name] = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
    writer = wm.sql(query.ours, **frames).writeStream.format("parquet")
    writer.options(path=str(folder / "out"), checkpointLocation=str(folder / "ck"), **options)
    run = writer.trigger(availableNow=True).start()
    run.awaitTermination()
    return counted(pq.read_table(folder / "out"))


# --- Nexmark ---------------------------------------------------------------------------------------------------------


def nexmark_batches(events: int, batches: int) -> Batches:
    step = -(-events // batches)
    return {kind: list(nexmark.batches(kind, 7, 0, events, batch_events=step)) for kind in ("person", "auction", "bid")}


def tables_of(batches: Batches) -> Tables:
    return {name: pa.Table.from_batches(pieces) for name, pieces in batches.items()}


@pytest.fixture(scope="module")
def events() -> Batches:
    return nexmark_batches(100_000, 7)


@pytest.mark.parametrize("name", NEXMARK)
def test_nexmark_local(name: str, events: Batches) -> None:
    query = NEXMARK[name]
    answer = expected(query, tables_of(events))
    assert local(query, events) == answer
    if name == "two keys":
        assert local(query, events, plan="((B A) P)", slots=3) == answer
        assert local(query, events, plan="(B (A P))", slots=1) == answer


@pytest.mark.parametrize("name", PAIRS)
def test_windows_for_pairs_local(name: str, events: Batches) -> None:
    query = PAIRS[name]
    answer = expected(query, tables_of(events))
    for plan in ["auto"] if name == "an interval join" else ["((B A) P)", "(B (A P))", "mjoin"]:
        assert local(query, events, plan=plan, slots=2) == answer


@pytest.mark.spark
@pytest.mark.parametrize("name", NEXMARK)
def test_nexmark_spark(name: str, spark: Any, tmp_path: Path) -> None:
    query = NEXMARK[name]
    batches = nexmark_batches(20_000, 3)
    assert on_spark(spark, query, batches, tmp_path) == expected(query, tables_of(batches))


# --- TPC-H -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Scale 0.01, from tpchgen-cli, each table with a constant event time."""
    tool = shutil.which("tpchgen-cli", path=os.path.dirname(sys.executable)) or shutil.which("tpchgen-cli")
    assert tool is not None, "tpchgen-cli is one of the test dependencies"
    folder = tmp_path_factory.mktemp("tpch")
    names = ["customer", "orders", "lineitem"]
    command = [tool, "parquet", "-s", "0.01", f"--tables={','.join(names)}", f"--output-dir={folder}"]
    subprocess.run(command, check=True, capture_output=True)
    tables = {name: pq.read_table(folder / f"{name}.parquet") for name in names}
    return {
        name: table.append_column("ts", pa.repeat(pa.scalar(0, pa.int64()), table.num_rows))
        for name, table in tables.items()
    }


def in_pieces(tables: Tables, pieces: int) -> Batches:
    return {name: list(_pieces(table.combine_chunks(), pieces)) for name, table in tables.items()}


def _pieces(table: pa.Table, pieces: int) -> Iterable[pa.RecordBatch]:
    step = -(-table.num_rows // pieces)
    for start in range(0, table.num_rows, step):
        (batch,) = table.slice(start, step).combine_chunks().to_batches()
        yield batch


def test_tpch_q3_local(tpch: Tables) -> None:
    answer = expected(TPCH_Q3, tpch)
    for plan in ("left-deep", "(customer (orders lineitem))"):
        assert local(TPCH_Q3, in_pieces(tpch, 5), plan=plan) == answer


@pytest.mark.spark
def test_tpch_q3_spark(tpch: Tables, spark: Any, tmp_path: Path) -> None:
    assert on_spark(spark, TPCH_Q3, in_pieces(tpch, 2), tmp_path, slots=3) == expected(TPCH_Q3, tpch)


# --- groups ----------------------------------------------------------------------------------------------------------

# Running totals: what DuckDB has in the end. The join of q4 and q9 with the best bid of each auction; Q3 and Q10.
TOTALS = {
    "q9": "SELECT A.id, A.category, MAX(B.price) AS best, COUNT(*) AS bids FROM auction A, bid B "
    "WHERE A.id = B.auction AND B.ts BETWEEN A.ts AND A.expires GROUP BY A.id, A.category",
    "by state": "SELECT P.state, COUNT(*) AS n, SUM(B.price) AS total FROM bid B, auction A, person P "
    "WHERE B.auction = A.id AND A.seller = P.id GROUP BY P.state HAVING COUNT(*) > 100",
}
TPCH_TOTALS = {
    "Q3": "SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority "
    f"FROM customer, orders, lineitem WHERE {TPCH_Q3.where} GROUP BY l_orderkey, o_orderdate, o_shippriority",
    "Q10": "SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, c_phone "
    "FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey "
    "AND o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' "
    "GROUP BY c_custkey, c_name, c_acctbal, c_phone",
}
# At boundaries, as q5 has them, of a join and of a single stream: the rows that count at each, written out.
HOT_ITEMS = "SELECT auction, COUNT(*) AS n FROM bid [RANGE 400 MILLISECONDS SLIDE 100 MILLISECONDS] GROUP BY auction"
HOT_STATES = (
    "SELECT A.category, COUNT(*) AS n, SUM(B.price) AS total FROM bid B [RANGE 400 MILLISECONDS], "
    "auction A [RANGE 800 MILLISECONDS SLIDE 100 MILLISECONDS] WHERE B.auction = A.id GROUP BY A.category"
)
SPELLED = (
    "SELECT {columns}, t FROM (SELECT *, unnest(generate_series(ceil(newest / 1e5)::BIGINT * 100000, "
    "((expiry - 1) // 100000) * 100000, 100000)) AS t FROM ({rows})) GROUP BY {by}, t"
)
HOT_ITEMS_WRITTEN_OUT = SPELLED.format(
    columns="auction, count(*)", rows="SELECT auction, ts AS newest, ts + 400000 AS expiry FROM bid", by="auction"
)
HOT_STATES_WRITTEN_OUT = SPELLED.format(
    columns="category, count(*), sum(price)",
    rows="SELECT A.category, B.price, greatest(A.ts, B.ts) AS newest, least(A.ts + 800000, B.ts + 400000) AS expiry "
    "FROM auction A, bid B WHERE B.auction = A.id AND greatest(A.ts, B.ts) < least(A.ts + 800000, B.ts + 400000)",
    by="category",
)
AT_BOUNDARIES = [(HOT_ITEMS, HOT_ITEMS_WRITTEN_OUT), (HOT_STATES, HOT_STATES_WRITTEN_OUT)]


def asked(text: str, tables: Tables) -> set[tuple[Any, ...]]:
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(name, table)
        rows = database.execute(text).fetchall()
    assert len(rows) > 4
    return set(rows)


def totals(text: str, batches: Batches, groups: int, **options: Any) -> set[tuple[Any, ...]]:
    """The last row of each group, which the first columns say."""
    used = {name: pieces for name, pieces in batches.items() if f" {name}" in text}
    table = wm.sql(text, **used).run(output_mode="update", **options)
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return set({row[:groups]: row for row in rows}.values())


@pytest.mark.parametrize(("name", "groups"), [("q9", 2), ("by state", 1)])
def test_nexmark_totals(name: str, groups: int, events: Batches) -> None:
    assert totals(TOTALS[name], events, groups, memory="2MB") == asked(TOTALS[name], tables_of(events))


def test_nexmark_totals_of_rows_combined_below_joins(events: Batches) -> None:
    text = TOTALS["by state"]
    answer = asked(text, tables_of(events))
    for plan in ("((B{} A{}) P{})", "(B{} (A P{}))"):
        assert totals(text, events, 1, plan=plan, memory="1MB") == answer


@pytest.mark.parametrize(("text", "spelled"), AT_BOUNDARIES)
def test_nexmark_at_boundaries(text: str, spelled: str, events: Batches) -> None:
    table = wm.sql(text, **{name: events[name] for name in ("bid", "auction") if name in text.lower()}).run()
    found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == asked(spelled, tables_of(events))


@pytest.mark.parametrize("plan", ["(B{} A{})", "(B{} A)"])
def test_nexmark_at_boundaries_of_rows_combined_below_joins(plan: str, events: Batches) -> None:
    table = wm.sql(HOT_STATES, bid=events["bid"], auction=events["auction"]).run(plan=plan, memory="1MB")
    found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == asked(HOT_STATES_WRITTEN_OUT, tables_of(events))


def test_tpch_q6(tpch: Tables) -> None:
    """The bounds of the discount are sums of literals, and exact: 0.07 is between them."""
    text = (
        "SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' "
        "AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24"
    )
    with duckdb.connect() as database:
        database.register("lineitem", tpch["lineitem"])
        assert totals(text, in_pieces(tpch, 5), 0) == set(database.execute(text).fetchall())


@pytest.mark.parametrize("name", TPCH_TOTALS)
def test_tpch_totals(name: str, tpch: Tables) -> None:
    text = TPCH_TOTALS[name]
    answer = asked(text, tpch)
    for plan in ("auto", "((customer{} orders{}) lineitem{})", "(customer{} (orders lineitem{}))"):
        assert totals(text, in_pieces(tpch, 5), 1, plan=plan, memory="1MB") == answer
