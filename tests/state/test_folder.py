"""Folders: files appear whole or not at all, the first writer of a name wins, copies go through the cache."""

from __future__ import annotations

import errno
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from object_server import S3Server
from watersmeet.errors import AddressError, ResourceError, StateConflictError
from watersmeet.state.files import Folder


@pytest.fixture(params=["local", "file address", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, s3: S3Server) -> Folder:
    """An empty folder of each kind."""
    addresses = {
        "local": lambda: str(tmp_path / "home"),
        "file address": lambda: f"file://{tmp_path}/home",
        "store": lambda: s3.address(f"{s3.bucket()}/a/home/"),
    }
    result = Folder(addresses[request.param](), str(tmp_path / "cache"))
    result.make()
    return result


def write(folder: Folder, name: str, data: bytes) -> None:
    folder.write(name, lambda sink: sink.write(data))


def test_what_is_written_is_read(folder: Folder) -> None:
    write(folder, "a", b"one two three")
    assert folder.read("a") == b"one two three"
    assert (folder.exists("a"), folder.exists("b")) == (True, False)
    assert folder.names() == ["a"]


def test_names_of_a_folder_that_is_not_there(folder: Folder) -> None:
    assert folder.sub("none").names() == []


def test_folders_are_among_the_names(folder: Folder) -> None:
    folder.sub("deep").make()
    write(folder.sub("deep"), "a", b"x")
    write(folder, "z", b"x")
    assert (folder.names(), folder.sub("deep").names()) == (["deep", "z"], ["a"])


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
    """Of those that are still there."""
    target = folder.sub("out")
    target.make()
    for name in ("a", "b", "c"):
        write(folder, name, name.encode())
    folder.move_out(["a"], target)
    folder.move_out(["a", "b", "none"], target)
    assert (folder.names(), target.names()) == (["c", "out"], ["a", "b"])
    assert target.read("b") == b"b"


def test_delete_many(folder: Folder) -> None:
    for name in "abc":
        write(folder, name, b"x")
    folder.delete_all(["a", "none", "c"])
    folder.delete_all([])
    assert folder.names() == ["b"]
    folder.remove()
    assert folder.names() == []


def test_open_goes_through_the_cache(folder: Folder, tmp_path: Path) -> None:
    write(folder, "a", b"content")
    for _ in range(2):
        assert folder.open("a").read() == b"content"
    copies = list((tmp_path / "cache").glob("*/*"))
    assert [path.read_bytes() for path in copies] == [b"content"]
    folder.forget("a")
    assert folder.open("a").read() == b"content"
    folder.delete("a")
    assert list((tmp_path / "cache").glob("*/*")) == []
    with pytest.raises(FileNotFoundError):
        folder.open("a")


def test_what_is_written_may_stay_in_the_cache(tmp_path: Path, s3: S3Server) -> None:
    bucket = s3.bucket()
    folder = Folder(s3.address(bucket), str(tmp_path / "cache"))
    folder.write("a", lambda sink: sink.write(b"kept"), keep_copy=True)
    folder.write("b", lambda sink: sink.write(b"sent"))
    copies = list((tmp_path / "cache").glob("*/*"))
    assert [path.read_bytes() for path in copies] == [b"kept"]
    assert s3.objects(bucket) == {"a": b"kept", "b": b"sent"}


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


@pytest.mark.parametrize("below", ["", "x", "x/y"])
def test_a_folder_where_a_file_is(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AddressError) as caught:
        Folder(str(tmp_path / "file" / below)).make()
    assert caught.value.primary == f'"{tmp_path / "file"}" is not a folder'


def test_a_folder_that_cannot_be_made() -> None:
    with pytest.raises(ResourceError, match="cannot create folder"):
        Folder("/proc/none").make()


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    folder = Folder(str(tmp_path / "home"), str(tmp_path / "cache"))
    folder.make()
    write(folder, "a", b"x")
    with pytest.raises(ResourceError, match="cannot keep copies of remote files"):
        folder.open("a")


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("address", ["/data/ck", "s3://bucket/ck?region=here"])
def test_folders_within_and_folders_sent_to_tasks_are_as_durable(address: str, durable: bool) -> None:
    folder = Folder(address, "/cache", durable)
    assert folder.sub("a", "/other") == Folder(address.replace("/ck", "/ck/a"), "/other", durable)
    assert folder.sub("a").durable is durable
    sent = pickle.loads(pickle.dumps(folder))
    assert (sent, hash(sent)) == (folder, hash(folder))
    assert sent != Folder(address, "/cache", not durable)
