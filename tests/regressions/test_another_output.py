"""Another `[sink] path` at a restart, while results of the run before are committed and not delivered.

They were taken for delivered, since they did not wait where the new run looked, and were deleted by the one after it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from forked_runs import run_apart
from small_jobs import SmallJob, checked_main
from watersmeet.state.output_names import stamp_of

KILLED = -9


def put_elsewhere(job: SmallJob, folder: str) -> list[str]:
    return [f'sink.path="{job.home / folder}"']


def delivered(job: SmallJob, *folders: str) -> Counter[tuple[object, ...]]:
    """What lies in all of these folders."""
    return sum((job.answer_in(job.home / folder) for folder in folders), Counter())


def waiting_files(job: SmallJob) -> list[Path]:
    return [path for path in job.home.glob("*/_watersmeet-*/*") if stamp_of(path.name) is not None]


@pytest.mark.parametrize("point", ["before-delivery", "in-delivery"])
@pytest.mark.parametrize(
    "then",
    ["", "before-delivery", "in-delivery", "after-commit", "before-collect-garbage"],
    ids=["goes on", "dies before its delivery", "in it", "after its claim", "before it tidies up"],
)
def test_what_waits_goes_along(tmp_path: Path, point: str, then: str) -> None:
    job = SmallJob(tmp_path).write()
    first, second = put_elsewhere(job, "first"), put_elsewhere(job, "second")
    assert run_apart(job.path, first, f"{point}:2@{tmp_path / 'mark'}") == KILLED
    if then:
        assert run_apart(job.path, second, f"{then}@{tmp_path / 'mark2'}") == KILLED
    third = put_elsewhere(job, "third") if then else second  # and on to a third one, whatever the second has come to
    assert run_apart(job.path, third) == 0
    assert delivered(job, "first", "second", "third") == job.expected()
    assert waiting_files(job) == []


def test_back_and_forth(tmp_path: Path) -> None:
    job = SmallJob(tmp_path).write()
    for turn in range(6):
        folder = put_elsewhere(job, "odd" if turn % 2 else "even")
        run_apart(job.path, folder, f"{'before-delivery' if turn % 3 else 'after-commit'}@{tmp_path / str(turn)}")
    assert run_apart(job.path, put_elsewhere(job, "even")) == 0
    assert delivered(job, "even", "odd") == job.expected()


def test_results_that_have_nowhere_to_go_are_not_forgotten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = SmallJob(tmp_path).write()
    assert run_apart(job.path, fault=f"before-delivery@{tmp_path / 'mark'}") == KILLED
    text = job.path.read_text()
    job.path.write_text(text.replace("[sink]", '[sink]\nformat = "noop"'))
    checked_main(job, capsys, 2, "what the run before has left to be delivered has nowhere to go")
    job.path.write_text(text)
    job.finish()
    assert job.answer() == job.expected()
