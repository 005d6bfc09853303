"""A rollback, a run, and then the power goes: results that were withdrawn stay withdrawn.

The command moved them aside and left it to the next run to have that on disk. That run found nothing left to move, so
it synced nothing, and noted down that all was done. After a power loss they lay in the output again, beside the same
rows from the run that followed. (`python -m chaos --shape window-budget --seed 1 --seeds 1 --fault rollback`)
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams
from power_loss import MODELS, Recorder, put_back
from watersmeet.state.files import Folder
from watersmeet.state.spark_notes import COMMITS, METADATA, OFFSETS, go_back
from watersmeet.state.table import read_versions

CASE = JoinCase({"A": ("k",), "B": ("k",)}, "A.k = B.k", 6 * SECOND)
STREAMS = draw_streams(CASE, 4, 12, 6)


@pytest.mark.parametrize("how", ["aside", "remove"])
def test_what_was_withdrawn_stays_so(tmp_path: Path, how: str) -> None:
    home = tmp_path / "run"
    job = JudgedJob.write(home, CASE, run="keep_versions = 50")
    path = home / "job.toml"
    path.write_text(path.read_text().replace('path = "in/', f'path = "{tmp_path}/in/'))
    write_streams(CASE, STREAMS, tmp_path / "in")
    job.finish()
    expected = duckdb_answer(CASE, STREAMS)
    found = list(read_versions(Folder(str(home / "ck" / "state"))))
    version = next(m.version for m in found if m.last_batch == 0 and found[-1].can_go_back_to(m.version))
    recorder = Recorder(home)
    with recorder.recording():
        code, _, err = job.call("state", "rollback", "ck", "--to-version", str(version), "--yes", "--results", how)
        assert code == 0, err
        job.finish()
    for seed in range(10):
        image = recorder.image(len(recorder.log), MODELS[seed % 2], random.Random(seed))
        shutil.rmtree(home)
        home.mkdir()
        put_back(image)
        job.finish()
        assert difference(job.answer(), expected) == ""


def test_notes_of_spark_that_were_cut_before_are_to_be_on_disk_too(tmp_path: Path) -> None:
    spark = Folder(str(tmp_path))
    (tmp_path / METADATA).write_text("{}")
    for folder in (OFFSETS, COMMITS, "sources/0"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "0").write_text('v1\n{"path":"x","batchId":0}')
    first, second = go_back(spark, -1), go_back(spark, -1)
    assert {folder.path() for folder in first} == {str(tmp_path / name) for name in (OFFSETS, COMMITS, "sources/0")}
    assert {folder.path() for folder in second} == {folder.path() for folder in first}
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [METADATA]
