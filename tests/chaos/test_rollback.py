"""Rollbacks through the command line: what comes out in the end is DuckDB's answer, whatever is undone, whoever dies.

`WATERSMEET_SEEDS=500 pytest tests/chaos/test_rollback.py -k histories` draws hundreds of histories.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from judged_jobs import (
    SECOND,
    JoinCase,
    JudgedJob,
    Streams,
    difference,
    draw_streams,
    duckdb_answer,
    late_rows,
    write_streams,
)
from watersmeet.faults import ROLLBACK_POINTS
from watersmeet.state.epochs import TakenOverError
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import FileTable, read_versions

CASE = JoinCase(
    {"A": ("k", "l"), "B": ("k", "l"), "C": ("l",)}, "A.k = B.k AND B.l = C.l", window_us=6 * SECOND, lateness_us=SECOND
)
BATCHES = 8
KEPT = "run.keep_versions=60"
SEEDS = int(os.environ.get("WATERSMEET_SEEDS", "6"))


class History:
    """A job whose input comes bit by bit, and what must come out of it."""

    def __init__(self, home: Path, seed: int, run: str = "") -> None:
        self.streams: Streams = draw_streams(CASE, BATCHES, 12, 6, seed=seed, late=2)
        self.job = JudgedJob.write(home, CASE, run=run)
        self.come = 0

    def read(self, batches: int, *settings: str) -> None:
        """So many more batches of input come, and all there is is read."""
        first, self.come = self.come, min(BATCHES, self.come + batches)
        write_streams(CASE, self.streams, self.job.home / "in", first, self.come)
        self.job.finish(KEPT, "run.durability=process", *settings)

    def manifests(self) -> list[Manifest]:
        return list(read_versions(Folder(str(self.job.home / "ck" / "state"))))

    def after_batch(self, batch: int) -> int:
        """The last version after a batch that can be gone back to."""
        found = self.manifests()
        can = [m.version for m in found if m.last_batch == batch and found[-1].can_go_back_to(m.version)]
        return can[-1]

    def roll_back(self, version: int, *settings: str) -> str:
        code, out, err = self.job.call("state", "rollback", "ck", "--to-version", str(version), "--yes", *settings)
        assert code == 0, err
        return out

    def compact(self) -> str:
        code, out, err = self.job.call("state", "compact", "ck")
        assert code == 0, err
        return out

    def check(self) -> None:
        """All that has come has been answered, once."""
        come = {name: batches[: self.come] for name, batches in self.streams.items()}
        assert difference(self.job.answer(), duckdb_answer(CASE, come)) == ""
        assert self.job.late() == late_rows(CASE, come)


@pytest.mark.parametrize("how", ["aside", "remove"])
@pytest.mark.parametrize("run", ["", "memory = 1500"])
def test_what_was_undone_comes_again_once(how: str, run: str, tmp_path: Path) -> None:
    history = History(tmp_path, 1, run)
    history.read(6)
    history.check()
    before = set((tmp_path / "out").glob("*.parquet"))
    version = history.after_batch(2)
    said = history.roll_back(version, "--results", how)
    assert f"back to version {version}, after batch 2" in said
    assert "3 batches" in said
    assert "read again: stream A, " in said
    assert "in 3 files (" in said
    left = set((tmp_path / "out").glob("*.parquet"))
    assert left < before
    aside = list((tmp_path / "out").glob("_rolled-back-*/*.parquet"))
    assert {path.name for path in aside} == ({path.name for path in before - left} if how == "aside" else set())
    assert history.manifests()[-1].last_batch == 2
    history.read(0)
    history.check()
    history.read(2)
    history.check()


def test_results_that_are_kept_are_there_twice(tmp_path: Path) -> None:
    history = History(tmp_path, 2)
    history.read(5)
    expected = history.job.answer()
    said = history.roll_back(history.after_batch(1), "--results", "keep")
    assert "so that their results will be there twice" in said
    history.read(0)
    found = history.job.answer()
    assert set(found) == set(expected)
    assert found.total() > expected.total()


def test_to_before_the_first_batch(tmp_path: Path) -> None:
    history = History(tmp_path, 3)
    history.read(4)
    history.roll_back(0)
    assert list((tmp_path / "out").glob("*.parquet")) == []
    history.read(1)
    history.check()


def test_past_an_input_that_was_poisoned(tmp_path: Path) -> None:
    """A file of rubbish was read; it is removed, the state goes back to before it, and nothing of it is left."""
    history = History(tmp_path, 4)
    history.read(3)
    spoilt = {name: [{**row, "v": row["v"] + 1000} for row in batches[0]] for name, batches in history.streams.items()}
    rubbish: Streams = {name: [[], [], [], rows] for name, rows in spoilt.items()}
    write_streams(CASE, rubbish, tmp_path / "in", 3, 4)
    history.job.finish(KEPT)
    version = history.after_batch(2)
    for path in (tmp_path / "in").glob("*/*3.parquet"):
        path.unlink()
    said = history.roll_back(version)
    assert "not there any more" in said
    history.read(5)
    history.check()


def test_it_asks_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(tmp_path, 5)
    history.read(4)
    head = history.manifests()[-1]

    def refused(version: int, *settings: str) -> str:
        code, _, err = history.job.call("state", "rollback", "ck", "--to-version", str(version), *settings)
        assert code == 2, err
        assert "Traceback" not in err
        return err

    assert "a rollback has to be agreed to" in refused(1)
    assert f"the checkpoint is at version {head.version}" in refused(head.version, "--yes")
    assert "version 999 cannot be gone back to" in refused(999, "--yes")
    assert history.manifests()[-1] == head
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda text: "n")
    code, out, _ = history.job.call("state", "rollback", "ck", "--to-version", "1")
    assert (code, out.splitlines()[-1]) == (0, "nothing was changed")
    assert history.manifests()[-1] == head
    history.roll_back(history.after_batch(1))
    assert f"version {head.version} has been undone" in refused(head.version, "--yes")
    history.job.finish("run.keep_versions=1")
    assert "There is none that it can be" in refused(1, "--yes")
    history.check()


def test_a_run_that_was_asleep_is_fenced(tmp_path: Path) -> None:
    history = History(tmp_path, 6)
    history.read(3)
    asleep = FileTable.open(Folder(str(tmp_path / "ck" / "state")))
    assert asleep is not None
    history.roll_back(history.after_batch(0))
    with pytest.raises(TakenOverError):
        asleep.commit([], [])
    history.read(1)
    history.check()


POINTS = ("before-commit", "in-commit", "after-commit", *(p for p in ROLLBACK_POINTS if "spark" not in p))


@pytest.mark.parametrize("point", POINTS)
def test_killed_in_a_rollback(point: str, tmp_path: Path) -> None:
    """The old state or the new one; and both go on to the right answer, with another rollback or without."""
    history = History(tmp_path, 7)
    history.read(6)
    head, version = history.manifests()[-1], history.after_batch(2)
    arguments = ["state", "rollback", "ck", "--to-version", str(version), "--yes"]
    code = history.job.fork(arguments, point, tmp_path / "o", tmp_path / "e")
    assert (code, history.job.marker(point).exists()) == (-9, True)
    after = history.manifests()[-1]
    if point in ("before-commit", "in-commit"):
        assert after == head
        history.check()
    else:
        assert after.last_batch == 2
        assert after.version == head.version + 1
    history.read(2)
    history.check()
    assert history.manifests()[-1].withdrawals == ()


def test_killed_in_a_rollback_and_rolled_back_further(tmp_path: Path) -> None:
    history = History(tmp_path, 8)
    history.read(6)
    arguments = ["state", "rollback", "ck", "--to-version", str(history.after_batch(3)), "--yes"]
    history.job.fork(arguments, "in-withdrawal", tmp_path / "o", tmp_path / "e")
    history.roll_back(history.after_batch(1))
    assert len(history.manifests()[-1].withdrawals) == 2
    history.read(2)
    history.check()


@pytest.mark.parametrize("run", ["", "memory = 1500", "memory = 1500\nslots = 3"])
def test_compaction_leaves_few_files_and_the_same_rows(run: str, tmp_path: Path) -> None:
    history = History(tmp_path, 9, run)
    for _ in range(3):
        history.read(2, "adapt.merge=off")
    before = history.manifests()[-1]
    said = history.compact()
    after = history.manifests()[-1]
    assert "files with" in said
    assert after.last_batch == before.last_batch
    assert after.next_delivery == before.next_delivery
    assert len(after.segments) < len(before.segments)
    assert after.state_rows <= before.state_rows, "what has expired may go"
    assert {(s.state, s.generation) for s in after.segments.values()} <= {
        (s.state, s.generation) for s in before.segments.values()
    }
    assert (tmp_path / "ck" / "state" / "snapshots" / f"{after.version:020d}.json").exists()
    code, _, err = history.job.call("state", "verify", "ck")
    assert code == 0, err
    assert after.can_go_back_to(before.version)
    history.roll_back(before.version)
    history.compact()
    files = {segment.file for segment in history.manifests()[-1].segments.values()}
    history.compact()  # there is nothing left to do
    assert {segment.file for segment in history.manifests()[-1].segments.values()} == files
    history.read(2)
    history.check()
    unused = set((tmp_path / "ck" / "state" / "segments").iterdir())
    history.job.finish("run.keep_versions=1")
    history.compact()
    left = set((tmp_path / "ck" / "state" / "segments").iterdir())
    assert len(left) < len(unused)
    history.check()


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.share(2)
def test_histories(seed: int, tmp_path: Path) -> None:
    """Batches, spills, merges, restarts, rollbacks, compactions, and the deaths of all, in any order."""
    draw = random.Random(seed)
    history = History(tmp_path, seed, draw.choice(["", "memory = 1500", "memory = 4000"]))
    history.read(2)
    for _ in range(8):
        match draw.choice(["read", "die", "roll back", "roll back", "roll back and die", "compact", "compact and die"]):
            case "read":
                history.read(draw.randint(0, 2), f"run.slots={draw.randint(1, 3)}")
            case "die":
                point = draw.choice(["before-commit", "after-commit", "in-delivery", "before-collect-garbage"])
                fault = f"{point}:{draw.randint(1, 4)}"
                history.job.start(KEPT, fault=fault)
                history.job.marker(fault).unlink(missing_ok=True)
            case "compact":
                history.compact()
            case "compact and die":
                point = draw.choice(["before-commit:2", "after-commit", "after-segment", "before-snapshot"])
                history.job.fork(["state", "compact", "ck"], point, tmp_path / "o", tmp_path / "e")
                history.job.marker(point).unlink(missing_ok=True)
            case action:
                found = history.manifests()
                can = [m.version for m in found if found[-1].can_go_back_to(m.version)]
                if not can:
                    continue
                version, how = draw.choice(can), draw.choice(["aside", "remove"])
                if action == "roll back":
                    history.roll_back(version, "--results", how)
                else:
                    point = draw.choice(POINTS)
                    arguments = ["state", "rollback", "ck", "--to-version", str(version), "--yes", "--results", how]
                    history.job.fork(arguments, point, tmp_path / "o", tmp_path / "e")
                    history.job.marker(point).unlink(missing_ok=True)
    history.read(BATCHES)
    history.check()
