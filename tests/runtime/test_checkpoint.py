"""A run's hold on its checkpoint: what it refuses, what it tidies, and that it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runtime.sessions import QUERY, TREE
from small_plans import GROUPS, chain_plan, piece
from watersmeet.errors import CheckpointError, StateConflictError
from watersmeet.model.ids import Partitioning, SegmentId
from watersmeet.model.placement import Placement
from watersmeet.runtime import checkpoint as module
from watersmeet.runtime.checkpoint import Checkpoint, first_manifest, hold, in_memory, placed_anew
from watersmeet.runtime.looking_ahead import newest_manifest
from watersmeet.runtime.made_by import refuse_made_locally, refuse_made_on_spark
from watersmeet.runtime.outputs import Outputs
from watersmeet.state.applying import apply_all
from watersmeet.state.files import Folder
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.learned import BALANCE, SLOTS, Learned, Lesson, Trial
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_files import FileSegments, MemorySegments
from watersmeet.state.table import FileTable
from watersmeet.state.updates import AddSegment, AdvanceStream, Learn, SetPlacement

PLAN = chain_plan(tree=TREE)


@pytest.fixture
def folders(tmp_path: Path) -> CheckpointFolders:
    return CheckpointFolders(str(tmp_path / "ck"))


@pytest.fixture
def held(folders: CheckpointFolders) -> Checkpoint:
    lock = CheckpointLock(folders.home)
    lock.acquire()
    table = FileTable.create(folders.state, first_manifest(QUERY, PLAN.spec, Placement(2, GROUPS), "asked for"))
    return hold(folders, table, Outputs(kept=folders.results), lock)


def asking(manifest: Manifest, slots: int) -> Placement:
    return manifest.placement.asking(slots)


def test_version_0_says_which_plan_and_why(held: Checkpoint) -> None:
    manifest = held.manifest
    assert (manifest.version, manifest.plan, manifest.answering.reason) == (0, TREE, "asked for")
    assert manifest.answering.spec == PLAN.spec
    assert manifest.decisions == ({"decision": "plan", "plan": TREE, "reason": "asked for", "version": 0},)
    assert first_manifest(QUERY, PLAN.spec, Placement(2, GROUPS)).decisions == ()


def test_to_look_at_one_needs_no_lock_and_makes_nothing(folders: CheckpointFolders, tmp_path: Path) -> None:
    assert newest_manifest(folders) is None
    assert not (tmp_path / "ck").exists()


def test_it_is_let_go_with_the_run(held: Checkpoint, folders: CheckpointFolders) -> None:
    with pytest.raises(CheckpointError):
        CheckpointLock(folders.home).acquire()
    held.close()
    with pytest.raises(StateConflictError, match="the run has ended"):
        held.commit([], [])
    again = CheckpointLock(folders.home)
    again.acquire()
    held.close()  # for the second time: it has nothing to let go of any more
    with pytest.raises(CheckpointError):
        CheckpointLock(folders.home).acquire()
    again.release()


def test_taking_over_deletes_what_nobody_refers_to(held: Checkpoint, folders: CheckpointFolders) -> None:
    held.commit([], [AddSegment(piece(PLAN, "kept", "A", ((0, 2),), 0))])
    held.close()
    for folder, name in ((folders.segments, "kept.arrow"), (folders.segments, "orphan.arrow"), (folders.results, "r")):
        Path(folder.path(name)).write_text("")
    lock = CheckpointLock(folders.home)
    lock.acquire()
    table = FileTable.open(folders.state)
    assert table is not None
    hold(folders, table, Outputs(kept=folders.results), lock).close()
    assert (folders.segments.names(), folders.results.names()) == (["kept.arrow"], [])


def test_now_and_then_it_looks_through_all_files(
    held: Checkpoint, folders: CheckpointFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_THROUGH_EVERY", 5)
    orphan = Path(folders.segments.path("orphan.arrow"))
    orphan.write_text("")
    for _ in range(4):
        held.commit([], [])
        held.tidy()
    assert orphan.exists()
    held.commit([], [])
    held.tidy()
    assert not orphan.exists()


def test_files_that_their_delivery_moved_away_are_not_asked_for_again(
    folders: CheckpointFolders, tmp_path: Path
) -> None:
    """On a store that were a request for each batch. Should one be there all the same, it is an orphan."""
    table = FileTable.create(folders.state, first_manifest(QUERY, PLAN.spec, Placement(2, GROUPS)))
    outputs = Outputs(late_target=str(tmp_path / "out"), kept=folders.results, owner="ck")
    beside = outputs.late_waiting
    assert beside is not None
    held = hold(folders, table, outputs, CheckpointLock(folders.home))
    for folder in (folders.results, beside):
        Path(folder.path("r0")).write_text("")
    held.drop_later(delivered=["r0"])
    held.tidy()
    assert (folders.results.names(), beside.names()) == ([], ["r0"])
    held.tidy(everything=True)
    assert beside.names() == []
    held.close()


def test_segments_for_one_batch_and_delivered_files_go_with_the_next_tidying(
    held: Checkpoint, folders: CheckpointFolders
) -> None:
    Path(folders.segments.path("scratch.arrow")).write_text("")
    for name in ("r0", "r1"):
        Path(folders.results.path(name)).write_text("")
    held.drop_later(scratch=[SegmentId("scratch")], delivered=["r0"])
    held.tidy()
    assert (folders.segments.names(), folders.results.names()) == ([], ["r1"])


@pytest.mark.parametrize("slots", [1, 3])
def test_another_number_of_slots_spreads_the_groups_anew(held: Checkpoint, slots: int) -> None:
    owners = {Partitioning("k0"): (1,) * GROUPS}
    held.commit([], [SetPlacement(Placement(2, GROUPS, owners))])
    assert placed_anew(held.manifest, asking(held.manifest, 2)) == [], "the same number changes nothing"
    assert placed_anew(held.manifest, asking(held.manifest, slots)) == [SetPlacement(Placement(slots, GROUPS))]


def test_what_other_slots_took_is_not_gone_by(held: Checkpoint) -> None:
    scaled = Trial(SLOTS, "2 slots", 5, {"seconds": 3.0}, {"seconds": 2.0}, from_size=1, size=2)
    useless = Lesson(replace(scaled, at_batch=1), {"seconds": 3.0}, False, 1, useless_size=7)
    in_vain = Lesson(Trial(BALANCE, "x", 3, {"seconds": 3.0}, {"seconds": 2.0}), {"seconds": 3.0}, False, 1)
    recent = dict.fromkeys(("backlog", "batch_seconds", "slot_cpu_seconds", "slot_rows"), (3.0,) * 5)
    moved = Trial(BALANCE, "x", 6, {"seconds": 3.0}, {"seconds": 2.0})
    known = Learned(recent=recent, trials=(scaled, moved), lessons=(useless, in_vain), placed_before=6)
    held.commit([], [Learn(known)])
    left = Learned(recent={"backlog": (3.0,) * 5}, lessons=(useless,), placed_before=6)
    assert placed_anew(held.manifest, asking(held.manifest, 3)) == [SetPlacement(Placement(3, GROUPS)), Learn(left)]


def test_a_run_without_a_checkpoint(tmp_path: Path) -> None:
    """In memory, or, where it may spill, in a folder."""
    run = in_memory(QUERY, PLAN.spec, Placement(2, GROUPS))
    assert isinstance(run.segments, MemorySegments)
    run.commit([], [])
    run.tidy(everything=True)
    run.close()
    assert isinstance(in_memory(QUERY, PLAN.spec, Placement(2, GROUPS), Folder(str(tmp_path))).segments, FileSegments)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_one_of_the_other_runtime(held: Checkpoint, folders: CheckpointFolders) -> None:
    """What was read is written down by each in its own way."""
    refuse_made_on_spark(folders)
    refuse_made_locally(held.manifest)
    rows_alone = apply_all([AdvanceStream("A", 1, 1, 0)], held.manifest)
    refuse_made_locally(rows_alone)
    with pytest.raises(CheckpointError, match="made by the local runtime"):
        refuse_made_locally(apply_all([AdvanceStream("A", 1, 1, 0, (("file", 1),))], held.manifest))
    folders.spark.make()
    Path(folders.spark.path("offsets")).write_text("")
    with pytest.raises(CheckpointError, match="made by the spark runtime"):
        refuse_made_on_spark(folders)
