"""Garbage collection: what a version that is kept points to stays; everything else goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from watersmeet.model.ids import DeliveryId, Generation, OperatorName, SegmentId, StateName
from watersmeet.model.segments import Segment
from watersmeet.state.files import Folder
from watersmeet.state.gc import collect_everything, collect_files
from watersmeet.state.manifest import BatchRecord, Manifest
from watersmeet.state.retention import VERSIONS_KEPT
from watersmeet.state.segment_files import FileSegments
from watersmeet.state.table import FileTable
from watersmeet.state.updates import (
    AddSegment,
    AdvanceStream,
    CloseGroups,
    FinishBatch,
    ListFiles,
    MarkDelivered,
    ReleaseGroups,
)

GROUPS = ((0, 6),)


def segment(name: str) -> Segment:
    return Segment(SegmentId(name), StateName("A@A.k"), 6, 60, 0, GROUPS, GROUPS, 0, 1, 0, 0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("segments", "waiting", "late", "lists"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def table(home: Path, first_manifest: Manifest) -> FileTable:
    return FileTable.create(Folder(str(home / "state")), first_manifest)


def collect(home: Path, table: FileTable) -> int:
    waiting = [Folder(str(home / name)) for name in ("waiting", "late")]
    return collect_everything(table, FileSegments(Folder(str(home / "segments"))), waiting, Folder(str(home / "lists")))


def listing(home: Path, folder: str) -> set[str]:
    return {path.name for path in (home / folder).iterdir()}


def make(home: Path, folder: str, *names: str) -> None:
    for name in names:
        (home / folder / name).write_text("")


def test_segments_stay_while_a_version_that_is_kept_needs_them(home: Path, table: FileTable) -> None:
    make(home, "segments", "old.arrow", "new.arrow", "orphan.arrow", ".tmp-1")
    table.commit([], [AddSegment(segment("old"))])
    table.commit([], [ReleaseGroups(SegmentId("old"), GROUPS), AddSegment(segment("new"))])
    assert collect(home, table) == 2
    assert listing(home, "segments") == {"old.arrow", "new.arrow"}
    for _ in range(VERSIONS_KEPT - 2):
        table.commit([], [])
        assert collect(home, table) == 0
    table.commit([], [])
    assert collect(home, table) == 1
    assert listing(home, "segments") == {"new.arrow"}


def test_the_same_after_a_restart(home: Path, table: FileTable) -> None:
    make(home, "segments", "old.arrow", "new.arrow")
    table.commit([], [AddSegment(segment("old"))])
    table.commit([], [ReleaseGroups(SegmentId("old"), GROUPS), AddSegment(segment("new"))])
    for _ in range(VERSIONS_KEPT - 1):
        again = FileTable.open(Folder(str(home / "state")))
        assert again is not None
        assert "old.arrow" in listing(home, "segments")
        again.commit([], [])
        collect(home, again)
    assert listing(home, "segments") == {"new.arrow"}


def test_results_wait_until_their_delivery_is_known(home: Path, table: FileTable) -> None:
    """However many commits and batches follow."""
    make(home, "waiting", "r0", "r1", "attempt", ".tmp-2")
    make(home, "late", "l1", "attempt")
    table.commit([], [FinishBatch(BatchRecord(0, 1, 1, 0), ("r0",))])
    table.commit([], [FinishBatch(BatchRecord(1, 1, 1, 1), ("r1",), ("l1",))])
    for _ in range(2 * VERSIONS_KEPT):
        table.commit([], [])
    assert collect(home, table) == 3
    assert (listing(home, "waiting"), listing(home, "late")) == ({"r0", "r1"}, {"l1"})
    table.commit([], [MarkDelivered((DeliveryId(0),))])
    assert collect(home, table) == 1
    assert (listing(home, "waiting"), listing(home, "late")) == ({"r1"}, {"l1"})


def test_lists_of_files_stay_while_a_version_that_is_kept_names_them(home: Path, table: FileTable) -> None:
    make(home, "lists", "one.json", "two.json", "orphan.json")
    table.commit([], [AdvanceStream("A", 0, 1, 0, (("a", 1),)), ListFiles("A", "one.json", 1, 1)])
    table.commit([], [ListFiles("A", "two.json", 1, 0, ("one.json",))])
    assert collect(home, table) == 1
    assert listing(home, "lists") == {"one.json", "two.json"}
    for _ in range(VERSIONS_KEPT):
        table.commit([], [])
    assert collect(home, table) == 1
    assert listing(home, "lists") == {"two.json"}


def test_what_is_known_to_have_gone_is_deleted_without_a_look_at_the_folders(home: Path, table: FileTable) -> None:
    make(home, "segments", "old.arrow", "new.arrow", "scratch.arrow", "orphan.arrow")
    make(home, "waiting", "r0", "r1")
    segments, waiting = FileSegments(Folder(str(home / "segments"))), [Folder(str(home / "waiting"))]
    table.commit([], [AddSegment(segment("old"))])
    table.commit([], [ReleaseGroups(SegmentId("old"), GROUPS), AddSegment(segment("new"))])
    collect_files(table, segments, [SegmentId("scratch")], waiting, ["r0"])
    assert listing(home, "segments") == {"old.arrow", "new.arrow", "orphan.arrow"}, "a version kept needs the old one"
    assert listing(home, "waiting") == {"r1"}
    for _ in range(VERSIONS_KEPT - 1):
        table.commit([], [])
    collect_files(table, segments, [], waiting, [])
    assert listing(home, "segments") == {"new.arrow", "orphan.arrow"}
    assert table.pop_dropped() == [], "each is told once"


def test_a_file_goes_with_its_last_entry(home: Path, table: FileTable) -> None:
    make(home, "segments", "s.arrow")
    segments = FileSegments(Folder(str(home / "segments")))
    table.commit([], [AddSegment(segment("s"))])
    table.commit([], [CloseGroups(OperatorName("J"), (StateName("A@A.k"),), ((0, 2),), Generation(1))])
    for released in ("s", "s~1.0"):
        assert listing(home, "segments") == {"s.arrow"}
        table.commit([], [ReleaseGroups(SegmentId(released), GROUPS)])
        for _ in range(VERSIONS_KEPT):
            table.commit([], [])
        collect_files(table, segments, [], [], [])
    assert listing(home, "segments") == set()


def test_leftovers_of_commits_go(home: Path, table: FileTable) -> None:
    (home / "state" / "versions" / ".tmp-3").write_text("")
    assert collect(home, table) == 1
    assert listing(home, "state/versions") == set()
