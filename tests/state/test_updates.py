"""Updates: plain JSON both ways, pure when applied, and the same table replayed from files or kept in memory."""

from __future__ import annotations

import copy
import json
import tempfile
from dataclasses import replace
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import InternalError
from watersmeet.model.group_figures import GroupFigures, GroupObservation
from watersmeet.model.ids import DeliveryId, Generation, OperatorName, Partitioning, SegmentId, StateName
from watersmeet.model.origin import Forced
from watersmeet.model.placement import Placement
from watersmeet.model.routing import union_ranges
from watersmeet.model.segments import Segment
from watersmeet.model.statistics import Measured, PairCounts
from watersmeet.plan.spec import FilterSpec, JoinSpec, PlanSpec, VisitSpec
from watersmeet.plan.tree import Join, Leaf
from watersmeet.state.applying import DECISIONS_KEPT, apply_all
from watersmeet.state.epochs import Holder
from watersmeet.state.files import Folder
from watersmeet.state.learned import MERGE, Learned, Lesson, Look, Resizing, Trial
from watersmeet.state.manifest import (
    BatchRecord,
    Counted,
    Delivery,
    GateProgress,
    Manifest,
    StreamProgress,
    Track,
    Withdrawal,
)
from watersmeet.state.query_identity import QueryIdentity, StreamIdentity
from watersmeet.state.retention import Retention
from watersmeet.state.segment_table import SegmentTable
from watersmeet.state.table import FileTable, Table
from watersmeet.state.taken import Taken
from watersmeet.state.updates import (
    AddSegment,
    AdvanceStream,
    Claim,
    CloseGroups,
    CoolGroups,
    CutRange,
    FinishBatch,
    GatherDeliveries,
    GoBack,
    Learn,
    ListFiles,
    MarkDelivered,
    MarkWithdrawn,
    ObserveBatch,
    ObserveGroups,
    PassBoundary,
    PassGate,
    RecordDecision,
    Regroup,
    ReleaseGroups,
    ResolveEnds,
    SetLibrary,
    SetNewest,
    SetPlacement,
    SetRetention,
    SetTracks,
    SwitchPlan,
    Update,
    update_from_json,
    update_to_json,
)

GROUPS = 8
S = SegmentId("s")
STATE = StateName("A@A.k")
J1 = OperatorName("A*B#1")
TREE = Join((Leaf("A"), Leaf("B")))
TRACK = Track(PlanSpec(TREE, (JoinSpec(((1,), (0,))),)), "why")
TRIAL = Trial(MERGE, "merges", 5, {}, {"results": 7.0}, J1)
QUERY = QueryIdentity("SELECT 1", {"A": StreamIdentity((("k", pa.int64()),), "k", 0)}, "digest")
EMPTY = Manifest(0, QUERY, (TRACK,), Placement(2, GROUPS), SegmentTable.of())


def segment(name: str, groups: tuple[tuple[int, int], ...] = ((0, 3), (5, 6))) -> Segment:
    return Segment(SegmentId(name), STATE, 100, 2048, 123, groups, groups, -5, 1 << 62, -9, 3)


def with_segments(*segments: Segment) -> Manifest:
    return replace(EMPTY, segments=SegmentTable.of(segments))


def apply(update: Update, manifest: Manifest) -> Manifest:
    """The manifest that one update makes of it."""
    return apply_all([update], manifest)


EXAMPLES: tuple[Update, ...] = (
    Claim(Holder(1, "run", "host", 7, "2026-11-17 05:00:00 UTC")),
    SetPlacement(Placement(3, GROUPS, {Partitioning("k0"): (0, 0, 1, 1, 2, 2, 2, 2)})),
    SetRetention(Retention(7, None)),
    GoBack(replace(EMPTY, version=3, kept_from=1), "aside", ("r0", "l1"), ("/out/_w",)),
    MarkWithdrawn(),
    SetRetention(Retention(1, 3_600_000_000)),
    CutRange(Partitioning("k0"), 2, 5 << 60, (STATE,), {S: (3, 2)}, {J1: 0.25}),
    SetTracks(
        (
            TRACK,
            Track(
                PlanSpec(
                    TREE,
                    (JoinSpec(((1,), (0,)), ((VisitSpec(1, ("k0",), ("k1",)),), (VisitSpec(0, ("k1",)),))),),
                    (FilterSpec("A", "A.v > 1"),),
                    (("A", "B"),),
                ),
                "",
                "shadow",
                7,
            ),
        )
    ),
    SwitchPlan(
        (replace(TRACK, since_batch=3, asked="mjoin"),),
        ((StateName("B@B.k#1"), None),),
        ((STATE, None),),
        (J1,),
    ),
    SwitchPlan(
        (replace(TRACK, within=((0, 2), (5, 8))), replace(TRACK, within=((2, 5),))),
        ((StateName("B@B.k#1"), ((2, 5),)),),
        ((STATE, ((2, 5),)),),
        (J1,),
        within=((2, 5),),
    ),
    AddSegment(segment("n")),
    AddSegment(replace(segment("t"), group_rows=(40, 30, 20, 10), group_keys=(4, 3, 2, 1))),
    ObserveBatch(Measured(2.5, {"A": 10.0}, (PairCounts(("A",), ("B", "C"), 100, 10, 10, 3),))),
    ReleaseGroups(SegmentId("s"), ((0, 2), (5, 6))),
    CloseGroups(J1, (STATE,), ((0, 1), (5, 6)), Generation(7)),
    CoolGroups(SegmentId("s"), STATE, ((1, 2),)),
    ObserveGroups(3, "ewma", {J1: GroupObservation.nothing(2, GROUPS)}),
    AdvanceStream("A", None, 0, 0),
    AdvanceStream("A", -7, 10, 2, (("a b.parquet", 5), ("ü.parquet", -1)), 4),
    SetNewest("B", 0),
    ListFiles("B", "list.json", 3, 2, ("older.json",)),
    FinishBatch(BatchRecord(0, 10, 20, 3, {"J1": {"rows_in": 10, "rows_out": 20}}, 5, 0), ("r",), ("l",)),
    GatherDeliveries((DeliveryId(0),), ("r",), ("l",), {"r": (1, 2)}, DeliveryId(5)),
    MarkDelivered((DeliveryId(0), DeliveryId(3))),
    RecordDecision({"decision": "SpillGroups", "groups": [[J1, 3]], "reason": "memory"}),
    RecordDecision({"decision": "CutGroup"}, Taken("cut", 3, Forced(), J1, ((3, 4),))),
    Learn(Learned(0.25, (TRIAL,), (Lesson(TRIAL, {"results": 3.0}, False, 2, 4, 100.0),), Look(3, {"A": 1.0}, 2))),
    Learn(Learned(resizing=Resizing(2, 4, 7, 3), placed_before=7, moved_us=5, cannot_spill=True)),
    Learn(Learned(roads={"seeded": (0.5, 2.0)}, recent={"state_bytes": (1.0, 2.0)}, search_seconds=0.1)),
    PassBoundary(StateName("A@group#1"), 5_000_000),
    PassGate(GateProgress(7_000_000, {"A": Counted(5_000_000, 12), "B": Counted()})),
    ResolveEnds(SegmentId("s"), 9_000_000, (("B", 40),)),
    SetLibrary(({"plan": "(A B)", "figures": {"A": 1.0}, "cpu": 0.5, "batch": 3},)),
    Regroup(Placement(2, 5), (segment("g", ((0, 2),)),)),
)


def test_every_kind_has_an_example() -> None:
    assert {type(update) for update in EXAMPLES} == set(get_args(Update))


@pytest.mark.parametrize("update", EXAMPLES, ids=lambda update: type(update).__name__)
def test_json_and_back(update: Update) -> None:
    data = json.loads(json.dumps(update_to_json(update)))
    again = update_from_json(data)
    assert type(again) is type(update)
    assert update_to_json(again) == update_to_json(update)
    if not isinstance(update, ObserveGroups):  # which has arrays
        assert again == update


@pytest.mark.parametrize("update", EXAMPLES, ids=lambda update: type(update).__name__)
def test_apply_leaves_the_manifest_as_it_was(update: Update) -> None:
    cold = segment("c").cold(((0, 2),), Generation(1))
    before = replace(
        with_segments(segment("s"), cold),
        decisions=({"version": 0},),
        streams={"B": StreamProgress(1, 9, 0, (("x", 1), ("y", 2)), (("older.json", 1),))},
        undelivered=(Delivery(DeliveryId(0), 0, 0, ("r",)),),
        withdrawals=(Withdrawal(7, 3, "aside", ("r",), ("/out/_w",)),),
    )
    kept = before.to_json()
    kept_copy = copy.deepcopy(kept)
    after = apply(update, before)
    assert before.to_json() == kept == kept_copy
    assert after.version == 1
    assert after.to_json() != {**kept, "version": 1}
    assert apply(update, before) == after


def test_a_commit_applies_each_update_to_what_the_ones_before_it_made() -> None:
    after = apply_all(
        [AddSegment(segment("s")), CloseGroups(J1, (STATE,), ((0, 2),), Generation(1)), ReleaseGroups(S, ((2, 3),))],
        EMPTY,
    )
    assert {name: entry.groups for name, entry in after.segments.items()} == {"s": ((5, 6),), "s~1.0": ((0, 2),)}


def test_deliveries_stay_listed_until_they_are_known() -> None:
    """Their ids go up by one, over batches and rounds alike."""
    manifest = EMPTY
    for number, turn in ((0, 0), (0, 1), (0, 2), (1, 0)):
        record = BatchRecord(number, 1, 1, 0, round=turn)
        manifest = apply(FinishBatch(record, (f"{number}.{turn}",)), manifest)
    assert [(d.id, d.batch, d.round, d.results) for d in manifest.undelivered] == [
        (0, 0, 0, ("0.0",)),
        (1, 0, 1, ("0.1",)),
        (2, 0, 2, ("0.2",)),
        (3, 1, 0, ("1.0",)),
    ]
    manifest = apply(MarkDelivered((DeliveryId(0), DeliveryId(2))), manifest)
    assert [d.id for d in manifest.undelivered] == [1, 3]
    assert manifest.next_delivery == 4


@pytest.mark.parametrize("number, turn", [(0, 0), (0, 2), (2, 0), (1, 1), (-1, 0)])
def test_batches_and_rounds_follow_in_order(number: int, turn: int) -> None:
    manifest = apply(FinishBatch(BatchRecord(0, 0, 0, 0)), EMPTY)
    with pytest.raises(InternalError, match="cannot follow"):
        apply(FinishBatch(BatchRecord(number, 0, 0, 0, round=turn)), manifest)


def test_names_of_files_move_on_to_a_list() -> None:
    manifest = apply(AdvanceStream("A", 1, 3, 0, (("a", 1), ("b", 2), ("c", 3)), 2), EMPTY)
    manifest = apply(ListFiles("A", "one", 2, 2), manifest)
    manifest = apply(ListFiles("A", "two", 3, 1, ("one",)), apply(AdvanceStream("A", 1, 1, 0, (("d", 4),)), manifest))
    progress = manifest.streams["A"]
    assert (progress.files, progress.file_lists, progress.file_count) == ((("d", 4),), (("two", 3),), 4)
    assert (progress.ignored_before_us, progress.reads_files) == (2, True)


def test_groups_leave_a_segment_until_it_goes() -> None:
    manifest = apply(ReleaseGroups(S, ((0, 2),)), with_segments(segment("s")))
    assert manifest.segments[S].groups == ((2, 3), (5, 6))
    assert manifest.state_rows == 50
    assert apply(ReleaseGroups(S, ((2, 3), (5, 6))), manifest).segments == {}


def test_a_stream_only_comes_on() -> None:
    manifest = EMPTY
    for newest in (5, None, 3):
        manifest = apply(AdvanceStream("A", newest, 10, 1, ((str(newest), 1),), newest or 0), manifest)
    progress = manifest.streams["A"]
    assert (progress.newest_us, progress.rows, progress.late) == (5, 30, 3)
    assert [name for name, _ in progress.files] == ["5", "None", "3"]
    assert progress.ignored_before_us == 5
    assert (progress.watermark_us(2), manifest.streams.get("B")) == (3, None)


def test_old_decisions_go() -> None:
    updates = [RecordDecision({"number": number}) for number in range(DECISIONS_KEPT + 3)]
    decisions = apply_all(updates, EMPTY).decisions
    assert [decisions[0]["number"], decisions[-1]["number"], len(decisions)] == [3, DECISIONS_KEPT + 2, DECISIONS_KEPT]
    assert decisions[0]["version"] == 1


def test_what_was_done_before_the_batch_to_come_is_known_until_that_is_committed() -> None:
    """However many decisions have followed: by that it is not done again."""
    taken = Taken("cut", 0, Forced(), J1, ((3, 4),))
    others = [RecordDecision({"number": number}) for number in range(DECISIONS_KEPT)]
    before = apply_all([RecordDecision({"reason": "a cut"}, taken), *others], EMPTY)
    assert (before.taken, len(before.decisions)) == ((taken,), DECISIONS_KEPT)
    assert Manifest.from_json(json.loads(json.dumps(before.to_json()))).taken == (taken,)
    after = replace(before, batch=BatchRecord(0, 1, 0, 0))
    assert apply_all([others[0]], after).taken == ()


def test_what_is_no_update() -> None:
    with pytest.raises(InternalError):
        apply_all(["a word"], EMPTY)  # type: ignore[list-item]


ranges = st.lists(st.tuples(st.integers(0, GROUPS - 1), st.integers(1, 4)), min_size=1, max_size=3).map(
    lambda pairs: tuple((low, min(GROUPS, low + width)) for low, width in pairs)
)


@st.composite
def commits(draw: st.DrawFn) -> list[list[Update]]:
    """Lists of updates that may follow each other: batches in order, groups released from segments that exist."""
    result: list[list[Update]] = []
    manifest = EMPTY
    for version in range(draw(st.integers(0, 24))):
        updates: list[Update] = []
        for _ in range(draw(st.integers(0, 4))):
            updates.append(draw(an_update(apply_all(updates, manifest), version)))
        manifest = apply_all(updates, manifest)
        result.append(updates)
    return result


def an_update(manifest: Manifest, version: int) -> st.SearchStrategy[Update]:
    texts = st.text(max_size=5)
    name = SegmentId(f"{version}-{len(manifest.segments)}")
    generation = Generation(version + 1)
    kinds: list[st.SearchStrategy[Any]] = [
        st.integers(1, GROUPS).map(lambda slots: SetPlacement(Placement(slots, GROUPS))),
        st.builds(
            AdvanceStream,
            st.sampled_from("AB"),
            st.none() | st.integers(-(1 << 62), 1 << 62),
            st.integers(0, 9),
            st.integers(0, 9),
            st.lists(st.tuples(texts, st.integers(0, 9)), max_size=2).map(tuple),
            st.integers(0, 9),
        ),
        st.integers(0, 9).map(
            lambda rows: FinishBatch(BatchRecord(manifest.last_batch + 1, rows, rows * 2, 0), (f"r{rows}",))
        ),
        st.lists(st.integers(0, 9).map(DeliveryId), max_size=2).map(lambda ids: MarkDelivered(tuple(ids))),
        st.dictionaries(texts, texts | st.integers() | st.none(), max_size=2).map(RecordDecision),
        ranges.map(lambda groups: CloseGroups(J1, (STATE,), union_ranges(groups), generation)),
    ]
    if name not in manifest.segments:
        kinds.append(ranges.map(lambda groups: AddSegment(segment(name, union_ranges(groups)))))
    if manifest.segments:
        kinds.append(st.builds(ReleaseGroups, st.sampled_from(sorted(manifest.segments)), ranges.map(union_ranges)))
    if active := sorted(manifest.segments.active(STATE).entries):
        kinds.append(st.builds(CoolGroups, st.sampled_from(active), st.just(STATE), ranges.map(union_ranges)))
    return st.one_of(kinds)


@settings(max_examples=40, deadline=None)
@given(commits(), st.integers(0, 30))
def test_replay_from_files_equals_memory(history: list[list[Update]], restart: int) -> None:
    memory = Table(EMPTY)
    with tempfile.TemporaryDirectory() as home:
        root = Folder(home)
        table: FileTable | None = FileTable.create(root, EMPTY)
        for number, updates in enumerate(history):
            if number == restart:
                table = FileTable.open(root)
            assert table is not None
            memory.commit([], updates)
            table.commit([], updates)
            table.snapshot_if_due()
        again = FileTable.open(root)
        assert again is not None
        assert again.manifest == replace(memory.manifest, kept_from=again.manifest.kept_from)
        assert Manifest.from_json(json.loads(json.dumps(memory.manifest.to_json()))) == memory.manifest


def test_other_groups_replace_all_segments_and_what_is_known_of_groups() -> None:
    figures = {J1: GroupFigures.nothing(GROUPS, 2)}
    before = replace(with_segments(segment("s"), segment("t")), figures=figures)
    after = apply(Regroup(Placement(2, 5), (segment("s", ((0, 4),)),)), before)
    assert (list(after.segments), after.segments[S].groups) == (["s"], ((0, 4),))
    assert (after.placement.groups, after.figures) == (5, {})


def test_a_cut_renumbers_the_groups_of_tracks() -> None:
    tracks = (replace(TRACK, within=((0, 3),)), replace(TRACK, within=((3, GROUPS),)))
    update = CutRange(Partitioning("k0"), 2, 5 << 60, (), {}, {})
    after = apply(update, replace(EMPTY, tracks=tracks))
    assert [track.within for track in after.tracks] == [((0, 4),), ((4, GROUPS + 1),)]


def test_the_library_goes_with_the_query_that_it_is_of() -> None:
    kept = apply(SetLibrary(({"plan": "(A B)"},)), EMPTY)
    switch = SwitchPlan((TRACK,), (), (), ())
    assert apply(switch, kept).library == kept.library
    assert apply(replace(switch, query=QueryIdentity("SELECT 2", {}, "other")), kept).library == ()
