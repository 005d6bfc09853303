"""On Spark: backups beside a run that is killed; from any of them the query goes on, Spark's part and ours together."""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from pathlib import Path

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, late_rows, write_streams
from rotten_jobs import flip
from watersmeet.state.backup.make import back_up
from watersmeet.state.backup.restore import delivered_since, restore, set_aside
from watersmeet.state.backup.store import BackupStore
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.spark_notes import list_notes
from watersmeet.state.verify.walk import NOTE, verify

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CASE = JoinCase({"A": ("k",), "B": ("k",)}, "A.k = B.k", 3 * SECOND, lateness_us=SECOND // 2)
BATCHES, READ = 14, 3
STREAMS = draw_streams(CASE, BATCHES, 10, 8, seed=5, late=2)
EXPECTED = duckdb_answer(CASE, STREAMS)


@pytest.mark.timeout(900)
@pytest.mark.campaign
def test_a_killed_query_goes_on_from_a_backup(tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path / "job", CASE, runtime="spark")
    write_streams(CASE, STREAMS, job.home / "in", 0, READ)
    job.finish()
    folders, store = CheckpointFolders(str(job.home / "ck")), BackupStore(str(job.home / "backups"))
    write_streams(CASE, STREAMS, job.home / "in", READ)
    counts: Counter[str] = Counter()
    ends: list[int] = []
    before: list[str] = []
    run = threading.Thread(target=lambda: ends.append(job.start(fault=f"after-commit:{BATCHES - READ}").code))
    run.start()
    while run.is_alive():
        run.join(0.3)
        notes = list_notes(folders.spark)
        if notes == before:
            continue  # it has not begun, or is at the same batch
        before = notes
        made = back_up(folders, store, "now", keep=100)
        report = verify(folders)
        assert made is not None and report is not None and report.sound, report and report.to_json()
        assert report.checked[NOTE]
        counts["backups"] += 1
        counts["turns"] += made.turns
    assert ends[0], "it was killed"
    whole = store.whole()
    counts["batches with a backup"] = len({index.batch for index in whole})
    assert counts["batches with a backup"] > 3
    index = random.Random(1).choice([index for index in whole if whole[0].batch < index.batch < whole[-1].batch])
    shutil.rmtree(job.home / "ck")
    restore(store, index, folders)
    restored = verify(folders)
    assert restored is not None and restored.sound, restored and restored.to_json()
    later = delivered_since(index, folders.home)
    counts["files set aside"] = sum(len(entry.names) for entry in later)
    assert counts["files set aside"]
    set_aside(later, index)
    job.finish()
    assert not difference(job.answer(), EXPECTED), index.version
    assert job.late() == late_rows(CASE, STREAMS)
    print(f"\n{dict(counts)}, gone on from batch {index.batch}: {EXPECTED.total()} rows right")
    _check_notes(folders, job.home / "ck" / "spark")


def last_note(folder: Path) -> Path:
    return max((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def _check_notes(folders: CheckpointFolders, spark: Path) -> None:
    """A bit in any of Spark's notes is found, and so is one that is missing."""
    draw = random.Random(2)
    notes = sorted(path for path in spark.rglob("*") if path.is_file() and not path.name.startswith("."))
    assert {path.parent.name for path in notes} >= {"offsets", "commits", "spark"}
    found: Counter[str] = Counter()
    for number in range(60):
        path = draw.choice(notes)
        data = path.read_bytes()
        flip(path, draw)
        report = verify(folders)
        assert report is not None and str(path) in {finding.file for finding in report.findings}, (number, path)
        path.write_bytes(data)
        found[path.parent.name] += 1
    # Of sources, those before the last whole list are not needed any more.
    needed = [spark / "metadata", spark / "commits" / "1", last_note(spark / "offsets")]
    needed += [note for source in spark.glob("sources/*") for note in (last_note(source), *source.glob("*.compact"))]
    for path in needed:
        data = path.read_bytes()
        path.unlink()
        report = verify(folders)
        wanted = str(path).removesuffix(".compact")
        assert report is not None and wanted in {finding.file for finding in report.findings}, path
        path.write_bytes(data)
        found["removed"] += 1
    report = verify(folders)
    assert report is not None and report.sound
    print(f"bits flipped in notes, all found: {dict(found)}")
