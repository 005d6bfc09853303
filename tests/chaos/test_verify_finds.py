"""Whatever is done to a file that a checkpoint needs, `verify` finds it, and finds nothing where nothing was done.

`WATERSMEET_DAMAGES` is how many damages are drawn.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rotten_jobs import Rotten, flip
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.table import FileTable
from watersmeet.state.verify.findings import DAMAGE, DOUBT, ORPHAN, Report
from watersmeet.state.verify.log import check_log
from watersmeet.state.verify.walk import Needed, verify

DAMAGES = int(os.environ.get("WATERSMEET_DAMAGES", "160"))
WHERE = {
    "version": "ck/state/versions/*",
    "snapshot": "ck/state/snapshots/*",
    "head": "ck/state/head",
    "file list": "ck/state/files/*",
    "segment": "ck/state/segments/*",
    "waiting result": "out/_watersmeet*/*",
    "waiting late rows": "late/_watersmeet*/*",
}


@pytest.fixture(scope="module")
def rotten(tmp_path_factory: pytest.TempPathFactory) -> Rotten:
    return Rotten(tmp_path_factory.mktemp("rot"))


def look(rotten: Rotten) -> Report:
    report = verify(CheckpointFolders(str(rotten.job.home / "ck")))
    assert report is not None
    return report


def needed_files(rotten: Rotten) -> dict[str, list[Path]]:
    """The files of each kind that a version needs."""
    log = check_log(CheckpointFolders(str(rotten.job.home / "ck")).state)
    assert log is not None
    names = Needed.by(log.manifests).names()
    found = {kind: sorted(rotten.job.home.glob(pattern)) for kind, pattern in WHERE.items()}
    own = ("version", "snapshot", "head")
    return {kind: [path for path in paths if kind in own or path.name in names] for kind, paths in found.items()}


def truncate(path: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(path.stat().st_size))


def append(path: Path, draw: random.Random) -> None:
    path.write_bytes(path.read_bytes() + bytes([draw.randrange(256)]))


def zero(path: Path, draw: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def remove(path: Path, draw: random.Random) -> None:
    path.unlink()


HARM: dict[str, Callable[[Path, random.Random], None]] = {
    "flip a bit": flip,
    "cut": truncate,
    "append": append,
    "zeros": zero,
    "remove": remove,
}


def test_a_sound_checkpoint_has_nothing_wrong(rotten: Rotten) -> None:
    report = look(rotten)
    assert [finding for finding in report.findings if finding.kind != ORPHAN] == []
    for kind, paths in needed_files(rotten).items():
        assert paths, kind
    assert all(report.checked[what] for what in ("version", "snapshot", "head", "file list", "segment", "waiting file"))


def test_every_damage_is_found(rotten: Rotten) -> None:
    draw = random.Random(7)
    files = needed_files(rotten)
    table = FileTable.open(CheckpointFolders(str(rotten.job.home / "ck")).state)
    assert table is not None
    found: Counter[tuple[str, str, str]] = Counter()
    missed = []
    for number in range(DAMAGES):
        kind = list(files)[number % len(files)]
        harm = draw.choice(list(HARM))
        path = draw.choice(files[kind])
        whole = path.read_bytes()
        HARM[harm](path, draw)
        told = [finding for finding in look(rotten).findings if finding.kind != ORPHAN]
        about = {finding.kind for finding in told if finding.file == str(path)} or {finding.kind for finding in told}
        outcome = DAMAGE if DAMAGE in about else DOUBT if about else "nothing"
        if outcome == "nothing" and harm == "remove" and kind == "snapshot":
            again = FileTable.open(table.root)
            assert again is not None and again.manifest == table.manifest
            outcome = "as if it had not been written"  # an earlier one leads to the same
        found[kind, harm, outcome] += 1
        if outcome == "nothing":
            missed.append((kind, harm, path.name))
        path.write_bytes(whole)
    print(f"\n{DAMAGES} damages: {sum(n for (_, _, o), n in found.items() if o == DAMAGE)} told as damage")
    for (kind, harm, outcome), count in sorted(found.items()):
        print(f"  {kind:18} {harm:12} {outcome:30} {count}")
    assert not missed
    doubted = {(kind, harm) for kind, harm, outcome in found if outcome == DOUBT}
    assert doubted <= {("waiting result", "remove"), ("waiting late rows", "remove"), ("snapshot", "remove"),
                       ("version", "remove")}  # fmt: skip
    assert not [finding for finding in look(rotten).findings if finding.kind != ORPHAN]


def test_versions_that_are_missing_are_told_at_once(rotten: Rotten) -> None:
    """Was: each by itself, against all before it. After tens of thousands of batches that took many minutes."""
    snapshots, versions = rotten.files("snapshots"), rotten.files("versions")
    try:
        for path in versions[:-3]:
            path.unlink()
        told = [finding for finding in look(rotten).findings if "missing, and there are later" in finding.wrong]
        assert 1 <= len(told) <= 2, "those that could still be gone back to, and those before"
        assert sum(finding.wrong.startswith("it and the ") for finding in told) >= 1
        for path in snapshots[1:]:
            path.write_bytes(b"")
        told = [finding for finding in look(rotten).findings if "missing, and there are later" in finding.wrong]
        assert [finding.kind for finding in told] == [DAMAGE]
    finally:
        rotten.put_back()


def test_files_that_change_places_are_found(rotten: Rotten) -> None:
    draw = random.Random(8)
    swapped = 0
    for kind, paths in needed_files(rotten).items():
        for _ in range(12 if len(paths) > 1 else 0):
            one, other = draw.sample(paths, 2)
            contents = one.read_bytes(), other.read_bytes()
            if contents[0] == contents[1]:
                continue
            one.write_bytes(contents[1])
            other.write_bytes(contents[0])
            assert not look(rotten).sound, (kind, one.name, other.name)
            swapped += 1
            one.write_bytes(contents[0])
            other.write_bytes(contents[1])
    print(f"\n{swapped} pairs of files changed places, all found")
    assert swapped >= 30


def test_an_orphan_is_no_damage(rotten: Rotten) -> None:
    before = len(look(rotten).of(ORPHAN))
    extra = [rotten.job.home / "ck/state/segments" / name for name in ("00000001-e1-0123456789abcdef.arrow", ".tmp-1")]
    for path in extra:
        path.write_bytes(b"left behind")
    report = look(rotten)
    assert report.sound
    assert len(report.of(ORPHAN)) == before + 2
    for path in extra:
        path.unlink()
