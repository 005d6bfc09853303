"""`at_end`: a job that is run again and again on what has come, as a schedule does, and what waits from run to run.

With "wait" the answer is that of one run over everything, for groups and for windows of rows; with "close" each run
emits all, as is right for the last one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from judged_groups import GroupedCase
from judged_jobs import SECOND, JoinCase, JudgedJob, check_answer, draw_streams, duckdb_answer, write_streams

GROUPED = GroupedCase(
    {"A": ("x",), "B": ("x", "y"), "C": ("y",)},
    "A.x = B.x AND B.y = C.y",
    window_us=3 * SECOND,
    lateness_us=2 * SECOND,
    by="A.v % 9",
    slide_us=SECOND // 2,
)
BATCHES = 9
RUNS = ((0, 2), (2, 3), (3, 7), (7, 9))  # which batches are there when the job runs
QUICK = 'durability = "process"'


class CountedCase(JoinCase):
    """The last four rows of B, and a window of time for the others."""

    @property
    def query(self) -> str:
        return super().query.replace(f"B [RANGE {self.window_us} MICROSECONDS]", "B [ROWS 4]")


COUNTED = CountedCase(GROUPED.columns, GROUPED.where, GROUPED.window_us, GROUPED.lateness_us)


def run_in_parts(home: Path, case: JoinCase, *settings: str, memory: str = "") -> JudgedJob:
    """Runs with `settings`, and at last one that closes."""
    job = JudgedJob.write(home, case, f"{memory}\n{QUICK}")
    streams = draw_streams(case, BATCHES, 8, 4, seed=4, late=1)
    for first, end in RUNS:
        write_streams(case, streams, home / "in", first, end)
        job.finish(*settings)
    job.finish()
    return job


@pytest.mark.parametrize("memory", ["", "memory = 6000"])
def test_boundaries_wait_for_the_next_run(tmp_path: Path, memory: str) -> None:
    streams = draw_streams(GROUPED, BATCHES, 8, 4, seed=4, late=1)
    job = run_in_parts(tmp_path, GROUPED, 'run.at_end="wait"', memory=memory)
    check_answer(job, GROUPED, streams, duckdb_answer(GROUPED, streams))


def test_rows_wait_for_the_next_run(tmp_path: Path) -> None:
    whole = JudgedJob.write(tmp_path / "whole", COUNTED, QUICK)
    write_streams(COUNTED, draw_streams(COUNTED, BATCHES, 8, 4, seed=4, late=1), tmp_path / "whole" / "in")
    whole.finish()
    job = run_in_parts(tmp_path / "parts", COUNTED, 'run.at_end="wait"')
    assert whole.answer().total() > 100
    assert job.answer() == whole.answer()
    assert job.late() == whole.late()


@pytest.mark.parametrize("case", [GROUPED, COUNTED], ids=["groups", "windows of rows"])
def test_nothing_is_final_that_a_later_run_may_change(tmp_path: Path, case: JoinCase) -> None:
    """All that has come out by then is right, and there is something; the rest follows."""
    job = JudgedJob.write(tmp_path, case, QUICK)
    streams = draw_streams(case, BATCHES, 8, 4, seed=4, late=1)
    write_streams(case, streams, tmp_path / "in", 0, 7)
    job.finish('run.at_end="wait"')
    before = job.answer()
    write_streams(case, streams, tmp_path / "in", 7)
    job.finish()
    after = job.answer()
    assert 0 < before.total() < after.total()
    assert before <= after


def test_what_is_final_comes_out_in_the_run_that_makes_it_so(tmp_path: Path) -> None:
    """Another run, with nothing new to read, has nothing to add."""
    job = JudgedJob.write(tmp_path, GROUPED, QUICK)
    write_streams(GROUPED, draw_streams(GROUPED, BATCHES, 8, 4, seed=4), tmp_path / "in")
    job.finish('run.at_end="wait"')
    before = job.answer()
    job.finish('run.at_end="wait"')
    assert job.answer() == before
    last = max(row[-1] for row in before)
    # All streams come to a little before the ninth second, and wait for rows that are two seconds late.
    assert last == int(6.5 * SECOND)


def test_every_end_closes_unless_it_is_to_wait(tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path, GROUPED, QUICK)
    streams = draw_streams(GROUPED, BATCHES, 8, 4, seed=4)
    write_streams(GROUPED, streams, tmp_path / "in", 0, 7)
    job.finish()
    early = {name: batches[:7] for name, batches in streams.items()}
    assert job.answer() == duckdb_answer(GROUPED, early)


def test_results_have_a_place_to_wait_in(tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path, GROUPED, QUICK)
    write_streams(GROUPED, draw_streams(GROUPED, 1, 8, 4), tmp_path / "in")
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(text.replace('checkpoint = "ck"', 'at_end = "wait"'))
    done = job.run_here()
    assert done.code == 2
    assert 'With at_end = "wait", results wait there for the next run' in done.stderr


def test_what_it_may_be(tmp_path: Path) -> None:
    job = JudgedJob.write(tmp_path, GROUPED, QUICK)
    write_streams(GROUPED, draw_streams(GROUPED, 1, 8, 4), tmp_path / "in")
    done = job.run_here('run.at_end="waits"')
    assert done.code == 2
    assert 'unknown at_end "waits" in [run]' in done.stderr and "close, wait" in done.stderr
