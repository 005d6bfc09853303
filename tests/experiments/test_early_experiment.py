"""The experiment on early results: its arithmetic, a real run whose answer is whole, the claims, and the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from experiments.budgeted import run_budgeted
from experiments.early import (
    AGF,
    AGF_SM,
    GROUPS,
    STATE_SPILL,
    Case,
    Method,
    Plan,
    Setting,
    bind_query,
    buckets,
    count_results,
    input_bytes,
    make_rows,
    own_buckets,
    query_text,
)
from experiments.early_claims import check_claims
from experiments.early_page import make_page, terminal_rows
from experiments.early_runs import Outcome, Outcomes, lead, run_case, run_cases
from experiments.page import write_page
from watersmeet.generate.arrivals import key_of
from watersmeet.settings.adapt import AdaptSettings

SMALL = Setting(rows=1_000)


def test_the_paper_s_keys_leave_half_a_partner() -> None:
    setting = Setting(rows=300_000, ratio=0.5)
    assert setting.values == 600_000
    assert setting.keys_of("A") == ("ab",)
    assert setting.keys_of("C") == ("bc", "cd")


def test_a_row_finds_as_many_partners_as_the_ratio_says() -> None:
    rows = make_rows(Setting(streams="AB", bursty="", rows=20_000, ratio=2.0))
    pairs = count_results(Setting(streams="AB", bursty="", rows=20_000, ratio=2.0), rows)
    shared = len(own_buckets_of("A", "ab") & own_buckets_of("B", "ab"))
    # A quarter of the groups has rows of both, on average; there each value comes four times on either side.
    assert pairs == pytest.approx(40_000 * shared / (GROUPS / 4), rel=0.1)


def own_buckets_of(stream: str, key: str) -> set[int]:
    return {int(bucket) for bucket in own_buckets(key_of(SMALL.seed, stream, key))}


def test_a_stream_has_half_of_the_buckets_of_each_of_its_keys() -> None:
    rows = make_rows(SMALL)
    bucket = buckets(SMALL)
    for stream in SMALL.streams:
        for key in SMALL.keys_of(stream):
            found = set(bucket[rows[stream].column(key).to_numpy()].tolist())
            assert found == own_buckets_of(stream, key)
            assert len(found) == GROUPS // 2


def test_rows_come_in_order_and_steady_streams_at_their_rate() -> None:
    rows = make_rows(replace(SMALL, bursty="A"))
    for batch in rows.values():
        times = batch.column("ts").to_pylist()
        assert times == sorted(times)
    assert rows["B"].column("ts").to_pylist()[:3] == [0, 5_000, 10_000]
    assert rows["A"].column("ts").to_pylist() != rows["B"].column("ts").to_pylist()


def test_memory_and_flush_are_shares() -> None:
    rows = make_rows(SMALL)
    size = input_bytes(rows)
    assert size == 8 * 1_000 * (2 + 3 + 3 + 2)
    settings = AGF_SM.settings(replace(SMALL, memory_share=0.1, flush_share=0.2), size)
    assert settings.budget_bytes == size / 10
    assert settings.spill_share == 0.2
    assert (settings.spill, settings.merge, settings.smoothing) == ("adaptive-global-flush", "state-manager", "ewma")
    assert STATE_SPILL.settings(SMALL, size).merge == "off"


def test_with_one_key_rows_of_all_streams_meet() -> None:
    setting = replace(SMALL, one_key=True)
    rows = make_rows(setting)
    assert query_text(setting).endswith("WHERE A.k = B.k AND B.k = C.k AND C.k = D.k")
    shared = set.intersection(*(set(batch.column("k").to_pylist()) for batch in rows.values()))
    assert count_results(setting, rows) >= len(shared) > 0


def test_each_case_runs_once() -> None:
    cases = Plan(Setting()).cases
    assert len(set(cases)) == 62
    ran: list[str] = []
    case = Case(replace(SMALL, rows=200), AGF)
    assert set(run_cases([case, case], 1, ran.append)) == {case}
    assert len(ran) == 1


@pytest.mark.parametrize("method", [AGF_SM, STATE_SPILL], ids=lambda method: method.name)
def test_the_answer_is_whole_whatever_came_early(method: Method) -> None:
    setting = replace(SMALL, rows=800)
    rows = make_rows(setting)
    course = replace(setting.course, clean_up=True)

    def answer(memory: AdaptSettings) -> tuple[list[tuple[object, ...]], int]:
        found: list[pa.RecordBatch] = []
        history = run_budgeted(bind_query(setting), rows, course, memory, lambda record: 1.0, found.extend)
        return sorted(zip(*pa.Table.from_batches(found).to_pydict().values(), strict=True)), history.spills

    tight, spills = answer(method.settings(setting, input_bytes(rows)))
    unlimited, _ = answer(AdaptSettings())
    assert spills > 0
    assert len(unlimited) == count_results(setting, rows) > 0
    assert tight == unlimited


def test_an_outcome_counts_what_came_early() -> None:
    outcome = run_case(Case(replace(SMALL, rows=2_000), AGF_SM))
    assert 0 < outcome.early < outcome.answer
    assert outcome.by(0.5) <= outcome.early
    assert outcome.spills > 0
    assert outcome.merges > 0
    assert outcome.owed_groups > 0
    assert outcome.to_json()["early_results"] == outcome.early


def outcome_of(case: Case, results: int) -> Outcome:
    half = results // 2
    return Outcome(case, (1.0, 2.0), (half, results), 10_000, 5, 0.1, 3, 1000, 1100, 7, 0.5)


def made_up(ours: int, theirs: int) -> tuple[Plan, Outcomes]:
    plan = Plan(SMALL)
    count = {AGF_SM.name: ours}
    return plan, {case: outcome_of(case, count.get(case.method.name, theirs)) for case in plan.cases}


def test_leads_are_shares_of_what_the_other_has() -> None:
    case = Case(SMALL, AGF_SM)
    assert lead(outcome_of(case, 130), outcome_of(case, 100)) == pytest.approx(0.3)
    assert lead(outcome_of(case, 5), outcome_of(case, 0)) == 4.0


def test_claims_are_judged_by_what_was_measured() -> None:
    ahead = check_claims(*made_up(135, 100))
    assert [claim.holds for claim in ahead[:3]] == [True, False, False]
    assert not check_claims(*made_up(100, 100))[0].holds


def test_flush_sizes_tell_nothing_where_flushes_took_the_same() -> None:
    claims = [claim for claim in check_claims(*made_up(135, 100)) if claim.figure == "11"]
    assert [claim.holds for claim in claims] == [None, None]


def test_the_page_is_written_with_its_pictures(tmp_path: Path) -> None:
    plan, outcomes = made_up(135, 100)
    path = write_page(make_page(plan, outcomes), tmp_path, "early")
    text = path.read_text(encoding="utf-8")
    assert "does not come out" in text
    assert "AGF + state manager" in text
    assert text.count("data:image/png;base64,") == len(list(tmp_path.glob("*.png"))) == 22
    assert len(terminal_rows(plan, outcomes)) == len(check_claims(plan, outcomes))


def test_the_query_is_a_chain() -> None:
    assert query_text(SMALL).endswith("WHERE A.ab = B.ab AND B.bc = C.bc AND C.cd = D.cd")
