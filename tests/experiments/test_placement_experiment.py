"""The relocation experiments: settings worked out by hand, answers that no move changes, and a whole page."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from experiments import placement, placement_claims, placement_runs
from experiments.__main__ import main
from experiments.budgeted import History, Sample, run_budgeted
from experiments.parted import Part, draw_stream
from experiments.placement import (
    CROWDED,
    FULL,
    NEVER,
    QUICK,
    STILL,
    Contender,
    Extent,
    alternating,
    alternation,
    crowded,
    level,
    productive,
    rich_and_poor,
    settings,
    short,
)
from watersmeet.kernel.hashing import hash_keys
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.words import OFF

TINY = Extent(100, 240.0, 30, (0.5, 0.9), (15, 45), 15)


def part_of(rows: pa.RecordBatch, parts: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The equal part of the hash that each row is of."""
    hashes = hash_keys([rows.column("k")])
    return (hashes >> np.uint64(32)).astype(np.int64) * parts >> 32


# --- settings --------------------------------------------------------------------------------------------------------


def test_one_half_gets_ten_times_the_rows_of_the_other_and_then_the_other_way_round() -> None:
    rows = draw_stream("A", alternating(11.0, 3000, 25), 25 * 60, seed=1)
    halves, minutes = part_of(rows, 2), rows.column("ts").to_numpy() / 60e6
    assert (np.diff(minutes) >= 0).all()
    for since, until, busy in ((0, 5, 0), (5, 15, 1), (15, 25, 0)):
        seen = Counter(halves[(minutes >= since) & (minutes < until)].tolist())
        assert seen[busy] == pytest.approx(600 * (until - since), rel=0.01)
        assert seen[1 - busy] == pytest.approx(60 * (until - since), rel=0.02)


def test_parts_with_other_ratios_have_as_many_rows_of_fewer_values() -> None:
    parts = rich_and_poor(30.0, 1200, (4, 1, 1))
    rows = draw_stream("B", parts, 80.0, seed=1)  # two tuple ranges
    thirds = part_of(rows, 3)
    for number, ratio in enumerate((4, 1, 1)):
        values = Counter(np.asarray(rows.column("k"))[thirds == number].tolist())
        assert (values.total(), len(values)) == (800, 400 // ratio)
        assert set(values.values()) == {2 * ratio}


def test_streams_share_values_and_differ_in_their_order() -> None:
    part = (Part(Fraction(1), 100, 1, ((0.0, 10.0),)),)
    first, second = (draw_stream(name, part, 10.0, seed=1).column("k").to_pylist() for name in "AB")
    assert sorted(first) == sorted(second) and first != second


def test_two_thirds_of_the_groups_are_on_one_slot() -> None:
    assert Counter(crowded(300, 3)) == {0: 200, 1: 50, 2: 50}
    assert Counter(crowded(300, 2)) == {0: 200, 1: 100}
    assert Fraction(2, 3) == CROWDED


def test_limits_are_where_the_report_has_them() -> None:
    """What slots have in the end, in shares of all rows: what fits, and what does not."""
    shares = {setting.name: setting.limit_share for setting in settings(FULL)}
    assert shares["machines"] == 25 / 40
    assert shares["alternating"] is None
    assert 1 / 3 < (shares["uneven"] or 0) < 2 / 3, "fits if it is level"
    assert 1 / 6 < (shares["short"] or 0) < 1 / 3, "fits on the two slots that have little"
    assert (shares["very short"] or 0) < 1 / 6, "fits nowhere"


def test_a_contender_says_what_a_run_is_to_do() -> None:
    moved = level(0.9, 30).memory(None)
    assert (moved.balance.policy, moved.balance.threshold, moved.balance.span.total_seconds()) == ("relocate", 0.9, 30)
    assert (moved.balance.every, moved.balance.least_bytes, moved.slot_bytes) == (1, 1, NEVER)
    limited = Contender("", "lazy-disk").memory(1000)
    assert (limited.slot_bytes, limited.balance.least_bytes, limited.merge, limited.spill_share) == (
        1000,
        None,
        OFF,
        0.3,
    )
    names = [contender.name for contender in alternation(FULL).contenders]
    assert len(set(names)) == len(names) == 8


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_that_moves_groups_gives_the_same_rows() -> None:
    setting = short(TINY)
    rows = setting.rows()
    expected: list[pa.RecordBatch] = []
    unlimited = run_budgeted(setting.query, rows, setting.course(STILL), AdaptSettings(), keep=expected.extend)
    found: list[pa.RecordBatch] = []
    contender = setting.contenders[1]
    memory = contender.memory(unlimited.most_bytes // 4)
    run = run_budgeted(setting.query, rows, setting.course(contender), memory, keep=found.extend)
    assert run.moves and run.spills

    def bag(batches: list[pa.RecordBatch]) -> Counter[tuple[int, ...]]:
        return Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())

    assert bag(found) == bag(expected) != Counter()


def test_moves_keep_their_span_and_level_memory() -> None:
    setting = alternation(TINY)
    contender = level(0.9, 45)
    run = run_budgeted(setting.query, setting.rows(), setting.course(contender), contender.memory(None))
    times = [sample.seconds for sample in run.moves]
    assert len(times) > 5
    assert min(np.diff(times)) >= 45
    assert np.median(placement_claims.balance_over_time(run)) > 0.8


def test_active_disk_pushes_out_what_earns_little() -> None:
    setting = productive(replace(QUICK, scale=10, batch_seconds=60.0))
    outcome = placement_runs.run_setting(setting, lambda text: None)
    lazy, active = outcome.runs["lazy-disk"], outcome.runs["active-disk"]
    assert active.run_time_results > 1.1 * lazy.run_time_results
    reasons = [entry["reason"] for sample in active.samples for entry in sample.decisions]
    assert any(reason.startswith("active-disk: ") and " make room" in reason for reason in reasons)


# --- claims and the page ---------------------------------------------------------------------------------------------


def sample_of(seconds: float, results: int, slot_bytes: tuple[int, ...]) -> Sample:
    return Sample("batch", seconds, results, 0, 0, sum(slot_bytes), 0, 0, 0, 0.0, (), slot_bytes)


def test_leads_and_balance_are_taken_batch_by_batch() -> None:
    ours = History((sample_of(60, 10, (4, 8)), sample_of(600, 30, (9, 10))))
    theirs = History((sample_of(60, 20, (4, 4)), sample_of(600, 20, (4, 4))))
    assert placement_claims.lead_over_time(ours, theirs) == [(60, -0.5), (600, 0.5)]
    assert placement_claims.balance_over_time(ours) == [0.9], "from minute 5 on"


@pytest.mark.slow
@pytest.mark.campaign
def test_the_command_writes_one_page_with_all_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(placement, "QUICK", TINY)
    assert main(["placement", "--quick", "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    page = (tmp_path / "placement.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == len(list(tmp_path.glob("*.png"))) == 14
    assert 'src="http' not in page
    assert [entry["setting"] for entry in found["settings"]] == [setting.name for setting in settings(TINY)]
    assert len(found["claims"]) == len(placement_claims.CHECKS)
