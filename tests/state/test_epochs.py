"""Epochs: nobody from before follows who takes a checkpoint, or destroys anything of it, however late he comes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from watersmeet.errors import ResourceError, StateConflictError
from watersmeet.model.ids import SegmentId, StateName
from watersmeet.model.segments import Segment
from watersmeet.state import applying
from watersmeet.state.epochs import Holder, TakenOverError, name_of_epoch
from watersmeet.state.files import Folder
from watersmeet.state.gc import collect_everything
from watersmeet.state.head import read_head, write_head
from watersmeet.state.manifest import BatchRecord, Manifest
from watersmeet.state.retention import VERSIONS_KEPT
from watersmeet.state.sealed import seal, unseal
from watersmeet.state.segment_files import FileSegments, file_name
from watersmeet.state.table import (
    SNAPSHOT_EVERY,
    AtVersion,
    FileTable,
    read_versions,
    table_numbers,
    version_name,
)
from watersmeet.state.updates import AddSegment, AdvanceStream, FinishBatch, ListFiles


@pytest.fixture
def root(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path / "state"))


@pytest.fixture
def first(root: Folder, first_manifest: Manifest) -> FileTable:
    """A checkpoint, taken by a first run."""
    return FileTable.create(root, first_manifest).claim(holder("first"))


def holder(run: str) -> Holder:
    return Holder(1, run, "there", 71, "2026-11-17 05:00:00 UTC")


def opened(root: Folder) -> FileTable:
    table = FileTable.open(root)
    assert table is not None
    return table


def commit(table: FileTable, count: int = 1) -> None:
    for _ in range(count):
        table.commit([AtVersion(table.manifest.version)], [])
        table.snapshot_if_due()


def test_each_run_is_an_epoch_of_its_own(first: FileTable, root: Folder) -> None:
    assert (first.manifest.epoch, first.manifest.holder.run) == (1, "first")
    second = opened(root).claim(holder("second"))
    assert (second.manifest.epoch, second.manifest.holder.run) == (2, "second")
    assert opened(root).manifest == second.manifest
    assert second.manifest.claims == (1, 2)


def test_the_former_run_can_commit_nothing_and_is_told_who_came(first: FileTable, root: Folder) -> None:
    commit(first, 3)
    first.check_held()
    second = opened(root).claim(holder("second"))
    for _ in range(2):
        with pytest.raises(TakenOverError, match="another run has taken over the checkpoint") as caught:
            commit(first)
    detail = 'is held by process 71 on host "there" since 2026-11-17 05:00:00 UTC.'
    assert detail in (caught.value.detail or "")
    with pytest.raises(TakenOverError):
        first.check_held()
    second.check_held()
    commit(second)
    assert opened(root).manifest == second.manifest


def test_claims_do_not_pile_up(first: FileTable, root: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is started again and again; a run that slept through it all sees that its own version has gone."""
    monkeypatch.setattr(applying, "CLAIMS_KEPT", 3)
    commit(first, 3)
    for start in range(10):
        table = opened(root).claim(holder(f"run {start}"))
        commit(table, SNAPSHOT_EVERY)
    assert len(table.manifest.claims) == 3
    assert len(table_numbers(table.versions)) < 3 * SNAPSHOT_EVERY
    assert not first.versions.exists(version_name(first.manifest.version + 1))
    with pytest.raises(TakenOverError):
        first.check_held()
    table.check_held()


def test_a_checkpoint_that_was_just_made_is_held(root: Folder, first_manifest: Manifest) -> None:
    FileTable.create(root, first_manifest).check_held()


@pytest.mark.parametrize("later", [1, 2 * SNAPSHOT_EVERY, 5 * SNAPSHOT_EVERY])
def test_however_late_it_wakes_up(later: int, first: FileTable, root: Folder) -> None:
    """By then the versions that followed its own have been deleted: all but the one that it would write."""
    commit(first, 3)
    second = opened(root).claim(holder("second"))
    commit(second, later)
    with pytest.raises(TakenOverError):
        first.check_held()
    with pytest.raises(TakenOverError):
        commit(first)
    assert opened(root).manifest == second.manifest


def test_one_that_wakes_up_before_it_has_taken_the_checkpoint(first: FileTable, root: Folder) -> None:
    """It has read a version, and the name of the one after it is free again."""
    commit(first, 3)
    slow = opened(root)
    commit(first, 5 * SNAPSHOT_EVERY)
    assert not first.versions.exists(version_name(slow.manifest.version + 1))
    with pytest.raises(StateConflictError, match="all the time"):
        slow.claim(holder("slow"))
    commit(first, SNAPSHOT_EVERY)
    assert opened(root).manifest == first.manifest
    again = opened(root).claim(holder("slow"))
    assert again.manifest.epoch == 2


def test_one_that_wakes_up_before_it_has_made_the_checkpoint(root: Folder, first_manifest: Manifest) -> None:
    first = FileTable.create(root, first_manifest).claim(holder("first"))
    commit(first, 5 * SNAPSHOT_EVERY)
    with pytest.raises(StateConflictError):
        FileTable.create(root, first_manifest)
    assert opened(root).manifest == first.manifest


def test_a_claim_comes_after_what_is_committed_meanwhile(first: FileTable, root: Folder) -> None:
    slow = opened(root)
    commit(first, 4)
    second = slow.claim(holder("second"))
    assert (second.manifest.version, second.manifest.epoch) == (first.manifest.version + 1, 2)
    assert second.manifest.kept_from == second.manifest.version - VERSIONS_KEPT + 1


# --- the head, and what follows what ---------------------------------------------------------------------------------


def test_a_run_that_slept_between_its_commit_and_its_head(first: FileTable, root: Folder) -> None:
    commit(first, 3)
    committed, digest = first.manifest.version, first._digest
    assert digest is not None
    second = opened(root).claim(holder("second"))
    head = read_head(root)
    assert head is not None
    assert (head.version, head.digest) == (second.manifest.version, second._digest), "a claim is a commit"
    write_head(root, committed, digest)
    assert opened(root).manifest == second.manifest
    commit(second, SNAPSHOT_EVERY + VERSIONS_KEPT)
    write_head(root, committed, digest)  # of a version that has been dropped since
    assert opened(root).manifest == second.manifest


def test_the_head_of_a_claim_that_came_too_late(first: FileTable, root: Folder) -> None:
    """It names a version that is nobody's: one below all that is read."""
    commit(first, 3)
    slow = opened(root)
    commit(first, 5 * SNAPSHOT_EVERY)
    with pytest.raises(StateConflictError, match="all the time"):
        slow.claim(holder("slow"))
    head = read_head(root)
    assert head is not None
    assert head.version == slow.manifest.version
    assert opened(root).manifest == first.manifest
    commit(first)
    assert opened(root).manifest == first.manifest


def test_a_head_whose_temporary_file_was_tidied_away(root: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    root.make()
    write_head(root, 3, "3")
    replace = os.replace

    def too_late(source: str, target: str) -> None:
        os.unlink(source)
        replace(source, target)

    monkeypatch.setattr(os, "replace", too_late)
    write_head(root, 2, "2")
    found = read_head(root)
    assert found is not None
    assert found.version == 3


def test_a_head_that_does_not_fit_on_the_disk_stays_behind(
    first: FileTable, root: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version is committed by then: to stop with an error would say that it was not."""

    def full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = read_head(root)
    monkeypatch.setattr(os, "replace", full)
    commit(first, 2)
    assert read_head(root) == before
    assert [name for _, names in first.leftovers() for name in names] == []
    assert opened(root).manifest == first.manifest


@pytest.mark.parametrize("later", [0, 4, SNAPSHOT_EVERY + 3])
def test_claims_and_snapshots_are_links_of_the_chain(later: int, first: FileTable, root: Folder) -> None:
    """After a claim that followed others' commits, and after a snapshot, the next version still fits."""
    slow = opened(root)
    commit(first, 2)
    second = slow.claim(holder("second"))
    commit(second, later)
    again = opened(root)
    assert (again.manifest, again._digest) == (second.manifest, second._digest)
    name = version_name(second.manifest.version)
    data, _ = unseal(second.versions.read(name))
    Path(second.versions.path(name)).write_bytes(seal({**data, "after": "another"}))
    with pytest.raises(ResourceError, match="is corrupt"):
        FileTable.open(root)


# --- what is deleted -------------------------------------------------------------------------------------------------


def make(folder: Folder, *names: str) -> None:
    folder.make()
    for name in names:
        Path(folder.path(name)).write_text("")


def test_the_former_run_deletes_nothing_of_the_later_one(first: FileTable, root: Folder, tmp_path: Path) -> None:
    """Neither what it has committed, nor what it has written and not yet committed."""
    segments, waiting, lists = (Folder(str(tmp_path / name)) for name in ("segments", "waiting", "lists"))
    second = opened(root).claim(holder("second"))
    committed, written = name_of_epoch("00000000", 2), name_of_epoch("00000001", 2)
    entry = Segment(SegmentId(committed), StateName("A@A.k"), 6, 60, 0, ((0, 6),), ((0, 6),), 0, 1, 0, 0)
    results = [name_of_epoch(f"part-0000000{n}-0000", 2, ".parquet") for n in range(2)]
    listed = [name_of_epoch("files", 2, ".json") for _ in range(2)]
    second.commit(
        [],
        [
            AddSegment(entry),
            AdvanceStream("A", 0, 1, 0, (("a", 1),)),
            ListFiles("A", listed[0], 1, 1),
            FinishBatch(BatchRecord(0, 1, 1, 0), (results[0],)),
        ],
    )
    make(segments, file_name(committed), file_name(written), "orphan.arrow", ".tmp-of-the-second")
    make(waiting, *results, "orphan.parquet")
    make(lists, *listed, "orphan.json")
    with pytest.raises(TakenOverError):
        collect_everything(first, FileSegments(segments), [waiting], lists)
    assert {"orphan.arrow", ".tmp-of-the-second", file_name(committed)} <= set(segments.names())
    # Should it have looked just before it was taken over, and have slept since.
    first.check_held = lambda: None  # type: ignore[method-assign]
    collect_everything(first, FileSegments(segments), [waiting], lists)
    assert set(segments.names()) == {file_name(committed), file_name(written)}
    assert (set(waiting.names()), set(lists.names())) == (set(results), set(listed))


def test_versions_that_can_be_read_are_those_of_one_line(first: FileTable, root: Folder) -> None:
    """Claims that stay behind do not count among them."""
    for number in range(4):
        table = opened(root).claim(holder(f"run {number}"))
        commit(table, SNAPSHOT_EVERY + 3)
    found = [manifest.version for manifest in read_versions(root)]
    assert found == list(range(found[0], table.manifest.version + 1))
    assert found[0] > 2 * SNAPSHOT_EVERY
    assert {1, 2} <= {int(name[:20]) for name in table.versions.names()}
