"""Text files mean the same on both runtimes: values, quotes and line breaks, headers, NULLs, and what is refused.

The values of all cases go into one file for each format, which Spark reads with the options of a job but for `mode`, so
that it marks the rows that it would have stopped at. What the local runtime refuses and Spark reads is listed by name:
nothing is read by both with two meanings.
"""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from watersmeet.config import SourceConfig
from watersmeet.errors import InputError, JobError
from watersmeet.lang.types import parse_schema
from watersmeet.model.intake import FilePosition
from watersmeet.model.streams import Stream
from watersmeet.runtime.file_formats import FORMATS, SPARK_OPTIONS
from watersmeet.runtime.local.sources import FileSource

pytestmark = pytest.mark.spark

REFUSED = "refused"


def cases(*lines: str) -> list[str]:
    return [text for line in lines for text in line.split("|")]


TIMES = cases(
    "2024-01-01 10:00:00|2024-01-01T10:00:00|2024-01-01T10:00:00.123456|2024-01-01 10:00:00.1234569",
    "2024-01-01|2024|2024-01|2024-1-1 1:2:3|2024-01-01 10:00|2024-01-01 10|2024-01-01 10:00:00.",
    "2024-02-30 10:00:00|2024-01-01 24:00:00|2024-01-01 10:00:60|1704103200|2024-01-01t10:00:00",
    "2024/01/01 10:00:00|2024-01-01  10:00:00|soon|2024-01-01T10:00Z|2024-01-01Z|1500-01-01 00:00:00",
    "1969-12-31 23:59:59.9999999|+2024-01-01 00:00:00| 2024-01-01 10:00:00 |2024-01-01T10:00:00Z",
    "2024-01-01 10:00:00 Z|2024-01-01T10:00:00+02:00|2024-01-01 10:00:00+0200|2024-01-01 10:00:00+02",
    "2024-01-01 10:00:00 +02:00|2024-01-01 10:00:00 Europe/Berlin|2024-03-10 02:30:00 America/New_York",
    "2024-11-03 01:30:00 America/New_York|2024-01-01 10:00:00 UTC|2024-01-01 10:00:00 GMT",
    "2024-01-01T10:00:00-05:30|2024-01-01 10:00:00+18:00|2024-01-01 10:00:00+19:00|2024-01-01T10:00:00+2:00",
    "2024-01-01T10:00:00 Nowhere/Land|2024-01-01T10:00:00.5Z|0001-01-01 00:00:00|9999-12-31 23:59:59",
    "2024-01-01 10:00:00 PST|12024-01-01 00:00:00|10:00:00",
)

VALUES: dict[str, list[str]] = {
    "STRING": [
        "a",
        " a ",
        "a'b",
        'a"b',
        "a,b",
        "a\nb",
        "\\",
        "\\n",
        'a\\"b',
        "#c",
        "NULL",
        "null",
        "NA",
        "é",
        "'x'",
        '"',
    ],
    "TINYINT": ["127", "128", "-128"],
    "INT": ["5", "+5", " 5", "5 ", "05", "5.0", "1e3", "2147483647", "2147483648", "-0", "1_0", "1,000", "0x10", "x"],
    "BIGINT": ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "5L"],
    "DOUBLE": cases(
        "1.5|NaN|nan|Inf|-Inf|inf|Infinity|-Infinity|+Infinity|1d|1f| 1.5 |+1.5|.5|5.|1e400|1E5|-0.0|1e-400|1,5|x",
        "0x1p3|0.1|9007199254740993",
    ),
    "FLOAT": ["0.1", "1e39", "16777217", "3.4028236e38"],
    "DECIMAL(10, 2)": cases(
        "1.5|1.005|1.115|-1.115|1.125|+1.5| 1.5|1.5 |1,000.5|1,5|1e3|1E+3|123456789.12|12345678.999|99999999.999",
        ".5|5.|NaN|0x1|-0",
    ),
    "BOOLEAN": ["true", "TRUE", "True", "false", "1", "0", "t", "yes", " true"],
    "DATE": cases(
        "2024-02-29|2024-2-9|2024-02-30|2024|2024-02|2024-02-29T10:00:00| 2024-02-29 |20240229|02/29/2024",
        "+2024-02-29|0001-01-01|1500-03-01|2024-02-29Z|x|12024-01-01",
    ),
    "TIMESTAMP": TIMES,
    "TIMESTAMP_NTZ": TIMES,
    "BINARY": ["abc", "é"],
}
# What Spark reads and we refuse, with an error that names it.
ONLY_SPARK = {
    ("DOUBLE", "0x1p3"),
    ("DATE", "12024-01-01"),
    ("TIMESTAMP", "12024-01-01 00:00:00"),
    ("TIMESTAMP_NTZ", "12024-01-01 00:00:00"),
    ("TIMESTAMP", "10:00:00"),
    ("TIMESTAMP", "2024-01-01 10:00:00 PST"),
}

TOKENS: dict[str, list[str]] = {
    "STRING": ['"a"', '""', '"\\u00e9\\n"', '"\\ud83d\\ude00"', "5", "1.50", "true", "null", '{"x": 1}', "'a'"],
    "INT": ["5", '"5"', "5.0", "2147483648", "1e2", '""', "true", "null", "-0", "+5", "05", "[1]", '{"x": 1}'],
    "BIGINT": ["9223372036854775807", "9223372036854775808", "1704103200000000"],
    "DOUBLE": cases(
        '1|1.5|"1.5"|"NaN"|NaN|"Infinity"|Infinity|-Infinity|"+INF"|"-INF"|"INF"|1e400|""|9007199254740993|.5|5.',
        "-0.0|true|null",
    ),
    "FLOAT": ["1e39", "16777217", "0.1"],
    "DECIMAL(10, 2)": cases(
        '1.5|1.005|"1.5"|"1,000.5"|1e3|123456789.12|2|""|true|99999999.999|1.115|" 1.5"|-1.115|null',
    ),
    "BOOLEAN": ["true", "false", '"true"', "1", '""', "null"],
    "DATE": ['"2024-02-29"', '"2024-2-9"', '"2024-02-30"', "19000", '"2024-02-29T10:00:00"', '"2024"', '""'],
    "TIMESTAMP": [
        *(json.dumps(text) for text in VALUES["TIMESTAMP"] if "12024" not in text),
        "1704103200",
        "1.5",
        '""',
    ],
    "TIMESTAMP_NTZ": ['"2024-01-01 10:00:00"', '"2024-01-01T10:00:00Z"', '"2024-01-01"', "1704103200"],
    "BINARY": ['"YWJj"', '"abc"', "5"],
}
ONLY_SPARK_JSON = {
    ("STRING", '{"x": 1}'),
    ("TIMESTAMP", '"10:00:00"'),
    ("TIMESTAMP", '"2024-01-01 10:00:00 PST"'),
}
# Whole lines, for the columns id and a STRING.
LINES = [
    '{"id": %d, "a": "x", "a": "y"}',
    '{"id": %d}',
    '{"A": "x", "id": %d}',
    '{"id": %d, "a": null, "more": {"deep": [1, {"er": 2}]}}',
    '[{"id": %d, "a": "x"}]',
    '  {"id": %d, "a": "x"}  ',
    '{"id": %d, "a": "x',
    '{id: %d, "a": "x"}',
    '// {"id": %d}',
    '{"id": %d, "a": "x\ty"}',
    '{"id": %d, "a": "x",}',
]


SETTINGS = {
    "spark.sql.session.timeZone": "America/New_York",  # another than UTC
    "spark.sql.codegen.wholeStage": "false",  # to compile takes longer than to read these few rows
}


@pytest.fixture(autouse=True)
def settings(spark: Any) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Rows to compare: times as numbers, of which Python has fewer, and floats as text, for NaN and -0.0."""
    columns = {}
    for field in table.schema:
        column = table.column(field.name)
        if pa.types.is_temporal(field.type):
            column = column.cast(pa.int32() if pa.types.is_date(field.type) else pa.int64())
        columns[field.name] = [repr(value) if isinstance(value, float) else value for value in column.to_pylist()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def local_or_refused(path: Path, form: str, schema: str) -> Any:
    try:
        pieces = list(FORMATS[form].pieces(pafs.LocalFileSystem(), str(path), parse_schema(schema), {}, FilePosition()))
    except ValueError:
        return REFUSED
    return [row["c"] for _, table in pieces for row in rows_of(table)]


def marked(spark: Any, path: Path, form: str, schema: str) -> dict[int, dict[str, Any] | str]:
    """The rows by id, as Spark reads them or refuses to."""
    options = {**SPARK_OPTIONS[form], "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    frame = spark.read.format(form).schema(f"{schema}, bad STRING").options(**options).load(str(path)).cache()
    return {row["id"]: row if row["bad"] is None else REFUSED for row in rows_of(frame.toArrow())}


def compare(
    kinds: list[tuple[str, str]], theirs: dict[int, Any], ours: Callable[[str, str], Any], only: set[tuple[str, str]]
) -> None:
    seen = set()
    for number, (kind, text) in enumerate(kinds):
        row = theirs.get(number, REFUSED)
        expected = REFUSED if row == REFUSED else [row[f"c{list(dict.fromkeys(k for k, _ in kinds)).index(kind)}"]]
        found = ours(kind, text)
        if (kind, text) in only:
            assert (found, expected != REFUSED) == (REFUSED, True), (kind, text)
            seen.add((kind, text))
        else:
            assert found == expected, (kind, text)
    assert seen == only


def test_values_in_csv(spark: Any, tmp_path: Path) -> None:
    kinds = [(kind, text) for kind, texts in VALUES.items() for text in texts]
    names = list(VALUES)
    quoted = [(kind, '"' + text.replace('"', '""') + '"') for kind, text in kinds]
    lines = [
        ",".join([str(number), *(text if kind == name else "" for name in names)])
        for number, (kind, text) in enumerate(quoted)
    ]
    put(tmp_path / "all", "\n".join(lines) + "\n")
    schema = ", ".join(["id INT", *(f"c{number} {kind}" for number, kind in enumerate(names))])

    def ours(kind: str, text: str) -> Any:
        put(tmp_path / "one", '0,"' + text.replace('"', '""') + '"\n')
        return local_or_refused(tmp_path / "one", "csv", f"id INT, c {kind}")

    compare(kinds, marked(spark, tmp_path / "all", "csv", schema), ours, ONLY_SPARK)


def test_values_and_objects_in_json(spark: Any, tmp_path: Path) -> None:
    kinds = [(kind, token) for kind, tokens in TOKENS.items() for token in tokens]
    names = list(TOKENS)
    lines = [f'{{"id": {number}, "c{names.index(kind)}": {token}}}' for number, (kind, token) in enumerate(kinds)]
    lines += [line % (1000 + number) for number, line in enumerate(LINES)]
    put(tmp_path / "all", "\n".join(lines) + "\n")
    schema = ", ".join(["id INT", *(f"c{number} {kind}" for number, kind in enumerate(names)), "a STRING"])
    theirs = marked(spark, tmp_path / "all", "json", schema)

    def ours(kind: str, token: str) -> Any:
        put(tmp_path / "one", f'{{"c": {token}}}\n')
        return local_or_refused(tmp_path / "one", "json", f"c {kind}")

    compare(kinds, theirs, ours, ONLY_SPARK_JSON)
    for number, line in enumerate(LINES, 1000):
        put(tmp_path / "one", (line % number).replace('"a"', '"c"') + "\n")
        row = theirs.get(number, REFUSED)
        expected = REFUSED if row == REFUSED else [row["a"]]  # type: ignore[index]
        assert local_or_refused(tmp_path / "one", "json", "id INT, c STRING") == expected, line


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    pack: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}
    path.write_bytes(pack.get(path.suffix, bytes)(data))
    return path


SCHEMA = "k INT, name STRING, at TIMESTAMP, ts BIGINT"
ROW = "2024-07-01 12:00:00,3"

# Whole streams, as a job has them: the files, and the options.
STREAMS: dict[str, tuple[str, dict[str, str | bytes], dict[str, Any]]] = {
    "no header": ("csv", {"x": f"1,a,{ROW}\n2,b,{ROW}\n"}, {}),
    "header": ("csv", {"x": f"k,name,at,ts\n1,a,{ROW}\n"}, {}),
    "another order": ("csv", {"x": "ts,at,name,k\n3,2024-07-01T12:00:00,a,1\n"}, {}),
    "header in quotes and capitals": ("csv", {"x": f'"K","Name",AT,ts\n1,a,{ROW}\n'}, {"header": True}),
    "header after a mark and empty lines": ("csv", {"x": f"\ufeff\n\nk,name,at,ts\n\n1,a,{ROW}\n\n"}, {}),
    "a header and nothing else": ("csv", {"x": "k,name,at,ts\n", "y": f"k,name,at,ts\n1,a,{ROW}"}, {"header": True}),
    "told that there is none": ("csv", {"x": f"1,a,{ROW}\n"}, {"header": False}),
    "lines end as on Windows": ("csv", {"x": f'1,"a\r\nb",{ROW}\r\n2,"c\nd",{ROW}\r\n'}, {}),
    "lines end as on old Macs": ("csv", {"x": f"1,a,{ROW}\r2,b,{ROW}\r"}, {}),
    "a line break of another kind": ("csv", {"x": f'1,a,{ROW}\n2,"c\r\nd",{ROW}\n'}, {}),
    "quotes": ("csv", {"x": f'1,"a ""b"", c",{ROW}\n2,a"b,{ROW}\n3," ",{ROW}\n"4","""",{ROW}\n5,\\",{ROW}\n'}, {}),
    "empty text": ("csv", {"x": f'1,,{ROW}\n2,"",{ROW}\n,x,,"3"\n'}, {}),
    "a word for NULL": ("csv", {"x": f'1,NA,{ROW}\n2,"NA",{ROW}\nNA,"",NA,3\n4,NA ,{ROW}\n'}, {"nullValue": "NA"}),
    "semicolons": ("csv", {"x": f"1;a,b;{ROW.replace(',', ';')}\n"}, {"sep": ";"}),
    "tabs": ("csv", {"x": f"1\ta\t{ROW.replace(',', chr(9))}\n"}, {"delimiter": "\t"}),
    "packed": ("csv", {"x.csv.gz": f"name,k,at,ts\na,1,{ROW}\n", "y.csv.bz2": f"name,k,at,ts\nb,2,{ROW}\n"}, {}),
    "one file": ("csv", {"a[1]{b}*.csv": f"1,a,{ROW}\n", "ab": "none of it"}, {"path": "a[1]{b}*.csv"}),
    "partitions": ("csv", {"k=1/name=a%3Db/x": f"{ROW}\n", "k=02/name=__HIVE_DEFAULT_PARTITION__/x": f"{ROW}\n"}, {}),
    "partitions and a header": ("csv", {"at=2024-07-01 12%3A00%3A00/x": "ts,name,k\n3,a,1\n"}, {}),
    "all folders": ("csv", {"k=7/x": f"1,a,{ROW}\n", "sub/y": f"2,b,{ROW}\n"}, {"recursiveFileLookup": True}),
    "objects": ("json", {"x": '{"k": 1, "at": "2024-07-01 12:00:00", "ts": 3}\r\n\r\n{"name": "a", "ts": 3}'}, {}),
    "a list": ("json", {"x": '\ufeff[{"k": 1, "ts": 3}, {"k": 2, "ts": 3}]\n[]\n'}, {}),
    "partitioned objects": ("json", {"k=1/x": '{"k": 9, "at": "2024-07-01T12:00:00Z", "ts": 3}\n'}, {}),
    "nothing": ("json", {"x": "\n \n", "y": ""}, {}),
}


def source(name: str, folder: Path) -> SourceConfig:
    form, files, options = STREAMS[name]
    home = folder / name
    for file, text in files.items():
        put(home / file, text)
    path = home / options["path"] if "path" in options else home
    own = {key: value for key, value in options.items() if key != "path"}
    return SourceConfig(name, form, parse_schema(SCHEMA), str(path), options=own)


def read_here(config: SourceConfig) -> list[dict[str, Any]]:
    stream = Stream(config.name, config.schema, "ts", timedelta(0))
    assert config.path is not None
    batch = FileSource(stream, config.path, config.format, config.options).pull(())
    assert batch is not None
    return rows_of(pa.Table.from_batches(batch.rows, config.schema))


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def test_whole_streams(spark: Any, tmp_path: Path) -> None:
    """All in one query of Spark's."""
    from pyspark.sql import functions as F

    from watersmeet.runtime.spark.read_streams import read_stream

    sources = {name: source(name, tmp_path) for name in STREAMS}
    frames = [read_stream(spark, config).withColumn("stream", F.lit(name)) for name, config in sources.items()]
    collected: list[pa.Table] = []
    query = reduce(lambda one, other: one.unionByName(other), frames).coalesce(2).writeStream
    query = query.foreachBatch(lambda frame, _: collected.append(frame.toArrow()))
    query.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start().awaitTermination()
    theirs: dict[str, list[dict[str, Any]]] = {name: [] for name in STREAMS}
    for row in rows_of(pa.concat_tables(collected)):
        theirs[row.pop("stream")].append(row)
    for name, config in sources.items():
        ours = read_here(config)
        assert in_order(ours) == in_order(theirs[name]), name
        assert bool(ours) == (name != "nothing"), name


# Each alone: the query ends with it.
BAD: dict[str, tuple[str, dict[str, str | bytes], dict[str, Any]]] = {
    "a quote that is closed too soon": ("csv", {"x": f'1,"a"b,{ROW}\n'}, {}),
    "a quote that is not closed": ("csv", {"x": f'1,"a,{ROW}\n'}, {}),
    "a value too many": ("csv", {"x": f"1,a,{ROW},4\n"}, {}),
    "a value too few": ("csv", {"x": "1,a,2024-07-01 12:00:00\n"}, {}),
    "a header that differs": ("csv", {"x": f"k,nom,at,ts\n1,a,{ROW}\n"}, {"header": True}),
    "an object over two lines": ("json", {"x": '{"ts": 3,\n "k": 1}\n'}, {}),
}


@pytest.mark.parametrize("name", BAD)
def test_streams_that_are_refused(spark: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from watersmeet.runtime.spark.errors import SPARK_ERRORS, translate
    from watersmeet.runtime.spark.read_streams import read_stream

    monkeypatch.setitem(STREAMS, name, BAD[name])
    config = source(name, tmp_path)
    with pytest.raises(InputError, match='cannot read "x"'):
        read_here(config)
    query = read_stream(spark, config).select("k").writeStream.foreachBatch(lambda frame, _: frame.collect())
    query = query.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True)
    with pytest.raises(SPARK_ERRORS) as caught:
        query.start().awaitTermination()
    assert isinstance(translate(caught.value), InputError)


def test_partitions_that_come_after_the_start_are_refused_on_spark(spark: Any, tmp_path: Path) -> None:
    """Spark would mix up the columns."""
    from watersmeet.runtime.spark.errors import SPARK_ERRORS, translate
    from watersmeet.runtime.spark.read_streams import read_stream

    (tmp_path / "in").mkdir()
    config = SourceConfig("A", "csv", parse_schema(SCHEMA), str(tmp_path / "in"))
    query = read_stream(spark, config).writeStream.foreachBatch(lambda frame, _: frame.collect())
    put(tmp_path / "in" / "name=a" / "x", f"1,{ROW}\n")
    with pytest.raises(SPARK_ERRORS) as caught:
        query.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start().awaitTermination()
    error = translate(caught.value)
    assert isinstance(error, InputError)
    assert "came in a partition folder, and there was none when the run started" in str(error.detail)


def test_csv_files_far_away_must_say_whether_they_have_a_header_on_spark(spark: Any) -> None:
    from watersmeet.runtime.spark.read_streams import read_stream

    with pytest.raises(JobError, match='stream "A" does not say whether its CSV files have a header'):
        read_stream(spark, SourceConfig("A", "csv", parse_schema(SCHEMA), "s3a://bucket/in"))
