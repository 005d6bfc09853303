"""Bad settings, damage and a full disk under a memory budget: told clearly, nothing lost, mended by a restart."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from small_disk import small_disk, used_kilobytes
from small_jobs import SmallJob, checked_main, write_rows
from watersmeet.cli.main import main
from watersmeet.config import load_job
from watersmeet.model.segments import Segment
from watersmeet.runtime.local.job import run_job
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import read_versions

BUDGET = "run.memory=2000"  # bytes; a batch brings about as much
ALL_COLD = ("run.memory=1", "adapt.merge=off")


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    return SmallJob(tmp_path).write()


def newest_version(job: SmallJob) -> Manifest:
    return list(read_versions(Folder(str(job.checkpoint / "state"))))[-1]


def run_here(job: SmallJob, *settings: str) -> list[dict[str, Any]]:
    """Run to the end; the events of batches and rounds of merges."""
    events: list[dict[str, Any]] = []
    run_job(load_job(str(job.path), settings), events.append)
    return [event for event in events if event["event"] in ("batch", "merge")]


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting, primary, helps",
    [
        ('adapt.spill="largets"', 'unknown spill "largets" in [adapt]', 'hint: Did you mean "largest"?'),
        ('adapt.spill="by mood"', 'unknown spill "by mood" in [adapt]', "global-output-penalty"),
        ('adapt.merge="state-manger"', "", 'hint: Did you mean "state-manager"?'),
        ('adapt.upkeep="emwa"', "", 'hint: Did you mean "ewma"?'),
        ("adapt.spill_at=1.5", '"spill_at" is 1.5', "at most 1"),
        ("adapt.spill_share=0.0", '"spill_share" is 0', "above 0"),
        ('adapt.force=[{at_batch=1, spill=["J9:0"]}]', '[[adapt.force]] names "J9:0"', "Its operators are J1"),
        ('adapt.force=[{at_batch=1, merge=["J1:300"]}]', '[[adapt.force]] names "J1:300"', "groups 0 to 299"),
        ('adapt.force=[{at_batch=1, cut=["J9:0"]}]', '[[adapt.force]] names "J9:0"', "Its operators are J1"),
        ('adapt.force=[{at_batch=1, cut=["J1:300"]}]', '[[adapt.force]] names "J1:300"', "groups 0 to 299"),
        ('adapt.force=[{at_batch=1, cut="J1:3"}]', '"cut" in [[adapt.force]] is', "It is a list"),
        ('adapt.force=[{at_batch=1, spill=["J1"]}]', '"spill" in [[adapt.force]] names', 'hint: For example "J1:17"'),
        ('adapt.force=[{at_bach=1, spill=["J1:0"]}]', 'unknown key "at_bach"', 'hint: Did you mean "at_batch"?'),
        ("adapt.force=[{at_batch=-1}]", "an entry of [[adapt.force]] has no batch", "the first is 0"),
    ],
)
def test_mistakes_in_the_settings(
    setting: str, primary: str, helps: str, job: SmallJob, capsys: pytest.CaptureFixture[str]
) -> None:
    err = checked_main(job, capsys, 2, primary, BUDGET, setting)
    assert helps in err
    assert "hint: " in err or "detail: " in err
    assert job.answer() == {}
    run_here(job, BUDGET)
    assert job.answer() == job.expected()


def test_a_forced_group_that_is_not_there_is_named_with_what_there_is(
    job: SmallJob, capsys: pytest.CaptureFixture[str]
) -> None:
    err = checked_main(job, capsys, 2, '[[adapt.force]] names "J2:0"', 'adapt.force=[{at_batch=1, spill=["J2:0"]}]')
    assert "hint: " in err
    err = checked_main(job, capsys, 2, '[[adapt.force]] names "J1:300"', 'adapt.force=[{at_batch=1, spill=["J1:300"]}]')
    assert 'Did you mean "J1"?' not in err, "that is what it says"


def test_a_budget_smaller_than_a_batch_works(job: SmallJob) -> None:
    """One byte: after each batch nothing is active, and what comes meanwhile is one batch's rows."""
    largest = max(event["active_bytes"] for event in run_here(replace_home(job, "unlimited")))
    events = run_here(job, "run.memory=1")
    assert job.answer() == job.expected()
    assert [event["active_bytes"] for event in events] == [0] * len(events)
    assert largest > 1000
    assert events[-1]["owed_groups"] == {}


def replace_home(job: SmallJob, name: str) -> SmallJob:
    """The same job in a folder of its own."""
    (job.home / name).mkdir()
    return replace(job, home=job.home / name).write()


# --- damage to cold segments -----------------------------------------------------------------------------------------


@pytest.fixture
def unpaid(job: SmallJob, monkeypatch: pytest.MonkeyPatch) -> SmallJob:
    """A job that has read all but its last batch, and owes results."""
    events: list[dict[str, Any]] = []
    run_job(load_job(str(job.path), ALL_COLD), events.append, stopped=lambda: len(events) > 3)
    assert events[-2]["owed_groups"]
    return job


def cold_file(job: SmallJob) -> tuple[Segment, Path]:
    """A cold segment whose file has no active part, so that nothing but a merge reads it."""
    segments = newest_version(job).segments.values()
    active = {segment.file for segment in segments if segment.tier == "active"}
    found = next(segment for segment in segments if segment.tier == "cold" and segment.file not in active)
    return found, job.checkpoint / "state" / "segments" / f"{found.file}.arrow"


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("settings", [ALL_COLD, ()], ids=["with the budget", "without it"])
@pytest.mark.parametrize(
    "damage, what",
    [(os.unlink, "is missing"), (flip_a_byte, "is corrupt"), (lambda path: os.truncate(path, 50), "is corrupt")],
    ids=["missing", "a byte flipped", "cut short"],
)
def test_damage_to_a_cold_segment_is_told_and_repair_goes_on(
    damage: Callable[[Path], Any],
    what: str,
    settings: tuple[str, ...],
    unpaid: SmallJob,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    segment, path = cold_file(unpaid)
    sound = path.read_bytes()
    damage(path)
    err = checked_main(unpaid, capsys, 1, 'segment "', *settings)
    assert f'segment "{segment.file}' in err
    assert what in err
    assert str(path) in err
    assert "hint: Restore the file from a backup" in err
    delivered = unpaid.answer()
    assert delivered <= unpaid.expected()
    assert main(["state", "show", str(unpaid.checkpoint)]) == 0, "what is there can be looked at"
    checked_main(unpaid, capsys, 1, 'segment "', *settings)
    assert unpaid.answer() == delivered, "to try again changes nothing"
    path.write_bytes(sound)
    run_here(unpaid, *settings)
    assert unpaid.answer() == unpaid.expected()


def test_batches_that_need_no_cold_segment_go_on_without_it(
    unpaid: SmallJob, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last batch is read and delivered before the drain finds the file missing."""
    _, path = cold_file(unpaid)
    sound = path.read_bytes()
    path.unlink()
    checked_main(unpaid, capsys, 1, 'segment "', *ALL_COLD)
    assert newest_version(unpaid).last_batch == 3
    path.write_bytes(sound)
    run_here(unpaid)
    assert unpaid.answer() == unpaid.expected()


# --- a full disk -----------------------------------------------------------------------------------------------------

BATCHES = 6
ROWS = 1200


def large_rows(number: int) -> list[dict[str, Any]]:
    """Each key comes once in every batch, so that the batches owe each other results."""
    noise = random.Random(number)
    return [{"k": i, "v": noise.getrandbits(60), "ts": number * 1_000_000 + i} for i in range(ROWS)]


@pytest.fixture
def large_job(tmp_path: Path) -> SmallJob:
    job = SmallJob(tmp_path).write()
    for stream in "AB":
        for number in range(BATCHES):
            write_rows(job.input(stream, number), large_rows(number))
    return job


def large_answer() -> Counter[tuple[Any, ...]]:
    rows = [large_rows(number) for number in range(BATCHES)]
    return Counter((key, first[key]["v"], second[key]["v"]) for key in range(ROWS) for first in rows for second in rows)


LARGE_BUDGET = ("run.memory=30000", "run.groups=20", "adapt.merge=off")


def check_full(job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    err = checked_main(job, capsys, 1, "cannot ", *LARGE_BUDGET)
    assert "No space left on device" in err
    assert "hint: Free some space and start the run again" in err
    assert job.answer() <= large_answer()


@pytest.mark.parametrize("size", ["200k", "300k", "400k"])
def test_a_disk_that_is_full_while_the_run_spills(
    size: str, large_job: SmallJob, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(large_job.checkpoint, size) as resize:
        check_full(large_job, capsys)
        before = large_job.answer()
        check_full(large_job, capsys)
        assert before <= large_job.answer()
        resize("50m")
        run_here(large_job, *LARGE_BUDGET)
        assert large_job.answer() == large_answer()


def test_a_disk_that_is_full_when_what_is_owed_is_paid(large_job: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    """All is read and spilled; then there is no room for the generations that a merge unites."""
    with small_disk(large_job.checkpoint, "50m") as resize:
        events: list[dict[str, Any]] = []
        job = load_job(str(large_job.path), LARGE_BUDGET)
        run_job(job, events.append, stopped=lambda: len(events) > BATCHES)
        assert newest_version(large_job).last_batch == BATCHES - 1
        assert events[-2]["owed_groups"]
        for spare in (8, 40):
            resize(f"{used_kilobytes(large_job.checkpoint) + spare}k")
            check_full(large_job, capsys)
            assert newest_version(large_job).last_batch == BATCHES - 1
        resize("50m")
        run_here(large_job, *LARGE_BUDGET)
        assert large_job.answer() == large_answer()


def test_an_output_that_is_full_when_what_is_owed_is_paid(
    large_job: SmallJob, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(large_job.out, "50m") as resize:
        events: list[dict[str, Any]] = []
        run_job(load_job(str(large_job.path), LARGE_BUDGET), events.append, stopped=lambda: len(events) > BATCHES)
        resize(f"{used_kilobytes(large_job.out) + 8}k")
        check_full(large_job, capsys)
        resize("50m")
        run_here(large_job, *LARGE_BUDGET)
        assert large_job.answer() == large_answer()


# --- the end of a run that does not end by itself --------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_that_drains_pays_everything(number: signal.Signals, job: SmallJob) -> None:
    settings = (BUDGET, "adapt.merge=off", "run.trigger=200 milliseconds")
    run = subprocess.Popen(
        [*job.command(*settings), "--drain"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert run.stdout is not None
        events = [json.loads(run.stdout.readline()) for _ in range(5)]
        assert events[-1]["batch"] == 3
        assert events[-1]["owed_groups"]
        assert job.answer() < job.expected()
        run.send_signal(number)
        out, err = run.communicate(timeout=60)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 0, err
    rest = [json.loads(line) for line in out.splitlines()]
    assert rest[-1]["event"] == "end"
    assert [event["event"] for event in rest[:-1] if event["event"] != "merge"] == []
    assert rest[-2]["owed_groups"] == {}
    assert job.answer() == job.expected()


def test_an_interrupted_run_that_does_not_drain_owes_until_the_next(job: SmallJob) -> None:
    settings = (BUDGET, "adapt.merge=off", "run.trigger=200 milliseconds")
    run = subprocess.Popen(job.command(*settings), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert run.stdout is not None
        for _ in range(5):  # the start and four batches
            run.stdout.readline()
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 130
    assert job.answer() < job.expected()
    run_here(job)
    assert job.answer() == job.expected()


# --- what can be looked at -------------------------------------------------------------------------------------------


def test_state_show_of_a_checkpoint_with_cold_generations(unpaid: SmallJob, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["state", "show", str(unpaid.checkpoint)]) == 0
    out = capsys.readouterr().out
    manifest = newest_version(unpaid)
    squeezed = [" ".join(line.split()) for line in out.splitlines()]
    for segment in manifest.segments.values():
        line = next(line for line in squeezed if line.startswith(f"{segment.id} "))
        assert f" {segment.generation} {segment.tier} " in line
    assert {segment.tier for segment in manifest.segments.values()} >= {"cold"}
    decisions = squeezed[squeezed.index("decisions") :]
    spills = [line for line in decisions if "spill of " in line]
    assert len(spills) == len([entry for entry in manifest.decisions if entry["decision"] == "SpillGroups"]) > 0
    assert all("global-output-penalty: " in line for line in spills), "with the reason"
    assert main(["state", "ls", str(unpaid.checkpoint)]) == 0
    capsys.readouterr()
    assert main(["state", "show", str(unpaid.checkpoint), "--json"]) == 0
    assert Manifest.from_json(json.loads(capsys.readouterr().out)) == manifest
