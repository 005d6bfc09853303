"""One row dated in the year 2100 must not move a watermark for good: with `max_ahead` it is set aside."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, Streams, draw_streams, duckdb_answer, write_streams

CASE = JoinCase({"A": ("k",), "B": ("k",)}, "A.k = B.k", window_us=2 * SECOND)
BATCHES = 6
BIRTHDAY = 4_102_444_800 * SECOND  # 2100-01-01


def with_a_row_in_2100(batch: int) -> tuple[Streams, Streams]:
    """Streams without it, and the same with it in one batch of A."""
    right = draw_streams(CASE, BATCHES, 30, 4)
    wrong = {name: [list(rows) for rows in batches] for name, batches in right.items()}
    wrong["A"][batch].append({"k": 1, "v": 999, "ts": BIRTHDAY})
    return right, wrong


def limited(*more: str) -> list[str]:
    return ["streams.A.max_ahead=1 hour", "streams.B.max_ahead=1 hour", *more]


def reasons(job: JudgedJob) -> list[tuple[int, str]]:
    files = (job.home / "late").glob("*.parquet")
    return sorted((row["v"], row["_reason"]) for file in files for row in pq.read_table(file).to_pylist())


@pytest.mark.parametrize("ahead_of", ["clock", "streams"])
@pytest.mark.parametrize("batch", [0, 2], ids=["in the first batch", "later"])
def test_it_costs_no_result(ahead_of: str, batch: int, tmp_path: Path) -> None:
    # Was: every row of A after it was late, and the run ended with exit code 0.
    right, wrong = with_a_row_in_2100(batch)
    job = JudgedJob.write(tmp_path, CASE)
    write_streams(CASE, wrong, tmp_path / "in")
    compared = [f"streams.{name}.ahead_of={ahead_of}" for name in "AB"]
    done = job.run_here(*limited(*compared))
    assert job.answer() == duckdb_answer(CASE, right)
    end = done.events[-1]
    assert (end["rows_late"], end["rows_ahead"], end["rows_in"]) == (0, 1, BATCHES * 60 + 1)
    assert reasons(job) == [(999, "ahead")]
    assert [event["rows_ahead"] for event in done.events[:-1]] == [int(n == batch) for n in range(BATCHES)]
    assert done.events[-2]["streams"]["A"]["ahead"] == 1
    assert '1 row is ahead in stream "A", up to 2100-01-01 00:00:00' in done.stderr


def test_without_a_limit_all_that_follows_is_late(tmp_path: Path) -> None:
    """What the limit is for, and that nothing else than the setting makes the difference."""
    right, wrong = with_a_row_in_2100(2)
    job = JudgedJob.write(tmp_path, CASE)
    write_streams(CASE, wrong, tmp_path / "in")
    end = job.finish()[-1]
    assert (end["rows_late"], end["rows_ahead"]) == (30 * (BATCHES - 3), 0)
    assert job.answer().total() < duckdb_answer(CASE, right).total()
    assert {reason for _, reason in reasons(job)} == {"late"}


@pytest.mark.parametrize("point", ["before-late", "after-late", "before-commit", "after-commit", "before-delivery"])
def test_killed_in_its_batch(point: str, tmp_path: Path) -> None:
    right, wrong = with_a_row_in_2100(2)
    job = JudgedJob.write(tmp_path, CASE)
    write_streams(CASE, wrong, tmp_path / "in")
    fault = f"{point}:1" if "late" in point else f"{point}:3"
    assert job.start(*limited(), fault=fault).code < 0
    assert job.marker(fault).exists()
    job.finish(*limited())
    assert job.answer() == duckdb_answer(CASE, right)
    assert reasons(job) == [(999, "ahead")]


def test_the_limit_may_change_from_run_to_run(tmp_path: Path) -> None:
    right, wrong = with_a_row_in_2100(3)
    job = JudgedJob.write(tmp_path, CASE)
    settings: list[list[str]] = [
        [],
        limited("streams.A.ahead_of=clock"),
        ["streams.A.max_ahead=10 seconds"],
        limited(),
        ["streams.A.max_ahead=off", "streams.B.max_ahead=1 day"],
    ]
    for number, chosen in enumerate([*settings, []]):
        write_streams(CASE, wrong, tmp_path / "in", number, number + 1)
        job.finish(*chosen)
    assert job.answer() == duckdb_answer(CASE, right)
    assert job.state()["rows_ahead"] == 1


def test_a_stream_that_is_ahead_throughout_is_told_of(tmp_path: Path) -> None:
    """Its times count on from 2100: nothing of it is joined, and nobody can miss that."""
    right = draw_streams(CASE, 9, 10, 4)
    late = [[{**row, "ts": row["ts"] + BIRTHDAY} for row in rows] for rows in right["A"]]
    job = JudgedJob.write(tmp_path, CASE)
    write_streams(CASE, {"A": [right["A"][0], *late[1:]], "B": right["B"]}, tmp_path / "in")
    done = job.run_here(*limited())
    assert done.code == 0
    assert (done.events[-1]["rows_ahead"], done.events[-1]["rows_late"]) == (80, 0)
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: every row")]
    assert len(notes) == 4  # with the 1st, 2nd, 4th and 8th batch
    assert 'stream "A" in the last 8 batches is ahead, now up to 2100-01-01 00:00:08' in notes[-1]
    assert "longer max_ahead" in notes[-1]


def test_a_column_that_has_the_name_of_the_reason_stays(tmp_path: Path) -> None:
    case = JoinCase({"A": ("_reason",), "B": ("k",)}, "A._reason = B.k")
    right = draw_streams(case, 2, 5, 3)
    right["A"][1].append({"_reason": 7, "v": 999, "ts": BIRTHDAY})
    job = JudgedJob.write(tmp_path, case)
    write_streams(case, right, tmp_path / "in")
    job.finish(*limited())
    (file,) = (tmp_path / "late").glob("*.parquet")
    assert pq.read_table(file).to_pylist() == [{"_reason": 7, "v": 999, "ts": BIRTHDAY, "__reason": "ahead"}]
