"""The driver: what is committed is delivered, under ids that only grow and never change; nobody commits without it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.sessions import Sink, Undelivered, rows, session
from small_plans import GROUPS
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.decisions.spill import CannotSpill, SpillGroups
from watersmeet.adapt.decisions.work import Work
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.errors import StateConflictError
from watersmeet.model.ids import Label
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.run.ending import Ending
from watersmeet.run.loop import Driver
from watersmeet.runtime.clock import VirtualClock
from watersmeet.runtime.context import BatchContext
from watersmeet.runtime.looking_ahead import newest_manifest
from watersmeet.runtime.reports import StreamReport, TaskReport
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.forced_step import ForcedStep
from watersmeet.settings.replan import ReplanSettings
from watersmeet.state.by_slot import grouped_bytes_by_slot
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.learned import MERGE
from watersmeet.state.manifest import Manifest

ALL = tuple(range(GROUPS))


def spill_all(plan: Any) -> SpillGroups:
    return SpillGroups(tuple((operator, group) for operator in plan.operators for group in ALL), "by hand")


def merge_all(plan: Any) -> list[Decision]:
    return [MergeGroup(operator, group, "by hand") for operator in plan.operators for group in ALL]


def undelivered(home: Path) -> list[int]:
    """As the next run will find it."""
    manifest = newest_manifest(CheckpointFolders(str(home / "ck")))
    assert manifest is not None
    return [delivery.id for delivery in manifest.undelivered]


# --- delivery --------------------------------------------------------------------------------------------------------


def test_each_batch_and_round_is_delivered_once_under_an_id_of_its_own(tmp_path: Path) -> None:
    with session(tmp_path) as one:
        driver, plan = one.run.driver, one.opened.plan
        driver.begin()
        driver.run_batch(rows(0))
        driver.force([spill_all(plan)])
        driver.run_batch(rows(1))
        driver.run_round(driver.force(merge_all(plan)))
        driver.run_batch(rows(2))
        driver.end()
        assert [(d.id, d.batch, d.round) for d in one.sink.took] == [(0, 0, 0), (1, 1, 0), (2, 1, 1), (3, 2, 0)]
        assert all(d.results for d in one.sink.took)
    assert undelivered(tmp_path) == []
    with session(tmp_path) as two:
        two.run.driver.begin()
        two.run.driver.run_batch(rows(3))
        assert two.sink.ids == [4]


def test_a_delivery_that_fails_is_repeated_by_the_same_run(tmp_path: Path) -> None:
    failed: list[int] = []

    def once(delivery: Any) -> bool:
        first = delivery.batch == 1 and not failed
        failed.extend([delivery.id] if first else [])
        return first

    with session(tmp_path, Sink(refuses=once)) as one:
        driver = one.run.driver
        driver.begin()
        driver.run_batch(rows(0))
        with pytest.raises(Undelivered):
            driver.run_batch(rows(1))
        assert undelivered(tmp_path) == [1], "the first is marked by the commit that followed it"
        files = one.manifest.undelivered[-1].results
        driver.run_batch(rows(2))
        assert (one.sink.ids, one.sink.took[1].results) == ([0, 1, 2], files)
        driver.end()
    assert undelivered(tmp_path) == []


def test_what_is_not_delivered_stays_listed_however_many_commits_follow(tmp_path: Path) -> None:
    """Also if those that follow are delivered: each is known by itself."""
    with session(tmp_path, Sink(refuses=lambda delivery: True)) as one:
        driver, plan = one.run.driver, one.opened.plan
        with pytest.raises(Undelivered):
            driver.run_batch(rows(0))
        driver.force([spill_all(plan)])
        waiting = one.manifest.undelivered
        for _ in range(30):
            one.opened.checkpoint.commit([], [])
        one.opened.checkpoint.tidy(everything=True)
        assert one.manifest.undelivered == waiting
        with pytest.raises(Undelivered):
            driver.run_batch(rows(1))
        assert [delivery.id for delivery in one.manifest.undelivered] == [0], "a batch waits for those before it"
        with pytest.raises(Undelivered):
            driver.run_round(driver.force(merge_all(plan)))
        assert [(d.id, d.round) for d in one.manifest.undelivered] == [(0, 0), (1, 1)]
        assert all((tmp_path / "out").glob(f"_watersmeet-*/{name}") for d in waiting for name in d.results)
    with session(tmp_path) as two:
        two.run.driver.begin()
        assert two.sink.ids == [0, 1], "the oldest first"
        assert two.sink.took[0].results == waiting[0].results
        two.run.driver.run_batch(rows(1))
        assert two.sink.ids == [0, 1, 2]
        two.run.driver.end()
    assert undelivered(tmp_path) == []


def test_a_restart_delivers_before_anything_else(tmp_path: Path) -> None:
    with session(tmp_path, Sink(refuses=lambda delivery: delivery.id == 1)) as one:
        one.run.driver.run_batch(rows(0))
        with pytest.raises(Undelivered):
            one.run.driver.run_batch(rows(1))
    seen: list[tuple[int, int]] = []  # the id, and how far the checkpoint had come by then
    with session(tmp_path) as two:
        two.sink.refuses = lambda delivery: bool(seen.append((delivery.id, two.manifest.last_batch)))
        two.run.driver.run_batch(rows(2))
        assert seen == [(1, 1), (2, 2)]
    with session(tmp_path) as three:
        assert [delivery.id for delivery in three.manifest.undelivered] == [2], "nothing said that it was"
        three.run.driver.begin()
        three.run.driver.end()
        assert three.sink.ids == [2]
    assert undelivered(tmp_path) == []


def test_rounds_and_idle_work_come_after_what_waits(tmp_path: Path) -> None:
    """`drain` right after a restart: the batch that was not delivered comes before the rounds."""
    with session(tmp_path, Sink(refuses=lambda delivery: delivery.id == 1)) as one:
        one.run.driver.run_batch(rows(0))
        one.run.driver.force([spill_all(one.opened.plan)])
        with pytest.raises(Undelivered):
            one.run.driver.run_batch(rows(1))
    with session(tmp_path) as two:
        two.run.driver.drain(Ending.CLOSED)
        assert two.sink.ids == sorted(two.sink.ids)
        assert two.sink.ids[0] == 1 and len(two.sink.ids) > 1
        assert not two.opened.controller.owes(two.manifest)


def test_files_of_what_was_delivered_are_deleted_and_of_what_was_not_are_kept(tmp_path: Path) -> None:
    """This sink moves nothing, as `foreachBatch` does."""
    with session(tmp_path, Sink(refuses=lambda delivery: delivery.id == 2)) as one:
        for number in range(2):
            one.run.driver.run_batch(rows(number))
        with pytest.raises(Undelivered):
            one.run.driver.run_batch(rows(2))
        one.opened.checkpoint.tidy(everything=True)
        waiting = {path.name for path in (tmp_path / "out").glob("_watersmeet-*/*")}
        assert waiting == set(one.manifest.undelivered[-1].results)


# --- one owner -------------------------------------------------------------------------------------------------------


def test_nothing_is_committed_once_the_run_has_ended(tmp_path: Path) -> None:
    with session(tmp_path) as one:
        one.run.driver.run_batch(rows(0))
        work = one.run.driver.force([spill_all(one.opened.plan)])
        one.run.driver.run_batch(rows(1))
    version = one.manifest.version
    attempts = [
        lambda: one.run.driver.force(merge_all(one.opened.plan)),
        lambda: one.opened.checkpoint.commit([], []),
        lambda: one.run.driver.end(),
    ]
    assert not work
    for attempt in attempts:
        with pytest.raises(StateConflictError, match="the run has ended"):
            attempt()
    manifest = newest_manifest(CheckpointFolders(str(tmp_path / "ck")))
    assert manifest is not None and manifest.version == version


class SlowExecutor:
    """Takes a moment, and sees whether anybody else is at work."""

    def __init__(self) -> None:
        self.busy = False
        self.overlaps = 0

    def run(self, context: BatchContext, source: object) -> tuple[list[StreamReport], list[TaskReport]]:
        self.overlaps += self.busy
        self.busy = True
        time.sleep(0.01)
        self.busy = False
        return [], []


def test_batches_and_rounds_take_turns(tmp_path: Path) -> None:
    executor = SlowExecutor()
    with session(tmp_path) as one:
        driver: Driver[object] = Driver(
            one.opened.plan, one.opened.checkpoint, one.opened.controller, executor, one.sink
        )
        driver.run_batch(object())
        work = Work(merges=((next(iter(one.opened.plan.operators)), 0),))
        threads = [threading.Thread(target=lambda: [driver.run_round(work) for _ in range(5)])]
        threads += [threading.Thread(target=lambda: [driver.run_batch(object()) for _ in range(5)])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (executor.overlaps, one.manifest.last_batch, len(one.sink.took)) == (0, 5, 11)
        assert one.sink.ids == list(range(11))


# --- what slots have in memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [(ForcedStep(2, slots=1),), (ForcedStep(2, move=((Label("k0"), None, 0),)),), ()])
def test_a_slot_that_gets_more_groups_spills_before_the_next_batch(
    tmp_path: Path, steps: tuple[ForcedStep, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By force, or by hand. Each of two slots has room for its own groups, and neither for those of both."""
    limit = 26_000
    began_with: list[int] = []
    with session(tmp_path, memory=AdaptSettings(slot_bytes=limit, forced=steps)) as one:
        driver = one.run.driver
        run = driver.session.executor.run

        def noted(context: BatchContext, source: Any) -> Any:
            began_with.append(max(grouped_bytes_by_slot(driver.plan, driver.manifest)))
            return run(context, source)

        monkeypatch.setattr(driver.session.executor, "run", noted)
        for batch in range(2):
            driver.run_batch(rows(batch, keys=60))
        assert one.manifest.active_bytes > limit, "too much for one"
        assert all(entry["decision"] != "SpillGroups" for entry in one.manifest.decisions)
        if not steps:
            driver.rescale(1, "asked for by hand")
            assert sum(grouped_bytes_by_slot(driver.plan, driver.manifest)) <= limit, "at once"
        driver.run_batch(rows(2, keys=60))
        kinds = [entry["decision"] for entry in one.manifest.decisions][1:]
    assert kinds[:2] == ["MoveGroups" if steps and steps[0].move else "Rescale", "SpillGroups"]
    assert max(began_with) <= limit


@pytest.mark.parametrize("limit", [None, 1 << 30])
def test_the_fullest_slot_is_noted_where_slots_have_a_limit(tmp_path: Path, limit: int | None) -> None:
    memory = AdaptSettings(slot_bytes=limit, replan=ReplanSettings("memory-driven"))
    with session(tmp_path, memory=memory) as one:
        driver = one.run.driver
        driver.run_batch(rows(0))
        fullest = max(grouped_bytes_by_slot(driver.plan, driver.manifest))
        driver.run_batch(rows(1))
        noted = one.manifest.learned.recent.get("slot_bytes")
    assert noted == (None if limit is None else (float(fullest),))


# --- asking, and what is told ----------------------------------------------------------------------------------------


class NoteMoments:
    """Notes when it is asked, and says something once."""

    origin: Origin = ByPolicy("note-moments")
    moments = frozenset(Moment)
    needs: frozenset[Signal] = frozenset()

    def __init__(self) -> None:
        self.asked: list[Moment] = []

    def propose(self, outlook: Outlook) -> list[Decision]:
        self.asked.append(outlook.moment)
        return [CannotSpill("told")] if outlook.moment is Moment.AFTER_BATCH and len(self.asked) < 3 else []


def test_policies_are_asked_at_their_moments_and_decisions_are_told_once(tmp_path: Path) -> None:
    policy = NoteMoments()
    with session(tmp_path) as one:
        one.opened.controller.policies = (policy,)
        driver = one.run.driver
        assert not driver.run_idle() and not driver.drain_step(Ending.OPEN), "before the first batch there is no work"
        driver.begin()
        driver.run_batch(rows(0))
        driver.run_batch(rows(1))
        assert not driver.run_idle()
        assert not driver.drain_step(Ending.OPEN) and not driver.drain_step(Ending.CLOSED)
        driver.end()
    before, after = Moment.BEFORE_BATCH, Moment.AFTER_BATCH
    assert policy.asked == [before, after, before, after, Moment.IDLE, Moment.DRAIN, Moment.END]
    assert [event["event"] for event in one.events] == ["batch", "batch", "end"]
    assert [[entry["decision"] for entry in event["decisions"]] for event in one.events[:2]] == [["CannotSpill"], []]
    kept: Manifest = one.manifest
    assert [entry["decision"] for entry in kept.decisions][-1] == "CannotSpill", "the manifest has every decision"


def test_events_tell_batches_from_rounds_and_name_operators_as_people_do(tmp_path: Path) -> None:
    with session(tmp_path) as one:
        driver, plan = one.run.driver, one.opened.plan
        driver.begin()
        driver.run_batch(rows(0))
        driver.force([spill_all(plan)])
        driver.run_batch(rows(1))
        driver.run_round(driver.force(merge_all(plan)))
        driver.end()
    first, second, merge, end = one.events
    assert [event["event"] for event in (first, second, merge, end)] == ["batch", "batch", "merge", "end"]
    assert {name for name, _ in second["decisions"][0]["groups"]} == {"J1", "J2"}
    assert set(second["owed_groups"]) == {"J1", "J2"} and merge["rows_merged"] > 0
    assert end["rows_out"] == sum(event["rows_out"] for event in (first, second, merge))
    assert (end["batches"], end["rows_in"]) == (2, 72)


class SlowClock(VirtualClock):
    """A second goes by whenever somebody looks."""

    def now(self) -> float:
        self.sleep(1)
        return super().now()


def test_the_pace_of_batches_is_learned_and_survives_a_restart(tmp_path: Path) -> None:
    """Of batches, not of rounds: so are the figures of groups."""
    with session(tmp_path, clock=SlowClock(), memory=AdaptSettings(10**9)) as one:
        driver, plan = one.run.driver, one.opened.plan
        driver.run_batch(rows(0))
        first = one.events[-1]["seconds"]
        driver.force([spill_all(plan)])
        assert one.manifest.learned.batch_seconds == first - 1 > 0, "deciding before it has looked at the clock once"
        driver.run_batch(rows(1))
        seconds = one.manifest.learned.batch_seconds
        driver.run_round(driver.force(merge_all(plan)))
        assert one.manifest.learned.batch_seconds == pytest.approx(seconds)
        driver.end()
        learned = one.manifest.learned
    with session(tmp_path) as two:
        assert two.manifest.learned == learned


def test_how_estimates_come_true_is_learned_from_rounds(tmp_path: Path) -> None:
    with session(tmp_path) as one:
        driver, plan = one.run.driver, one.opened.plan
        driver.run_batch(rows(0))
        driver.force([spill_all(plan)])
        driver.run_batch(rows(1))
        driver.drain(Ending.CLOSED)
        learned = one.manifest.learned
        merges = {lesson.trial.of: lesson.ratio for lesson in learned.lessons if lesson.trial.kind == MERGE}
        assert set(merges) == set(plan.operators)
        assert learned.trials == ()
        assert all(ratio > 0 for ratio in merges.values())
        driver.end()
    with session(tmp_path) as two:
        assert two.manifest.learned == replace(learned, batch_seconds=two.manifest.learned.batch_seconds)
