"""Names in a checkpoint that lead out of it: refused where they enter, and nothing outside is touched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from small_jobs import SmallJob, checked_main
from watersmeet.state.sealed import seal, unseal

NAMES = {
    "up": "../../../victim",
    "absolute": "/victim",
    "below": "a/b",
    "here": ".",
    "above": "..",
    "empty": "",
    "backslashes": "..\\..\\victim",
    "a NUL": "vic\0tim",
    "a line break": "vic\ntim",
    "very long": "v" * 5000,
    "a number": 7,
    "a list": ["victim"],
}


def _entries(updates: list[Any], kind: str) -> Iterator[Any]:
    return (update for update in updates if update["update"] == kind)


def forge_segment(updates: list[Any], name: Any) -> None:
    next(_entries(updates, "AddSegment"))["segment"]["id"] = name


def forge_file(updates: list[Any], name: Any) -> None:
    next(_entries(updates, "AddSegment"))["segment"]["part_of"] = name or ".."  # none is the entry itself


def forge_result(updates: list[Any], name: Any) -> None:
    next(_entries(updates, "FinishBatch"))["results"][0] = name


def forge_late_file(updates: list[Any], name: Any) -> None:
    next(_entries(updates, "FinishBatch"))["late_files"].append(name)


def forge_sum(updates: list[Any], name: Any) -> None:
    next(_entries(updates, "FinishBatch"))["sums"][".." if not isinstance(name, str) else name] = [1, 2]


def forge_list(updates: list[Any], name: Any) -> None:
    updates.append({"update": "ListFiles", "stream": "A", "name": name, "count": 0, "moved": 0, "replaced": []})


def forge_replaced(updates: list[Any], name: Any) -> None:
    listed = {"update": "ListFiles", "stream": "A", "name": "x", "count": 0, "moved": 0, "replaced": [name]}
    updates.append(listed)


FORGERIES = (forge_segment, forge_file, forge_result, forge_late_file, forge_sum, forge_list, forge_replaced)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SmallJob:
    home = tmp_path_factory.mktemp("forged") / "job"  # with a folder above it that is its own too
    home.mkdir()
    job = SmallJob(home).write()
    job.finish()
    for place in (job.home, job.home / "ck", job.out, job.home.parent):
        (place / "victim").write_text("theirs")
    return job


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("forge", FORGERIES)
def test_a_forged_version_is_corrupt(
    made: SmallJob, forge: Callable[[list[Any], Any], None], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its seal is as good as any: a checksum is no signature."""
    path = sorted((made.checkpoint / "state" / "versions").iterdir())[2]
    whole = path.read_bytes()
    content, _ = unseal(whole)
    forge(content["updates"], NAMES[name])
    before = _tree(made.home.parent)
    try:
        path.write_bytes(seal(content))
        checked_main(made, capsys, 1, f'manifest file "{path.name}" is corrupt')
    finally:
        path.write_bytes(whole)
    assert _tree(made.home.parent) == before


@pytest.mark.parametrize("field", ["segments", "undelivered", "file_lists"])
def test_a_forged_snapshot_is_corrupt(made: SmallJob, field: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = made.checkpoint / "state" / "snapshots" / f"{0:020d}.json"
    whole = path.read_bytes()
    content, _ = unseal(whole)
    delivery = {"id": 0, "batch": 0, "round": 0, "results": ["../../victim"], "late_files": [], "sums": {}}
    progress = {"newest_us": 1, "rows": 1, "late": 0, "files": [], "file_lists": [["../x", 1]], "ignored_before_us": 0}
    if field == "file_lists":
        content["streams"] = {"A": progress}
    elif field == "undelivered":
        content[field] = [delivery]
    else:
        version = json.loads(sorted((made.checkpoint / "state" / "versions").iterdir())[0].read_text())
        content[field] = [next(_entries(version["updates"], "AddSegment"))["segment"] | {"id": "../../x"}]
    try:
        path.write_bytes(seal(content))
        checked_main(made, capsys, 1, f'manifest file "{path.name}" is corrupt')
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("folder", ["ck/state/segments", "ck/state/files", "out/waiting"])
def test_a_folder_that_is_a_link_to_elsewhere(folder: str, tmp_path: Path) -> None:
    """What no version has named is not deleted there, though it would be garbage in a folder of ours."""
    job = SmallJob(tmp_path / "home")
    job.home.mkdir()
    job.write().finish()
    place = next(job.out.glob("_watersmeet-*")) if folder == "out/waiting" else job.home / folder
    elsewhere = tmp_path / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    (elsewhere / "victim").write_text("theirs")
    job.finish()
    assert (elsewhere / "victim").read_text() == "theirs"
    assert job.answer() == job.expected()


@pytest.mark.parametrize("kind", ["segments", "versions"])
def test_a_file_that_is_a_link_to_elsewhere(kind: str, tmp_path: Path) -> None:
    """When it goes, the link goes."""
    job = SmallJob(tmp_path / "home")
    job.home.mkdir()
    job.write().finish()
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    (job.checkpoint / "state" / kind / ".tmp-123456789abc").symlink_to(victim)
    job.finish()
    assert victim.read_text() == "theirs"


def _tree(home: Path) -> dict[Path, bytes]:
    """All files but the lock, whose holder changes."""
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and path.name != "lock"}
