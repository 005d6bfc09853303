"""Steps are data; each kind is taken by one function, and the loop takes them in the order that they ask for."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.sessions import rows, session
from watersmeet.errors import InternalError
from watersmeet.run.ending import Ending
from watersmeet.run.steps import Ask, Deliver, Gather, RunRound, Settle, Step, Taken, deliver_all, take

KINDS = Step.__subclasses__()


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_can_be_taken(kind: type[Step]) -> None:
    assert take.dispatch(kind) is not take.dispatch(Step)


def test_a_step_of_another_kind_is_a_fault() -> None:
    class Unknown(Step):
        pass

    with pytest.raises(InternalError, match="no way to take a Unknown"):
        take(Unknown(), None)  # type: ignore[arg-type]


def test_settling_asks_then_runs_a_round_that_settles_again(tmp_path: Any) -> None:
    with session(tmp_path) as one:
        one.run.driver.begin()
        (first,) = take(Settle(Ending.OPEN), one.run.driver.session).then
        assert isinstance(first, RunRound), "before the first batch no policy is asked: nothing is owed but a total"
        one.run.driver.run_batch(rows(0))
        settle = Settle(Ending.CLOSED)
        (ask,) = take(settle, one.run.driver.session).then
        assert isinstance(ask, Ask) and ask.moment is Ending.CLOSED.moment
        assert isinstance(ask.then, RunRound) and ask.then.then == (settle,)
        (once,) = take(Settle(Ending.OPEN, once=True), one.run.driver.session).then
        assert isinstance(once, Ask) and isinstance(once.then, RunRound) and once.then.then == ()


def test_what_follows_from_a_step_comes_before_the_rest(tmp_path: Any) -> None:
    seen: list[str] = []

    class First(Step):
        pass

    class Second(Step):
        pass

    class Third(Step):
        pass

    follows = {First: (Second(),), Second: (), Third: ()}
    for kind, then in follows.items():

        def note(step: Step, _: Any, kind: type[Step] = kind, then: tuple[Step, ...] = then) -> Taken:
            seen.append(kind.__name__)
            return Taken(then)

        take.register(kind)(note)
    with session(tmp_path) as one:
        one.run.driver._take(First(), Third())
    assert seen == ["First", "Second", "Third"]


def test_everything_is_gathered_before_it_is_delivered() -> None:
    assert deliver_all(at_once=True) == (Gather(at_once=True), Deliver())
