"""Garbage collection: what a version that is kept points to stays; everything else goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from watersmeet.model.segments import Segment
from watersmeet.state.files import Folder
from watersmeet.state.gc import collect_garbage
from watersmeet.state.manifest import BatchRecord, Manifest
from watersmeet.state.segment_files import FileSegments
from watersmeet.state.table import VERSIONS_KEPT, FileTable
from watersmeet.state.updates import AddSegment, FinishBatch, ReleaseGroups

GROUPS = ((0, 6),)


def segment(name: str) -> Segment:
    return Segment(name, "A@A.k", 1, 1, 0, GROUPS, GROUPS, 0, 1, 0, 0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("segments", "waiting", "late"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def table(home: Path, first_manifest: Manifest) -> FileTable:
    return FileTable.create(Folder(str(home / "state")), first_manifest)


def collect(home: Path, table: FileTable) -> int:
    waiting = [Folder(str(home / name)) for name in ("waiting", "late")]
    return collect_garbage(table, FileSegments(Folder(str(home / "segments"))), waiting)


def listing(home: Path, folder: str) -> set[str]:
    return {path.name for path in (home / folder).iterdir()}


def make(home: Path, folder: str, *names: str) -> None:
    for name in names:
        (home / folder / name).write_text("")


def test_segments_stay_while_a_version_that_is_kept_needs_them(home: Path, table: FileTable) -> None:
    make(home, "segments", "old.arrow", "new.arrow", "orphan.arrow", ".tmp-1")
    table.commit([], [AddSegment(segment("old"))])
    table.commit([], [ReleaseGroups("old", GROUPS), AddSegment(segment("new"))])
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
    table.commit([], [ReleaseGroups("old", GROUPS), AddSegment(segment("new"))])
    for _ in range(VERSIONS_KEPT - 1):
        again = FileTable.open(Folder(str(home / "state")))
        assert again is not None
        assert "old.arrow" in listing(home, "segments")
        again.commit([], [])
        collect(home, again)
    assert listing(home, "segments") == {"new.arrow"}


def test_results_wait_for_the_delivery_of_the_last_batch(home: Path, table: FileTable) -> None:
    make(home, "waiting", "r0", "r1", "attempt", ".tmp-2")
    make(home, "late", "l1", "attempt")
    table.commit([], [FinishBatch(BatchRecord(0, 1, 1, 0, ("r0",)))])
    table.commit([], [FinishBatch(BatchRecord(1, 1, 1, 1, ("r1",), ("l1",)))])
    assert collect(home, table) == 4
    assert (listing(home, "waiting"), listing(home, "late")) == ({"r1"}, {"l1"})


def test_leftovers_of_commits_go(home: Path, table: FileTable) -> None:
    (home / "state" / "versions" / ".tmp-3").write_text("")
    assert collect(home, table) == 1
    assert listing(home, "state/versions") == set()
