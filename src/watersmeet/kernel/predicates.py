"""Predicates over several inputs, put to combinations: who is asked first, and what becomes of one that cannot answer.

Those that are due together are asked in descending order of (1 - share that passes) / seconds for each combination,
so that cheap and selective ones spare the dear ones work. What a predicate takes is what it was declared with, else
what was measured, else an assumption. Plain SQL predicates that read the same inputs are asked together, on one copy
of their columns; a Python predicate is asked alone, of what the ones before it have left, and once if it is there
twice.

Invariants: the order says nothing about the answer, neither about which combinations come out nor about how they are
ordered. Nor does it say whether a run stops: a predicate that cannot be computed for some combinations waits for the
others that are due, and is asked again of what they leave. Only where nobody gets any further is the error raised. A
predicate that can be computed for some combinations can be for each part of them, so the end is the same whoever is
asked first.

Holds nothing between two calls; what it learns goes to the tally. `step.py` and everybody else who proposes
combinations calls `satisfying`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.errors import UserError
from watersmeet.kernel.evaluate import satisfied
from watersmeet.kernel.indexed import BoolArray
from watersmeet.kernel.rows import Int64Array
from watersmeet.kernel.tally import PredicateTally, Tally
from watersmeet.model.expressions import Expr, PythonCall, children, columns_of, describe, python_calls

# What a combination takes where nothing was measured or declared. They only have to be in the right order for a batch.
SQL_SECONDS = 5e-9  # for each function: 3 to 10 ns for comparisons and arithmetic on chunks of 200 000
PYTHON_SECONDS = 1e-6


class Combinations(Protocol):
    """Combinations of rows, of which some can be left out."""

    @property
    def key(self) -> Int64Array:
        """One entry for each of them."""

    def filter(self, keep: Int64Array) -> Self: ...


C = TypeVar("C", bound=Combinations)
Due = tuple[frozenset[int], Expr]  # a predicate, with the inputs that it reads
Look = Callable[[C, Sequence[str]], Iterator[pa.RecordBatch]]  # the named columns, in pieces


@dataclass(frozen=True)
class Question:
    """Predicates that read the same inputs and are asked together."""

    reads: frozenset[int]
    predicates: tuple[Expr, ...]

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(column.field_name for expr in self.predicates for column in columns_of(expr)))

    def apart(self) -> list[Question]:
        """The same, each by itself."""
        return [Question(self.reads, (expr,)) for expr in self.predicates]


def questions(due: Sequence[Due], tally: PredicateTally) -> list[Question]:
    """The predicates that are due, in the order in which they are best asked."""
    if len(due) == 1:
        return [Question(due[0][0], (due[0][1],))]
    together: dict[frozenset[int], list[Expr]] = {}
    alone: dict[str, Question] = {}
    for reads, expr in due:
        if any(python_calls(expr)):
            alone.setdefault(_sameness(expr), Question(reads, (expr,)))
        else:
            together.setdefault(reads, []).append(expr)
    found = [*(Question(reads, tuple(exprs)) for reads, exprs in together.items()), *alone.values()]
    return sorted(found, key=lambda question: -_urgency(question, tally)) if len(found) > 1 else found


def _sameness(expr: Expr) -> str:
    """The same text for predicates that say the same of everything: a symmetric one, with its arguments either way."""
    if isinstance(expr, PythonCall) and expr.symmetric:
        return describe(replace(expr, args=tuple(sorted(expr.args, key=describe))))
    return describe(expr)


def _urgency(question: Question, tally: PredicateTally) -> float:
    """How much a second of asking is worth."""
    share = math.prod(tally.of(expr).share for expr in question.predicates)
    return (1.0 - share) / math.fsum(seconds_of(expr, tally) for expr in question.predicates)


def seconds_of(expr: Expr, tally: PredicateTally) -> float:
    """What a predicate takes for a combination, as far as anybody knows."""
    calls = list(python_calls(expr))
    declared = [call.cost for call in calls if call.cost is not None]
    if calls and len(declared) == len(calls):
        return math.fsum(declared)
    seen = tally.of(expr)
    if seen.rows and seen.seconds:
        return seen.seconds / seen.rows
    return PYTHON_SECONDS * len(calls) + SQL_SECONDS * _size(expr)


def _size(expr: Expr) -> int:
    """How many functions and casts an expression applies."""
    return bool(children(expr)) + sum(map(_size, children(expr)))


def satisfying(due: Sequence[Due], given: C, look: Look[C], excuse: Callable[[C], C | None], tally: Tally) -> C:
    """Those of the combinations `given` that satisfy all predicates that are due.

    `look` gathers columns of combinations. `excuse` leaves out combinations that others will refuse, or says None where
    there is nothing to leave out: it is called when a predicate cannot be computed for what all the others have left.
    """
    pending = questions(due, tally.predicates)
    shares = _Shares()
    while pending:
        waiting: list[Question] = []
        failure: UserError | None = None
        for question in pending:
            if not len(given.key):
                break
            try:
                keep = _ask(question, given, look, tally.predicates)
            except UserError as error:
                failure = error
                waiting += question.apart()
                continue
            shares.note(question.reads, len(given.key), len(keep))
            if len(keep) < len(given.key):
                given = given.filter(keep)
        if failure is not None and waiting == pending:  # nobody got any further
            fewer = excuse(given)
            if fewer is None or len(fewer.key) == len(given.key):
                raise failure
            given = fewer
        pending = waiting if len(given.key) else []
    for reads, (looked_at, share) in shares.seen.items():
        tally.check(reads, looked_at, looked_at * share)
    return given


@dataclass
class _Shares:
    """For the inputs that predicates read, the combinations that the first of these saw and the share that all pass."""

    seen: dict[frozenset[int], tuple[int, float]] = field(default_factory=dict)

    def note(self, reads: frozenset[int], looked_at: int, passed: int) -> None:
        first, share = self.seen.get(reads, (looked_at, 1.0))
        self.seen[reads] = first, share * passed / looked_at


def _ask(question: Question, given: C, look: Look[C], tally: PredicateTally) -> Int64Array:
    """The numbers of the combinations that satisfy all predicates of a question."""
    clock = tally.clock
    counts = [[0, 0, 0.0] for _ in question.predicates]  # looked at, passed, seconds
    masks: list[BoolArray] = []
    began = clock()
    for batch in look(given, question.columns):
        mask: BoolArray | None = None
        gathering = (clock() - began) / len(question.predicates)
        for expr, count in zip(question.predicates, counts, strict=True):
            began = clock()
            answer = satisfied(expr, batch)
            mask = answer if mask is None else mask & answer
            count[0] += len(answer)
            count[1] += int(np.count_nonzero(answer))
            count[2] += clock() - began + gathering
            if not mask.any():
                break
        assert mask is not None  # a question has a predicate
        masks.append(mask)
        began = clock()
    for expr, (looked_at, passed, seconds) in zip(question.predicates, counts, strict=True):
        if looked_at:
            tally.note(expr, int(looked_at), int(passed), seconds)
    return np.flatnonzero(masks[0] if len(masks) == 1 else np.concatenate(masks))
