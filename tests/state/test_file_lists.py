"""The files that sources have read: none is forgotten, however many they are, and a manifest does not grow with it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from watersmeet.errors import ResourceError
from watersmeet.state.file_lists import LISTED, FilesRead
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import Table
from watersmeet.state.updates import AdvanceStream


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(str(tmp_path / "lists"))
    found.make()
    return found


class Reader:
    """Reads files batch by batch, as a run does: a commit for each batch, then for the lists."""

    def __init__(self, folder: Folder | None, manifest: Manifest) -> None:
        self.table = Table(manifest)
        self.files = FilesRead(folder, manifest)
        self.read = 0

    @property
    def manifest(self) -> Manifest:
        return self.table.manifest

    def batches(self, count: int, each: int = 10, ignored_before: int = 0) -> None:
        for _ in range(count):
            found = tuple((f"{n}.parquet", n) for n in range(self.read, self.read + each))
            self.read += each
            self.table.commit([], [AdvanceStream("A", 0, each, 0, found, ignored_before)])
            self.files.add("A", found)
            if rolled := list(self.files.roll(self.manifest)):
                self.table.commit([], rolled)

    def missing(self, files: FilesRead, numbers: Iterable[int] | None = None) -> list[int]:
        done = files.of("A")
        return [n for n in (range(self.read) if numbers is None else numbers) if f"{n}.parquet" not in done]


def test_a_few_names_stay_in_the_manifest(folder: Folder, first_manifest: Manifest) -> None:
    reader = Reader(folder, first_manifest)
    reader.batches(1, LISTED)
    assert (len(reader.manifest.streams["A"].files), folder.names()) == (LISTED, [])
    assert reader.missing(FilesRead(folder, reader.manifest)) == []


def test_more_move_on_to_a_list_and_a_restart_finds_them_all(folder: Folder, first_manifest: Manifest) -> None:
    reader = Reader(folder, first_manifest)
    reader.batches(27)
    progress = reader.manifest.streams["A"]
    assert (len(progress.files), progress.file_count) == (10, 270)
    ((name, count),) = progress.file_lists
    assert (folder.names(), count) == ([name], 260)
    assert json.loads(folder.read(name))["files"][:2] == [["0.parquet", 0], ["1.parquet", 1]]
    again = FilesRead(folder, reader.manifest)
    assert (reader.missing(again), "270.parquet" in again.of("A"), "0.parquet" in again.of("B")) == ([], False, False)


def test_lists_stay_few_and_none_is_written_often(folder: Folder, first_manifest: Manifest) -> None:
    reader = Reader(folder, first_manifest)
    written = 0
    most = 0
    for _ in range(400):
        before = {name for name, _ in _lists(reader.manifest)}
        reader.batches(1, 100)
        written += sum(count for name, count in _lists(reader.manifest) if name not in before)
        most = max(most, len(_lists(reader.manifest)))
        assert len(reader.manifest.streams["A"].files) <= LISTED
    assert most <= 12
    assert written <= 6 * reader.read, "each name is written down a few times, as in compaction"
    assert reader.manifest.streams["A"].file_count == reader.read == 40_000
    assert reader.missing(FilesRead(folder, reader.manifest)) == []


def _lists(manifest: Manifest) -> tuple[tuple[str, int], ...]:
    return manifest.streams["A"].file_lists if "A" in manifest.streams else ()


def test_files_that_are_too_old_to_be_looked_at_are_forgotten(folder: Folder, first_manifest: Manifest) -> None:
    """The source passes over them by their time, so that lists are as long as what it may find again."""
    reader = Reader(folder, first_manifest)
    for number in range(300):
        reader.batches(1, 100, ignored_before=100 * (number - 10))
    progress = reader.manifest.streams["A"]
    bound = progress.ignored_before_us
    again = FilesRead(folder, reader.manifest)
    for files in (reader.files, again):
        assert reader.missing(files, range(bound, reader.read)) == []
    assert progress.file_count < 20_000
    assert "0.parquet" not in again.of("A") and "0.parquet" not in reader.files.of("A")


def test_without_a_folder_nothing_is_written_down(first_manifest: Manifest) -> None:
    reader = Reader(None, first_manifest)
    reader.batches(100)
    assert len(reader.manifest.streams["A"].files) <= LISTED
    assert reader.missing(reader.files) == [], "a run without a checkpoint knows them while it lasts"


@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_list_that_cannot_be_read_is_named(damage: str, folder: Folder, first_manifest: Manifest) -> None:
    reader = Reader(folder, first_manifest)
    reader.batches(1, LISTED + 1)
    (name,) = folder.names()
    path = Path(folder.path(name))
    if damage == "missing":
        path.unlink()
    else:
        path.write_text('[["a.par' if damage == "cut" else "[3]")
    with pytest.raises(ResourceError) as caught:
        FilesRead(folder, reader.manifest)
    assert caught.value.primary == f'the list "{name}" of files that were read is missing or damaged'
    assert str(path) in (caught.value.detail or "")
    assert caught.value.hint
