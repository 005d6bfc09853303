"""Which versions are kept: by number, by time, and what that leaves on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from watersmeet.model.ids import SegmentId, StateName
from watersmeet.model.segments import Segment
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.retention import VERSIONS_KEPT, Retention
from watersmeet.state.table import FileTable, read_versions
from watersmeet.state.updates import AddSegment, ReleaseGroups, SetRetention

GROUPS = ((0, 6),)
SECOND = 1_000_000


class Ticks:
    """A clock that is a second on with each commit."""

    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        self.now_us += SECOND
        return self.now_us


@pytest.fixture
def root(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path / "state"), durable=False)


def segment(name: str) -> Segment:
    return Segment(SegmentId(name), StateName("A@A.k"), 6, 60, 0, GROUPS, GROUPS, 0, 1, 0, 0)


def make(root: Folder, manifest: Manifest, retention: Retention) -> tuple[FileTable, Ticks]:
    clock = Ticks()
    return FileTable.create(root, replace(manifest, retention=retention), clock), clock


def commit(table: FileTable, count: int = 1) -> None:
    """Each version replaces the one segment that there is."""
    for _ in range(count):
        held = [ReleaseGroups(name, GROUPS) for name in table.manifest.segments]
        table.commit([], [*held, AddSegment(segment(f"s{table.manifest.version + 1}"))])
        table.snapshot_if_due()


def needed(root: Folder) -> set[str]:
    """The files that kept versions refer to, by the versions themselves."""
    manifests = list(read_versions(root))
    last = manifests[-1]
    kept = [found for found in manifests if last.can_go_back_to(found.version)] + [last]
    assert [found.version for found in kept] == list(range(last.kept_from, last.version + 1)), "all can be read"
    return {file.file for found in kept for file in found.segments.values()}


def test_so_many_versions_are_kept(root: Folder, first_manifest: Manifest) -> None:
    table, _ = make(root, first_manifest, Retention(30))
    for count in range(1, 100):
        commit(table)
        assert table.manifest.kept_from == max(0, count - 29)
        assert set(table.segments_kept()) == needed(root)


def test_versions_are_kept_for_so_long(root: Folder, first_manifest: Manifest) -> None:
    table, clock = make(root, first_manifest, Retention(1, 10 * SECOND))
    commit(table, 40)
    assert table.manifest.kept_from == 30, "which was the newest until 9 seconds ago"
    clock.now_us += 3600 * SECOND
    commit(table)
    assert table.manifest.kept_from == 40, "which was the newest until now, and for an hour"
    commit(table, 3)
    assert table.manifest.kept_from == 40, "for 10 seconds from then on"


def test_the_number_counts_where_the_time_has_passed(root: Folder, first_manifest: Manifest) -> None:
    table, clock = make(root, first_manifest, Retention(4, 10 * SECOND))
    for _ in range(10):
        clock.now_us += 60 * SECOND
        commit(table)
    assert table.manifest.kept_from == 7


def test_what_is_kept_goes_on_after_a_restart(root: Folder, first_manifest: Manifest) -> None:
    table, clock = make(root, first_manifest, Retention(3, 30 * SECOND))
    commit(table, 75)
    again = FileTable.open(root, clock)
    assert again is not None
    assert again.manifest == table.manifest
    assert set(again.segments_kept()) == set(table.segments_kept()) == needed(root)
    for _ in range(40):
        commit(again)
        dropped = set(again.pop_dropped())
        assert not dropped & needed(root)
    assert again.manifest.kept_from == again.manifest.version - 30
    assert set(again.segments_kept()) == needed(root)


def test_other_settings_count_from_then_on(root: Folder, first_manifest: Manifest) -> None:
    table, _ = make(root, first_manifest, Retention())
    commit(table, 50)
    assert table.manifest.kept_from == 50 - VERSIONS_KEPT + 1
    table.commit([], [SetRetention(Retention(40))])
    commit(table, 10)
    assert table.manifest.kept_from == 51 - VERSIONS_KEPT, "what was let go of does not come back"
    commit(table, 40)
    assert table.manifest.kept_from == table.manifest.version - 39
    table.commit([], [SetRetention(Retention(2))])
    assert table.manifest.kept_from == table.manifest.version - 1
    assert set(table.segments_kept()) == needed(root)
