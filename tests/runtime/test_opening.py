"""How a run begins: with the plan that it chooses, or, where it goes on, with that of its checkpoint and no other."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.sessions import QUERY, TREE
from small_plans import GROUPS, STREAMS, chain_plan, piece
from watersmeet.errors import CheckpointError, JobError, ResourceError
from watersmeet.lang.binder import bind
from watersmeet.model.file_sums import sum_of
from watersmeet.model.streams import Stream
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.query import Query
from watersmeet.runtime import opening
from watersmeet.runtime.looking_ahead import look_ahead, newest_manifest
from watersmeet.runtime.opening import OpenRun, open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.forced_step import ForcedStep
from watersmeet.settings.plan import PlanSettings
from watersmeet.settings.run import RunSettings
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.files import Folder
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.manifest import BatchRecord, Manifest
from watersmeet.state.segment_files import file_name
from watersmeet.state.table import FileTable, version_name
from watersmeet.state.updates import AddSegment, FinishBatch, SetPlacement

SQUARE_SCHEMA = pa.schema(
    [("w", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("z", pa.int64()), ("ts", pa.int64())]
)
SQUARE = bind(
    "SELECT A.w FROM A, B, C, D WHERE A.x = B.x AND B.y = C.y AND C.z = D.z AND D.w = A.w",
    {name: Stream(name, SQUARE_SCHEMA, "ts") for name in "ABCD"},
)


def statistics(*rates: float) -> Statistics:
    return Statistics(rates=dict(zip("ABCD", rates, strict=True)))


def settings(plan: str = TREE, known: Statistics | None = None, **more: object) -> RunSettings:
    return RunSettings(PlanSettings(plan, known), groups=GROUPS, **more)  # type: ignore[arg-type]


@pytest.fixture
def folders(tmp_path: Path) -> CheckpointFolders:
    return CheckpointFolders(str(tmp_path / "ck"))


def ahead(query: Query, settings: RunSettings, folders: CheckpointFolders | None = None) -> StartPlan:
    return look_ahead(query, settings, folders, "local")


def opened(run: OpenRun) -> OpenRun:
    run.close()
    return run


@pytest.mark.parametrize("plan", ["mjoin", "auto", "left-deep"])
def test_a_restart_has_the_plan_of_its_checkpoint_whatever_statistics_say(
    plan: str, folders: CheckpointFolders
) -> None:
    """Routes of a square are chosen by rates, and other routes have other states."""
    first = opened(open_run(SQUARE, settings(plan, statistics(1000, 1, 10, 1)), folders))
    others = [statistics(1, 1000, 1, 10), statistics(1, 1, 1000, 1), None]
    for known in others:
        again = opened(open_run(SQUARE, settings(plan, known), folders))
        assert again.plan.spec == first.plan.spec
        assert set(again.plan.states) == set(first.plan.states)
        assert ahead(SQUARE, settings(plan, known), folders).plan.spec == first.plan.spec
    fresh = [ahead(SQUARE, settings(plan, known)).plan for known in others[:2]]
    if plan == "mjoin":
        assert any(set(found.states) != set(first.plan.states) for found in fresh)


def test_a_restart_keeps_what_rows_carry(folders: CheckpointFolders) -> None:
    """With a budget rows carry their lineage from the first batch on, or never."""
    first = opened(open_run(QUERY, settings(memory=AdaptSettings(1000)), folders))
    assert first.plan.spec.lineage
    again = opened(open_run(QUERY, settings(), folders))
    assert again.plan.spec == first.plan.spec
    assert not again.controller.watched


def test_a_former_run_can_commit_nothing_once_anything_was_deleted(
    folders: CheckpointFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had written and not committed went with the garbage of the next; then it committed it."""
    monkeypatch.setattr(CheckpointLock, "acquire", lambda self: None)
    first = open_run(QUERY, settings(), folders)
    written = piece(chain_plan(tree=TREE), "00000000-0123456789abcdef", "A", ((0, 2),), 0)
    Path(folders.segments.path(file_name(written.file))).write_text("rows")
    second = open_run(QUERY, settings(), folders)
    assert folders.segments.names() == []
    with pytest.raises(CheckpointError, match="another run has taken over the checkpoint"):
        first.checkpoint.commit([], [AddSegment(written)])
    second.checkpoint.commit([], [])
    second.close()
    first.close()


def test_forced_steps_that_cannot_be_taken_are_refused_before_anything_is_made(
    folders: CheckpointFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = settings(memory=AdaptSettings(forced=(ForcedStep(1, spill_share=0.5, spill=(("J9", 0),)),)))
    with pytest.raises(JobError, match='names "J9:0"'):
        open_run(QUERY, wrong, folders)
    assert newest_manifest(folders) is None
    assert folders.home.names() == ["lock"]
    opened(open_run(QUERY, settings(), folders))
    with pytest.raises(JobError, match='names "J9:0"'):
        open_run(QUERY, wrong, folders)
    again = newest_manifest(folders)
    assert again is not None
    assert again.version == 0, "no claim"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(JobError, match='names "J9:0"'):
        open_run(QUERY, wrong)
    assert [path.name for path in tmp_path.iterdir()] == ["ck"]


def test_what_a_run_left_is_on_disk_before_the_next_one_claims_it(
    folders: CheckpointFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power loss may leave the claim, and not what it follows from. That run did not wait for the disk."""
    careless = CheckpointFolders(folders.address, durable=False)
    first = open_run(QUERY, settings(), careless, Outputs.waiting_only(careless.results, None))
    written = piece(chain_plan(tree=TREE), "00000000-e1-0123456789abcdef", "A", ((0, 2),), 0)
    Path(folders.segments.path(file_name(written.file))).write_text("rows")
    Path(folders.results.path("part")).write_text("rows")
    sums = {"part": sum_of(b"rows")}
    first.checkpoint.commit([], [AddSegment(written), FinishBatch(BatchRecord(0, 1, 1, 0), ("part",), (), sums)])
    first.close()
    order: list[str] = []
    fsync, link = os.fsync, os.link

    def noted(handle: int) -> None:
        order.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    def linked(source: str, target: str) -> None:
        order.append("the claim")
        link(source, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "link", linked)
    second = open_run(QUERY, settings(), folders, Outputs.waiting_only(folders.results, None))
    assert (second.checkpoint.manifest.version, second.checkpoint.manifest.epoch) == (2, 2)
    second.close()
    state = folders.state
    found = ["segments/00000000-e1-0123456789abcdef.arrow", "results/part", "segments", "results", "versions", ""]
    found += [f"{folder}/{version_name(number)}" for folder, number in (("snapshots", 0), ("versions", 1))]
    assert {state.path(name) for name in found} <= set(order[: order.index("the claim")])


def test_a_waiting_file_that_is_damaged_is_refused_and_nothing_claimed(folders: CheckpointFolders) -> None:
    first = open_run(QUERY, settings(), folders, Outputs.waiting_only(folders.results, None))
    Path(folders.results.path("part")).write_text("rowt")
    sums = {"part": sum_of(b"rows"), "delivered": sum_of(b"rows")}
    batch = FinishBatch(BatchRecord(0, 1, 1, 0), ("part", "delivered"), (), sums)
    first.checkpoint.commit([], [batch])
    first.close()
    with pytest.raises(ResourceError, match='"part" that waits for its delivery is corrupt'):
        open_run(QUERY, settings(), folders, Outputs.waiting_only(folders.results, None))
    assert folders.results.names() == ["part"]
    found = newest_manifest(folders)
    assert found is not None
    assert found.version == 1


def test_other_slots_keep_what_was_cut_by_a_run_that_was_still_alive(
    folders: CheckpointFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cuts a group between our look and our claim: the claim is worked out anew from there."""
    monkeypatch.setattr(CheckpointLock, "acquire", lambda self: None)
    first = open_run(QUERY, settings(slots=2), folders)
    prepare = opening.prepare_to_take
    plan = first.plan
    operator = plan.operators[plan.labels["J1"]]

    def cut_first(folders: CheckpointFolders, table: FileTable, waiting: tuple[Folder, ...]) -> None:
        prepare(folders, table, waiting)
        if table.manifest.version == 0:
            placement = first.checkpoint.manifest.placement
            middle = placement.of(operator.partitioning).bounds.middle(1)
            assert middle is not None
            first.checkpoint.commit([], [SetPlacement(placement.cut(operator.partitioning, 1, middle))])

    monkeypatch.setattr(opening, "prepare_to_take", cut_first)
    second = open_run(QUERY, settings(slots=3), folders)
    placement = second.checkpoint.manifest.placement
    assert (placement.slots, placement.of(operator.partitioning).groups) == (3, GROUPS + 1)
    second.close()
    first.close()


def test_a_run_that_asks_for_another_plan_begins_with_its_own(folders: CheckpointFolders) -> None:
    assert opened(open_run(QUERY, settings(), folders)).start.change is None
    for _ in range(2):  # it has not been changed by the first of them
        other = opened(open_run(QUERY, settings("(A (B C))"), folders))
        assert other.start.change is not None
        assert (other.plan.tree, other.start.change.plan.tree) == (TREE, "(A (B C))"), "the driver changes it"
    left_open = opened(open_run(QUERY, settings("auto"), folders))
    assert (left_open.plan.tree, left_open.start.change) == (TREE, None), "to leave it open is no other plan"


def test_what_is_refused_leaves_the_checkpoint_free(folders: CheckpointFolders) -> None:
    opened(open_run(QUERY, settings(), folders))
    other = bind("SELECT A.v FROM A, B WHERE A.k = B.k", STREAMS)
    with pytest.raises(CheckpointError, match="belongs to another query"):
        open_run(other, RunSettings(PlanSettings("auto"), groups=GROUPS), folders)
    opened(open_run(QUERY, settings(), folders))


def test_another_number_of_groups_is_left_to_the_driver(folders: CheckpointFolders) -> None:
    opened(open_run(QUERY, settings(), folders))
    other = opened(open_run(QUERY, RunSettings(PlanSettings(TREE), groups=GROUPS + 1), folders))
    assert (other.checkpoint.manifest.placement.groups, other.start.groups) == (GROUPS, GROUPS + 1)


def test_a_runtime_may_refuse(folders: CheckpointFolders) -> None:
    def refuse(manifest: Manifest) -> None:
        raise CheckpointError("not mine")

    opened(open_run(QUERY, settings(), folders, refuse=refuse))  # there is nothing to refuse yet
    with pytest.raises(CheckpointError, match="not mine"):
        open_run(QUERY, settings(), folders, refuse=refuse)
    opened(open_run(QUERY, settings(), folders))


def test_a_second_run_is_kept_out(folders: CheckpointFolders) -> None:
    first = open_run(QUERY, settings(), folders)
    with pytest.raises(CheckpointError):
        open_run(QUERY, settings(), folders)
    first.close()
    opened(open_run(QUERY, settings(), folders))


def test_another_number_of_slots_is_let_in(folders: CheckpointFolders) -> None:
    opened(open_run(QUERY, settings(slots=2), folders))
    assert opened(open_run(QUERY, settings(slots=5), folders)).checkpoint.manifest.placement.slots == 5


def test_what_a_run_without_a_checkpoint_spills_goes_with_it() -> None:
    run = open_run(QUERY, settings(memory=AdaptSettings(1000)))
    assert run.spill is not None and Path(run.spill.path()).exists()
    run.close()
    assert not Path(run.spill.path()).exists()
    assert opened(open_run(QUERY, settings())).spill is None


def test_looking_ahead_changes_nothing(folders: CheckpointFolders, tmp_path: Path) -> None:
    assert ahead(QUERY, settings("(A (B C))"), folders).tree == "(A (B C))"
    assert not (tmp_path / "ck").exists()
    opened(open_run(QUERY, settings(), folders))
    before = newest_manifest(folders)
    other = bind("SELECT A.v FROM A, B WHERE A.k = B.k", STREAMS)
    with pytest.raises(CheckpointError, match="belongs to another query"):
        ahead(other, settings("auto"), folders)
    assert ahead(QUERY, settings("(A (B C))"), folders).tree == "(A (B C))", "what it would change to"
    assert newest_manifest(folders) == before
