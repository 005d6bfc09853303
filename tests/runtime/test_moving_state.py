"""A change of the plan by moving state, row by row: the cases that [Zhu06] works out, and what files become of it."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from small_runs import CHAIN, ONE_KEY, SmallRun
from watersmeet.adapt.controller import Controller
from watersmeet.adapt.outlook import Moment
from watersmeet.errors import ResourceError
from watersmeet.runtime.local.executor import LocalExecutor

# Figure 12.3: whether the rows of A, B, C and D were there when the plan was changed.
CASES = {
    1: "old old old old",
    2: "old old old new",
    3: "old old new old",
    4: "old new old old",
    5: "new old old old",
    6: "old old new new",
    7: "old new old new",
    8: "new new old old",
    9: "new old old new",
    10: "old new new old",
    11: "new old new old",
    12: "old new new new",
    13: "new old new new",
    14: "new new old new",
    15: "new new new old",
    16: "new new new new",
}
OLD, NEW = {"old": 0.0}, {"new": 1.0}


def case_numbers(found: Counter[tuple[Any, ...]]) -> list[int]:
    assert max(found.values(), default=1) == 1, "none twice"
    numbers = {tuple(text.split()): number for number, text in CASES.items()}
    return sorted(numbers[row] for row in found)


def test_the_table_has_all_cases() -> None:
    assert {tuple(text.split()) for text in CASES.values()} == set(itertools.product(("old", "new"), repeat=4))


@pytest.mark.parametrize("where", [ONE_KEY, CHAIN], ids=["one key", "several keys"])
@pytest.mark.parametrize("former", ["(((A B) C) D)", "(A B C D)", "((A B) (C D))"])
@pytest.mark.parametrize("new", ["(A ((B C) D))", "(A B C D)", "((A B) (C D))", "(((A B) C) D)", "((A B C) D)"])
def test_the_sixteen_cases(where: str, former: str, new: str) -> None:
    run = SmallRun(where, former)
    assert case_numbers(run.batch(A=OLD, B=OLD, C=OLD, D=OLD)) == [1]
    run.change(new)
    assert not run.results(), "to make states emits nothing"
    assert case_numbers(run.batch(A=NEW, B=NEW, C=NEW, D=NEW)) == list(range(2, 17))


def test_states_that_are_left_empty_lose_what_the_paper_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases 1, 2, 5 and 9, of which the first came out before the change."""
    run = SmallRun(ONE_KEY, "(((A B) C) D)")
    before = run.batch(A=OLD, B=OLD, C=OLD, D=OLD)
    monkeypatch.setattr(LocalExecutor, "make_states", lambda *_: [])
    run.change("(A ((B C) D))")
    after = run.batch(A=NEW, B=NEW, C=NEW, D=NEW)
    assert case_numbers(before) == [1]
    assert sorted(set(CASES) - {*case_numbers(before), *case_numbers(after)}) == [2, 5, 9]


def test_there_and_back_between_two_batches() -> None:
    run = SmallRun(CHAIN, "(((A B) C) D)")
    run.batch(A=OLD, B=OLD, C=OLD, D=OLD)
    for plan in ("(A B C D)", "(((A B) C) D)", "((A B) (C D))", "(((A B) C) D)"):
        assert run.change(plan)["plan"] == plan
        assert (run.held("A"), run.held("B"), run.held("C"), run.held("D"))[::3] == (1, 1)
    assert (run.held("A+B"), run.held("A+B+C"), run.held("C+D")) == (1, 1, 0), "what the plan does not need has gone"
    assert case_numbers(run.batch(A=NEW, B=NEW, C=NEW, D=NEW)) == list(range(2, 17))


def test_a_plan_that_is_there_is_taken_over_as_it_is() -> None:
    run = SmallRun(CHAIN, "((A B) (C D))")
    run.batch(A=OLD, B=OLD, C=OLD, D=OLD)
    told = run.change("((A B) (C D))")
    assert (told["states_made"], told["states_kept"]) == (0, 6)
    assert case_numbers(run.batch(A=NEW, B=NEW, C=NEW, D=NEW)) == list(range(2, 17))


def test_a_row_that_a_slow_stream_needs_is_kept_where_another_plan_finds_it() -> None:
    """Figure 15.2, windows of 2: a3 is past the window of b1, and c2, which is not, has yet to come.

    There b1 would be in the state of A and B alone, which the new plan does not have. Here a row stays while any stream
    may need it, so it is in its own state too.
    """
    run = SmallRun("A.x = B.x AND B.x = C.x", "((A B) C)", "ABC", " [RANGE 2 SECONDS]")
    first = run.batch(A={"a1": 1.5}, B={"b1": 1.0, "b2": 2.5}, C={"c1": 1.2})
    assert first == Counter({("a1", "b1", "c1"): 1, ("a1", "b2", "c1"): 1})
    run.batch(A={"a2": 2.8, "a3": 3.6})
    assert (run.held("A"), run.held("B"), run.held("A+B")) == (3, 2, 5)
    run.change("(A (B C))")
    assert (run.held("B"), run.held("A+B")) == (2, 0)
    assert run.held("B+C") == 0, "with c1 they are past the windows of whatever A may bring"
    after = run.batch(C={"c2": 2.9, "c3": 4.4})
    assert {row for row in after if row[2] == "c2"} == {
        (a, b, "c2") for a, b in itertools.product(("a1", "a2", "a3"), ("b1", "b2")) if (a, b) != ("a3", "b1")
    }
    assert {row for row in after if row[2] == "c3"} == {("a2", "b2", "c3"), ("a3", "b2", "c3")}


def test_rows_that_nobody_needs_any_more_are_not_made_into_states() -> None:
    run = SmallRun("A.x = B.x AND B.x = C.x", "(A B C)", "ABC", " [RANGE 2 SECONDS]")
    run.batch(A={"a1": 0}, B={"b1": 0.5}, C={"c1": 0.7})
    run.batch(A={"a2": 2.2}, B={"b2": 2.2}, C={"c2": 2.2})  # a1 has gone, and b1 has not
    run.change("((A B) C)")
    assert run.held("A+B") == 2, "a2 with b1 and with b2"


def test_what_fails_after_the_switch_is_no_change_that_came_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told as one, with the new plan at work."""
    run = SmallRun(CHAIN, "((A B) (C D))")
    run.batch(A=OLD, B=OLD, C=OLD, D=OLD)
    full = ResourceError("no space left")

    ask = Controller.ask

    def fail(controller: Controller, moment: Moment, *rest: Any) -> Any:
        if moment is Moment.AFTER_BATCH:
            raise full
        return ask(controller, moment, *rest)

    with monkeypatch.context() as patch, pytest.raises(ResourceError) as caught:
        patch.setattr(Controller, "ask", fail)
        run.change("(A B C D)")
    assert caught.value is full
    assert run.run.manifest.plan == run.run.plan.tree == "(A B C D)"
    assert [entry["decision"] for entry in run.run.manifest.decisions] == ["ChangePlan"]
    assert case_numbers(run.batch(A=NEW, B=NEW, C=NEW, D=NEW)) == list(range(2, 17))
