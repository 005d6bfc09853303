"""The table: versions are added whole, in order, by one writer; what is read back is what was in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from watersmeet.errors import CheckpointError, InternalError, ResourceError, StateConflictError
from watersmeet.state.epochs import TakenOverError
from watersmeet.state.files import Folder
from watersmeet.state.manifest import FORMAT, BatchRecord, Manifest
from watersmeet.state.retention import VERSIONS_KEPT
from watersmeet.state.sealed import seal, unseal
from watersmeet.state.table import (
    SNAPSHOT_EVERY,
    AfterBatch,
    AtVersion,
    FileTable,
    OlderFormatError,
    Table,
    read_versions,
)
from watersmeet.state.updates import AdvanceStream, FinishBatch, RecordDecision, Update


def batch(number: int) -> list[Update]:
    return [
        AdvanceStream("A", number, 10, 1, ((f"{number}.parquet", number),)),
        FinishBatch(BatchRecord(number, 10, 5, 1)),
    ]


def commit_batches(table: Table, count: int) -> None:
    for _ in range(count):
        table.commit([AtVersion(table.manifest.version)], batch(table.manifest.last_batch + 1))
        if isinstance(table, FileTable):
            table.snapshot_if_due()


@pytest.fixture
def root(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path / "state"))


@pytest.fixture
def table(root: Folder, first_manifest: Manifest) -> FileTable:
    return FileTable.create(root, first_manifest)


def version_file(root: Folder, number: int, kind: str = "versions") -> Path:
    return Path(root.path(f"{kind}/{number:020d}.json"))


def numbers(root: Folder, kind: str) -> list[int]:
    return sorted(int(path.stem) for path in Path(root.path(kind)).iterdir())


@pytest.mark.parametrize("at_once", [3, 7, 19, 21, 50])
def test_snapshots_are_taken_however_many_versions_pass_between_two_calls(
    at_once: int, table: FileTable, root: Folder
) -> None:
    """Spills are commits of their own, so that versions come in handfuls, and may miss any certain multiple."""
    table.commit([], [])
    longest = SNAPSHOT_EVERY + at_once
    for _ in range(40):
        for _ in range(at_once):
            table.commit([], [])
        table.snapshot_if_due()
        assert table.manifest.version - max(numbers(root, "snapshots")) < longest
        assert len(numbers(root, "versions")) <= 2 * longest + VERSIONS_KEPT
    assert FileTable.open(root).manifest == table.manifest  # type: ignore[union-attr]


def test_there_is_no_table_in_an_empty_folder(root: Folder) -> None:
    assert FileTable.open(root) is None
    assert list(read_versions(root)) == []


@pytest.mark.parametrize("count", [0, 1, 7, SNAPSHOT_EVERY, SNAPSHOT_EVERY + 3, 2 * SNAPSHOT_EVERY + 1, 65])
def test_replay_equals_memory(count: int, table: FileTable, root: Folder) -> None:
    commit_batches(table, count)
    again = FileTable.open(root)
    assert again is not None
    assert again.manifest == table.manifest
    assert again.manifest.last_batch == count - 1
    assert (again.segments_kept(), again.lists_kept()) == (table.segments_kept(), table.lists_kept())
    assert again.manifest.kept_from == max(0, count - VERSIONS_KEPT + 1)


def test_snapshots_and_versions_are_cleaned_up(table: FileTable, root: Folder) -> None:
    commit_batches(table, SNAPSHOT_EVERY)
    assert numbers(root, "snapshots") == [0, SNAPSHOT_EVERY]
    commit_batches(table, SNAPSHOT_EVERY)
    assert numbers(root, "snapshots") == [0, SNAPSHOT_EVERY, 2 * SNAPSHOT_EVERY], "the first one stays"
    assert numbers(root, "versions") == list(range(SNAPSHOT_EVERY, 2 * SNAPSHOT_EVERY + 1))
    readable = [manifest.version for manifest in read_versions(root)]
    assert readable == list(range(SNAPSHOT_EVERY, 2 * SNAPSHOT_EVERY + 1))
    assert len(readable) >= VERSIONS_KEPT


def test_a_snapshot_is_made_up_for(table: FileTable, root: Folder) -> None:
    """The process died between the commit of version 20 and its snapshot."""
    commit_batches(table, SNAPSHOT_EVERY)
    version_file(root, SNAPSHOT_EVERY, "snapshots").unlink()
    again = FileTable.open(root)
    assert again is not None
    again.snapshot_if_due()
    again.snapshot_if_due()
    assert numbers(root, "snapshots") == [0, SNAPSHOT_EVERY]


@pytest.mark.parametrize("requirement", [AtVersion(1), AfterBatch(0)])
def test_a_requirement_that_does_not_hold(requirement: Any, table: FileTable, root: Folder) -> None:
    with pytest.raises(StateConflictError):
        table.commit([requirement], batch(0))
    assert table.manifest.version == 0
    assert numbers(root, "versions") == []


def test_the_slower_of_two_writers_is_refused(table: FileTable, root: Folder) -> None:
    other = FileTable.open(root)
    assert other is not None
    commit_batches(table, 1)
    with pytest.raises(TakenOverError):
        commit_batches(other, 1)
    assert other.manifest.version == 0
    refreshed = FileTable.open(root)
    assert refreshed is not None
    assert refreshed.manifest == table.manifest


def test_a_batch_is_committed_once(table: FileTable, root: Folder) -> None:
    commit_batches(table, 2)
    for number in (1, 3):
        with pytest.raises(InternalError, match=f"batch {number} cannot follow batch 1"):
            table.commit([], batch(number))
    assert numbers(root, "versions") == [1, 2]


def test_memory_keeps_one_version(first_manifest: Manifest) -> None:
    table = Table(first_manifest)
    commit_batches(table, 4)
    assert table.manifest.kept_from == 4
    assert table.leftovers() == []


def test_leftovers_are_what_a_killed_commit_left(table: FileTable, root: Folder) -> None:
    commit_batches(table, 1)
    Path(root.path("versions/.tmp-123")).write_text("{")
    Path(root.path("snapshots/.tmp-456")).write_text("{")
    Path(root.path(".tmp-789")).write_text("{")
    assert [names for _, names in table.leftovers()] == [[".tmp-789"], [".tmp-123"], [".tmp-456"]]
    again = FileTable.open(root)
    assert again is not None
    assert again.manifest == table.manifest


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def edit(path: Path, **changes: Any) -> None:
    content, _ = unseal(path.read_bytes())
    path.write_bytes(seal({**content, **changes}))


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff\xfe\x00"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text("{}"),
        lambda path: path.write_text(f'{{"format": {FORMAT}}}'),
        lambda path: edit(path, updates=[{"update": "BecomeOmniscient"}]),
        lambda path: edit(path, updates=[{"update": "AdvanceStream"}]),
        lambda path: edit(path, updates=[{"update": "ReleaseGroups", "segment": "none", "groups": []}]),
        lambda path: edit(path, updates=3),
    ],
    ids=["truncated", "empty", "not text", "a list", "no format", "no updates", "kind", "fields", "segment", "number"],
)
def test_a_corrupt_version_is_named(damage: Callable[[Path], Any], table: FileTable, root: Folder) -> None:
    commit_batches(table, 3)
    damage(version_file(root, 2))
    with pytest.raises(ResourceError) as caught:
        FileTable.open(root)
    assert caught.value.primary == f'manifest file "{2:020d}.json" is corrupt'
    assert str(version_file(root, 2)) in (caught.value.detail or "")
    assert caught.value.hint


@pytest.mark.parametrize("damage", [truncate, lambda path: path.write_text(f'{{"format": {FORMAT}}}')])
def test_a_corrupt_snapshot_is_named(damage: Callable[[Path], Any], table: FileTable, root: Folder) -> None:
    damage(version_file(root, 0, "snapshots"))
    with pytest.raises(ResourceError, match="is corrupt"):
        FileTable.open(root)


def test_a_missing_version_is_named(table: FileTable, root: Folder) -> None:
    commit_batches(table, 4)
    version_file(root, 3).unlink()
    with pytest.raises(ResourceError, match="version 3 of the state is missing"):
        FileTable.open(root)


@pytest.mark.parametrize("kind, number", [("versions", 2), ("snapshots", 0)])
def test_a_newer_format_is_refused(kind: str, number: int, table: FileTable, root: Folder) -> None:
    commit_batches(table, 3)
    edit(version_file(root, number, kind), format=99)
    with pytest.raises(CheckpointError) as caught:
        FileTable.open(root)
    assert caught.value.primary == "the checkpoint was written by a newer version of watersmeet"
    assert "format 99" in (caught.value.detail or "")


def test_a_snapshot_that_outlived_its_versions_does_not_stop_the_newer_one(table: FileTable, root: Folder) -> None:
    """Killed while version 40 was cleaning up: the first versions have gone, their snapshot has not."""
    commit_batches(table, SNAPSHOT_EVERY + 2)
    for number in range(1, 5):
        version_file(root, number).unlink()
    again = FileTable.open(root)
    assert again is not None
    assert again.manifest == table.manifest


def test_an_older_format_is_told_apart(table: FileTable, root: Folder) -> None:
    """Whoever can bring it up to date catches it; anybody else is told what to do."""
    edit(version_file(root, 0, "snapshots"), format=FORMAT - 1)
    with pytest.raises(OlderFormatError) as caught:
        FileTable.open(root)
    assert caught.value.found == FORMAT - 1
    assert caught.value.primary == "the checkpoint was written by an earlier version of watersmeet"
    assert "Run its job" in (caught.value.hint or "")


def test_snapshots_of_an_older_format_before_one_of_ours_are_passed_over(table: FileTable, root: Folder) -> None:
    """An upgrade writes its snapshot first, and may die before it has dropped what came before."""
    commit_batches(table, SNAPSHOT_EVERY + 2)
    edit(version_file(root, 0, "snapshots"), format=FORMAT - 1)
    again = FileTable.open(root)
    assert again is not None
    assert again.manifest == table.manifest


def test_what_follows_from_a_commit_is_in_the_same_version(table: FileTable, root: Folder) -> None:
    seen: list[Manifest] = []

    def consequences(manifest: Manifest) -> list[Update]:
        seen.append(manifest)
        return [RecordDecision({"rows": manifest.rows_in})]

    after = table.commit([], batch(0), consequences)
    assert (after.version, after.rows_in, [entry["rows"] for entry in after.decisions]) == (1, 10, [10])
    assert [(manifest.version, manifest.decisions) for manifest in seen] == [(1, ())]
    assert FileTable.open(root).manifest == after  # type: ignore[union-attr]


def test_a_large_manifest_is_written_down_again_when_as_much_has_changed(table: FileTable, root: Folder) -> None:
    """What snapshots cost stays in proportion to what was changed, and what is read to the manifest."""
    many = [AdvanceStream(f"stream {number}", number, 10, 1) for number in range(4_000)]
    table.commit([], many)
    commit_batches(table, 20 * SNAPSHOT_EVERY)
    taken = numbers(root, "snapshots")
    large = version_file(root, taken[-1], "snapshots").stat().st_size
    assert large > 200_000
    assert taken == [0, SNAPSHOT_EVERY], "one with the many streams, and none for a few bytes more"
    table.commit([], many)
    table.snapshot_if_due()
    assert numbers(root, "snapshots")[-1] == table.manifest.version
    assert FileTable.open(root).manifest == table.manifest  # type: ignore[union-attr]
