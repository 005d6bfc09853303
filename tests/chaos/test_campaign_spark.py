"""A history of the chaos campaign on Spark, and more of them, on a cluster too (`make test-campaign`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.campaign import Outcome, play
from chaos.shapes import SHAPES
from chaos.spark.kinds import BOTH, FAULTS, FILES, FUNCTION, ORDINARY, draw_history, draw_sink, faults_of
from chaos.stories import CLUSTER, SPARK, SparkStory

BY_NAME = {shape.name: shape for shape in SHAPES}
KINDS = {kind.name: kind for kind in FAULTS}


def check(outcome: Outcome) -> None:
    assert outcome.failures == []
    assert outcome.tally.wrong == 0
    assert outcome.tally.exact >= 1


def test_a_seed_draws_the_same_history() -> None:
    for shape in SHAPES:
        drawn = [list(draw_history(7, shape, 14, faults_of(CLUSTER), FILES)) for _ in range(2)]
        assert drawn[0] == drawn[1]
        assert len(drawn[0]) == 14


def test_where_results_go_suits_the_faults_asked_for() -> None:
    shape = SHAPES[0]
    assert {draw_sink(seed, shape, [KINDS["function-fails"]]) for seed in range(9)} == {FUNCTION}
    assert {draw_sink(seed, shape, [KINDS["rollback"]]) for seed in range(9)} == {FILES}
    assert {draw_sink(seed, shape, ()) for seed in range(30)} == set(BOTH)
    for sink in BOTH:
        assert any(sink in kind.sinks for kind in (*ORDINARY, *FAULTS))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.timeout(400)
def test_a_history_on_spark(tmp_path: Path) -> None:
    """A run, one that dies at a point, and one that goes on."""
    story = SparkStory(SPARK, BY_NAME["window"], 11, 4, (KINDS["dies-at"],))
    outcome = play([story], tmp_path)
    check(outcome)
    assert outcome.counts["runs"] == 3
    assert outcome.fired["dies at a point"] == 1
    assert outcome.tally.rows > 300


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("faults", ["rollback,backup,second-driver,driver-killed", "function-fails,dies-at"])
def test_histories_on_spark(faults: str, tmp_path: Path) -> None:
    kinds = tuple(KINDS[name] for name in faults.split(","))
    outcome = play([SparkStory(SPARK, BY_NAME["tree-budget"], seed, 12, kinds) for seed in (1, 2)], tmp_path)
    check(outcome)
    assert outcome.fired.total() > 3


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_executors_of_a_cluster_are_killed(tmp_path: Path) -> None:
    outcome = play([SparkStory(CLUSTER, BY_NAME["window-budget"], 1, 8, (KINDS["executor-killed"],))], tmp_path)
    check(outcome)
    assert outcome.fired["executor killed in a batch"] > 0
