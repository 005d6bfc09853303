"""What is committed is on disk first, in order; and a disk that says no stops the run, with nothing committed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from small_jobs import SmallJob
from watersmeet.cli.main import main
from watersmeet.errors import ResourceError
from watersmeet.state.files import Folder
from watersmeet.state.syncing import sync_files


class Asked:
    """What was asked for, in order; fails at the call of this number."""

    def __init__(self, fails_at: int = -1, error: int = errno.EIO) -> None:
        self.paths: list[str] = []
        self._fails_at = fails_at
        self._error = error

    def __call__(self, handle: int) -> None:
        self.paths.append(os.readlink(f"/proc/self/fd/{handle}"))
        if len(self.paths) - 1 == self._fails_at:
            raise OSError(self._error, os.strerror(self._error))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    monkeypatch.setattr(os, "fsync", found)
    return found


def filled(path: Path, *names: str, durable: bool = True) -> Folder:
    path.mkdir()
    for name in names:
        (path / name).write_text(name)
    return Folder(str(path), durable=durable)


def test_contents_come_before_names_and_each_folder_once(tmp_path: Path, asked: Asked) -> None:
    one, two = filled(tmp_path / "one", "a", "b"), filled(tmp_path / "two", "c")
    sync_files({one: ["a", "b"], two: ["c"]}, also=[one.path("b")])
    assert sorted(asked.paths[:3]) == [one.path("a"), one.path("b"), two.path("c")]
    assert sorted(asked.paths[3:]) == [one.path(), two.path()]


def test_a_folder_that_need_not_be_durable_is_not_waited_for(tmp_path: Path, asked: Asked) -> None:
    folder = filled(tmp_path / "one", "a", durable=False)
    sync_files({folder: ["a"]})
    folder.put_if_absent("b", b"x")
    Folder(folder.path("inner"), durable=False).make()
    assert asked.paths == []


def test_a_new_folder_is_on_disk_with_those_above_it(tmp_path: Path, asked: Asked) -> None:
    Folder(str(tmp_path / "a" / "b" / "c")).make()
    assert asked.paths[:4] == [str(tmp_path / name) for name in ("a/b/c", "a/b", "a", "")]


def test_a_name_that_cannot_be_put_on_disk_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled(tmp_path / "one")
    monkeypatch.setattr(os, "fsync", Asked(fails_at=1))
    with pytest.raises(ResourceError, match='cannot write "7": Input/output error'):
        folder.put_if_absent("7", b"x")
    assert folder.names() == []


def test_a_file_that_is_tidied_away_while_it_waits_for_the_disk(tmp_path: Path) -> None:
    """A run that was taken over, and does not know it yet, deletes what it takes for leftovers."""
    folder, other = filled(tmp_path / "one"), filled(tmp_path / "two", "a")
    asked: list[str] = []

    def sync(path: str) -> None:
        asked.append(path)
        if len(asked) == 1:
            os.unlink(path)
        sync_files({other: ["a"]}, also=[path])

    folder.put_if_absent("7", b"x", sync=sync)
    assert (len(asked), folder.names(), folder.read("7")) == (2, ["7"], b"x")
    with pytest.raises(ResourceError, match='cannot write "8": No such file'):
        Folder(folder.path("none")).put_if_absent("8", b"x")


def test_an_error_of_the_disk_is_told_and_not_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither if the file has gone as well: the second time the disk may say yes, and not have it."""
    folder, other = filled(tmp_path / "one"), filled(tmp_path / "two", "a")

    def sync(path: str) -> None:
        os.unlink(path)
        sync_files({other: ["a"]}, also=[path])

    monkeypatch.setattr(os, "fsync", Asked(fails_at=0))
    with pytest.raises(ResourceError, match='cannot sync "a": Input/output error'):
        folder.put_if_absent("7", b"x", sync=sync)
    assert folder.names() == []


def test_what_somebody_else_deletes_is_passed_over_where_that_is_said(tmp_path: Path, asked: Asked) -> None:
    folder = filled(tmp_path / "one", "a")
    sync_files({folder: ["a", "gone"]}, may_be_gone=True)
    assert asked.paths == [folder.path("a"), folder.path()]
    with pytest.raises(ResourceError, match='cannot sync "gone"'):
        sync_files({folder: ["a", "gone"]})


def test_a_filesystem_whose_folders_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled(tmp_path / "one")
    monkeypatch.setattr(os, "fsync", Asked(fails_at=1, error=errno.EINVAL))
    folder.put_if_absent("7", b"x")
    assert folder.names() == ["7"]


def test_a_version_comes_after_all_that_it_refers_to(tmp_path: Path, asked: Asked) -> None:
    """In a whole run: when the last version shows, all segments, results and deliveries before it were asked for."""
    job = SmallJob(tmp_path).write()
    job.finish()
    places = {path: place for place, path in enumerate(asked.paths)}
    versions = str(job.checkpoint / "state" / "versions")
    shown = [place for place, path in enumerate(asked.paths) if path == versions]
    assert len(shown) > 4
    segments = [path for path in places if "/segments/" in path]
    results = [path for path in places if "/_watersmeet" in path and path.endswith(".parquet")]
    assert len(segments) >= 8 and len(results) >= 4
    assert max(places[path] for path in (*segments, *results)) < shown[-1]
    assert places[str(job.out)] < shown[-1], "the last delivery was marked when its folder was on disk"


EVERY = 7  # of the calls that fail, one in so many is tried


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_disk_that_says_no_stops_the_run(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    number, failures = 0, 0
    while True:
        job = SmallJob(tmp_path / str(number)).write()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", Asked(fails_at=number, error=error))
            code = main(job.arguments())
        err = capsys.readouterr().err
        if code == 0:
            break
        failures += 1
        assert code == 1 and err.startswith("error: cannot "), err
        assert os.strerror(error) in err and "Nothing was committed" in err
        assert job.answer() <= job.expected()
        job.finish()
        assert job.answer() == job.expected()
        number += EVERY
    assert failures > 5
