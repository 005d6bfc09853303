"""Measured statistics: faded sums, and the figures that are made of them."""

from __future__ import annotations

import json

import pytest

from watersmeet.model.plain_json import plain, read
from watersmeet.model.statistics import FADE, Measured, PairCounts, PredicateCounts


def test_a_rate_is_rows_over_seconds_of_event_time() -> None:
    after = Measured().then(Measured(2.0, {"A": 10, "B": 4}))
    assert (after.rate("A"), after.rate("B"), after.rate("C")) == (5.0, 2.0, 0.0)


def test_before_time_has_passed_there_is_no_rate() -> None:
    assert Measured(0.0, {"A": 10}).rate("A") is None


def test_earlier_batches_fade() -> None:
    after = Measured().then(Measured(1.0, {"A": 100})).then(Measured(1.0, {"A": 200}))
    assert after.rate("A") == pytest.approx((100 * FADE + 200) / (FADE + 1))


def test_an_empty_batch_upsets_nothing() -> None:
    pair = PairCounts(("A",), ("B",), 1000, 10, 10, 5)
    before = Measured().then(Measured(1.0, {"A": 100}, (pair,)))
    after = before.then(Measured())
    assert after.rate("A") == before.rate("A")
    assert after.pairs[0].selectivity == before.pairs[0].selectivity


def test_selectivity_is_that_of_the_key_times_that_of_the_predicates() -> None:
    pair = PairCounts(("A",), ("B", "C"), 1000, 50, 40, 10)
    assert (pair.key_share, pair.pass_share, pair.selectivity) == (0.05, 0.25, 0.0125)
    assert PairCounts(("A",), ("B",), 1000, 50).selectivity == 0.05
    assert PairCounts(("A",), ("B",)).selectivity is None


def test_counts_of_one_pair_add_up_and_others_stay_apart() -> None:
    batch = Measured(1.0, {}, (PairCounts(("A",), ("B",), 10, 1), PairCounts(("A",), ("C",), 7, 7)))
    after = Measured().then(batch).then(batch)
    assert [(pair.right, pair.possible) for pair in after.pairs] == [
        (("B",), pytest.approx(10 * FADE + 10)),
        (("C",), pytest.approx(7 * FADE + 7)),
    ]


def test_json_both_ways() -> None:
    predicate = PredicateCounts("near(A.x, B.x)", 8, 2, 0.5)
    measured = Measured(1.5, {"A": 3.0}, (PairCounts(("A",), ("B", "ü"), 4, 3, 2, 1),), (), (predicate,))
    assert read(Measured, json.loads(json.dumps(plain(measured)))) == measured


def test_what_predicates_saw_adds_up_and_fades() -> None:
    batch = Measured(1.0, {}, (), (), (PredicateCounts("p", 10, 4, 2.0), PredicateCounts("q", 1, 1, 1.0)))
    after = Measured().then(batch).then(batch)
    p, q = after.predicates
    assert (p.predicate, p.rows, p.passed, p.seconds) == ("p", 10 * FADE + 10, 4 * FADE + 4, 2 * FADE + 2)
    assert p.share == pytest.approx(0.4, abs=0.01)
    assert q.rows == FADE + 1
