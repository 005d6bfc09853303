"""Which versions are kept: by number, by time, and what that leaves on disk."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.model.ids import SegmentId, StateName
from watersmeet.model.segments import Segment
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.retention import VERSIONS_KEPT, FilesKept, Retention
from watersmeet.state.sealed import seal, unseal
from watersmeet.state.table import SNAPSHOT_EVERY, SNAPSHOT_SHARE, FileTable, read_versions, table_numbers, version_name
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


def test_a_checkpoint_of_an_earlier_release(root: Folder, first_manifest: Manifest) -> None:
    """Its versions say neither when they were committed nor what was kept."""
    table, _ = make(root, first_manifest, Retention())
    commit(table, 30)
    digest: str | None = None
    for folder in (table.snapshots, table.versions):
        for number in table_numbers(folder):
            content, _ = unseal(folder.read(version_name(number)))
            for name in ("committed_us", "kept_from", "retention"):
                content.pop(name, None)
            if "updates" in content:
                content["after"] = digest
            elif number:
                continue
            sealed = seal(content)
            folder.delete(version_name(number))
            folder.put_if_absent(version_name(number), sealed)
            digest = unseal(sealed)[1]
    table.snapshots.delete(version_name(SNAPSHOT_EVERY))
    root.delete("head")
    again = FileTable.open(root, Ticks())
    assert again is not None
    assert (again.manifest.kept_from, again.manifest.committed_us) == (30 - VERSIONS_KEPT + 1, None)
    commit(again, 2)
    assert (again.manifest.kept_from, again.manifest.committed_us) == (32 - VERSIONS_KEPT + 1, 2 * SECOND)


def test_the_files_of_a_long_retention_are_few_beside_its_versions(root: Folder, first_manifest: Manifest) -> None:
    """And the cost of a commit does not grow: folders are listed when old versions go, in few steps."""
    table, _ = make(root, first_manifest, Retention(400))
    listed = Counter[str]()
    names = Folder.names

    def count(folder: Folder) -> list[str]:
        listed[Path(folder.path()).name] += 1
        return names(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "names", count)
        commit(table, 1200)
    assert listed["versions"] <= 3 * SNAPSHOT_SHARE < 1200 / SNAPSHOT_EVERY, "not for every snapshot"
    assert len(table_numbers(table.snapshots)) <= 2 * SNAPSHOT_SHARE + 3
    versions = table_numbers(table.versions)
    assert 400 <= len(versions) <= 400 * (1 + 2 / SNAPSHOT_SHARE) + SNAPSHOT_EVERY
    assert len(needed(root)) == 400
    assert json.loads(Path(table.snapshots.path(version_name(0))).read_text())["version"] == 0


@given(st.lists(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=3), max_size=30), st.data())
def test_files_are_kept_while_a_version_refers_to_them(
    history: list[list[tuple[str, bool]]], data: st.DataObject
) -> None:
    """Against sets by version: files are added, dropped, and taken up again."""
    files = FilesKept()
    by_version: list[set[str]] = [set()]
    kept_from = 0
    gone: set[str] = set()
    for version, changes in enumerate(history, 1):
        before = by_version[-1]
        after = set(before)
        for name, added in changes:
            if added and name not in gone:
                after.add(name)
            else:
                after.discard(name)
        by_version.append(after)
        files.change(version, [(name, 1) for name in after - before] + [(name, -1) for name in before - after])
        kept_from = data.draw(st.integers(kept_from, version), label="kept from")
        wanted = set().union(*by_version[kept_from:])
        assert set(files.needed(kept_from)) == wanted
        popped = files.pop(kept_from)
        assert len(popped) == len(set(popped))
        assert not set(popped) & wanted
        gone |= set(popped)
        assert gone | wanted == set().union(*by_version), "what nobody needs has been told"


def test_a_file_that_comes_and_goes_with_one_version_is_kept_for_none(root: Folder, first_manifest: Manifest) -> None:
    table, _ = make(root, first_manifest, Retention(100, None))
    table.commit([], [AddSegment(segment("expired")), AddSegment(segment("kept"))], lambda after: [_let_go("expired")])
    assert table.segments_kept() == ["kept"]
    assert table.pop_dropped() == ["expired"]
    table.commit([], [_let_go("kept")])
    assert (table.segments_kept(), table.pop_dropped()) == (["kept"], []), "the version before refers to it"


def _let_go(name: str) -> ReleaseGroups:
    return ReleaseGroups(SegmentId(name), GROUPS)
