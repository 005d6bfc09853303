"""Who is asked first among predicates, that this says nothing about the answer, and what becomes of those that fail."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import contract_settings
from watersmeet.errors import InputError, UserError, UserFunctionError
from watersmeet.kernel.predicates import Due, questions, satisfying
from watersmeet.kernel.rows import Int64Array
from watersmeet.kernel.tally import PredicateTally, Tally
from watersmeet.model.expressions import Call, Column, Expr, Literal, PythonCall, describe
from watersmeet.model.statistics import PredicateCounts

BOOL, INT = pa.bool_(), pa.int64()
AB, AC = frozenset({0, 1}), frozenset({0, 2})


@dataclass(frozen=True)
class Numbers:
    """Combinations with a value each in the columns A.v, B.v and C.v."""

    key: Int64Array

    def filter(self, keep: Int64Array) -> Numbers:
        return Numbers(self.key[keep])


def look(some: Numbers, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    half = len(some.key) // 2  # in two pieces
    for piece in (some.key[:half], some.key[half:]):
        if len(piece):
            yield pa.record_batch({name: pa.array(piece) for name in names})


def below(limit: int, other: str = "B") -> Expr:
    return Call("less", (Column("A", "v", INT), Call("add", (Column(other, "v", INT), Literal(limit, INT)), INT)), BOOL)


def python(name: str, limit: int, cost: float | None = None) -> PythonCall:
    """Asks for values below a limit; all of both columns are the same here."""
    return PythonCall(
        name, lambda a, b: pc.less(a, limit), (Column("A", "v", INT), Column("B", "v", INT)), BOOL, cost=cost
    )


def fails_on(name: str, bad: int, limit: int) -> PythonCall:
    def ask(a: pa.Array, b: pa.Array) -> pa.Array:
        if pc.any(pc.equal(a, bad)).as_py():
            raise ValueError(f"cannot take {bad}")
        return pc.less(a, limit)

    return PythonCall(name, ask, (Column("A", "v", INT), Column("B", "v", INT)), BOOL)


def known(**figures: tuple[float, float, float]) -> PredicateTally:
    """What earlier batches saw, by the name of a Python predicate: rows, passed, seconds."""
    counts = [PredicateCounts(f"{name}(A.v, B.v)", *seen) for name, seen in figures.items()]
    return PredicateTally(known={entry.predicate: entry for entry in counts})


def order(due: Sequence[Due], tally: PredicateTally) -> list[list[str]]:
    return [[describe(expr) for expr in question.predicates] for question in questions(due, tally)]


def test_before_anything_is_known_sql_comes_first_and_what_reads_the_same_together() -> None:
    due = [(AB, python("near", 3)), (AB, below(1)), (AC, below(2, "C")), (AB, below(3))]
    asked = order(due, PredicateTally())
    assert asked[-1] == ["near(A.v, B.v)"]
    assert sorted(asked[:-1]) == [
        ["less(A.v, add(B.v, 1))", "less(A.v, add(B.v, 3))"],
        ["less(A.v, add(C.v, 2))"],
    ]


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"p": (1000, 500, 1.0), "q": (1000, 500, 0.1)}, "qp"),
        ({"p": (1000, 10, 1.0), "q": (1000, 990, 0.1)}, "pq"),
        ({"p": (1000, 10, 1.0), "q": (1000, 990, 0.001)}, "qp"),
        ({"q": (1000, 500, 1e-5)}, "qp"),
    ],
    ids=[
        "the cheaper of two that pass the same",
        "a selective one before a cheaper one that lets nearly all through",
        "a nearly free one before all others",
        "what was never asked is taken to be dear",
    ],
)
def test_measured_predicates(figures: dict[str, tuple[float, float, float]], expected: str) -> None:
    asked = order([(AB, python("p", 3)), (AB, python("q", 3))], known(**figures))
    assert "".join(name[0] for [name] in asked) == expected


def test_a_declared_cost_counts_and_not_what_was_measured() -> None:
    due = [(AB, python("p", 3, cost=1e-9)), (AB, python("q", 3, cost=1e-5))]
    figures = {"p": (1000.0, 500.0, 9.0), "q": (1000.0, 500.0, 0.001)}
    assert order(due, known(**figures)) == [["p(A.v, B.v)"], ["q(A.v, B.v)"]]


def test_what_is_asked_later_sees_what_is_left() -> None:
    tally = Tally()
    due = [(AB, python("p", 2, cost=1e-7)), (AB, python("q", 1, cost=1e-6)), (AC, below(1, "C"))]
    left = satisfying(due, Numbers(np.arange(10)), look, lambda some: None, tally)
    assert left.key.tolist() == [0]
    seen = {entry.predicate: (entry.rows, entry.passed) for entry in tally.predicates.counts}
    assert seen == {"less(A.v, add(C.v, 1))": (10, 10), "p(A.v, B.v)": (10, 2), "q(A.v, B.v)": (2, 1)}
    assert tally.checked == {AC: [10, 10], AB: [10, pytest.approx(1.0)]}


def test_one_that_cannot_answer_waits_for_the_others() -> None:
    due = [(AB, fails_on("picky", 7, 3)), (AB, python("small", 5))]
    left = satisfying(due, Numbers(np.arange(10)), look, lambda some: None, Tally())
    assert left.key.tolist() == [0, 1, 2]


def test_of_those_that_are_asked_together_only_the_one_that_fails_waits() -> None:
    wide = Call("less", (Call("multiply", (Column("A", "v", INT), Column("B", "v", INT)), INT), Literal(9, INT)), BOOL)
    small = Call("less", (Column("A", "v", INT), Column("B", "v", INT)), BOOL)
    numbers = Numbers(np.array([1, 2, 1 << 40]))
    with pytest.raises(InputError, match="overflow"):
        satisfying([(AB, wide)], numbers, look, lambda some: None, Tally())
    assert not len(satisfying([(AB, wide), (AB, small)], numbers, look, lambda some: None, Tally()).key)


def test_an_error_is_raised_where_nothing_helps_and_not_where_an_excuse_does() -> None:
    due = [(AB, fails_on("picky", 7, 3)), (AB, python("small", 9))]
    numbers = Numbers(np.arange(10))
    with pytest.raises(UserFunctionError, match='"picky" raised ValueError: cannot take 7'):
        satisfying(due, numbers, look, lambda some: None, Tally())
    with pytest.raises(UserFunctionError):
        satisfying(due, numbers, look, lambda some: some, Tally())
    left = satisfying(due, numbers, look, lambda some: some.filter(np.flatnonzero(some.key != 7)), Tally())
    assert left.key.tolist() == [0, 1, 2]


@contract_settings(60)
@given(
    values=st.lists(st.integers(0, 9), max_size=12),
    limits=st.lists(st.tuples(st.integers(0, 10), st.integers(0, 12)), min_size=1, max_size=3),
)
def test_the_order_says_nothing_about_the_answer(values: list[int], limits: list[tuple[int, int]]) -> None:
    predicates = [fails_on(f"p{i}", bad, limit) for i, (limit, bad) in enumerate(limits)]
    outcomes = set()
    for places in itertools.permutations(range(len(predicates))):
        figures = {f"p{i}": (1000.0, 500.0, 10.0**place) for i, place in enumerate(places)}
        tally = Tally(predicates=known(**figures))
        due = [(AB, predicate) for predicate in predicates]
        try:
            left = satisfying(due, Numbers(np.array(values, dtype=np.int64)), look, lambda some: None, tally)
            outcomes.add(tuple(left.key.tolist()))
        except UserError:
            outcomes.add(("error",))
    assert len(outcomes) == 1
    passing = [value for value in values if all(value < limit for limit, _ in limits)]
    assert outcomes <= {tuple(passing), ("error",)}
