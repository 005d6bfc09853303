"""The spill experiments: settings worked out by hand, answers that a budget does not change, and a whole page."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from experiments import spill_runs
from experiments.__main__ import main
from experiments.budgeted import Course, History, Sample, bind_streams, run_budgeted
from experiments.spill import (
    ENDS,
    FULL,
    HIGH,
    LOW,
    POLICIES,
    QUICK,
    Extent,
    Setting,
    Size,
    join_settings,
    tree_setting,
    tree_settings,
    uneven,
)
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.words import OFF

TINY = Size(scale=50, batches=10, groups=30)
LEAST = Size(scale=100, batches=5, groups=10)


def bag(batches: list[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())


# --- settings --------------------------------------------------------------------------------------------------------


def test_a_stream_of_the_tree_brings_a_row_every_50_ms_over_the_scale() -> None:
    for setting in tree_settings(FULL.trees):
        for stream in setting.streams:
            assert stream.rows == 60_000 // FULL.trees.scale
            assert stream.rate == pytest.approx(20 / FULL.trees.scale)


def test_a_stream_of_the_one_join_brings_a_row_every_30_ms_over_the_scale() -> None:
    for setting in join_settings(FULL.joins):
        for stream in setting.streams:
            assert stream.rows == 100_000 // FULL.joins.scale
            assert stream.rate == pytest.approx(1000 / 30 / FULL.joins.scale)


@pytest.mark.parametrize("average", [1, 2, 3])
def test_uneven_ratios_have_their_average_over_the_groups(average: int) -> None:
    shares = uneven(1200, average).shares
    assert sum(share.of_values * share.ratio * 1200 / share.range_rows for share in shares) == average


def test_values_come_as_often_as_their_ratio_says() -> None:
    setting = tree_setting((3, 2, 3), "", Size(20, 40, 300))
    range_rows = 120_000 // 20
    rows = replace(setting, streams=tuple(replace(stream, rows=2 * range_rows) for stream in setting.streams)).rows()
    counts = Counter(rows["D"].column("d1").to_pylist()), Counter(rows["C"].column("c2").to_pylist())
    # In two tuple ranges: twice the average of 2 in each of them, or half of it.
    assert {tuple(sorted(Counter(count.values()))) for count in counts} == {(2, 8)}
    assert set(counts[0]) == set(counts[1])


def test_the_number_of_results_does_not_depend_on_the_scale_but_by_the_factor() -> None:
    def results(scale: int) -> int:
        size = Size(scale, 4, 30)
        setting = join_settings(size)[0]
        return run_budgeted(setting.query(), setting.rows(), setting.course(size), AdaptSettings()).results

    assert results(50) == pytest.approx(2 * results(100), rel=0.02)


def test_every_policy_runs_at_30_percent_and_merges_nothing_before_the_end() -> None:
    for contender in (*POLICIES, *ENDS):
        memory = contender.memory(1000)
        assert (memory.budget_bytes, memory.spill_share, memory.merge) == (1000, 0.3, OFF)


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["global-output-penalty", "bottom-up"])
def test_run_time_and_clean_up_give_the_answer_of_a_run_without_a_budget(policy: str) -> None:
    setting = tree_setting((3, 2, 3), "", TINY)
    query, rows, course = setting.query(), setting.rows(), setting.course(TINY)
    expected: list[pa.RecordBatch] = []
    unlimited = run_budgeted(query, rows, course, AdaptSettings(), keep=expected.extend)
    found: list[pa.RecordBatch] = []
    memory = AdaptSettings(unlimited.most_bytes // 5, policy, merge=OFF)
    run = run_budgeted(query, rows, course, memory, keep=found.extend)
    assert bag(found) == bag(expected) != Counter()
    assert run.spills > 1
    assert 0 < run.run_time_results < unlimited.results
    assert run.run_time_results + run.clean_up_results == run.results == unlimited.results
    assert unlimited.clean_up == () and unlimited.spills == 0


def test_after_a_spill_the_run_is_inside_its_budget() -> None:
    setting = join_settings(TINY)[0]
    query, rows, course = setting.query(), setting.rows(), setting.course(TINY)
    unlimited = run_budgeted(query, rows, course, AdaptSettings())
    budget = unlimited.most_bytes // 2
    run = run_budgeted(query, rows, course, setting.contenders[1].memory(budget))
    assert all(sample.active_bytes <= budget for sample in run.run_time)
    assert any(sample.peak_bytes > budget for sample in run.run_time)
    assert all((sample.peak_bytes > budget) == (sample.spilled_groups > 0) for sample in run.run_time)


def test_what_the_clean_up_will_merge_goes_cold_before_it_begins() -> None:
    """Nothing is above the one join, so what is active from then on is what owes nothing."""
    setting = join_settings(TINY)[0]
    query, rows, course = setting.query(), setting.rows(), setting.course(TINY)
    unlimited = run_budgeted(query, rows, course, AdaptSettings())
    run = run_budgeted(query, rows, course, setting.contenders[0].memory(unlimited.most_bytes // 2))
    assert len(run.clean_up) > 1
    assert len({sample.active_bytes for sample in run.clean_up}) == 1
    assert run.clean_up[0].active_bytes < run.run_time[-1].active_bytes


def test_a_run_repeats_exactly_but_for_the_time_it_takes() -> None:
    setting = join_settings(TINY)[1]
    query, rows, course = setting.query(), setting.rows(), setting.course(TINY)

    def course_of(history: History) -> list[Sample]:
        return [replace(sample, cpu_seconds=0.0, slot_cpu=()) for sample in history.samples]

    memory = setting.contenders[0].memory(40_000)
    first = course_of(run_budgeted(query, rows, course, memory))
    assert first == course_of(run_budgeted(query, rows, course, memory))


def test_rows_arrive_at_their_event_time() -> None:
    """Batches end at 10, 20 and 40 seconds; nothing comes in between, and nothing is owed."""
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    times = [0, 9_999_999, 10_000_000, 39_000_000]
    rows = pa.record_batch([pa.array([1] * 4), pa.array(times)], schema=schema)
    query = bind_streams("SELECT A.k FROM A [UNBOUNDED], B [UNBOUNDED] WHERE A.k = B.k", {"A": schema, "B": schema})
    run = run_budgeted(query, {"A": rows, "B": rows}, Course("mjoin", 10.0, 1, 4), AdaptSettings())
    assert [(sample.seconds, sample.results) for sample in run.samples] == [(10, 4), (20, 9), (40, 16)]
    assert [run.results_at(at) for at in (0, 10, 35, 40)] == [0, 4, 9, 16]


def test_batches_take_as_long_as_they_are_said_to() -> None:
    setting = join_settings(TINY)[0]
    query, rows, course = setting.query(), setting.rows(), setting.course(TINY)
    run = run_budgeted(query, rows, course, AdaptSettings(), takes=lambda record: record.rows_in / 1000)
    assert run.samples[0].seconds == pytest.approx(course.batch_seconds + 3 * 2000 / 10 / 1000, rel=0.01)


def test_low_output_first_is_far_ahead_where_ratios_differ() -> None:
    setting: Setting = join_settings(QUICK.joins)[1]
    outcome = spill_runs.run_setting(setting, QUICK.joins, lambda text: None)
    assert outcome.results(LOW) > 1.5 * outcome.results(HIGH)
    assert outcome.runs[HIGH].clean_up_results > 1.5 * outcome.runs[LOW].clean_up_results


# --- the page --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.campaign
def test_the_command_writes_one_page_with_all_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("experiments.__main__.QUICK_SPILL", Extent(LEAST, LEAST))
    assert main(["spill", "--quick", "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    page = (tmp_path / "spill.html").read_text(encoding="utf-8")
    pictures = sorted(path.stem for path in tmp_path.glob("*.png"))
    assert len(pictures) == page.count("data:image/png;base64,") == 12
    assert 'src="http' not in page
    assert {len(outcome["runs"]) for outcome in found["trees"]} == {4}
    for claim in found["claims"]:
        assert claim["about"] in page
    assert len(found["upkeep"]) == 4
