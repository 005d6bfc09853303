"""A change of the plan that the machine does not allow: the former plan goes on, and nothing is lost.

A full disk stopped the run after all, because of the files that the change had made in vain.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, write_streams
from small_disk import small_disk, used_kilobytes
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import read_versions

CASE = JoinCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)}, "A.x = B.x AND B.y = C.y AND C.z = D.z", 3 * SECOND
)
BATCHES = 6
STREAMS = draw_streams(CASE, BATCHES, 12, 3, seed=1)
EXPECTED = duckdb_answer(CASE, STREAMS)
LEFT_DEEP = "(((A B) C) D)"


def head(job: JudgedJob) -> Manifest:
    return list(read_versions(Folder(str(job.home / "ck" / "state"))))[-1]


def abandoned(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = [entry for event in events for entry in event.get("decisions", ())]
    assert not [entry for entry in found if entry["decision"] == "ChangePlan"]
    return [entry for entry in found if entry["decision"] == "MigrationAbandoned"]


def forced(batch: int) -> str:
    return f'[[adapt.force]]\nat_batch = {batch}\nplan = "left-deep"\nby = "moving-state"\n'


@pytest.mark.parametrize("durability", ["process", "power-loss"])
def test_a_full_disk(durability: str, tmp_path: Path) -> None:
    run = f'durability = "{durability}"\nkeep_versions = 1'
    job = JudgedJob.write(tmp_path, CASE, run, 'plan = "mjoin"\n' + forced(3) + forced(5))
    with small_disk(tmp_path / "ck", "8m") as resize:
        write_streams(CASE, STREAMS, tmp_path / "in", 0, 3)
        job.finish()
        write_streams(CASE, STREAMS, tmp_path / "in")
        resize(f"{used_kilobytes(tmp_path / 'ck') + 220}k")
        found = abandoned(job.finish())
        assert [(entry["plan"], entry["by"], entry["before_batch"]) for entry in found] == [
            (LEFT_DEEP, "moving-state", 3),
            (LEFT_DEEP, "moving-state", 5),
        ]
        for entry in found:
            assert entry["reason"].startswith('forced: cannot write "')
            assert entry["reason"].endswith("No space left on device")
        assert head(job).plan == "(A B C D)"
        assert not difference(job.answer(), EXPECTED)
        resize("8m")
        job.finish("adapt.plan=left-deep")
        assert head(job).plan == LEFT_DEEP
    assert not difference(job.answer(), EXPECTED)


def test_a_full_disk_while_what_is_owed_is_emitted(tmp_path: Path) -> None:
    """The rounds of merges before a change fail, not the change itself; on a disk with room they go on where it was."""
    run = "memory = 1500\nkeep_versions = 1\ngroups = 2"
    job = JudgedJob.write(tmp_path, CASE, run, f'plan = "{LEFT_DEEP}"\nmerge = "off"\nspill = "largest"')
    with small_disk(tmp_path / "ck", "16m") as resize:
        write_streams(CASE, STREAMS, tmp_path / "in", 0, 4)
        assert job.start(fault="before-migration").code == 0, "there is none"
        write_streams(CASE, STREAMS, tmp_path / "in")
        resize(f"{used_kilobytes(tmp_path / 'ck') + 12}k")
        job.run_here("adapt.plan=mjoin")
        assert job.answer() <= EXPECTED
        resize("16m")
        job.finish("adapt.plan=mjoin")
        assert head(job).plan == "(A B C D)"
    assert not difference(job.answer(), EXPECTED)


ON_SPARK = pytest.param("changed", "spark", marks=[pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign])


@pytest.mark.parametrize("spoil, runtime", [("changed", "local"), ("cut short", "local"), ("gone", "local"), ON_SPARK])
def test_a_segment_that_cannot_be_read(spoil: str, runtime: str, tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path, CASE, 'durability = "process"', 'plan = "mjoin"', runtime=runtime)
    write_streams(CASE, STREAMS, tmp_path / "in")
    job.finish()
    segment = next(entry for entry in head(job).segments.values() if entry.state.startswith("B@"))
    path = tmp_path / "ck" / "state" / "segments" / f"{segment.file}.arrow"
    sound = path.read_bytes()
    if spoil == "gone":
        path.unlink()
    else:
        rotten = bytearray(sound)
        rotten[len(sound) // 2] ^= 1
        path.write_bytes(bytes(rotten) if spoil == "changed" else sound[: len(sound) // 2])
    events = job.finish("adapt.plan=left-deep")
    (found,) = abandoned(events)
    assert found["reason"].startswith("the settings say so: ")
    assert segment.file in found["reason"]
    assert head(job).plan == "(A B C D)"
    path.write_bytes(sound)
    job.finish("adapt.plan=left-deep")
    assert head(job).plan == LEFT_DEEP, "it is tried again by the next run"
    assert not difference(job.answer(), EXPECTED)
