"""Folders: files appear whole or not at all, the first writer of a name wins, copies go through the cache."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.fs as pafs
import pytest

from watersmeet.errors import ResourceError, StateConflictError
from watersmeet.state import files
from watersmeet.state.files import Folder


@pytest.fixture(params=["local", "file address", "remote"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """An empty folder of each kind; the remote one is another filesystem to pyarrow, and kept on this disk."""
    if request.param == "local":
        address = str(tmp_path / "home")
    elif request.param == "file address":
        address = f"file://{tmp_path}/home"
    else:
        address = "far://bucket/home"
        use_far_filesystem(tmp_path, monkeypatch)
    result = Folder(address, str(tmp_path / "cache"))
    result.make()
    return result


def use_far_filesystem(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "far").mkdir()
    filesystem = pafs.SubTreeFileSystem(str(root / "far"), pafs.LocalFileSystem())

    def from_uri(uri: str) -> tuple[pafs.FileSystem, str]:
        assert uri.startswith("far://")
        return filesystem, uri.removeprefix("far://")

    names = {name: getattr(pafs, name) for name in ("FileType", "FileSelector")}
    monkeypatch.setattr(files, "pafs", SimpleNamespace(FileSystem=SimpleNamespace(from_uri=from_uri), **names))


def write(folder: Folder, name: str, data: bytes) -> None:
    folder.write(name, lambda sink: sink.write(data))


def test_what_is_written_is_read(folder: Folder) -> None:
    write(folder, "a", b"one two three")
    assert folder.read("a") == b"one two three"
    assert (folder.exists("a"), folder.exists("b")) == (True, False)
    assert folder.names() == ["a"]


def test_names_of_a_folder_that_is_not_there(folder: Folder) -> None:
    assert Folder(folder.path("none")).names() == []


def test_delete_is_content_with_nothing_to_delete(folder: Folder) -> None:
    write(folder, "a", b"x")
    folder.delete("a")
    folder.delete("a")
    assert folder.names() == []


def test_the_second_put_is_refused_and_changes_nothing(folder: Folder) -> None:
    folder.put_if_absent("a", b"first")
    with pytest.raises(StateConflictError, match='"a" exists already'):
        folder.put_if_absent("a", b"second")
    assert folder.read("a") == b"first"
    assert folder.names() == ["a"]


def test_move_out(folder: Folder) -> None:
    write(folder, "a", b"x")
    folder.move_out("a", folder.path("b"))
    assert folder.names() == ["b"]


def test_open_goes_through_the_cache(folder: Folder, tmp_path: Path) -> None:
    write(folder, "a", b"content")
    for _ in range(2):
        assert folder.open("a").read() == b"content"
    copies = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in copies] == [b"content"]
    folder.forget("a")
    assert folder.open("a").read() == b"content"
    folder.delete("a")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []
    with pytest.raises(FileNotFoundError):
        folder.open("a")


def test_two_folders_share_a_cache(tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = Folder(str(tmp_path / name), str(tmp_path / "cache"))
        folder.make()
        write(folder, "a", name.encode())
        assert folder.open("a").read() == name.encode()


def test_without_a_cache_a_local_file_is_mapped_in_place(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    write(folder, "a", b"content")
    assert folder.open("a").read() == b"content"
    assert os.listdir(tmp_path) == ["a"]


def test_of_many_writers_one_wins(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    for attempt in range(20):
        start = threading.Barrier(4)
        won: list[bytes] = []

        def put(
            data: bytes, start: threading.Barrier = start, name: str = f"{attempt}", won: list[bytes] = won
        ) -> None:
            start.wait()
            try:
                folder.put_if_absent(name, data)
                won.append(data)
            except StateConflictError:
                pass

        threads = [threading.Thread(target=put, args=(bytes([n]) * 1000,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [folder.read(f"{attempt}")] == won
    assert len(os.listdir(tmp_path)) == 20, "no temporary file is left"


def failing(error: BaseException) -> Any:
    def fill(sink: Any) -> None:
        sink.write(b"half of it")
        raise error

    return fill


@pytest.mark.parametrize("error", [ValueError("ours"), KeyboardInterrupt()])
def test_a_failed_write_leaves_nothing(error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(type(error)):
        Folder(str(tmp_path)).write("a", failing(error))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "number, hint", [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EFBIG, True), (errno.EIO, False)]
)
def test_an_error_of_the_disk_names_the_file(number: int, hint: bool, tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        Folder(str(tmp_path)).write("a", failing(OSError(number, os.strerror(number))))
    assert caught.value.primary == f'cannot write "a": {os.strerror(number)}'
    assert f"The file is {tmp_path / 'a'}. Nothing was committed" in (caught.value.detail or "")
    assert ("Free some space" in (caught.value.hint or "")) == hint
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot create folder"):
        Folder(str(tmp_path / "file" / "x")).make()


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    folder = Folder(str(tmp_path / "home"), str(tmp_path / "cache"))
    folder.make()
    write(folder, "a", b"x")
    with pytest.raises(ResourceError, match='cannot write "a"'):
        folder.open("a")
