"""Checkpoints of another format: one that there is an upgrade for is opened after it, and the others are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from small_jobs import SmallJob
from watersmeet.config import load_job
from watersmeet.errors import CheckpointError
from watersmeet.lang.binder import bind
from watersmeet.plan.query import Query
from watersmeet.runtime import upgrading
from watersmeet.runtime.upgrading import open_table
from watersmeet.state.files import Folder
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import FORMAT, Manifest
from watersmeet.state.sealed import seal, unseal
from watersmeet.state.table import decode, drop_before, table_folders, table_numbers, version_name

OLD = FORMAT - 1


def upgrade(root: Folder, query: Query) -> None:
    """As one of a release: the last snapshot of the former format becomes one of ours, and what came before it goes."""
    versions, snapshots = table_folders(root)
    newest = max(table_numbers(snapshots))
    content, _ = decode(snapshots, version_name(newest), OLD)
    manifest = Manifest.from_json({**content, "version": newest + 1})
    snapshots.put_if_absent(version_name(manifest.version), seal(manifest.to_json()))
    drop_before(manifest.version, versions)
    drop_before(manifest.version, snapshots)


@pytest.fixture
def old(tmp_path: Path) -> SmallJob:
    """A job with a checkpoint that is one snapshot, of the former format."""
    job = SmallJob(tmp_path).write()
    job.finish()
    home = folders(job)
    table = open_table(home, query_of(job))
    assert table is not None
    table.take_snapshot()
    name = version_name(table.manifest.version)
    content, _ = unseal(table.snapshots.read(name))
    for folder in table_folders(home.state):
        folder.delete_all(folder.names())
    table.snapshots.put_if_absent(name, seal({**content, "format": OLD}))
    home.state.delete("head")
    return job


def folders(job: SmallJob) -> CheckpointFolders:
    return CheckpointFolders(str(job.checkpoint))


def query_of(job: SmallJob) -> Query:
    loaded = load_job(job.path)
    return bind(loaded.query, loaded.streams())


def test_one_that_there_is_an_upgrade_for(old: SmallJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrading, "UPGRADES", {OLD: upgrade})
    table = open_table(folders(old), query_of(old))
    assert table is not None
    assert table_numbers(table.snapshots) == [table.manifest.version]
    old.finish()
    assert old.answer() == old.expected()


def test_one_that_no_release_has_written(old: SmallJob) -> None:
    with pytest.raises(CheckpointError) as caught:
        open_table(folders(old), query_of(old))
    assert caught.value.primary == "the checkpoint was written by an earlier version of watersmeet"
    assert f"It has format {OLD}; this version writes format {FORMAT}." in (caught.value.detail or "")
    assert caught.value.hint == "Use another checkpoint folder, or run the job with the version that made this one."
