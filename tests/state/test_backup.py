"""Backups: only what is new is copied, a killed one leaves the former ones whole, damage is told and not copied."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from object_server import S3Server
from rotten_jobs import Rotten
from small_jobs import FILES, SmallJob, rows_of, write_rows
from watersmeet.cli.main import main
from watersmeet.errors import CheckpointError, ResourceError
from watersmeet.state.backup import make
from watersmeet.state.backup.index import BackupIndex
from watersmeet.state.backup.make import Made, back_up
from watersmeet.state.backup.restore import choose, delivered_since, restore, withdrawn_since
from watersmeet.state.backup.store import BackupStore
from watersmeet.state.backup.verify import wrong_files
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.verify.walk import verify


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    job = SmallJob(tmp_path).write()
    for stream in "AB":
        job.input(stream, FILES - 1).unlink()
    job.finish()
    return job


def go_on(job: SmallJob) -> None:
    """Run the last batch."""
    for stream in "AB":
        write_rows(job.input(stream, FILES - 1), rows_of(FILES - 1))
    job.finish()


def store_of(job: SmallJob) -> BackupStore:
    return BackupStore(str(job.home / "backups"))


def backed_up(job: SmallJob, store: BackupStore | None = None, keep: int = 3) -> Made:
    made = back_up(CheckpointFolders(str(job.checkpoint)), store or store_of(job), "now", keep)
    assert made is not None
    return made


def whole(store: BackupStore) -> bool:
    return not wrong_files(store, store.whole(), lambda done, total: None)


def test_only_what_is_new_is_copied_and_what_nobody_needs_is_dropped(job: SmallJob) -> None:
    first = backed_up(job)
    again = backed_up(job)
    assert (again.copied_files, again.index.version) == (0, first.index.version)
    go_on(job)
    later = backed_up(job, keep=1)
    assert 0 < later.copied_files < len(later.index.files)
    assert [index.number for index in store_of(job).whole()] == [3]
    assert whole(store_of(job))
    stored = [path for path in (job.home / "backups/files").rglob("*") if path.is_file()]
    assert {(int(path.parent.name), path.name) for path in stored} == {file.place for file in later.index.files}


def test_a_restored_checkpoint_goes_on_elsewhere(job: SmallJob) -> None:
    backed_up(job)
    shutil.rmtree(job.checkpoint)
    place = CheckpointFolders(str(job.home / "elsewhere"))
    restore(store_of(job), choose(store_of(job), None), place)
    job.spoil(f'checkpoint = "{job.checkpoint}"', f'checkpoint = "{place.home.path()}"')
    go_on(job)
    assert job.answer() == job.expected()
    report = verify(place)
    assert report is not None and report.sound


def cut_off_after(count: int) -> Callable[..., Any]:
    copies = [0]
    whole_copy = make.copy_pieces

    def copy_pieces(*args: Any) -> Any:
        copies[0] += 1
        if copies[0] > count:
            raise KeyboardInterrupt
        return whole_copy(*args)

    return copy_pieces


def test_a_backup_that_was_killed_leaves_the_former_one(job: SmallJob, monkeypatch: pytest.MonkeyPatch) -> None:
    first = backed_up(job)
    go_on(job)
    with monkeypatch.context() as patch:
        patch.setattr(make, "copy_pieces", cut_off_after(2))
        with pytest.raises(KeyboardInterrupt):
            backed_up(job)
    assert [index.number for index in store_of(job).whole()] == [first.index.number]
    assert whole(store_of(job))
    third = backed_up(job, keep=1)
    assert third.index.number == 3
    assert [path.name for path in (job.home / "backups/files").iterdir() if "2" in path.name] == []
    assert whole(store_of(job))


def test_one_that_was_taken_for_dead_is_told(job: SmallJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a store there is no lock: a second backup begins while the first is still copying."""
    store = store_of(job)
    finish = BackupStore.finish

    def late(self: BackupStore, index: BackupIndex) -> None:
        if index.number == 1:
            assert self.begin({}) == 2
        finish(self, index)

    monkeypatch.setattr(BackupStore, "finish", late)
    with pytest.raises(CheckpointError, match="another backup to the same folder has begun"):
        backed_up(job, store)
    assert backed_up(job, store).index.number == 3
    assert [index.number for index in store.whole()] == [3]
    assert whole(store)


def test_two_at_once_where_there_are_locks(job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    lock = make._lock(store_of(job))
    assert main(["state", "backup", str(job.checkpoint), store_of(job).home.path()]) == 2
    assert "another backup to the same folder is at work" in capsys.readouterr().err
    lock.release()


@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_damage_is_told_and_not_copied(job: SmallJob, damage: str) -> None:
    backed_up(job)
    go_on(job)
    path = max((job.checkpoint / "state/segments").iterdir())
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    if damage == "flip":
        path.write_bytes(data)
    with pytest.raises(ResourceError, match="is corrupt, and was not copied" if damage == "flip" else "is missing"):
        backed_up(job)
    assert [index.number for index in store_of(job).whole()] == [1]
    assert whole(store_of(job))


def test_a_damaged_backup_is_told_and_not_restored(job: SmallJob) -> None:
    made = backed_up(job)
    file = next(file for file in made.index.files if file.path.startswith("state/segments/"))
    path = Path(store_of(job).files(file.number).path(file.name))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert not whole(store_of(job))
    place = CheckpointFolders(str(job.home / "elsewhere"))
    with pytest.raises(ResourceError, match="is corrupt, and was not copied"):
        restore(store_of(job), made.index, place)
    # What there is of it is not taken for a checkpoint, nor for none.
    job.spoil(f'checkpoint = "{job.checkpoint}"', f'checkpoint = "{place.home.path()}"')
    assert main(job.arguments()) == 1
    with pytest.raises(CheckpointError, match="there is something already"):
        restore(store_of(job), made.index, place)


def test_results_that_were_delivered_since_are_found(job: SmallJob) -> None:
    made = backed_up(job)
    assert delivered_since(made.index, CheckpointFolders(str(job.checkpoint)).home) == []
    before = {path.name for path in job.out.glob("*.parquet")}
    go_on(job)
    found = delivered_since(made.index, CheckpointFolders(str(job.checkpoint)).home)
    assert {name for entry in found for name in entry.names} == {p.name for p in job.out.glob("*.parquet")} - before


def test_to_a_store_and_back(job: SmallJob, s3: S3Server) -> None:
    store = BackupStore(s3.address(f"{s3.bucket()}/backups"))
    backed_up(job, store)
    go_on(job)
    second = backed_up(job, store, keep=1)
    assert whole(store) and 0 < second.copied_files < len(second.index.files)
    place = CheckpointFolders(s3.address(f"{s3.bucket()}/ck"))
    restore(store, second.index, place)
    report = verify(place)
    assert report is not None and report.sound and report.version == second.index.version
    assert report.checked["segment"] == sum(file.path.startswith("state/segments/") for file in second.index.files)
    shutil.rmtree(job.checkpoint)
    again = BackupStore(str(job.home / "copies"))
    made = back_up(place, again, "now")
    assert made is not None
    restore(again, made.index, CheckpointFolders(str(job.checkpoint)))
    job.finish()
    assert job.answer() == job.expected()


def test_nothing_to_back_up_or_to_restore(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "backup", str(tmp_path / "no"), str(tmp_path / "to")]) == 2
    assert main(["state", "verify", str(tmp_path / "no")]) == 2
    assert main(["state", "restore", str(tmp_path / "to"), str(tmp_path / "ck")]) == 2
    assert main(["state", "backups", str(tmp_path / "to")]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "to").exists()


def test_what_waits_for_its_delivery_comes_back_with_the_checkpoint(tmp_path: Path) -> None:
    rotten = Rotten(tmp_path)
    home = rotten.job.home
    store = BackupStore(str(tmp_path / "backups"))
    made = back_up(CheckpointFolders(str(home / "ck")), store, "now")
    assert made is not None and not made.unknown
    waiting = [path for folder in ("out", "late") for path in home.glob(f"{folder}/_watersmeet*/*")]
    stored = {Path(file.path).name for file in made.index.files if file.path.startswith("state/results/")}
    assert stored and stored <= {path.name for path in waiting}
    shutil.rmtree(home / "ck")
    for path in waiting:
        path.unlink()
    restore(store, made.index, CheckpointFolders(str(home / "ck")))
    report = verify(CheckpointFolders(str(home / "ck")))
    assert report is not None and report.checked["waiting file"] == len(stored)
    assert rotten.go_on() == "right"
    assert not list((home / "ck/state/results").iterdir())


def test_a_folder_for_one_checkpoint_and_not_inside_it(job: SmallJob, tmp_path: Path) -> None:
    backed_up(job)
    with pytest.raises(CheckpointError, match="is in the checkpoint itself"):
        backed_up(job, BackupStore(str(job.checkpoint / "backups")))
    other = SmallJob(tmp_path / "other")
    other.home.mkdir()
    other.write().finish()
    with pytest.raises(CheckpointError, match="holds backups of another checkpoint"):
        backed_up(other, store_of(job))
    assert [index.number for index in store_of(job).whole()] == [1]


@pytest.mark.parametrize("place", ["backups", "backups/ck", "backups/x/../ck"])
def test_no_checkpoint_is_made_among_the_backups(place: str, job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    backed_up(job)
    before = sorted((job.home / "backups").rglob("*"))
    assert main(["state", "restore", str(job.home / "backups"), f"{job.home}/{place}"]) == 2
    assert "error: the checkpoint is to be in the folder for backups itself" in capsys.readouterr().err
    assert sorted((job.home / "backups").rglob("*")) == before


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_where_a_folder_is_to_be(place: str, job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    backed_up(job)
    (job.home / "file").write_text("")
    assert main(["state", "backup", str(job.checkpoint), str(job.home / place)]) == 2
    assert main(["state", "restore", str(job.home / "backups"), str(job.home / place)]) == 2
    assert capsys.readouterr().err.count(f'error: "{job.home / "file"}" is not a folder') == 2


def test_a_backup_from_before_a_rollback_tells_of_results_that_it_took_out(
    job: SmallJob, capsys: pytest.CaptureFixture[str]
) -> None:
    first = backed_up(job)
    go_on(job)
    second = backed_up(job)
    delivered = {path.name for path in job.out.glob("*.parquet")}
    assert main(["state", "rollback", str(job.checkpoint), "--to-version", str(first.index.version), "--yes"]) == 0
    taken = delivered - {path.name for path in job.out.glob("*.parquet")}
    assert taken
    home = CheckpointFolders(str(job.checkpoint)).home
    assert withdrawn_since(first.index, home) == []
    assert {name for entry in withdrawn_since(second.index, home) for name in entry.names} == taken
    assert withdrawn_since(backed_up(job).index, home) == []
    shutil.rmtree(job.checkpoint)
    capsys.readouterr()
    assert main(["state", "restore", str(job.home / "backups"), str(job.checkpoint), "--number", "2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{len(taken)} files that were delivered before the backup" in said


def test_after_a_rollback_what_stays_is_not_taken_for_later(job: SmallJob) -> None:
    first = backed_up(job)
    go_on(job)
    arguments = ["state", "rollback", str(job.checkpoint), "--to-version", str(first.index.version), "--yes"]
    assert main(arguments) == 0
    made = backed_up(job)
    assert made.index.batch == first.index.batch < FILES - 1
    assert delivered_since(made.index, CheckpointFolders(str(job.checkpoint)).home) == []
    shutil.rmtree(job.checkpoint)
    restore(store_of(job), made.index, CheckpointFolders(str(job.checkpoint)))
    report = verify(CheckpointFolders(str(job.checkpoint)))
    assert report is not None and report.sound
    job.finish()
    assert job.answer() == job.expected()


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_no_folder_of_other_things_is_written_to(
    command: str, job: SmallJob, capsys: pytest.CaptureFixture[str]
) -> None:
    backed_up(job)
    place = job.input("A", 0).parent
    source = job.checkpoint if command == "backup" else job.home / "backups"
    before = sorted(place.iterdir())
    assert main(["state", command, str(source), str(place)]) == 2
    said = "backups" if command == "backup" else "a checkpoint"
    assert f'error: the folder "{place}" holds other things than {said}' in capsys.readouterr().err
    assert sorted(place.iterdir()) == before
