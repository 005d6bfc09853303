"""What of Spark's part of a checkpoint has to be on disk, while somebody else may still be writing there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watersmeet.runtime.spark.log import SparkLog
from watersmeet.state import files, syncing
from watersmeet.state.files import Folder


def found(log: SparkLog) -> dict[str, list[str]]:
    return {os.path.basename(folder.path()): sorted(names) for folder, names in log.pop_new().items() if names}


def test_each_file_once_and_again_when_it_changed(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    log = SparkLog(Folder(str(tmp_path)))
    (tmp_path / "offsets" / "0").write_text("v1")
    assert found(log) == {"offsets": ["0"]}
    assert found(log) == {}
    os.utime(tmp_path / "offsets" / "0", (1, 1))
    assert found(log) == {"offsets": ["0"]}


def test_files_that_spark_has_not_finished(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    log = SparkLog(Folder(str(tmp_path)))
    for name in (".1.54ca20ee.tmp", ".1.54ca20ee.tmp.crc", "..1.54ca20ee.tmp.crc", "1", ".1.crc"):
        (tmp_path / "offsets" / name).write_text("v1")
    assert found(log) == {"offsets": [".1.crc", "1"]}


def test_a_file_that_goes_while_a_run_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was taken over may still be dropping files when the next one starts."""
    (tmp_path / "offsets").mkdir()
    gone, kept = tmp_path / "offsets" / "0", tmp_path / "offsets" / "1"
    gone.write_text("v1")
    kept.write_text("v1")
    synced = []

    def sync_file(path: str) -> None:
        gone.unlink(missing_ok=True)
        files.sync_file(path)
        synced.append(path)

    monkeypatch.setattr(syncing, "sync_file", sync_file)
    SparkLog(Folder(str(tmp_path)))
    assert synced == [str(kept)]
