"""What groups owe, read off the manifest: by hand, and the same whether it was kept up or worked out anew."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_plans import GROUPS, SECOND, chain_plan, manifest_of, named, piece, state_of
from watersmeet.kernel.window import NEVER
from watersmeet.model.ids import LIVE, UNITED, Generation, SegmentId
from watersmeet.model.routing import GroupRange, union_ranges
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import Node
from watersmeet.state.applying import apply_all
from watersmeet.state.ledger import Ledger, Ledgers, as_ranges
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_table import SegmentTable, next_generation
from watersmeet.state.updates import AddSegment, CloseGroups, CoolGroups, CutRange, ReleaseGroups, Update

PLAN = chain_plan()
J1, J2 = named(PLAN, "J1"), named(PLAN, "J2")
ALL = ((0, GROUPS),)


def entry(name: str, inputs: str, begin: float, groups: tuple[GroupRange, ...] = ALL, **more: Any) -> Segment:
    return piece(PLAN, name, inputs, groups, begin, **more)


def ledgers(*segments: Segment) -> tuple[Ledgers, Manifest]:
    return Ledgers(PLAN), manifest_of(PLAN, *segments)


def owing(*segments: Segment) -> dict[str, list[int]]:
    """The groups of each operator that owe results."""
    found, manifest = ledgers(*segments)
    return {
        PLAN.label(name): np.flatnonzero(ledger.owing).tolist()
        for name, ledger in found.at(manifest).items()
        if ledger.owing.any()
    }


def holds(*segments: Segment) -> dict[str, int]:
    found, manifest = ledgers(*segments)
    return {PLAN.label(name): time for name, time in found.holds_us(manifest).items()}


def test_nothing_is_owed_where_nothing_was_closed() -> None:
    assert owing(entry("a", "A", 3), entry("b", "B", 5)) == {}


def test_one_generation_owes_nothing() -> None:
    cold = entry("a", "A", 3, cold=1), entry("b", "B", 5, cold=1)
    assert (owing(*cold), holds(*cold)) == ({}, {})


def test_what_is_owed_is_no_older_than_the_second_oldest_generation_begins() -> None:
    rows = (
        entry("a", "A", 3, ((0, 3),), cold=1),
        entry("b", "B", 1, ((0, 3),), cold=1),
        entry("a2", "A", 9, ((0, 2),), cold=2),
        entry("b2", "B", 7, ((0, 1),), cold=2),
        entry("b3", "B", 8, ((1, 4),)),
    )
    # Group 0: begins at 1 and 7. Group 1: 1, 9 and, live, 8. Group 2: 1 and, live, 8. Group 3 has no closed generation.
    assert owing(*rows) == {"J1": [0, 1, 2]}
    assert holds(*rows) == {"J1": 7 * SECOND}
    found, manifest = ledgers(*rows)
    ledger = found.at(manifest)[J1]
    assert ledger._times_us[1][:3].tolist() == [7 * SECOND, 8 * SECOND, 8 * SECOND]
    assert ledger.partner_times_us(Generation(1))[:4].tolist() == [7 * SECOND, 8 * SECOND, 8 * SECOND, 8 * SECOND]
    assert ledger.partner_times_us(LIVE)[:4].tolist() == [1 * SECOND, 1 * SECOND, 1 * SECOND, NEVER]


def test_a_generation_may_begin_before_the_one_that_was_closed_first() -> None:
    """Rows come out of order, and results that a merge below emits may be older than what is there."""
    assert holds(entry("c", "C", 30, cold=1), entry("d", "C", 2)) == {"J2": 30 * SECOND}


def test_rows_that_cooled_are_of_the_live_generation() -> None:
    rows = (
        entry("a", "A", 3, ((0, 1),), cold=1),
        entry("a2", "A", 5, ((0, 1),), cold=LIVE),
        entry("a3", "A", 4),
    )
    assert (owing(*rows), holds(*rows)) == ({"J1": [0]}, {"J1": 4 * SECOND}), "two generations; the second begins at 4"
    assert owing(*rows[:2]) == {"J1": [0]}, "also where all that is live has cooled"


def test_only_groups_with_rows_in_two_generations_owe() -> None:
    found, manifest = ledgers(entry("a", "A", 3, ((0, 2), (5, 6)), cold=1), entry("b", "B", 4, ((2, 4),)))
    ledger = found.at(manifest)[J1]
    assert not ledger.owing.any()
    assert ledger.closed_ranges == ((0, 2), (5, 6))
    assert found.at(manifest)[J2].closed_ranges == ()


def test_operators_that_owe_come_from_the_lowest_up() -> None:
    rows = [entry("c", "C", 3, cold=1), entry("c2", "C", 4), entry("a", "A", 5, cold=1), entry("a2", "A", 6)]
    assert list(owing(*rows)) == ["J1", "J2"]


def test_a_group_that_owes_nothing_any_more_is_not_closed_any_more() -> None:
    """What was united and has expired leaves nothing behind."""
    found, manifest = ledgers(entry("a", "A", 3, cold=UNITED))
    assert found.at(manifest)[J1].closed_ranges == ALL
    after = apply_all([ReleaseGroups(SegmentId("a"), ALL)], manifest)
    ledger = found.at(after)[J1]
    assert (ledger.closed_ranges, ledger.closed, ledger.rows.any()) == ((), {}, False)


def test_sums_over_the_closed_generations() -> None:
    found, manifest = ledgers(
        entry("a", "A", 3, ((0, 2),), rows=4, cold=1),
        entry("b", "B", 3, ((1, 2),), rows=3, cold=1),
        entry("a2", "A", 3, ((1, 2),), rows=5, cold=2),
        entry("a3", "A", 3, rows=9),
        entry("a4", "A", 3, rows=7, cold=LIVE),
    )
    ledger = found.at(manifest)[J1]
    assert ledger.rows[:, :3].tolist() == [[4, 9, 0], [0, 3, 0]]
    assert ledger.count[:3].tolist() == [1, 2, 0]
    assert ledger.products[:3].tolist() == [0.0, 12.0, 0.0], "4 * 3 within the first; the second lacks rows of B"
    assert ledger.bytes[:3].tolist() == [40.0, 120.0, 0.0]
    assert ledger.live is not None and ledger.live.rows[0].tolist() == [16] * GROUPS
    assert ledger.keys.distinct[1] == 4 + 3 + 5 + 9 + 7, "no key repeats, as far as segments know"


def test_a_closed_generation_passes_group_by_group() -> None:
    found, manifest = ledgers(
        entry("a", "A", 0, ((0, 3),), end=10, cold=UNITED),
        entry("b", "B", 0, ((2, 4),), end=20, cold=UNITED),
        entry("a2", "A", 0, ((5, 6),), end=15, cold=LIVE),
        entry("a3", "A", 0, ((6, 7),), end=5),
    )
    ledger = found.at(manifest)[J1]
    passed = {seconds: np.flatnonzero(ledger.passed(seconds * SECOND)).tolist() for seconds in (9, 10, 20)}
    assert passed == {9: [], 10: [0, 1], 20: [0, 1, 2, 3]}
    assert np.flatnonzero(ledger.cooled).tolist() == [5]


def test_only_what_changed_is_looked_at_again() -> None:
    found, manifest = ledgers(*(entry(f"a{n}", "A", n, cold=n) for n in range(1, 40)))
    before = found.at(manifest)[J1]
    after = found.at(apply_all([ReleaseGroups(SegmentId("a7"), ((0, 1),))], manifest))[J1]
    same = [number for number in before.closed if after.closed[number] is before.closed[number]]
    assert set(before.closed) - set(same) == {7}
    assert found.at(manifest)[J2].cold == before.cold or found.at(manifest)[J2].closed == {}
    unchanged = found.at(apply_all([], found._manifest))[J1]  # type: ignore[arg-type]
    assert unchanged.closed is found.at(found._manifest)[J1].closed  # type: ignore[arg-type]


def test_a_version_later_costs_little_however_much_is_cold() -> None:
    segments = [entry(f"{name}{n}", name, n, cold=n) for n in range(1, 1500) for name in "AB"]
    found, manifest = ledgers(*segments)
    first = _seconds(lambda: found.at(manifest))
    later = []
    for number in range(1, 6):
        manifest = apply_all([ReleaseGroups(SegmentId(f"A{number}"), ((0, 1),))], manifest)
        later.append(_seconds(lambda: found.at(manifest)))  # noqa: B023 - called at once
    assert min(later) < first / 3


def _seconds(action: Any) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def test_ranges_of_flags() -> None:
    assert as_ranges(np.zeros(4, dtype=bool)) == ()
    assert as_ranges(np.ones(4, dtype=bool)) == ((0, 4),)


# --- kept up, and worked out anew ------------------------------------------------------------------------------------

spans = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 8)), min_size=1, max_size=3).map(union_ranges)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Update]]:
    """Commits of any updates of segments that may follow each other."""
    manifest = manifest_of(PLAN)
    history: list[list[Update]] = []
    for number in range(draw(st.integers(1, 12))):
        updates: list[Update] = []
        for place in range(draw(st.integers(0, 3))):
            updates += _draw_update(draw, apply_all(updates, manifest), f"{number}.{place}")
        manifest = apply_all(updates, manifest)
        history.append(updates)
    return history


def _draw_update(draw: st.DrawFn, manifest: Manifest, name: str) -> list[Update]:
    groups = draw(spans)
    kind = draw(st.sampled_from(["add", "add cold", "release", "close", "cool", "cut"]))
    node = PLAN.operators[draw(st.sampled_from([J1, J2]))]
    inputs = draw(st.sampled_from([entry.state.aliases for entry in node.inputs]))
    if kind in ("add", "add cold") and groups:
        begin, rows = draw(st.integers(0, 20)), draw(st.integers(1, 4))
        made = entry(name, "+".join(inputs), begin, groups, rows=rows)
        keys = tuple(draw(st.integers(1, count)) for count in made.group_rows)
        generation = draw(st.sampled_from([LIVE, UNITED, Generation(1), Generation(2)])) if kind == "add cold" else LIVE
        tier = "cold" if kind == "add cold" else "active"
        return [AddSegment(replace(made, group_keys=keys, generation=generation, tier=tier))]
    if kind == "release" and manifest.segments:
        chosen = draw(st.sampled_from(sorted(manifest.segments)))
        return [ReleaseGroups(chosen, draw(st.sampled_from([groups, ALL])))]
    if kind == "cut":
        return [_draw_cut(draw, manifest, node)]
    if kind == "close":
        return [CloseGroups(node.name, node.states, groups, next_generation(manifest.segments, node.states))]
    active = sorted(manifest.segments.active(state_of(PLAN, "A")).entries)
    if kind == "cool" and active:
        return [CoolGroups(draw(st.sampled_from(active)), state_of(PLAN, "A"), groups)]
    return []


def _draw_cut(draw: st.DrawFn, manifest: Manifest, node: Node) -> CutRange:
    """Of any group, with any number of its rows on each side."""
    routing = manifest.placement.of(node.partitioning)
    group = draw(st.integers(0, routing.groups - 1))
    low, high = routing.hash_range((group, group + 1))
    first = {}
    for held in manifest.segments.values():
        rows, keys = held.count_of(group) or (0, 0)
        first[held.file] = (draw(st.integers(0, rows)), draw(st.integers(0, keys)))
    return CutRange(node.partitioning, group, (low + high) // 2, node.states, first, {node.name: 0.5})


@settings(max_examples=150, deadline=None)
@given(histories(), st.lists(st.booleans(), min_size=12, max_size=12))
def test_kept_up_from_version_to_version_it_is_what_a_restart_works_out(
    history: list[list[Update]], asked: list[bool]
) -> None:
    manifest, kept = manifest_of(PLAN), Ledgers(PLAN)
    for updates, ask in zip(history, asked, strict=False):
        manifest = apply_all(updates, manifest)
        if ask:  # several versions may pass between two looks
            assert_same(kept, manifest)
    assert_same(kept, manifest)


def assert_same(kept: Ledgers, manifest: Manifest) -> None:
    fresh = replace(manifest, segments=SegmentTable.of(manifest.segments.values()))
    for operator, expected in Ledgers(PLAN).at(fresh).items():
        assert figures(kept.at(manifest)[operator]) == figures(expected)
    assert kept.holds_us(manifest) == Ledgers(PLAN).holds_us(fresh)


def figures(ledger: Ledger) -> dict[str, Any]:
    numbers = sorted(ledger.closed)
    return {
        "generations": numbers,
        "rows": ledger.rows.tolist(),
        "count": ledger.count.tolist(),
        "products": ledger.products.tolist(),
        "bytes": np.round(ledger.bytes, 6).tolist(),
        "owing": ledger.owing.tolist(),
        "closed": ledger.closed_ranges,
        "hold": ledger.hold_us,
        "partners": [ledger.partner_times_us(number).tolist() for number in (*numbers, LIVE)],
        "live": None if ledger.live is None else ledger.live.rows.tolist(),
        "keys": [ledger.keys.rows.tolist(), ledger.keys.keys.tolist(), ledger.keys.most_rows.tolist()],
    }


@pytest.mark.parametrize("plan", [chain_plan(tree="mjoin")])
def test_a_routed_join_has_no_ledger(plan: Any) -> None:
    assert Ledgers(plan).at(manifest_of(plan)) == {}
