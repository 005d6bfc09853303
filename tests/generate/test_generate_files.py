"""Files of a stream: the same rows in every format, whole files in order, and the command line that writes them."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.cli.generate import add_arguments, synthetic_spec
from watersmeet.errors import JobError
from watersmeet.generate import nexmark, synthetic
from watersmeet.generate.files import (
    FORMATS,
    equal_parts,
    json_lines,
    parts_of,
    prepare_folder,
    schema_text,
    write_part,
    write_parts,
)
from watersmeet.generate.synthetic import StreamSpec, SyntheticSpec

NOW = 1_700_000_000.0
SPEC = SyntheticSpec((StreamSpec("A", 1000),))
EACH_FORMAT = pytest.mark.parametrize("file_format", FORMATS)


def read(folder: Path, file_format: str, schema: pa.Schema) -> pa.Table:
    paths = sorted(str(path) for path in folder.iterdir())
    return pa.dataset.dataset(paths, schema=schema, format=file_format).to_table().combine_chunks()


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def run(*arguments: str) -> int:
    parsed = parse(*arguments)
    function: Callable[[argparse.Namespace], int] = parsed.run
    return function(parsed)


@EACH_FORMAT
@pytest.mark.parametrize("kind", nexmark.SCHEMAS)
def test_every_format_holds_the_same_rows(tmp_path: Path, file_format: str, kind: str) -> None:
    whole = pa.Table.from_batches([nexmark.events(kind, 1, 0, 5_000)])
    made = nexmark.batches(kind, 1, 0, 5_000, batch_events=333)
    paths = list(write_parts(made, equal_parts(len(whole), 7), tmp_path, file_format, whole.schema, NOW))
    assert [path.name for path in paths] == [f"part-{n:05}.{file_format}" for n in range(7)]
    assert read(tmp_path, file_format, whole.schema).equals(whole)


@EACH_FORMAT
def test_modification_times_ascend_in_the_past_and_no_other_file_is_left(tmp_path: Path, file_format: str) -> None:
    sizes = parts_of(1000, 90)
    paths = list(write_parts(synthetic.batches(SPEC, "A"), sizes, tmp_path, file_format, SPEC.stream("A").schema, NOW))
    times = [path.stat().st_mtime_ns for path in paths]
    assert all(1_000_000 <= later - earlier <= 1_000_000_000 for earlier, later in pairwise(times))
    assert NOW - 86_400 < times[0] / 1e9 < times[-1] / 1e9 < NOW
    assert sorted(tmp_path.iterdir()) == paths
    rows = read(tmp_path, file_format, SPEC.stream("A").schema)
    assert rows.equals(pa.Table.from_batches(synthetic.batches(SPEC, "A")))


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    nested = pa.table({"x": [[1, 2]]})
    with pytest.raises(JobError, match='column "x"'):
        write_part(nested, tmp_path, 0, "json", NOW)
    assert list(tmp_path.iterdir()) == []


def test_unfinished_files_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def watch(table: pa.Table, path: Path) -> None:
        path.write_bytes(b"half")
        seen.extend(entry.name for entry in tmp_path.iterdir())

    monkeypatch.setitem(FORMATS, "csv", watch)  # type: ignore[arg-type]
    write_part(pa.table({"x": [1]}), tmp_path, 3, "csv", NOW)
    assert seen == [".part-00003.csv.tmp"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["part-00003.csv"]


def test_sizes_of_parts() -> None:
    assert equal_parts(10, 3) == [3, 3, 4]
    assert equal_parts(3, 3) == [1, 1, 1]
    assert parts_of(9, 3) == [3, 3, 3]
    for wrong in (lambda: equal_parts(5, 6), lambda: equal_parts(5, 0), lambda: parts_of(5, 0)):
        with pytest.raises(JobError):
            wrong()


def test_too_few_rows_for_the_sizes_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 rows short"):
        list(write_parts(synthetic.batches(SPEC, "A"), [1001], tmp_path, "csv", SPEC.stream("A").schema, NOW))


@given(
    st.lists(
        st.tuples(
            st.none() | st.text(),
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
            st.none() | st.booleans(),
        ),
        min_size=1,
    )
)
def test_json_lines_are_json(rows: list[tuple[str | None, int | None, float | None, bool | None]]) -> None:
    schema = pa.schema([('te"xt\n', pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("b", pa.bool_())])
    values = [dict(zip(schema.names, row, strict=True)) for row in rows]
    lines = json_lines(pa.RecordBatch.from_pylist(values, schema)).to_pylist()
    assert [json.loads(line) for line in lines] == values
    assert not any("\n" in line for line in lines)


def test_json_has_no_nan() -> None:
    batch = pa.RecordBatch.from_pydict({"x": [1.5, math.nan, math.inf]})
    assert json_lines(batch).to_pylist() == ['{"x":1.5}', '{"x":null}', '{"x":null}']


def test_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "A"
    prepare_folder(folder, overwrite=False)
    prepare_folder(folder, overwrite=False)  # empty is fine
    (folder / "part-00000.csv").touch()
    with pytest.raises(JobError, match="is not empty"):
        prepare_folder(folder, overwrite=False)
    (folder / "thesis.txt").touch()
    with pytest.raises(JobError, match=r"holds thesis\.txt"):
        prepare_folder(folder, overwrite=True)
    assert len(list(folder.iterdir())) == 2
    (folder / "thesis.txt").unlink()
    prepare_folder(folder, overwrite=True)
    assert list(folder.iterdir()) == []


def test_synthetic_command_writes_streams_and_says_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("synthetic", "--out", str(tmp_path), "--streams", "A,B", "--rows", "5000", "--files", "4")
    assert run(*arguments, "--keys", "a,b", "--domain", "50", "--format", "csv", "--seed", "9") == 0
    out, err = capsys.readouterr()
    assert f"A: 5,000 rows in 4 csv files under {tmp_path / 'A'}" in out
    assert 'schema = "a BIGINT, b BIGINT, v BIGINT, ts BIGINT"\n  time_unit = "us"\n' in out
    assert err == ""
    spec = synthetic_spec(parse(*arguments, "--keys", "a,b", "--domain", "50", "--seed", "9"))
    for stream in spec.streams:
        rows = read(tmp_path / stream.name, "csv", stream.schema)
        assert rows.equals(pa.Table.from_batches(synthetic.batches(spec, stream.name)))
        assert schema_text(stream.schema) in out


def test_synthetic_command_again_needs_overwrite(tmp_path: Path) -> None:
    arguments = ("synthetic", "--out", str(tmp_path), "--rows", "100", "--rows-per-file", "30")
    run(*arguments)
    with pytest.raises(JobError, match="is not empty"):
        run(*arguments)
    run(*arguments, "--rows-per-file", "60", "--overwrite")
    assert [path.name for path in sorted((tmp_path / "C").iterdir())] == ["part-00000.parquet", "part-00001.parquet"]


def test_shares_and_shifts_of_the_command() -> None:
    shares = [word for ratio in (4, 2, 1) for word in ("--share", f"1/3:30000:{ratio}")]
    shifts = ["60 seconds:domain=10,A.rate=500", "0 seconds:C.rate=200", "60 seconds: B.k.range=20, B.k.ratio=2"]
    options = [word for shift in shifts[:2] for word in ("--shift", shift)]
    spec = synthetic_spec(parse("synthetic", "--out", "x", "--rows", "10", *shares, *options))
    assert {
        stream.name: [(p.after.seconds, p.rate, len(p.keys)) for p in stream.phases] for stream in spec.streams
    } == {
        "A": [(60, 500.0, 1)],
        "B": [(60, None, 1)],
        "C": [(0, 200.0, 0), (60, None, 1)],
    }
    options = ["--shift", shifts[0], "--shift", shifts[2]]
    spec = synthetic_spec(parse("synthetic", "--out", "x", "--rows", "10", *options))
    assert spec.stream("A").phases[0].keys[0].values == synthetic.Uniform(10)
    assert [phase.keys[0].values for phase in spec.stream("B").phases] == [synthetic.ranged(20, 2)]


def test_nexmark_command_cuts_all_streams_at_the_same_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("nexmark", "--out", str(tmp_path), "--events", "5000", "--files", "4", "--format", "json") == 0
    assert "bid: 4,600 rows in 4 json files" in capsys.readouterr().out
    for kind, schema in nexmark.SCHEMAS.items():
        assert read(tmp_path / kind, "json", schema).equals(pa.Table.from_batches([nexmark.events(kind, 1, 0, 5000)]))
        for number in range(4):
            rows = pa.dataset.dataset(tmp_path / kind / f"part-{number:05}.json", schema=schema, format="json")
            expected = nexmark.events(kind, 1, number * 1250, (number + 1) * 1250)
            assert rows.to_table().combine_chunks().equals(pa.Table.from_batches([expected]))


MISTAKES = {
    "no rows": ("synthetic --rows 0", "has 0 rows"),
    "negative rows": ("synthetic --rows -5", "has -5 rows"),
    "unknown arrivals": ("synthetic --rows 9 --arrivals stedy", 'Did you mean "steady"?'),
    "unknown format": ("synthetic --rows 9 --format parket", 'Did you mean "parquet"?'),
    "more files than rows": ("synthetic --rows 9 --files 10", "cannot divide 9 rows into 10 files"),
    "two ways to cut": ("synthetic --rows 9 --files 1 --rows-per-file 1", "both --files and --rows-per-file"),
    "two kinds of keys": ("synthetic --rows 9 --domain 1 --range 1", "more than one way"),
    "ratio alone": ("synthetic --rows 9 --ratio 2", "without --range"),
    "share that is none": ("synthetic --rows 9 --share 1/0:3:1", '--share "1/0:3:1"'),
    "stream that is no name": ("synthetic --rows 9 --streams A,../B", '"../B" in --streams is not a name'),
    "stream twice": ("synthetic --rows 9 --streams A,A", "given twice"),
    "shift without time": ("synthetic --rows 9 --shift rate=5", 'has no ":"'),
    "shift at no time": ("synthetic --rows 9 --shift 5s:domain=5", "is not a duration"),
    "shift of an unknown setting": ("synthetic --rows 9 --shift 5seconds:domian=5", 'Did you mean "domain"?'),
    "shift of an unknown stream": ("synthetic --rows 9 --shift 5seconds:X.rate=5", '"X.rate" in --shift names nothing'),
    "shift to no number": ("synthetic --rows 9 --shift 5seconds:rate=fast", '"fast" in --shift is not a number'),
    "shift of a ratio without range": ("synthetic --rows 9 --shift 5seconds:ratio=2", "no single range"),
    "rate of zero": ("synthetic --rows 9 --rate 0", "rate 0 is not positive"),
    "no events": ("nexmark --events 0", "--events 0 is not positive"),
    "too many files": ("nexmark --events 400 --files 10", "at least 50 events"),
    "nexmark rate": ("nexmark --events 500 --rate -1", "rate -1 is not positive"),
    "nexmark group": ("nexmark --events 500 --disorder-group 953", "no multiple of 953"),
}


@pytest.mark.parametrize(("line", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named_before_anything_is_written(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(JobError) as error:
        run(*line.split(), "--out", str(tmp_path))
    assert message in error.value.render()
    assert list(tmp_path.iterdir()) == []
