"""Updates: plain JSON both ways, pure when applied, and the same table replayed from files or kept in memory."""

from __future__ import annotations

import copy
import json
import tempfile
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import InternalError
from watersmeet.model.group_figures import GroupObservation
from watersmeet.model.routing import Routing
from watersmeet.model.segments import Segment
from watersmeet.model.statistics import Measured, PairCounts
from watersmeet.state.files import Folder
from watersmeet.state.manifest import BatchRecord, Manifest, QueryIdentity
from watersmeet.state.table import FileTable, Table
from watersmeet.state.updates import (
    DECISIONS_KEPT,
    UPDATES,
    AddSegment,
    AdvanceStream,
    CloseGroups,
    CoolGroups,
    FinishBatch,
    ObserveBatch,
    ObserveGroups,
    RecordDecision,
    ReleaseGroups,
    SetRouting,
    Update,
    apply,
    apply_all,
    update_from_json,
    update_to_json,
)

GROUPS = 8
EMPTY = Manifest(0, QueryIdentity("SELECT 1", {"A": "k int64"}, "digest"), "(A B)", Routing.even(GROUPS, 2))


def segment(name: str, groups: tuple[tuple[int, int], ...] = ((0, 3), (5, 6))) -> Segment:
    return Segment(name, "A@A.k", 100, 2048, 123, groups, groups, -5, 1 << 62, -9, 3)


EXAMPLES: tuple[Update, ...] = (
    SetRouting(3, (0, 0, 1, 1, 2, 2, 2, 2)),
    AddSegment(segment("s")),
    AddSegment(replace(segment("t"), group_rows=(40, 30, 20, 10), group_keys=(4, 3, 2, 1))),
    ObserveBatch(Measured(2.5, {"A": 10.0}, (PairCounts(("A",), ("B", "C"), 100, 10, 10, 3),))),
    ReleaseGroups("s", ((0, 2), (5, 6))),
    CloseGroups("J1", ("A@A.k",), ((0, 1), (5, 6))),
    CoolGroups("J1", "s", ((1, 2),)),
    ObserveGroups(3, "ewma", {"J1": GroupObservation.nothing(2, GROUPS).to_json()}),
    AdvanceStream("A", None, 0, 0),
    AdvanceStream("A", -7, 10, 2, ("a b.parquet", "ü.parquet")),
    FinishBatch(BatchRecord(0, 10, 20, 3, ("r",), ("l",), {"J1": {"rows_in": 10, "rows_out": 20}})),
    RecordDecision({"decision": "SpillGroup", "group": 3, "reason": "memory"}),
)


def test_every_kind_has_an_example() -> None:
    assert {type(update) for update in EXAMPLES} == set(UPDATES)


@pytest.mark.parametrize("update", EXAMPLES, ids=lambda update: type(update).__name__)
def test_json_and_back(update: Update) -> None:
    assert update_from_json(json.loads(json.dumps(update_to_json(update)))) == update


@pytest.mark.parametrize("update", EXAMPLES, ids=lambda update: type(update).__name__)
def test_apply_leaves_the_manifest_as_it_was(update: Update) -> None:
    cold = segment("c").cold(((0, 2),), 1)
    before = replace(
        EMPTY, segments={"s": segment("s"), cold.id: cold}, decisions=({"version": 0},), closed={"J1": {0: 2, 1: 2}}
    )
    kept = copy.deepcopy(before)
    after = apply(update, before)
    assert before == kept
    assert after != before or update == EXAMPLES[1]
    assert apply(update, before) == after


def test_groups_leave_a_segment_until_it_goes() -> None:
    manifest = replace(EMPTY, segments={"s": segment("s")})
    manifest = apply(ReleaseGroups("s", ((0, 2),)), manifest)
    assert manifest.segments["s"].groups == ((2, 3), (5, 6))
    assert manifest.state_rows == 50
    assert apply(ReleaseGroups("s", ((2, 3), (5, 6))), manifest).segments == {}


def test_a_stream_only_comes_on() -> None:
    manifest = EMPTY
    for newest in (5, None, 3):
        manifest = apply(AdvanceStream("A", newest, 10, 1, (str(newest),)), manifest)
    progress = manifest.streams["A"]
    assert (progress.newest, progress.rows, progress.late, progress.files) == (5, 30, 3, ("5", "None", "3"))
    assert (progress.watermark(2), manifest.streams.get("B")) == (3, None)


def test_old_decisions_go() -> None:
    updates = [RecordDecision({"number": number}) for number in range(DECISIONS_KEPT + 3)]
    decisions = apply_all(updates, EMPTY).decisions
    assert [decisions[0]["number"], decisions[-1]["number"], len(decisions)] == [3, DECISIONS_KEPT + 2, DECISIONS_KEPT]
    assert decisions[0]["version"] == 1


def test_what_is_no_update() -> None:
    with pytest.raises(InternalError):
        apply("a word", EMPTY)


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
    kinds: list[st.SearchStrategy[Any]] = [
        st.integers(1, GROUPS).map(lambda slots: SetRouting(slots, Routing.even(GROUPS, slots).owners)),
        ranges.map(lambda groups: AddSegment(segment(f"{version}-{len(manifest.segments)}", groups))),
        st.builds(
            AdvanceStream,
            st.sampled_from("AB"),
            st.none() | st.integers(-(1 << 62), 1 << 62),
            st.integers(0, 9),
            st.integers(0, 9),
            st.lists(texts, max_size=2).map(tuple),
        ),
        st.integers(0, 9).map(lambda rows: FinishBatch(BatchRecord(manifest.last_batch + 1, rows, rows * 2, 0))),
        st.dictionaries(texts, texts | st.integers() | st.none(), max_size=2).map(RecordDecision),
    ]
    if manifest.segments:
        kinds.append(st.builds(ReleaseGroups, st.sampled_from(sorted(manifest.segments)), ranges))
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
        assert again.manifest == memory.manifest
        assert Manifest.from_json(json.loads(json.dumps(memory.manifest.to_json()))) == memory.manifest
