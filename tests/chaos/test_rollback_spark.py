"""A rollback on Spark: its own notes go back too, whoever dies meanwhile, and the answer is DuckDB's."""

from __future__ import annotations

from pathlib import Path

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, late_rows, write_streams
from watersmeet.state.files import Folder
from watersmeet.state.spark_notes import COMMITS, OFFSETS, list_notes, number_of, numbers_in
from watersmeet.state.table import read_versions

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CASE = JoinCase({"A": ("k",), "B": ("k",)}, "A.k = B.k", window_us=6 * SECOND, lateness_us=SECOND)
BATCHES = 13  # so that Spark has put ten notes of each source together in one
KEPT = "run.keep_versions=100"


def after_batch(job: JudgedJob, batch: int) -> int:
    found = list(read_versions(Folder(str(job.home / "ck" / "state"))))
    return [m.version for m in found if m.last_batch == batch and found[-1].can_go_back_to(m.version)][-1]


@pytest.mark.campaign
def test_spark_goes_back(tmp_path: Path) -> None:
    streams = draw_streams(CASE, BATCHES, 12, 6, seed=1, late=2)
    job = JudgedJob.write(tmp_path, CASE, runtime="spark")
    write_streams(CASE, streams, tmp_path / "in", 0, BATCHES - 1)
    job.finish(KEPT)
    notes = tmp_path / "ck" / "spark" / "sources"
    assert {path.name for path in notes.glob("*/*.compact")} == {"9.compact"}
    for path in [*notes.glob("*/[0-8]"), *notes.glob("*/.[0-8].crc")]:
        path.unlink()  # as Spark does when they are ten minutes old

    version = after_batch(job, 5)
    # A file that was read by mistake goes: Spark must not look for it.
    for name in CASE.streams:
        (tmp_path / "in" / name / f"{8:05d}.parquet").unlink()
        streams[name][8] = []
    arguments = ["state", "rollback", "ck", "--to-version", str(version), "--yes"]
    for point in ("after-commit", "in-spark-goes-back:4"):
        code = job.fork(arguments, point, tmp_path / "o", tmp_path / "e")
        assert code == -9, (tmp_path / "e").read_text()
        arguments[4] = str(after_batch(job, 3))  # and further back
    paths = list_notes(Folder(str(tmp_path / "ck" / "spark")))
    assert numbers_in(paths, OFFSETS)[-1] > 3, "it died in the middle of it"
    code, said, _ = job.call("state", "verify", "ck")
    assert code == 0, said

    write_streams(CASE, streams, tmp_path / "in", BATCHES - 1)
    events = job.finish(KEPT)
    assert min(event["batch"] for event in events if event["event"] == "batch") == 4
    found = {name: [rows for rows in batches if rows] for name, batches in streams.items()}
    assert difference(job.answer(), duckdb_answer(CASE, found)) == ""
    assert job.late() == late_rows(CASE, found)
    paths = list_notes(Folder(str(tmp_path / "ck" / "spark")))
    assert numbers_in(paths, COMMITS)[-1] == BATCHES - 2
    assert {number_of(path) for path in paths if path.endswith(".compact")} == {9}


def test_it_refuses_where_spark_has_no_note_any_more(tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path, CASE, runtime="spark")
    write_streams(CASE, draw_streams(CASE, 3, 4, 4), tmp_path / "in")
    job.finish(KEPT, 'spark."spark.sql.streaming.minBatchesToRetain"="1"')
    (tmp_path / "ck" / "spark" / OFFSETS / "0").unlink(missing_ok=True)
    code, _, err = job.call("state", "rollback", "ck", "--to-version", str(after_batch(job, 0)), "--yes")
    assert code == 2
    assert "Spark has no note of batch 0 any more" in err
