"""Checkpoints that another process left behind: a run resumes from each, and delivers the rest of the answer.

They lie in tests/golden/checkpoints, where make.py says what each is and how it was made. A test works on a copy in a
folder of its own, where a checkpoint has another absolute path than it was made with. A run finds that out by itself,
but for Spark's notes of the files that it has read, in which the path is changed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import function_sink
from judged_jobs import JudgedJob, Result, difference, set_time
from watersmeet.state.manifest import FORMAT

GOLDENS = Path(__file__).parent / "golden" / "checkpoints"
ABOUT = {
    str(path.parent.relative_to(GOLDENS)): json.loads(path.read_text()) for path in sorted(GOLDENS.rglob("about.json"))
}


def names(runtime: str, delivers: str = "files") -> list[str]:
    return [name for name, about in ABOUT.items() if (about["runtime"], about["delivers"]) == (runtime, delivers)]


# On Spark each starts a JVM, or two: in `make test` one that delivers to files. The other is in the campaign.
SPARK_IN_CI = ("spark-undelivered",)


def share(goldens: list[str]) -> list[Any]:
    return [name if name in SPARK_IN_CI else pytest.param(name, marks=pytest.mark.campaign) for name in goldens]


def copy(name: str, home: Path) -> JudgedJob:
    """The golden, in `home`, with all of its input."""
    shutil.copytree(GOLDENS / name, home)
    for path in [*home.glob("in/*/*"), *home.glob("rest/*/*")]:
        target = home / "in" / path.parent.name / path.name
        path.rename(target)
        set_time(target)  # a checkout knows no times of files, by which they are read in order
    for path in [path for path in (home / "ck" / "spark").rglob("*") if path.is_file()]:
        path.write_text(path.read_text().replace(f"file://{ABOUT[name]['made_in']}/", f"file://{home}/"))
    return JudgedJob(home)


def expected(name: str) -> Result:
    rows = pq.read_table(GOLDENS / name / "expected.parquet").to_pylist()
    assert len(rows) == ABOUT[name]["rows"]
    return Counter(tuple(row.values()) for row in rows)


def go_on(name: str, home: Path, settings: tuple[str, ...] = ()) -> None:
    """Run to the end, then once more, when there is nothing left to do. `-SECTION` leaves that out of the job file."""
    job = copy(name, home)
    for section in [setting[1:] for setting in settings if setting.startswith("-")]:
        job.drop_section(section)
    settings = tuple(setting for setting in settings if not setting.startswith("-"))
    right = expected(name)
    assert job.answer() < right
    for _ in range(2):
        job.finish(*settings)
        assert difference(job.answer(), right) == ""
        assert job.late() == ABOUT[name]["late"]


LOCAL = [(name, ()) for name in names("local")]
LOCAL += [(name, tuple(settings)) for name in names("local") for settings in ABOUT[name]["also_with"]]


def shown(value: Any) -> str:
    return value if isinstance(value, str) else " ".join(value) or "as it was"


def test_all_are_of_the_present_format() -> None:
    assert len(ABOUT) == 9
    for name, about in ABOUT.items():
        logs = [path for kind in ("versions", "snapshots") for path in (GOLDENS / name).glob(f"ck/state/{kind}/*")]
        formats = {json.loads(log.read_text())["format"] for log in logs}
        assert formats == {about["format"]} == {FORMAT}, "make.py there makes them anew, unless they were released"


def test_large_segments_are_here_in_pieces() -> None:
    """Active ones, and spilled ones."""
    files = [pa.ipc.open_file(path) for path in (GOLDENS / "local-pieces-spilled").glob("ck/state/segments/*.arrow")]
    formats = [json.loads(file.schema.metadata[b"watersmeet"])["format"] for file in files]
    assert set(formats) <= {1, 2}, "made anew"
    assert all((file.num_record_batches > 1) == (format == 2) for file, format in zip(files, formats, strict=True))
    assert formats.count(2) > 2


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "settings"), LOCAL, ids=shown)
def test_local(name: str, settings: tuple[str, ...], tmp_path: Path) -> None:
    go_on(name, tmp_path / "golden", settings)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", names("local"))
def test_a_local_run_goes_on_with_another_plan(name: str, tmp_path: Path) -> None:
    job, right = copy(name, tmp_path / "run"), expected(name)
    shapes = []
    for plan in ("mjoin", "left-deep"):
        job.finish(f"adapt.plan={plan}")
        assert difference(job.answer(), right) == ""
        assert job.late() == ABOUT[name]["late"]
        shapes.append(job.state()["plan"])
    inputs = shapes[0].count(" ") + 1
    assert (shapes[0] != shapes[1]) == (inputs > 2)


LOOKS = (("state", "ls", "ck"), ("state", "show", "ck"), ("state", "show", "ck", "--json"), ("explain", "job.toml"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", names("local"))
def test_it_can_be_looked_at(name: str, tmp_path: Path) -> None:
    """Before and after another run, and looking changes nothing."""
    job = copy(name, tmp_path / "golden")
    before = {path: path.read_bytes() for path in sorted((job.home / "ck").rglob("*")) if path.is_file()}
    assert [job.call(*command)[0] for command in LOOKS] == [0] * len(LOOKS)
    assert {path: path.read_bytes() for path in before} == before, "to look changes nothing"
    job.finish()
    assert [job.call(*command)[0] for command in LOOKS] == [0] * len(LOOKS)


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", share(names("spark")))
def test_spark(name: str, tmp_path: Path) -> None:
    go_on(name, tmp_path / "golden")


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", share(names("spark", "to a function")))
def test_spark_with_a_function(name: str, tmp_path: Path) -> None:
    """Ids may change their scheme once; an id whose rows were taken before never comes with others."""
    job = copy(name, tmp_path / "golden")
    before = [call for call in function_sink.calls(job.home) if call.took]
    assert before
    command = [sys.executable, function_sink.__file__]
    done = subprocess.run(command, cwd=job.home, env=job.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = [call for call in function_sink.calls(job.home) if call.took]
    assert made[: len(before)] == before
    assert len({(call.id, call.rows) for call in made}) == len({call.id for call in made}), "an id with other rows"
    assert difference(function_sink.taken(made), expected(name)) == ""
