"""The segments of a manifest in buckets: what a draft changes, what it shares, and what it costs."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import InternalError
from watersmeet.kernel.window import NEVER
from watersmeet.model.ids import LIVE, UNITED, Generation, SegmentId, StateName
from watersmeet.model.routing import GroupRange, expand_ranges, union_ranges
from watersmeet.model.segments import WAITING, Segment
from watersmeet.state.segment_table import LONG_AGO, Bucket, SegmentDraft, SegmentTable, next_generation

GROUPS = 8
A, B = StateName("A"), StateName("B")
ALL = ((0, GROUPS),)


def segment(
    name: str,
    state: StateName = A,
    groups: tuple[GroupRange, ...] = ALL,
    generation: int | None = None,
    rows: int = 2,
    expiry: int = 50,
    begin: int = 10,
) -> Segment:
    counts = (rows,) * len(expand_ranges(groups))
    total = sum(counts)
    entry = Segment(
        SegmentId(name), state, total, total * 10, 0, groups, groups, 0, expiry, begin, 0, group_rows=counts
    )
    return entry if generation is None else replace(entry, tier="cold", generation=Generation(generation))


def groups_by_id(table: SegmentTable) -> dict[str, list[int]]:
    return {name: expand_ranges(entry.groups) for name, entry in table.items()}


def test_a_table_is_a_mapping_of_all_segments() -> None:
    entries = [segment("a"), segment("b", B), segment("c", generation=1), segment("d", generation=LIVE)]
    table = SegmentTable.of(entries)
    assert dict(table) == {entry.id: entry for entry in entries}
    assert table == {entry.id: entry for entry in entries}
    assert (len(table), table[SegmentId("c")].generation) == (4, 1)
    assert "e" not in table
    with pytest.raises(KeyError):
        table[SegmentId("e")]
    assert (table.rows, table.active_bytes, table.cold_bytes) == (64, 320, 320)
    assert (set(table.active_states), set(table.cold_states), set(table.cold(A))) == ({A, B}, {A}, {1, LIVE})
    assert (dict(table.cold(B)), table.active(StateName("C")).rows) == ({}, 0)


def test_a_draft_shares_the_buckets_that_it_did_not_touch() -> None:
    """With all that was worked out for them."""
    entries = [segment("a"), segment("b", B), segment("c", generation=1), segment("d", generation=2)]
    table = SegmentTable.of([*entries, segment("e", B, generation=1)])
    draft = SegmentDraft(table)
    draft.add(segment("f"))
    draft.release(SegmentId("d"), ((0, 2),))
    after = draft.finish()
    assert after.active(B) is table.active(B)
    assert after.cold(A)[Generation(1)] is table.cold(A)[Generation(1)]
    assert after.cold(B) is table.cold(B)
    assert after.active(A) is not table.active(A)
    assert after.cold(A)[Generation(2)] is not table.cold(A)[Generation(2)]
    assert groups_by_id(table)["d"] == list(range(GROUPS)), "the former table is as it was"


def test_what_waits_is_neither_active_nor_cold() -> None:
    """It may have the name of a state, being that of a stream."""
    held = replace(segment("w"), tier=WAITING, groups=((0, 1),), written=((0, 1),), group_rows=())
    table = SegmentTable.of([segment("a"), held, replace(segment("x", B), tier=WAITING)])
    assert (table.active_bytes, table.cold_bytes, set(table.cold_states)) == (160, 0, set())
    assert [entry.id for entry in table.all_waiting] == ["w", "x"]
    draft = SegmentDraft(table)
    draft.release(SegmentId("w"), ((0, 1),))
    draft.release(SegmentId("a"), ((0, 1),))
    after = draft.finish()
    assert (list(after.waiting(A).entries), list(after.waiting(B).entries)) == ([], ["x"])
    assert after.waiting(B) is table.waiting(B)
    assert draft.files == {"w": -1}


def test_an_end_that_is_known_becomes_an_expiry() -> None:
    table = SegmentTable.of([replace(segment("a", expiry=NEVER), rank_ends=(("S", 9), ("T", 4)))])
    assert [entry.id for entry in table.unresolved] == ["a"]
    draft = SegmentDraft(table)
    draft.change(SegmentId("a"), lambda entry: replace(entry.gone_by(70), rank_ends=(("T", 4),)))
    (found,) = draft.finish().unresolved
    assert (found.max_expiry_us, found.rank_ends) == (70, (("T", 4),))
    assert Segment.from_json(found.to_json()) == found


def test_to_look_is_not_to_touch() -> None:
    """A release looks for its segment in all buckets, and changes one."""
    table = SegmentTable.of([segment(f"{state}{n}", state, generation=n) for state in (A, B) for n in range(9)])
    draft = SegmentDraft(table)
    draft.release(SegmentId("B8"), ALL)
    after = draft.finish()
    assert all(after.cold(A)[Generation(n)] is table.cold(A)[Generation(n)] for n in range(9))
    assert all(after.cold(B)[Generation(n)] is table.cold(B)[Generation(n)] for n in range(8))
    assert Generation(8) not in after.cold(B)


def test_groups_leave_a_segment_and_it_goes_with_the_last() -> None:
    draft = SegmentDraft(SegmentTable.of([segment("a"), segment("c", generation=3)]))
    draft.release(SegmentId("a"), ((0, 6),))
    draft.release(SegmentId("c"), ((1, 2),))
    assert groups_by_id(draft.finish()) == {"a": [6, 7], "c": [0, 2, 3, 4, 5, 6, 7]}
    draft.release(SegmentId("a"), ((5, 8),))
    draft.release(SegmentId("c"), ALL)
    after = draft.finish()
    assert (len(after), set(after.active_states), set(after.cold_states)) == (0, set(), set())
    with pytest.raises(InternalError, match='no segment "a"'):
        draft.release(SegmentId("a"), ((5, 6),))
    with pytest.raises(InternalError, match='no segment "c"'):
        draft.release(SegmentId("c"), ((5, 6),))


def test_groups_turn_cold_under_a_name_of_their_own() -> None:
    draft = SegmentDraft(SegmentTable.of([segment("a")]))
    draft.turn_cold(draft.active(A)[SegmentId("a")], ((2, 4),), Generation(1))
    draft.turn_cold(draft.active(A)[SegmentId("a")], ((2, 4),), Generation(2))  # which it has not any more
    draft.turn_cold(draft.active(A)[SegmentId("a")], ((5, 6),), LIVE)
    table = draft.finish()
    assert groups_by_id(table) == {"a": [0, 1, 4, 6, 7], "a~1.2": [2, 3], "a~live.5": [5]}
    assert {entry.file for entry in table.values()} == {"a"}
    draft.turn_cold(draft.cold(A, LIVE)[SegmentId("a~live.5")], ALL, Generation(3))
    assert groups_by_id(draft.finish()) == {"a": [0, 1, 4, 6, 7], "a~1.2": [2, 3], "a~3.5": [5]}


def test_a_segment_is_added_once() -> None:
    draft = SegmentDraft(SegmentTable.of([segment("a"), segment("c", generation=1)]))
    for again in (segment("a"), segment("c", generation=1)):
        with pytest.raises(InternalError, match="two entries"):
            draft.add(again)


def test_what_is_added_can_be_released_in_the_same_commit() -> None:
    draft = SegmentDraft(SegmentTable.of([segment("old", generation=1)]))
    draft.release(SegmentId("old"), ((0, 1),))  # from now on it knows where cold ones are
    draft.add(segment("c", generation=5))
    draft.release(SegmentId("c"), ((0, 7),))
    assert groups_by_id(draft.finish()) == {"old": [1, 2, 3, 4, 5, 6, 7], "c": [7]}


def test_a_draft_counts_the_entries_that_files_gain_and_lose() -> None:
    draft = SegmentDraft(SegmentTable.of([segment("a"), segment("b")]))
    draft.turn_cold(draft.active(A)[SegmentId("a")], ((2, 4),), Generation(1))
    draft.release(SegmentId("b"), ALL)
    draft.add(segment("n"))
    assert {file: change for file, change in draft.files.items() if change} == {"a": 1, "b": -1, "n": 1}
    draft.release(SegmentId("a"), ALL)
    draft.release(SegmentId("a~1.2"), ALL)
    assert draft.files["a"] == -1


def test_a_draft_can_go_on_after_it_was_finished() -> None:
    draft = SegmentDraft(SegmentTable.of([segment("a")]))
    first = draft.finish()
    draft.release(SegmentId("a"), ((0, 4),))
    second = draft.finish()
    draft.release(SegmentId("a"), ((4, 6),))
    assert [groups_by_id(table)["a"] for table in (first, second, draft.finish())] == [
        list(range(8)),
        [4, 5, 6, 7],
        [6, 7],
    ]


def test_figures_of_a_bucket() -> None:
    entries = [
        segment("a", groups=((0, 2),), rows=3, expiry=70, begin=10),
        segment("b", groups=((1, 3),), rows=1, expiry=50, begin=5),
    ]
    bucket = Bucket({entry.id: entry for entry in entries})
    assert (bucket.rows, bucket.bytes, bucket.first_expiry_us) == (8, 80, 50)
    figures = bucket.by_group(4)
    assert figures is bucket.by_group(4), "worked out once"
    assert figures.last_expiry_us.tolist() == [70, 70, 50, LONG_AGO]
    assert figures.rows.tolist() == [3, 4, 1, 0]
    assert figures.bytes.tolist() == [30.0, 40.0, 10.0, 0.0]
    assert figures.times_us.tolist() == [10, 5, 5, NEVER]
    nothing = Bucket({})
    assert (nothing.rows, nothing.first_expiry_us, nothing.by_group(2).times_us.tolist()) == (0, NEVER, [NEVER, NEVER])


@pytest.mark.parametrize(
    "there, number",
    [([], 1), ([LIVE], 1), ([UNITED], 1), ([LIVE, UNITED, 4], 5), ([1], 2)],
    ids=["nothing is cold", "only expired rows", "only what was united", "after the largest", "the second"],
)
def test_the_number_of_the_generation_that_is_closed_next(there: list[int], number: int) -> None:
    table = SegmentTable.of([segment(f"s{entry}", generation=entry) for entry in there])
    assert next_generation(table, (A, B)) == number
    assert next_generation(table, (B,)) == 1


def test_many_releases_among_many_entries_are_quick() -> None:
    """4,000 releases among 26,000 entries took three seconds when each made a table of its own."""
    entries = [segment(f"s{n}", (A, B)[n % 2], generation=n % 50 + 1) for n in range(26_000)]
    table = SegmentTable.of(entries)
    started = time.process_time()
    draft = SegmentDraft(table)
    for number in range(4_000):
        draft.release(SegmentId(f"s{number * 6}"), ((0, 2),))
    after = draft.finish()
    assert time.process_time() - started < 1.0
    assert after[SegmentId("s6")].groups == ((2, 8),)


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "release", "cold", "finish"]),
        st.integers(0, 30),
        st.tuples(st.integers(0, 7), st.integers(1, 8)),
        st.sampled_from([LIVE, UNITED, Generation(1), Generation(2)]),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_a_draft_is_what_one_change_after_the_other_makes(
    history: list[tuple[str, int, GroupRange, Generation]],
) -> None:
    """Against a plain dictionary, with every group of every file in it once."""
    draft = SegmentDraft(SegmentTable.of())
    held: dict[tuple[str, int], tuple[StateName, Generation | None]] = {}
    for number, (kind, pick, span, generation) in enumerate(history):
        groups = union_ranges([span])
        table = draft.finish()
        names = sorted(table)
        if kind == "add" and groups:
            state = (A, B)[pick % 2]
            draft.add(segment(f"s{number}", state, groups))
            held.update({(f"s{number}", group): (state, None) for group in expand_ranges(groups)})
        elif kind == "release" and names:
            entry = table[names[pick % len(names)]]
            draft.release(entry.id, groups)
            for group in set(expand_ranges(groups)) & set(expand_ranges(entry.groups)):
                del held[entry.file, group]
        elif kind == "cold" and names:
            entry = table[names[pick % len(names)]]
            moved = set(expand_ranges(groups)) & set(expand_ranges(entry.groups))
            if generation not in {held[entry.file, group][1] for group in moved} and not _taken(
                table, entry, generation
            ):
                draft.turn_cold(entry, groups, generation)
                held.update({(entry.file, group): (entry.state, generation) for group in moved})
        elif kind == "finish":
            draft = SegmentDraft(draft.finish())
    found = {
        (entry.file, group): (entry.state, None if entry.active else entry.generation)
        for entry in draft.finish().values()
        for group in expand_ranges(entry.groups)
    }
    assert found == held
    assert draft.finish().rows == 2 * len(held)
    by_bucket = sum(draft.finish().active(state).by_group(GROUPS).rows for state in (A, B))
    assert np.sum(by_bucket) == 2 * sum(generation is None for _, generation in held.values())


def _taken(table: SegmentTable, entry: Segment, generation: Generation) -> bool:
    """Whether the file has an entry of this generation: numbers are not given twice."""
    return any(e.file == entry.file and not e.active and e.generation == generation for e in table.values())
