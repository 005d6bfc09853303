"""What goes where, as tables: slots and groups in, moves and spills out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.adapt.decisions.place import DrawTogether, MoveGroups
from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.policies.balance import BALANCE_POLICIES
from watersmeet.adapt.policies.balance.active_disk import active_disk
from watersmeet.adapt.policies.balance.lazy_disk import lazy_disk
from watersmeet.adapt.policies.balance.load import (
    BalanceView,
    CutWanted,
    Piece,
    Slot,
    SpreadWanted,
    after_moves,
)
from watersmeet.adapt.policies.balance.relocation import relocate
from watersmeet.adapt.policies.balance.time_of_slots import level_seconds
from watersmeet.adapt.policies.balance_slots import _cut_in_vain
from watersmeet.adapt.trials import figures_of
from watersmeet.model.bounds import Bounds
from watersmeet.model.ids import OperatorName, Partitioning

MB = 1 << 20
J1, K = OperatorName("J1"), Partitioning("k")


def piece(group: int, slot: int, bytes: int = 0, work: float = 0.0, **more: float) -> Piece:
    return Piece(J1, K, group, slot, bytes, work, **more)  # type: ignore[arg-type]


def view(*pieces: Piece, seconds: tuple[float, ...] = (0.0, 0.0), **more: object) -> BalanceView:
    slots = tuple(
        Slot(
            slot,
            sum(piece.bytes for piece in pieces if piece.slot == slot),
            took,
            sum(piece.output for piece in pieces if piece.slot == slot),
            sum(piece.slot == slot for piece in pieces),
        )
        for slot, took in enumerate(seconds)
    )
    return BalanceView(7, slots, pieces, **more)  # type: ignore[arg-type]


def moves(decision: object) -> list[tuple[int, int]]:
    """Groups, and where they go."""
    if decision is None:
        return []
    assert isinstance(decision, MoveGroups)
    assert decision.before_batch == 7
    return [(group, slot) for _, group, slot in decision.moves]


# Slot 0 has 40 MB in groups of 1, 2, .. MB; slot 1 has 4.
UNEVEN = (*(piece(group, 0, group * MB, output=float(group)) for group in (1, 2, 3, 4, 6, 8, 16)), piece(9, 1, 4 * MB))


def test_half_of_the_difference_goes_over() -> None:
    """M_l/M_m = 4/40 is below 0.8: (40 - 4) / 2 = 18 MB go, the largest groups first."""
    found = relocate(view(*UNEVEN), 0.8)
    assert moves(found) == [(16, 1), (2, 1)]
    assert found is not None
    assert found.reason == (
        "slot 0 has 41,943,040 bytes and slot 1 4,194,304, 10% of that: 18,874,368 go over, the largest groups, "
        "and it is 100%"
    )
    told = figures_of(found.trial)
    assert (told["most_bytes"], told["most_bytes_expected"]) == (40.0 * MB, 22.0 * MB)


@pytest.mark.parametrize(
    "slots, threshold, capacity, expected",
    [
        ((10, 8), 0.8, None, False),
        ((10, 7), 0.8, None, True),
        ((10, 7), 0.5, None, False),
        ((0, 0), 0.8, None, False),
        ((10, 7), 0.8, 21, False),
        ((10, 7), 0.8, 20, True),
        ((10, 7), 0.8, 7, False),
        ((3, 10), 0.8, 12, True),
    ],
    ids=["in balance", "not", "by another threshold", "nothing there", "C_max", "above it", "C_min", "the other way"],
)
def test_when(slots: tuple[int, int], threshold: float, capacity: int | None, expected: bool) -> None:
    held = [piece(10 * slot + n, slot, MB) for slot, size in enumerate(slots) for n in range(size)]
    limit = None if capacity is None else capacity * MB
    assert bool(moves(relocate(view(*held, capacity_bytes=limit), threshold))) is expected


@pytest.mark.parametrize(
    "held, cold, moved",
    [
        ((20, 6), (0, 0), 7),
        ((20, 14), (0, 6), 0),
        ((20, 14), (0, 2), 0),
        ((20, 12), (0, 2), 3),
        ((14, 6), (60, 0), 7),
        ((14, 14), (60, 60), 0),
    ],
    ids=[
        "half of the difference",
        "the slot with less has just spilled",
        "it would have 16 of 20 MB",
        "it would have 14",
        "the slot with more has just spilled, and would be full",
        "both have spilled",
    ],
)
def test_lazy_disk_takes_a_slot_that_has_spilled_for_full(
    held: tuple[int, int], cold: tuple[int, int], moved: int
) -> None:
    pieces = [piece(100 * slot + n, slot, MB, output=1.0) for slot, size in enumerate(held) for n in range(size)]
    before = view(*pieces, capacity_bytes=20 * MB)
    slots = tuple(replace(slot, cold_bytes=cold[slot.number] * MB) for slot in before.slots)
    assert len(moves(lazy_disk(replace(before, slots=slots), 0.8))) == moved


def test_lazy_disk_moves_the_most_productive_that_are_warm() -> None:
    held = (
        piece(0, 0, 4 * MB, output=1.0),
        piece(1, 0, 4 * MB, output=8.0),  # the fewest bytes for a result, but cold
        piece(2, 0, 4 * MB, output=4.0),
        piece(3, 0, 4 * MB, output=2.0),
        piece(4, 0, 4 * MB),
    )
    held = tuple(Piece(**{**entry.__dict__, "cold": entry.group == 1}) for entry in held)
    assert moves(lazy_disk(view(*held, capacity_bytes=20 * MB), 0.8)) == [(2, 1), (3, 1)]
    assert lazy_disk(view(*held), 0.8) is None, "without a limit there is nothing to make room for"


# Two slots of 10 MB each; the groups of the first have many results.
RICH = [piece(n, 0, MB, output=40.0) for n in range(10)]
POOR = [piece(10 + n, 1, MB, output=float(n)) for n in range(10)]


@pytest.mark.parametrize(
    "capacity, expected, pushed, spilled",
    [
        (10, 40, 0, [10, 11, 12]),
        (10, 20, 0, []),
        (10, 26, 5, [10]),
        (10, 26, 6, []),
        (13, 40, 0, []),
    ],
    ids=[
        "the least productive, 30 % of a slot at once",
        "all of it fits",
        "1 MB less than what the query takes beyond the memory",
        "so much was pushed out already",
        "the slot that earns more has room of its own",
    ],
)
def test_active_disk_has_the_slot_that_earns_little_spill(
    capacity: int, expected: int, pushed: int, spilled: list[int]
) -> None:
    """Trap 12: results over the number of groups; what is pushed out stays below M_q - M_c."""
    full = view(*RICH, *POOR, capacity_bytes=capacity * MB, expected_bytes=expected * MB, pushed_bytes=pushed * MB)
    found = active_disk(full, 0.8)
    assert [group for _, group in found.groups] == spilled if isinstance(found, SpillGroups) else spilled == []


def test_active_disk_goes_by_results_a_group_once_memory_is_level() -> None:
    limits = {"capacity_bytes": 10 * MB, "expected_bytes": 40 * MB}
    level = [piece(10 + n, 1, MB, output=21.0) for n in range(10)]
    assert active_disk(view(*RICH, *level, **limits), 0.8) is None, "not twice as much"
    assert isinstance(active_disk(view(*RICH, *level, **limits, rates=1.5), 0.8), SpillGroups)
    few = [piece(10 + n, 1, 2 * MB, output=80.0) for n in range(5)]
    found = active_disk(view(*RICH, *few, **limits, rates=1.5), 0.8)
    assert isinstance(found, SpillGroups), "as many results, of half as many groups"
    assert {group for _, group in found.groups} <= set(range(10))
    uneven = view(*RICH, *POOR[:2], **limits)
    assert moves(active_disk(uneven, 0.8)) == [(0, 1), (1, 1), (2, 1), (3, 1)], "memory first"


def test_what_a_slot_must_hold_may_be_set() -> None:
    held = [piece(0, 0, 1000), piece(1, 0, 1000), piece(2, 1, 100)]
    assert relocate(view(*held), 0.8) is None, "not worth a move"
    assert moves(relocate(view(*held, least_bytes=2000), 0.8)) == []
    assert moves(relocate(view(*held, piece(3, 0, 500), least_bytes=2000), 0.8)) == [(0, 1)]
    assert relocate(view(*held, least_bytes=2001), 0.8) is None
    limited = {"capacity_bytes": 10_000}
    assert relocate(view(*held, **limited), 0.8) is None, "half of what it may have"
    assert relocate(view(*held, piece(3, 0, 500), **limited, least_bytes=2000), 0.8) is not None


def test_seconds_are_levelled() -> None:
    """Slot 0 takes 3 s for 30 of work, slot 1 takes 1 s for 10: 1 s goes over."""
    held = [*(piece(n, 0, MB, 5.0) for n in range(6)), *(piece(10 + n, 1, MB, 5.0) for n in range(2))]
    found = level_seconds(view(*held, seconds=(3.0, 1.0), batches=5), 0.8)
    assert moves(found) == [(0, 1), (1, 1)]
    assert found is not None
    assert figures_of(found.trial) == {"seconds": 3.0, "seconds_expected": 2.0}  # type: ignore[union-attr]
    assert "slot 0 takes 3 s of a batch and another 1 s: 2 groups go over, and the longest takes 2 s" in found.reason


def test_a_slot_that_is_slow_gets_less() -> None:
    """Both have the same to do, and slot 1 takes three times as long for it."""
    held = [piece(n, n // 6, MB, 5.0) for n in range(12)]
    went = moves(level_seconds(view(*held, seconds=(1.0, 3.0), batches=5), 0.8))
    assert [slot for _, slot in went] == [0, 0, 0]


@pytest.mark.parametrize(
    "work, seconds, expected",
    [
        ((100.0, 1.0), (2.0, 0.1), 9),
        ((100.0, 0.0), (2.0, 0.05), 9),
        ((100.0, 12.0), (2.0, 0.24), 8),
        ((100.0, 13.0), (2.0, 0.78), 3),
        ((100.0, 100.0, 1.0), (2.0, 2.0, 0.1), 11),
    ],
    ids=[
        "one with next to nothing to do is not slow: what it takes is what any task takes",
        "nor is one with nothing at all",
        "with an eighth of the work it is told by what it takes: as fast",
        "or three times slower",
        "beside others as well",
    ],
)
def test_who_is_slow_is_told_by_slots_that_have_enough_to_do(
    work: tuple[float, ...], seconds: tuple[float, ...], expected: int
) -> None:
    held = [piece(n + 100 * slot, slot, MB, total / 20) for slot, total in enumerate(work) for n in range(20)]
    assert len(moves(level_seconds(view(*held, seconds=seconds, batches=5), 0.8))) == expected


@pytest.mark.parametrize(
    "seconds, sizes, batches, expected",
    [
        ((1.0, 0.85), 1, 5, 0),
        ((0.004, 0.001), 1, 5, 0),
        ((3.0, 1.0), 1, 5, 2),
        ((3.0, 1.0), 4000 * MB, 5, 0),
        ((3.0, 1.0), 4000 * MB, 50, 2),
    ],
    ids=["within the threshold", "too short to think of", "worth it", "not what it costs", "in the long run"],
)
def test_what_pays(seconds: tuple[float, float], sizes: int, batches: int, expected: int) -> None:
    held = [*(piece(n, 0, sizes, 5.0) for n in range(6)), *(piece(10 + n, 1, sizes, 5.0) for n in range(2))]
    assert len(moves(level_seconds(view(*held, seconds=seconds, batches=batches), 0.8))) == expected


def test_a_hot_group_is_cut_where_it_has_several_keys() -> None:
    def found(keys: float) -> object:
        held = [piece(0, 0, MB, 90.0, keys=keys), piece(1, 0, MB, 1.0), piece(2, 1, MB, 9.0)]
        return level_seconds(view(*held, seconds=(3.0, 0.3), batches=5), 0.8)

    cut = found(40.0)
    assert isinstance(cut, CutWanted)
    assert (cut.operator, cut.group) == (J1, 0)
    assert "it takes 99% of the 3 s of slot 0, and cannot help another whole" in cut.reason


def hot_view(work: float = 90.0, seconds: tuple[float, ...] = (3.0, 0.3), **more: Any) -> BalanceView:
    hot = Piece(J1, K, 0, 0, MB, work, keys=1.0, narrow=True, **more)
    return view(hot, piece(1, 0, MB, 1.0), piece(2, 1, MB, 9.0), seconds=seconds, batches=5)


def test_a_hot_key_is_spread() -> None:
    """2.97 of the 3 s are the key's: half of that goes to each slot, 1.78 s for the one that took 0.3."""
    found = level_seconds(hot_view(), 0.8)
    assert isinstance(found, SpreadWanted)
    assert (found.operator, found.group, found.slots) == (J1, 0, (0, 1))
    told = figures_of(found.trial)
    assert told["seconds"] == 3.0
    assert told["seconds_expected"] == pytest.approx(1.78, abs=0.01)
    assert found.reason == (
        "it takes 99% of the 3 s of slot 0 and is hardly more than one key: dealt out over 2 slots, it leaves the "
        "longest of them 1.78 s"
    )


@pytest.mark.parametrize(
    "seen, expected",
    [
        (hot_view(spread=(0, 1), seconds=(2.0, 1.0)), None),
        (hot_view(spread=(0, 1), seconds=(1.7, 1.6)), None),
        (hot_view(spread=(0, 1), seconds=(1.7, 1.6), work=2.2), None),
        (hot_view(spread=(0, 1), seconds=(1.7, 1.6), work=0.3), DrawTogether),
        (hot_view(spread=(0, 1), seconds=(0.5, 1.6), work=0.0), DrawTogether),
        (hot_view(spread=(0, 1), seconds=(0.002, 0.001), work=0.0), None),
        (hot_view(spread=(0, 1), seconds=(2.0, 1.9, 0.1)), SpreadWanted),
        (hot_view(work=0.5, seconds=(3.0, 0.3)), MoveGroups),
    ],
    ids=[
        "one that is spread over all slots stays so",
        "also where they are level",
        "while it takes a quarter of what a slot does",
        "one that takes less is drawn together",
        "whatever else there is to do",
        "but not where nothing takes long enough to tell",
        "over more slots, if there are more by now",
        "a key that is not hot stays whole",
    ],
)
def test_spread_groups(seen: BalanceView, expected: type | None) -> None:
    found = level_seconds(seen, 0.8)
    assert isinstance(found, expected) if expected is not None else found is None, found


def test_a_spread_group_does_not_go_to_and_fro() -> None:
    """Wherever the load of a group is, it is not drawn together where it would be spread, nor the other way round."""
    for work in range(1, 400):
        rest = [piece(1 + n, n % 2, MB, 10.0) for n in range(20)]  # 100 of work for each slot, 1 s
        hot = Piece(J1, K, 0, 0, MB, float(work), keys=1.0, narrow=True)
        alone = level_seconds(view(hot, *rest, seconds=(1 + work / 100, 1.0), batches=5), 0.8)
        both = Piece(J1, K, 0, 0, MB, float(work), keys=1.0, narrow=True, spread=(0, 1))
        spread = level_seconds(view(both, *rest, seconds=(1 + work / 200, 1 + work / 200), batches=5), 0.8)
        assert not (isinstance(alone, SpreadWanted) and isinstance(spread, DrawTogether))


@pytest.mark.parametrize(
    "cuts, group, works, expected",
    [
        ((), 1, (5.0, 90.0), False),
        ((14,), 1, (5.0, 95.0, 1.0), False),
        ((6,), 1, (5.0, 50.0, 45.0), False),
        ((6,), 1, (5.0, 95.0, 5.0), True),
        ((6,), 2, (5.0, 0.0, 95.0, 90.0), True),
        ((5, 6), 2, (5.0, 6.0, 90.0, 5.0), False),
        ((5, 6), 2, (5.0, 1.0, 95.0, 5.0), True),
    ],
    ids=[
        "it was never cut",
        "nor is a cut elsewhere one of it",
        "a cut has shared out its keys",
        "a cut has left nearly all of it in one half",
        "or all in the other",
        "cuts on both sides have shared some out",
        "or next to nothing",
    ],
)
def test_cuts_in_vain(cuts: tuple[int, ...], group: int, works: tuple[float, ...], expected: bool) -> None:
    """Four groups, with cuts at so many sixteenths of the hash."""
    bounds = Bounds(4, tuple(cut << 60 for cut in cuts))
    held = {(K, number): piece(number, 0, MB, work, keys=9.0) for number, work in enumerate(works)}
    assert _cut_in_vain(held[K, group], held, bounds) is expected


def test_what_cannot_be_cut_is_narrow() -> None:
    assert _cut_in_vain(piece(7, 0, MB, 1.0, keys=9.0), {}, Bounds(1 << 16))


pieces = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 40 * MB), st.floats(0, 1e6), st.floats(0, 1e5), st.booleans()),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(pieces, st.lists(st.floats(0, 100), min_size=3, max_size=3), st.none() | st.integers(1, 200 * MB))
def test_whatever_is_decided_can_be_done(
    drawn: list[tuple[int, int, float, float, bool]], seconds: list[float], capacity: int | None
) -> None:
    held = tuple(
        Piece(J1, K, group, slot, size, work, output, cold, 3.0)
        for group, (slot, size, work, output, cold) in enumerate(drawn)
    )
    before = view(*held, seconds=tuple(seconds), capacity_bytes=capacity)
    for name, policy in BALANCE_POLICIES:
        decision = policy(before, 0.8)
        assert policy(before, 0.8) == decision, "the same view, the same answer"
        if isinstance(decision, MoveGroups):
            groups = [group for _, group, _ in decision.moves]
            assert groups and len(set(groups)) == len(groups)
            assert all(held[group].slot != slot for _, group, slot in decision.moves)
            if name != "time":
                after = after_moves(before, [(held[group], slot) for _, group, slot in decision.moves])
                assert max(slot.bytes for slot in after.slots) <= max(slot.bytes for slot in before.slots)
        if isinstance(decision, SpillGroups):
            assert decision.groups
