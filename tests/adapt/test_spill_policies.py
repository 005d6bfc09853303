"""Spill policies: what all of them keep to, for any view; then each one's order, as tables."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapt.views import LOWER, ROOT, group, memory, views
from watersmeet.adapt.policies.spill import SPILL_POLICIES, SpillPolicy, find_spill_policy
from watersmeet.adapt.policies.spill.hash_merge import hash_merge
from watersmeet.adapt.policies.spill.inactive_or_unproductive import inactive_or_unproductive
from watersmeet.adapt.view import GroupView, MemoryView, OperatorView
from watersmeet.errors import JobError

every_policy = pytest.mark.parametrize("policy", [policy for _, policy in SPILL_POLICIES], ids=dict(SPILL_POLICIES))
ALL = 10**9  # bytes, more than any view here has


def spill(name: str, view: MemoryView, bytes_to_free: int = ALL) -> list[tuple[str, int]]:
    return list(find_spill_policy(name)(view, bytes_to_free).groups)


@settings(max_examples=120, deadline=None)
@given(views(), st.integers(-5, 400))
def test_every_policy_frees_enough_and_no_group_more(view: MemoryView, asked: int) -> None:
    sizes = {entry.key: sum(entry.bytes) for entry in view.groups}
    spillable = {operator.id for operator in view.operators if operator.spillable}
    available = sum(size for (operator, _), size in sizes.items() if operator in spillable)
    for name, policy in SPILL_POLICIES:
        chosen = policy(view, asked).groups
        freed = [sizes[key] for key in chosen]
        assert len(set(chosen)) == len(chosen), name
        assert all(operator in spillable for operator, _ in chosen), name
        assert all(freed), name
        if asked <= 0:
            assert chosen == (), name
        else:
            assert sum(freed) >= min(asked, available), name
            assert sum(freed[:-1]) < asked, name


@settings(max_examples=120, deadline=None)
@given(views(), st.integers(1, 400), st.integers(0, 9))
def test_every_policy_is_pure_and_the_order_of_the_view_says_nothing(view: MemoryView, asked: int, seed: int) -> None:
    mixed = random.Random(seed)
    groups, operators, cold = list(view.groups), list(view.operators), list(view.cold)
    for entries in (groups, operators, cold):
        mixed.shuffle(entries)
    other = replace(view, groups=tuple(groups), operators=tuple(operators), cold=tuple(cold))
    for name, policy in SPILL_POLICIES:
        # Views of their own, so that nothing that the first one has worked out is used again.
        assert policy(view, asked) == policy(replace(view), asked) == policy(other, asked), name


@settings(max_examples=60, deadline=None)
@given(views(), st.integers(1, 200), st.integers(0, 200))
def test_to_free_more_takes_the_same_groups_first(view: MemoryView, asked: int, more: int) -> None:
    for name, policy in SPILL_POLICIES:
        if name != "adaptive-global-flush":  # which looks as far ahead as it frees
            chosen = policy(view, asked).groups
            assert policy(view, asked + more).groups[: len(chosen)] == chosen, name


@every_policy
def test_the_reason_gives_the_figures(policy: SpillPolicy) -> None:
    view = memory(group("J1", 0), group("J1", 1), group("J2", 0))
    assert policy(view, 150).reason.startswith("2 of 3 groups with 200 bytes, of 150 to free: ")
    assert policy(view, 900).reason.startswith(
        "3 of 3 groups with 300 bytes, of 900 to free, all that can be spilled: "
    )
    assert policy(view, 0).reason == "nothing to free"
    assert policy(memory(), 7).reason == "no group can be spilled, with 7 bytes to free"


# Each group earns in its own way; which goes first tells the policies apart. Sizes are equal but for J2:4.
DIFFERENT = memory(
    group("J1", 0, local_output=1.0, global_output=30.0, inter_bytes=0.0),
    group("J1", 1, local_output=40.0, global_output=2.0, inter_bytes=0.0),
    group("J1", 2, local_output=30.0, global_output=4.0, inter_bytes=300.0),
    group("J2", 3, local_output=20.0, global_output=20.0),
    group("J2", 4, local_output=50.0, global_output=50.0, bytes=(100, 200)),
)


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("local-output", [0, 4, 3, 2, 1]),  # 0.01, 0.167, 0.2, 0.3, 0.4
        ("global-output", [1, 2, 4, 3, 0]),  # 0.02, 0.04, 0.167, 0.2, 0.3
        ("global-output-penalty", [2, 1, 4, 3, 0]),  # 4/400 = 0.01, 0.02, ..
        ("high-output-first", [1, 2, 3, 4, 0]),
        ("largest", [4, 0, 1, 2, 3]),
    ],
)
def test_the_order_of_scores(name: str, order: list[int]) -> None:
    assert [number for _, number in spill(name, DIFFERENT)] == order


def test_the_penalty_pushes_what_makes_more_intermediate_results() -> None:
    """Figure 10 of [Liu06]: same size and output, but of one row P1 makes 2 intermediate results and P2 makes 20."""
    figures = {"global_output": 8.0, "bytes": (40, 60), "rows": (4, 6)}
    view = memory(
        group("J1", 1, inter_bytes=2 * 10 * 18.0, **figures),
        group("J1", 2, inter_bytes=20 * 10 * 18.0, **figures),
    )
    assert spill("global-output-penalty", view, 100) == [("J1", 2)]
    assert spill("global-output", view, 100) == [("J1", 1)], "equal, so the number decides"
    even = memory(*(replace(entry, inter_bytes=360.0) for entry in view.groups))
    assert spill("global-output-penalty", even, 100) == [("J1", 1)]


Measure = Callable[[GroupView], float]


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("local-output", lambda g: g.local_output / sum(g.bytes)),
        ("global-output", lambda g: g.global_output / sum(g.bytes)),
        ("global-output-penalty", lambda g: g.global_output / (sum(g.bytes) + g.inter_bytes)),
        ("high-output-first", lambda g: -g.local_output / sum(g.bytes)),
        ("largest", lambda g: -sum(g.bytes)),
    ],
)
@settings(max_examples=60, deadline=None)
@given(view=views(), asked=st.integers(1, 400))
def test_what_goes_scores_no_higher_than_what_stays(name: str, measure: Measure, view: MemoryView, asked: int) -> None:
    gone = spill(name, view, asked)
    by_key = {entry.key: entry for entry in view.spillable}
    scores = [measure(by_key[key]) for key in gone]
    assert scores == sorted(scores)
    stays = [measure(entry) for key, entry in by_key.items() if key not in gone]
    assert not scores or not stays or scores[-1] <= min(stays)


def test_ties_go_by_size_then_operator_then_number() -> None:
    view = memory(group("J2", 0), group("J1", 5), group("J1", 3), group("J2", 9, bytes=(60, 60)))
    tied = [("J2", 9), ("J1", 3), ("J1", 5), ("J2", 0)]
    for name in ("local-output", "global-output", "global-output-penalty", "adaptive-global-flush", "rate-based"):
        assert spill(name, view) == tied, name
    assert spill("high-output-first", view) == tied


@settings(max_examples=60, deadline=None)
@given(view=views())
def test_bottom_up_empties_a_level_before_it_goes_up(view: MemoryView) -> None:
    levels = [view.operator(operator).level for operator, _ in spill("bottom-up", view)]
    assert levels == sorted(levels)


def test_bottom_up_does_not_look_at_what_groups_earn() -> None:
    better = memory(*(replace(entry, global_output=1e6, local_output=1e6) for entry in DIFFERENT.groups))
    assert spill("bottom-up", better) == spill("bottom-up", DIFFERENT)
    assert [operator for operator, _ in spill("bottom-up", DIFFERENT)] == ["J1"] * 3 + ["J2"] * 2


@pytest.mark.parametrize("name", ["random", "bottom-up"])
def test_every_group_has_the_same_chance(name: str) -> None:
    groups = [group("J1", number, local_output=number) for number in range(3)]
    firsts = Counter(spill(name, memory(*groups, batch=batch), 1)[0][1] for batch in range(600))
    assert all(150 < firsts[number] < 250 for number in range(3)), firsts


LATELY = memory(
    group("J1", 0, last_use=9.0, local_output=5.0),
    group("J1", 1, last_use=9.0, local_output=2.0),
    group("J1", 2, last_use=6.0, local_output=900.0),
    group("J1", 3, last_use=1.0, local_output=999.0),
    group("J1", 4, last_use=3.0, local_output=0.0),
    batch=9,
)


@pytest.mark.parametrize(
    ("theta", "order"),
    [
        pytest.param(None, [3, 4, 1, 0, 2], id="half of ten batches: 3 and 4 are silent for more, 3 for longest"),
        pytest.param(2.0, [3, 4, 2, 1, 0], id="a small theta makes it LRU"),
        pytest.param(3.0, [3, 4, 1, 0, 2], id="silent for theta is not yet silent for more"),
        pytest.param(100.0, [4, 1, 0, 2, 3], id="a large theta leaves productivity alone"),
    ],
)
def test_silent_groups_first_then_the_least_productive(theta: float | None, order: list[int]) -> None:
    chosen = inactive_or_unproductive(LATELY, ALL, theta=theta).groups
    assert [number for _, number in chosen] == order


@pytest.mark.parametrize(
    ("sides", "order"),
    [
        pytest.param([(90, 10), (10, 10), (20, 20)], [0, 2, 1], id="the one that restores balance, then the larger"),
        pytest.param([(30, 30), (50, 10), (10, 50)], [0, 1, 2], id="the largest that keeps balance"),
        pytest.param([(40, 0), (60, 0), (0, 10)], [1, 0, 2], id="the nearest where none is balanced"),
    ],
)
def test_hash_merge_keeps_the_inputs_balanced(sides: list[tuple[int, int]], order: list[int]) -> None:
    view = memory(*(group("J1", number, bytes=pair) for number, pair in enumerate(sides)))
    assert [number for _, number in spill("hash-merge", view)] == order


def test_hash_merge_tolerates_a_little() -> None:
    view = memory(
        group("J1", 0, bytes=(500, 500)),
        group("J1", 1, bytes=(100, 100)),
        group("J1", 2, bytes=(120, 110)),
    )
    assert hash_merge(view, 1, tolerance=0.0).groups == (("J1", 2),), "leaves 600 and 600"
    assert hash_merge(view, 1, tolerance=0.05).groups == (("J1", 0),), "leaves 220 and 210, within 21.5"


def test_hash_merge_takes_from_the_operator_that_has_most() -> None:
    view = memory(*(group("J1", number) for number in range(2)), *(group("J2", number) for number in range(4)))
    assert [operator for operator, _ in spill("hash-merge", view)] == ["J2", "J2", "J1", "J2", "J1", "J2"]


def test_rate_based_spills_what_nothing_comes_to() -> None:
    view = memory(
        group("J1", 0, rows=(9, 1), arrivals=(9.0, 0.0)),  # 9 rows come to the one of the other side: 9
        group("J1", 1, rows=(9, 1), arrivals=(0.0, 9.0)),  # 9 rows come to nine rows: 81
        group("J1", 2, rows=(5, 5), arrivals=(1.0, 0.0)),  # 5
        group("J1", 3, rows=(9, 1), arrivals=(0.0, 9.0), unique=50.0),  # 81, a tenth as often: 8.1
        group("J1", 4, rows=(9, 1), arrivals=(0.0, 9.0), bytes=(480, 480)),  # 81, with 960 bytes
    )
    assert [number for _, number in spill("rate-based", view)] == [2, 3, 4, 0, 1]


def test_joins_with_more_inputs_are_weighed_too() -> None:
    wide = OperatorView("J1", 0, 0, ("A", "B", "C"), (1.0, 1.0, 1.0), spillable=True)
    figures = {"bytes": (10, 10, 10), "unique": 2.0}
    view = memory(
        group("J1", 0, rows=(3, 3, 3), arrivals=(2.0, 0.0, 0.0), **figures),  # 2 * 9 combinations
        group("J1", 1, rows=(1, 1, 7), arrivals=(2.0, 0.0, 0.0), **figures),  # 2 * 7
        group("J1", 2, rows=(7, 1, 1), arrivals=(2.0, 0.0, 0.0), **figures),  # 2 * 1
        operators=(wide,),
    )
    for name in ("rate-based", "adaptive-global-flush"):
        assert [number for _, number in spill(name, view)] == [2, 1, 0], name
    assert spill("hash-merge", view, 1) == [("J1", 0)]


def test_operators_that_cannot_spill_are_left_alone() -> None:
    view = memory(group("J1", 0), group("J2", 0), operators=(replace(LOWER, spillable=False), ROOT))
    for name, _ in SPILL_POLICIES:
        assert spill(name, view) == [("J2", 0)], name


def test_policies_are_found_by_name() -> None:
    assert SPILL_POLICIES[0][0] == "global-output-penalty"
    with pytest.raises(JobError) as caught:
        find_spill_policy("global-ouput")
    assert caught.value.primary == 'unknown spill policy "global-ouput"'
    assert caught.value.hint == 'Did you mean "global-output"?'
    assert "hash-merge" in str(caught.value.detail)
