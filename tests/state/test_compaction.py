"""Which segments are merged: tables of sizes and times, and what must hold for all of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.window import NEVER
from watersmeet.model.ids import Partitioning, StateName
from watersmeet.plan.physical import State
from watersmeet.state import compaction
from watersmeet.state.compaction import Candidate, choose_all, choose_merges

BIG = compaction.MAX_SEGMENT_BYTES


def state(width: int | None) -> State:
    windows = () if width is None else (("@A", width),)
    return State(
        StateName("S"), ("A",), ("A.k",), (("@A", pa.int64()), ("A.k", pa.int64())), windows, ("B",), Partitioning("k0")
    )


def segments(*entries: tuple[int, int]) -> list[Candidate]:
    """Candidates "a", "b", .. of (rows, last expiry)."""
    return [Candidate(chr(ord("a") + i), rows, rows * 10, end) for i, (rows, end) in enumerate(entries)]


@pytest.mark.parametrize(
    ("width", "watermark", "held", "merges"),
    [
        (None, None, [], []),
        (None, None, [(10, NEVER)], []),
        (None, None, [(10, NEVER)] * 3, []),
        (None, None, [(10, NEVER)] * 4, ["abcd"]),
        (None, None, [(64, NEVER), (10, NEVER), (10, NEVER), (10, NEVER)], []),
        (None, None, [(40, NEVER)] * 3 + [(10, NEVER)] * 4, ["abcdefg"]),
        (None, None, [(64, NEVER)] * 3 + [(4, NEVER)] * 4, ["defg"]),
        (400, 0, [(10, 1050), (10, 1060), (10, 1070), (10, 1099)], ["abcd"]),
        (400, 0, [(10, 1050), (10, 1060), (10, 1070), (10, 1199)], []),
        (400, 0, [(10, 1050)] * 4 + [(10, 1150)] * 4, ["abcd", "efgh"]),
        (400, 900, [(10, 1050), (10, 1060)], ["ab"]),
        (400, 799, [(10, 1050), (10, 1060)], []),
        (400, 900, [(100, 1050), (1, 1060)], []),
        (400, 900, [(100, 1050)] + [(1, 1060)] * 4, ["bcde"]),
        (400, 900, [(10, 1050), (10, 1060), (10, 1350), (10, 1360)], ["ab"]),
        (400, -900, [(10, -850), (10, -830), (10, -550)], ["ab"]),
    ],
    ids=[
        "nothing to merge",
        "leaves one alone",
        "waits for a fourth",
        "merges four of a size",
        "keeps a larger one apart",
        "goes on up the tiers in one go",
        "merges the small ones only",
        "merges four of a stretch of time",
        "keeps a stretch that expires alone apart",
        "merges each stretch by itself",
        "closes a stretch that has ended",
        "leaves a stretch open that may still grow",
        "does not rewrite a large segment for a trickle",
        "gathers a trickle",
        "closes only the stretch that has ended",
        "does so for times before 1970, too",
    ],
)
def test_choose_merges(
    width: int | None, watermark: int | None, held: list[tuple[int, int]], merges: list[str]
) -> None:
    found = choose_merges(segments(*held), state(width), watermark)
    assert sorted("".join(sorted(names)) for names in found) == merges


def test_a_segment_stays_below_what_string_offsets_can_address() -> None:
    large = [Candidate(name, 100, BIG // 2, NEVER) for name in "abcd"]
    assert choose_merges(large, state(None), None) == []
    ended = [Candidate(name, 100, BIG // 2 + 1, 1050) for name in "ab"]
    assert choose_merges(ended, state(400), 2000) == []


drawn = st.lists(st.tuples(st.integers(1, 300), st.integers(-500, 1500)), max_size=20)


@given(drawn, st.sampled_from([None, 1, 3, 400]), st.one_of(st.none(), st.integers(-600, 1500)))
def test_every_candidate_is_merged_once_at_most(
    held: list[tuple[int, int]], width: int | None, watermark: int | None
) -> None:
    candidates = segments(*(held if width is not None else [(rows, NEVER) for rows, _ in held]))
    merges = choose_merges(candidates, state(width), watermark)
    names = [name for merge in merges for name in merge]
    assert len(names) == len(set(names)) and set(names) <= {candidate.name for candidate in candidates}
    assert all(len(merge) > 1 for merge in merges)


@given(drawn)
def test_only_rows_of_one_stretch_come_together(held: list[tuple[int, int]]) -> None:
    ends = {candidate.name: candidate.max_expiry for candidate in segments(*held)}
    stretch = 100 if max(ends.values(), default=0) - min(ends.values(), default=0) <= 1600 else 200
    for merge in choose_merges(segments(*held), state(400), None):
        assert len({ends[name] // stretch for name in merge}) == 1


@pytest.mark.parametrize("width", [-5000, 0, 1, 400])
@pytest.mark.parametrize("watermark", [None, 7])
def test_rows_that_wait_for_a_watermark_for_long_lie_in_few_segments(width: int, watermark: int | None) -> None:
    """A stream is silent: however short rows would stay, they wait for it."""
    held: list[Candidate] = []
    written = 0
    for number in range(500):
        held.append(Candidate(f"{number}", 100, 1000, 10_000 + 50 * number))
        for merge in choose_merges(held, state(width), watermark):
            chosen = [candidate for candidate in held if candidate.name in merge]
            held = [candidate for candidate in held if candidate.name not in merge]
            rows = sum(candidate.rows for candidate in chosen)
            held.append(Candidate(f"{number}+{len(held)}", rows, rows, max(entry.max_expiry for entry in chosen)))
            written += rows
    assert sum(candidate.rows for candidate in held) == 500 * 100
    assert len(held) <= 16 * 5
    assert written <= 500 * 100 * 8


@pytest.mark.parametrize("batches", [10, 100, 500])
def test_a_state_has_few_segments_and_rewrites_rows_rarely(batches: int) -> None:
    held: list[Candidate] = []
    written = 0
    for number in range(batches):
        held.append(Candidate(f"{number}", 100, 1000, NEVER))
        for merge in choose_merges(held, state(None), None):
            rows = sum(candidate.rows for candidate in held if candidate.name in merge)
            held = [candidate for candidate in held if candidate.name not in merge]
            held.append(Candidate(f"{number}+", rows, rows * 10, NEVER))
            written += rows
    assert sum(candidate.rows for candidate in held) == batches * 100
    assert len(held) <= 3 * 6
    assert written <= batches * 100 * 6


@pytest.mark.parametrize(
    ("width", "held", "merges"),
    [
        (None, [(10, NEVER)], []),
        (None, [(1000, NEVER), (1, NEVER)], ["ba"]),
        (400, [(10, 50), (10, 60), (10, 150)], ["ab"]),
        (400, [(10, 50), (10, 150), (10, 99), (10, 199)], ["ac", "bd"]),
        (None, [(BIG // 10, NEVER), (2, NEVER), (1, NEVER)], ["cb"]),
    ],
)
def test_all_that_may_be_together(width: int | None, held: list[tuple[int, int]], merges: list[str]) -> None:
    assert ["".join(names) for names in choose_all(segments(*held), state(width), None)] == merges
