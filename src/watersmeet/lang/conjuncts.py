"""Sorts the conjuncts of a query into filters of one input, key classes, and predicates over several inputs.

An equality between two inputs, each side reading one of them, is a key term pair; pairs are closed under transitivity
into classes. Equalities of types that cannot be hashed (FLOAT, DOUBLE, BOOLEAN) stay predicates. Where a
class has two terms of one input, that they are equal becomes a filter of the input and the first term stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.kernel.evaluate import constant_value
from watersmeet.lang.coercion import coerce, common_type, common_type_of, is_key
from watersmeet.model.expressions import Call, Cast, Expr, aliases_of, python_calls
from watersmeet.plan.query import KeyClass

Term = tuple[str, Expr]


@dataclass(frozen=True)
class SortedConjuncts:
    filters: dict[str, tuple[Expr, ...]]
    keys: tuple[KeyClass, ...]
    predicates: tuple[Expr, ...]


def split_conjuncts(expr: Expr) -> Iterator[Expr]:
    """The parts of `expr` that must all hold."""
    if isinstance(expr, Call) and expr.function == "and":
        for arg in expr.args:
            yield from split_conjuncts(arg)
    else:
        yield expr


def sort_conjuncts(conditions: Iterable[Expr], aliases: Sequence[str]) -> SortedConjuncts:
    """The conjuncts of `conditions`, sorted; `aliases` are the inputs in the order of FROM."""
    filters: dict[str, list[Expr]] = {alias: [] for alias in aliases}
    predicates: list[Expr] = []
    classes: list[list[Term]] = []
    for conjunct in (part for condition in conditions for part in split_conjuncts(condition)):
        read = aliases_of(conjunct)
        if not read:
            if not _always_true(conjunct):
                filters[aliases[0]].append(conjunct)
        elif len(read) == 1:
            filters[min(read)].append(conjunct)
        elif (pair := _key_pair(conjunct)) is None or not _unite(classes, *pair):
            predicates.append(conjunct)
    keys = []
    for i, terms in enumerate(classes):
        kind = common_type_of(expr.type for _, expr in terms)
        first: dict[str, Expr] = {}
        for alias, expr in terms:
            cast = coerce(expr, kind)
            if alias in first:
                filters[alias].append(Call("equal", (first[alias], cast), pa.bool_()))
            else:
                first[alias] = cast
        ordered = tuple((alias, first[alias]) for alias in aliases if alias in first)
        keys.append(KeyClass(f"k{i}", ordered, kind))
    return SortedConjuncts({alias: tuple(each) for alias, each in filters.items()}, tuple(keys), tuple(predicates))


def _key_pair(conjunct: Expr) -> tuple[Term, Term] | None:
    if not isinstance(conjunct, Call) or conjunct.function != "equal":
        return None
    left, right = conjunct.args
    if len(aliases_of(left)) != 1 or len(aliases_of(right)) != 1:
        return None
    if not is_key(left.type):  # both sides have been brought to one type
        return None
    left, right = _without_exact_cast(left), _without_exact_cast(right)
    return (min(aliases_of(left)), left), (min(aliases_of(right)), right)


def _without_exact_cast(expr: Expr) -> Expr:
    # A cast that keeps different values different says nothing about equality. Without it, the same column compared
    # with a wider one here and a narrower one there is one term, and the class that it links is found.
    while isinstance(expr, Cast) and is_key(expr.arg.type) and common_type(expr.arg.type, expr.type) == expr.type:
        expr = expr.arg
    return expr


def _unite(classes: list[list[Term]], left: Term, right: Term) -> bool:
    """Joins the classes of two terms; False, changing nothing, if no hashable type would hold them all."""
    touched = [each for each in classes if left in each or right in each]
    united = list(dict.fromkeys([term for each in touched for term in each] + [left, right]))
    kind = common_type_of(expr.type for _, expr in united)
    if kind is None or not is_key(kind):
        return False
    if touched:
        touched[0][:] = united
        classes[:] = [each for each in classes if each is touched[0] or each not in touched]
    else:
        classes.append(united)
    return True


def _always_true(constant: Expr) -> bool:
    return not any(python_calls(constant)) and constant_value(constant) is True
