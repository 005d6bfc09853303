"""The named cases that every runtime must get right, with the oracle's answer, and files and job files to run them.

A batch is a little text table: rows on lines of their own, cells with spaces between them, `-` for NULL and '' for an
empty string. Where a case is about volume instead, `many` draws the rows of a stream from a seed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

import oracle
from oracle import Input
from watersmeet.lang.types import parse_schema

SECOND = 1_000_000
KV = "k BIGINT, v BIGINT, ts BIGINT"


@dataclass(frozen=True)
class Conformance:
    id: str
    text: str
    schemas: Mapping[str, str]
    batches: Mapping[str, list[list[oracle.Row]]]
    inputs: list[Input]
    where: Callable[..., bool | None]
    select: Callable[..., tuple[Any, ...]]
    plan: str = "auto"
    slots: int = 2
    lateness_s: Mapping[str, int] = field(default_factory=dict)
    time: Mapping[str, str] = field(default_factory=dict)
    ring: str = "auto"

    def answer(self) -> oracle.Answer:
        count = max(map(len, self.batches.values()))
        batches = [{name: b[i] for name, b in self.batches.items() if i < len(b)} for i in range(count)]
        return oracle.answer(
            batches,
            self.inputs,
            lambda rows: self.where(*rows.values()),
            lambda rows: self.select(*rows.values()),
            {name: seconds * SECOND for name, seconds in self.lateness_s.items()},
            self.time,
        )

    def without_empty_text(self) -> Conformance:
        """The case as CSV tells it: there, empty text is NULL."""
        batches = {
            name: [[{key: None if cell == "" else cell for key, cell in row.items()} for row in rows] for rows in parts]
            for name, parts in self.batches.items()
        }
        return replace(self, batches=batches)

    def write(self, folder: Path, form: str = "parquet") -> None:
        """The batches as files under folder/NAME, one a batch, in order of their times of modification."""
        for name, batches in self.batches.items():
            schema = parse_schema(self.schemas[name])
            (folder / name).mkdir(parents=True)
            for i, rows in enumerate(batches):
                path = folder / name / f"{i:03d}.{form}"
                WRITERS[form](pa.Table.from_pylist(rows, schema=schema), path)
                os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))

    def job(self, folder: Path, runtime: str, form: str = "parquet") -> Path:
        """A job file over the written batches; results go to folder/out-RUNTIME."""
        lines = [f"query = {json.dumps(self.text)}"]
        for name, schema in self.schemas.items():
            lines += [
                f"[streams.{name}]",
                f'format = "{form}"',
                f'path = "{folder / name}"',
                f'schema = "{schema}"',
                f'time = "{self.time.get(name, "ts")}"',
                f'lateness = "{self.lateness_s.get(name, 0)} seconds"',
                "options = { maxFilesPerTrigger = 1 }",
            ]
        lines += ["[sink]", 'format = "parquet"', f'path = "{folder / f"out-{runtime}"}"']
        lines += ["[run]", f'runtime = "{runtime}"', f'checkpoint = "{folder / f"ck-{runtime}"}"']
        lines += [
            f"slots = {self.slots}",
            "groups = 20",
            'trigger = "available-now"',
            "[adapt]",
            f'plan = "{self.plan}"',
            f'ring = "{self.ring}"',
        ]
        lines += ["[spark]", 'master = "local[2]"']
        path = folder / f"{runtime}.toml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path


def _write_csv(table: pa.Table, path: Path) -> None:
    pacsv.write_csv(table, path)


def _write_json(table: pa.Table, path: Path) -> None:
    def plain(value: Any) -> Any:
        if isinstance(value, Decimal):
            return float(value)
        return str(value) if isinstance(value, date | datetime) else value

    rows = ({name: plain(value) for name, value in row.items() if value is not None} for row in table.to_pylist())
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": lambda table, path: pq.write_table(table, path),
    "csv": _write_csv,
    "json": _write_json,
}


def table(schema: str, *batches: str) -> list[list[oracle.Row]]:
    """Batches of rows from little text tables."""
    fields = parse_schema(schema)
    return [
        [
            {f.name: _cell(text, f.type) for f, text in zip(fields, line.split(), strict=True)}
            for line in batch.splitlines()
            if line.strip()
        ]
        for batch in batches
    ]


def _cell(text: str, kind: pa.DataType) -> Any:
    if text == "-":
        return None
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_floating(kind):
        return float(text)
    if pa.types.is_boolean(kind):
        return text == "true"
    if pa.types.is_decimal(kind):
        return Decimal(text).quantize(Decimal(1).scaleb(-kind.scale))
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(text).replace(tzinfo=UTC if kind.tz else None)
    return "" if text == "''" else text


def many(seed: str, batches: int, rows: int, pace: int = 10, **columns: list[Any]) -> list[list[oracle.Row]]:
    """`rows` rows a batch with each column drawn from its list, and `ts` in seconds from batch number * `pace` on."""
    random = Random(seed)
    return [
        [
            {
                **{name: random.choice(values) for name, values in columns.items()},
                "ts": (number * pace + random.randrange(pace)) * SECOND,
            }
            for _ in range(rows)
        ]
        for number in range(batches)
    ]


def _keys(count: int) -> list[int | None]:
    return [*range(count), None]


def _kv(seed: str, rows: int = 12, keys: int = 9, batches: int = 4) -> list[list[oracle.Row]]:
    return many(seed, batches, rows, k=_keys(keys), v=[*range(20), None])


def _eq(*values: Any) -> bool:
    return None not in values and all(value == values[0] for value in values)


def _all(*conditions: bool | None) -> bool:
    return all(condition is True for condition in conditions)


TYPED = "day DATE, at TIMESTAMP, price DECIMAL(10, 2), name STRING, ok BOOLEAN, f DOUBLE, ts TIMESTAMP"
TYPED_2 = "day TIMESTAMP, cost DECIMAL(18, 4), n INT, ts TIMESTAMP"
WORDS = ["", "a", "ä", "日本", "a b", None]
XYZ = "x BIGINT, y BIGINT, v BIGINT, ts BIGINT"


def _near(left: int | None, right: int | None, width: int) -> bool | None:
    return None if left is None or right is None else abs(left - right) < width


def _less(left: int | None, right: int | None) -> bool | None:
    return None if left is None or right is None else left < right


def _xyz(seed: str, rows: int = 8, keys: int = 6, batches: int = 3) -> list[list[oracle.Row]]:
    return many(seed, batches, rows, x=_keys(keys), y=_keys(keys), v=list(range(20)))


def _ids(row: oracle.Row) -> tuple[Any, ...]:
    return (row["v"], row["ts"])


CASES = [
    Conformance(
        "three ways on one key",
        "SELECT A.k, A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE A.k = B.k AND B.k = C.k",
        dict.fromkeys("ABC", KV),
        {name: _kv(name) for name in "ABC"},
        [Input("A", "A"), Input("B", "B"), Input("C", "C")],
        lambda a, b, c: _eq(a["k"], b["k"], c["k"]),
        lambda a, b, c: (a["k"], a["v"], b["v"], c["v"]),
    ),
    Conformance(
        "a chain with two keys",
        "SELECT A.v AS a, B.v AS b, C.v AS c, C.ts AS t FROM A JOIN B ON A.x = B.x JOIN C ON B.y = C.y",
        dict.fromkeys("ABC", XYZ),
        {name: _xyz(name, 10) for name in "ABC"},
        [Input("A", "A"), Input("B", "B"), Input("C", "C")],
        lambda a, b, c: _all(_eq(a["x"], b["x"]), _eq(b["y"], c["y"])),
        lambda a, b, c: (a["v"], b["v"], c["v"], c["ts"]),
        slots=3,
    ),
    Conformance(
        "a star",
        "SELECT A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE A.x = B.x AND A.y = C.y",
        dict.fromkeys("ABC", XYZ),
        {name: _xyz(f"star {name}", 10) for name in "ABC"},
        [Input("A", "A"), Input("B", "B"), Input("C", "C")],
        lambda a, b, c: _all(_eq(a["x"], b["x"]), _eq(a["y"], c["y"])),
        lambda a, b, c: (a["v"], b["v"], c["v"]),
        plan="((A C) B)",
    ),
    Conformance(
        "a clique of three keys",
        "SELECT A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE A.x = B.x AND B.y = C.x AND C.y = A.y",
        dict.fromkeys("ABC", XYZ),
        {name: _xyz(f"clique {name}", 12, 4) for name in "ABC"},
        [Input("A", "A"), Input("B", "B"), Input("C", "C")],
        lambda a, b, c: _all(_eq(a["x"], b["x"]), _eq(b["y"], c["x"]), _eq(c["y"], a["y"])),
        lambda a, b, c: (a["v"], b["v"], c["v"]),
    ),
    Conformance(
        "a ring of three",
        "SELECT A.v AS a, B.v AS b, C.v AS c FROM A [RANGE 40 SECONDS], B [RANGE 30 SECONDS], C [RANGE 40 SECONDS] "
        "WHERE ABS(A.x - B.x) < 2 AND B.y < C.y",
        dict.fromkeys("ABC", XYZ),
        {name: _xyz(f"ring {name}", 10) for name in "ABC"},
        [Input("A", "A", 40 * SECOND), Input("B", "B", 30 * SECOND), Input("C", "C", 40 * SECOND)],
        lambda a, b, c: _all(_near(a["x"], b["x"], 2), _less(b["y"], c["y"])),
        lambda a, b, c: (a["v"], b["v"], c["v"]),
        slots=3,
    ),
    Conformance(
        "a ring of a join and a stream",
        "SELECT A.v AS a, B.v AS b, C.v AS c FROM A [RANGE 20 SECONDS], B, C [RANGE 25 SECONDS] "
        "WHERE A.x = B.x AND B.y < C.y",
        dict.fromkeys("ABC", XYZ),
        {name: _xyz(f"parts {name}", 9) for name in "ABC"},
        [Input("A", "A", 20 * SECOND), Input("B", "B"), Input("C", "C", 25 * SECOND)],
        lambda a, b, c: _all(_eq(a["x"], b["x"]), _less(b["y"], c["y"])),
        lambda a, b, c: (a["v"], b["v"], c["v"]),
    ),
    Conformance(
        "windows and late rows",
        "SELECT A.v AS a, B.v AS b FROM A [RANGE 5 SECONDS], B [RANGE 3 SECONDS] WHERE A.k = B.k",
        {"A": KV, "B": KV},
        {
            "A": table(
                KV,
                "1 1 0 \n 1 2 4000000 \n 1 3 -7",
                "1 4 2000000 \n 1 5 9000000 \n 1 6 1999999 \n 1 7 -",  # 2 s of lateness: 1.999999 is late
                "1 8 7000000 \n 1 9 6999999 \n - 10 9000000",
                "1 11 20000000",
            ),
            "B": table(
                KV,
                "1 1 3000000 \n 1 2 4999999",
                "1 3 5000000 \n 1 4 4999998",  # no lateness: older than 4.999999 is late
                "",
                "1 5 9000000 \n 1 6 17000001 \n 1 7 17000000",
            ),
        },
        [Input("A", "A", 5 * SECOND), Input("B", "B", 3 * SECOND)],
        lambda a, b: _eq(a["k"], b["k"]),
        lambda a, b: (a["v"], b["v"]),
        lateness_s={"A": 2},
    ),
    Conformance(
        "windows of rows",
        "SELECT A.v AS a, B.v AS b, C.v AS c FROM A [ROWS 9], B [RANGE 15 SECONDS], C [ROWS 6] "
        "WHERE A.k = B.k AND B.k = C.k",
        dict.fromkeys("ABC", KV),
        {name: _kv(f"rows {name}", keys=4) for name in "ABC"},  # of which some have one time, and some are late
        [Input("A", "A", window_rows=9), Input("B", "B", 15 * SECOND), Input("C", "C", window_rows=6)],
        lambda a, b, c: _eq(a["k"], b["k"], c["k"]),
        lambda a, b, c: (a["v"], b["v"], c["v"]),
        lateness_s={"A": 4, "B": 2},
        plan="((A B) C)",
        slots=3,
    ),
    Conformance(
        "the last row of a stream, by two keys",
        "SELECT A.v AS a, B.v AS b, y.v AS y FROM A [ROWS 1], B, A y [ROWS 4] WHERE A.x = B.x AND B.y = y.y",
        dict.fromkeys("AB", XYZ),
        {name: _xyz(f"last {name}", 10, 3, 4) for name in "AB"},
        [Input("A", "A", window_rows=1), Input("B", "B"), Input("y", "A", window_rows=4)],
        lambda a, b, y: _all(_eq(a["x"], b["x"]), _eq(b["y"], y["y"])),
        lambda a, b, y: (a["v"], b["v"], y["v"]),
        lateness_s={"A": 3},
        plan="mjoin",
    ),
    Conformance(
        "keys of several text columns under other names",
        "SELECT A.v AS a, B.v AS b FROM A, B WHERE A.first = B.given AND A.last = B.family",
        {
            "A": "first STRING, last STRING, v BIGINT, ts BIGINT",
            "B": "given STRING, family STRING, v BIGINT, ts BIGINT",
        },
        {
            "A": many("names", 3, 25, first=WORDS, last=WORDS, v=list(range(50))),
            "B": many("names B", 3, 25, given=WORDS, family=WORDS, v=list(range(50))),
        },
        [Input("A", "A"), Input("B", "B")],
        lambda a, b: _all(_eq(a["first"], b["given"]), _eq(a["last"], b["family"])),
        lambda a, b: (a["v"], b["v"]),
        slots=3,
    ),
    Conformance(
        "dates, timestamps and decimals",
        "SELECT A.*, B.day AS midnight, B.cost FROM A [RANGE 1 HOUR], B WHERE A.day = B.day AND A.price = B.cost",
        {"A": TYPED, "B": TYPED_2},
        {
            "A": table(
                TYPED,
                "2024-02-29 2024-02-29T23:59:59.999999 1.50 ä true 0.1 2024-01-01T00:00:00 \n"
                "1969-12-31 1969-12-31T23:00:00 -0.01 _ false -1e300 2024-01-01T00:00:01",
                "2024-02-29 - 1.50 - - - 2024-01-01T00:30:00 \n- 2024-01-01T00:00:00 1.50 x true 0 2024-01-01T00:31:00",
            ),
            "B": table(
                TYPED_2,
                "2024-02-29T00:00:00 1.5000 1 2024-01-01T00:10:00 \n2024-02-29T00:00:01 1.5000 2 2024-01-01T00:10:00",
                "1969-12-31T00:00:00 -0.0100 3 2024-01-01T00:40:00 \n"
                "2024-02-29T00:00:00 1.5001 4 2024-01-01T00:40:00 \n"
                "2024-02-29T00:00:00 1.5000 5 2024-01-01T01:00:00",
            ),
        },
        [Input("A", "A", 3600 * SECOND), Input("B", "B")],
        lambda a, b: _all(_eq(_midnight(a["day"]), b["day"]), _eq(a["price"], b["cost"])),
        lambda a, b: (*a.values(), b["day"], b["cost"]),
    ),
    Conformance(
        "a stream with itself",
        "SELECT x.v AS x, y.v AS y, z.v AS z FROM A x [RANGE 20 SECONDS], A AS y, B z WHERE x.k = y.k AND y.k = z.k "
        "AND x.v < y.v",
        {"A": KV, "B": KV},
        {"A": _kv("self A", 14), "B": _kv("self B", 8)},
        [Input("x", "A", 20 * SECOND), Input("y", "A"), Input("z", "B")],
        lambda x, y, z: _all(_eq(x["k"], y["k"], z["k"]), None not in (x["v"], y["v"]) and x["v"] < y["v"]),
        lambda x, y, z: (x["v"], y["v"], z["v"]),
        lateness_s={"A": 5, "B": 5},
    ),
    Conformance(
        "predicates and expressions",
        "SELECT A.v + B.v AS s, upper(A.t) || '!' AS t, CASE WHEN A.v > B.v THEN 'more' ELSE 'less' END AS c, "
        "coalesce(A.v, -1) AS d, A.v / 4 AS q FROM A, B WHERE A.k + 1 = B.k AND abs(A.v - B.v) < 10 "
        "AND A.ts BETWEEN B.ts - 15000000 AND B.ts + 15000000 AND A.t LIKE 'a%' AND B.v IN (1, 3, 5, 7, 9, 11)",
        {"A": "k INT, v BIGINT, t STRING, ts BIGINT", "B": KV},
        {
            "A": many("expr", 3, 30, k=_keys(6), v=[*range(20), None], t=["a", "ab", "b", "", "aß", None]),
            "B": _kv("expr B", 20, 7, 3),
        },
        [Input("A", "A"), Input("B", "B")],
        lambda a, b: _all(
            None not in (a["k"], b["k"], a["v"], b["v"], a["t"])
            and a["k"] + 1 == b["k"]
            and abs(a["v"] - b["v"]) < 10
            and abs(a["ts"] - b["ts"]) <= 15 * SECOND
            and a["t"].startswith("a")
            and b["v"] in (1, 3, 5, 7, 9, 11)
        ),
        lambda a, b: (
            a["v"] + b["v"],
            _upper(a["t"]) + "!",
            "more" if a["v"] > b["v"] else "less",
            a["v"],
            a["v"] / 4,
        ),
    ),
    Conformance(
        "windows for pairs, without brackets",
        "SELECT A.v AS a, B.v AS b, C.v AS c FROM A, B, C WHERE A.x = B.x AND B.y = C.y "
        "AND ABS(A.ts - B.ts) < 12000000 AND C.ts BETWEEN B.ts - 5000000 AND B.ts + 9000000",
        dict.fromkeys("ABC", XYZ),
        {name: _xyz(f"pairs {name}", 6, 4) for name in "ABC"},
        [Input("A", "A"), Input("B", "B"), Input("C", "C")],
        lambda a, b, c: _all(
            _eq(a["x"], b["x"]),
            _eq(b["y"], c["y"]),
            abs(a["ts"] - b["ts"]) < 12 * SECOND,
            -5 * SECOND <= c["ts"] - b["ts"] <= 9 * SECOND,
        ),
        lambda a, b, c: (a["v"], b["v"], c["v"]),
        lateness_s={"A": 5, "B": 5, "C": 5},
        plan="((A B) C)",
    ),
    Conformance(
        "a bushy tree",
        "SELECT A.v AS a, B.v AS b, C.v AS c, D.v AS d FROM A [RANGE 30 SECONDS], B, C [RANGE 25 SECONDS], D "
        "WHERE A.x = B.x AND C.y = D.y AND B.y = C.x",
        dict.fromkeys("ABCD", XYZ),
        {name: _xyz(f"bushy {name}", 6, 4) for name in "ABCD"},
        [Input("A", "A", 30 * SECOND), Input("B", "B"), Input("C", "C", 25 * SECOND), Input("D", "D")],
        lambda a, b, c, d: _all(_eq(a["x"], b["x"]), _eq(c["y"], d["y"]), _eq(b["y"], c["x"])),
        lambda a, b, c, d: (a["v"], b["v"], c["v"], d["v"]),
        plan="((A B) (C D))",
        slots=3,
    ),
    Conformance(
        "left-deep over one key",
        "SELECT A.v AS a, B.v AS b, C.v AS c, D.v AS d FROM A, B, C, D WHERE A.k = B.k AND A.k = C.k AND A.k = D.k",
        dict.fromkeys("ABCD", KV),
        {name: _kv(f"deep {name}", 6, 6, 3) for name in "ABCD"},
        [Input(name, name) for name in "ABCD"],
        lambda *rows: _eq(*(row["k"] for row in rows)),
        lambda *rows: tuple(row["v"] for row in rows),
        plan="left-deep",
    ),
    Conformance(
        "a multi-way join below another",
        "SELECT A.v AS a, B.v AS b, C.v AS c, D.v AS d FROM A, B, C, D WHERE A.x = B.x AND B.x = C.x AND C.y = D.y",
        dict.fromkeys("ABCD", XYZ),
        {name: _xyz(f"hybrid {name}", 6, 4) for name in "ABCD"},
        [Input(name, name) for name in "ABCD"],
        lambda a, b, c, d: _all(_eq(a["x"], b["x"], c["x"]), _eq(c["y"], d["y"])),
        lambda a, b, c, d: (a["v"], b["v"], c["v"], d["v"]),
        plan="(D (C A B))",
    ),
    Conformance(
        "an empty stream",
        "SELECT A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k",
        {"A": KV, "B": KV},
        {"A": _kv("empty"), "B": []},
        [Input("A", "A"), Input("B", "B")],
        lambda a, b: _eq(a["k"], b["k"]),
        lambda a, b: (a["v"], b["v"]),
    ),
    Conformance(
        "an event time of another name, and files without rows",
        "SELECT * FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.id",
        {"A": KV, "B": "id BIGINT, moment TIMESTAMP"},
        {
            "A": [[], *_kv("other time", 8, 3, 3)],
            "B": table(
                "id BIGINT, moment TIMESTAMP", "", "0 1970-01-01T00:00:05 \n 1 1970-01-01T00:00:09 \n 2 -", "", ""
            ),
        },
        [Input("A", "A", 10 * SECOND), Input("B", "B", 10 * SECOND)],
        lambda a, b: _eq(a["k"], b["id"]),
        lambda a, b: (*a.values(), *b.values()),
        lateness_s={"A": 30},
        time={"B": "moment"},
    ),
]


def _by_plan(name: str, plan: str, id: str) -> Conformance:
    return replace(next(case for case in CASES if case.id == name), plan=plan, id=id)


CASES += [
    _by_plan("a chain with two keys", "mjoin", "a chain with two keys as one routed join"),
    _by_plan("a clique of three keys", "mjoin", "a clique of three keys as one routed join"),
    _by_plan("a bushy tree", "mjoin", "windows over a routed join of four"),
    _by_plan("a bushy tree", "((A B C) D)", "a routed join below another"),
    _by_plan("a bushy tree", "((A B) C D)", "a routed join above another"),
]


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC)


def _upper(text: str) -> str:
    return "".join("ẞ" if letter == "ß" else letter.upper() for letter in text)


def named(name: str) -> Conformance:
    return next(case for case in CASES if case.id == name)


CASES += [
    replace(named("a ring of a join and a stream"), id="a join and a stream, aligned", ring="atr"),
    replace(named("a ring of three"), id="a ring of three with copies", ring="ctr"),
]

# --- groups ----------------------------------------------------------------------------------------------------------

SLIDE_S = 4
GROUPED = Conformance(
    id="groups over a join of three streams",
    text="SELECT A.v % 5 AS g, COUNT(*) AS n, SUM(B.v) AS total, AVG(C.v) AS mean, MIN(A.ts) AS first "
    "FROM A [RANGE 12 SECONDS SLIDE 4 SECONDS], B [RANGE 8 SECONDS], C [RANGE 12 SECONDS] "
    "WHERE A.k = B.k AND B.k = C.k GROUP BY g HAVING COUNT(*) > 1",
    schemas={"A": KV, "B": KV, "C": KV},
    batches={name: _kv(f"grouped {name}", keys=5) for name in "ABC"},
    inputs=[Input("A", "A", 12 * SECOND), Input("B", "B", 8 * SECOND), Input("C", "C", 12 * SECOND)],
    where=lambda a, b, c: _eq(a["k"], b["k"], c["k"]),
    select=lambda a, b, c: (None if a["v"] is None else a["v"] % 5,),
    plan="((A B) C)",
    lateness_s={"A": 3},
)


def grouped_answer(case: Conformance) -> Counter[tuple[Any, ...]]:
    """What the query of `GROUPED` emits, in plain Python."""
    batches = [dict(zip(case.batches, rows, strict=True)) for rows in zip(*case.batches.values(), strict=True)]
    lateness = {name: seconds * SECOND for name, seconds in case.lateness_s.items()}
    joined, _, _ = oracle.join(batches, case.inputs, lambda rows: case.where(*rows.values()), lateness)
    found: Counter[tuple[Any, ...]] = Counter()
    for boundary, rows in oracle.at_boundaries(joined, SLIDE_S * SECOND).items():
        for group in oracle.group(rows, lambda combination: case.select(*combination.values())):
            bs, cs = ([row[alias]["v"] for row in group if row[alias]["v"] is not None] for alias in "BC")
            total, mean = sum(bs) if bs else None, sum(cs) / len(cs) if cs else None
            first = min(row["A"]["ts"] for row in group)
            if len(group) > 1:
                found[(*case.select(*group[0].values()), len(group), total, mean, first, boundary)] += 1
    return found
