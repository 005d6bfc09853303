"""Bits that change on the disk, and files that go missing or change places: told, or without harm, never silent.

One checkpoint with some of everything (versions, snapshots, lists of files, segments, results and late rows that wait,
the head) is copied, damaged and gone on from, again and again. Each time either the run is refused with a message, and
nothing wrong was delivered, or its answer is right.

`WATERSMEET_BIT_FLIPS` is how many bits are flipped (`make test-bit-rot`).
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable

import pytest

from rotten_jobs import KINDS, Rotten, flip, swap

FLIPS = int(os.environ.get("WATERSMEET_BIT_FLIPS", "48"))


@pytest.fixture(scope="module")
def rotten(tmp_path_factory: pytest.TempPathFactory) -> Rotten:
    return Rotten(tmp_path_factory.mktemp("rot"))


@pytest.fixture
def job(rotten: Rotten) -> Rotten:
    rotten.put_back()
    return rotten


def test_undamaged(job: Rotten) -> None:
    assert {kind: bool(job.files(kind)) for kind in KINDS} == dict.fromkeys(KINDS, True)
    assert job.go_on() == "right"


@pytest.mark.timeout(60 + FLIPS)
def test_a_bit_in_any_file(rotten: Rotten) -> None:
    draw = random.Random(1)
    found: Counter[tuple[str, str]] = Counter()
    for number in range(FLIPS):
        rotten.put_back()
        kind = list(KINDS)[number % len(KINDS)]
        flip(draw.choice(rotten.files(kind)), draw)
        found[kind, rotten.go_on()] += 1
    print(f"{FLIPS} bits: {dict(found)}")
    assert {outcome for _, outcome in found} <= {"told", "right"}
    for kind in ("newest version", "waiting results", "waiting late rows"):
        assert found[kind, "right"] == 0, "a file that is read, and was changed"


DAMAGES: dict[str, tuple[Callable[[Rotten], object], str]] = {
    "the newest version is missing": (lambda job: job.files("versions")[-1].unlink(), "version "),
    "the last three versions are missing": (
        lambda job: [path.unlink() for path in job.files("versions")[-3:]],
        "version ",
    ),
    "all versions and snapshots are missing": (
        lambda job: [path.unlink() for path in job.files("versions") + job.files("snapshots")],
        "version ",
    ),
    "all snapshots are missing": (
        lambda job: [path.unlink() for path in job.files("snapshots")],
        "the snapshot of the state is missing",
    ),
    "the newest version is an older one": (
        lambda job: shutil.copy(job.files("versions")[-3], job.files("versions")[-1]),
        'manifest file "',
    ),
    "two versions have changed places": (lambda job: swap(*job.files("versions")[-2:]), 'manifest file "'),
    "a version is empty": (lambda job: os.truncate(job.files("versions")[-1], 0), 'manifest file "'),
    "a list of files is cut short": (lambda job: os.truncate(job.files("lists of files")[0], 40), "the list "),
    "a result is cut short": (lambda job: os.truncate(job.files("waiting results")[0], 40), 'the file "part-'),
    "late rows are empty": (lambda job: os.truncate(job.files("waiting late rows")[0], 0), 'the file "late-'),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_told_and_repair_goes_on(what: str, job: Rotten) -> None:
    damage, primary = DAMAGES[what]
    before = job.job.answer()
    damage(job)
    done = job.job.run_here()
    assert (done.code, done.stderr.startswith(f"error: {primary}")) == (1, True), done.stderr
    assert "detail: " in done.stderr and "hint: Restore the file from a backup" in done.stderr
    assert job.job.answer() == before, "nothing is delivered from what is damaged"
    shutil.rmtree(job.job.home / "ck")
    shutil.copytree(job.sound / "ck", job.job.home / "ck")
    for path in job.sound.glob("*/_watersmeet*/*"):
        shutil.copy(path, job.job.home / path.relative_to(job.sound))
    assert job.go_on() == "right"


def test_a_version_of_another_life_is_told(job: Rotten) -> None:
    """It is sound, and has the number that it should have, but it is not the one that was committed."""
    assert job.go_on() == "right"
    version = job.files("versions")[-2]
    first = version.read_bytes()
    job.put_back()
    assert job.go_on() == "right"  # with other names of files
    assert version.read_bytes() != first
    version.write_bytes(first)
    done = job.job.run_here()
    assert (done.code, 'manifest file "' in done.stderr) == (1, True)


def test_a_lost_snapshot_that_is_not_needed_does_no_harm(job: Rotten) -> None:
    assert len(job.files("snapshots")) > 1
    job.files("snapshots")[-1].unlink()
    assert job.go_on() == "right"


def test_without_a_head_the_versions_count(job: Rotten) -> None:
    """A power loss may have taken it."""
    job.files("head")[0].unlink()
    assert job.go_on() == "right"


def test_a_head_that_is_behind_is_passed_over(job: Rotten) -> None:
    """A process that died between a commit and its head leaves it so."""
    head = job.files("head")[0]
    old = head.read_bytes()
    assert job.go_on() == "right"
    head.write_bytes(old)
    assert job.go_on() == "right"
