"""Plans for drawn cases: one at random, all that there are, and the places that filters may have in them."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from sql_terms import Term

if TYPE_CHECKING:
    from strategies import Case


def key_classes(equalities: list[tuple[Term, Term]]) -> list[frozenset[str]]:
    """The aliases of each class of terms that must be equal, by transitivity."""
    classes: list[set[str]] = []  # of the texts of terms
    aliases = {term.text: term.aliases for pair in equalities for term in pair}
    for left, right in equalities:
        touched = [c for c in classes if left.text in c or right.text in c]
        classes = [c for c in classes if c not in touched]
        classes.append({left.text, right.text}.union(*touched))
    return [frozenset().union(*(aliases[text] for text in c)) for c in classes]


def draw_plan(draw: st.DrawFn, aliases: list[str], equalities: list[tuple[Term, Term]]) -> str:
    """A random tree, built by merging trees that equalities connect, or nothing ever does, until one is left."""
    classes = key_classes(equalities)
    trees: dict[frozenset[str], str] = {frozenset({a}): a for a in aliases}
    while len(trees) > 1:
        members = [draw(st.sampled_from(list(trees)))]
        for _ in range(draw(st.integers(1, len(trees) - 1))):
            near = [t for t in trees if t not in members and _connected((*map(tuple, members), tuple(t)), classes)]
            members += [draw(st.sampled_from(near))] if near else []
        members = draw(st.permutations(members))
        text = f"({' '.join(trees[m] for m in members)})"
        trees = {t: s for t, s in trees.items() if t not in members}
        trees[frozenset().union(*members)] = text
    return next(iter(trees.values()))


def place_filters(plan: str, conditions: Sequence[Term], choose: Callable[[int], int]) -> str:
    """The tree with filters of the query above its joins: `choose` picks one of so many places for each, from 0 up."""
    counts = Counter(next(iter(term.aliases)) for term in conditions if len(term.aliases) == 1)
    joins: list[tuple[int, set[str]]] = []  # where each ends, and its inputs
    open_joins: list[set[str]] = []
    for piece in re.finditer(r"[()]|[^\s()]+", plan):
        if piece[0] == "(":
            open_joins.append(set())
        elif piece[0] == ")":
            joins.append((piece.end(), open_joins.pop()))
        else:
            for inputs in open_joins:
                inputs.add(piece[0])
    marks: dict[int, list[str]] = {}
    for alias, count in sorted(counts.items()):
        ends = [end for end, inputs in joins if alias in inputs]
        for number in range(count):
            if place := choose(len(ends) + 1):
                marks.setdefault(ends[place - 1], []).append(f"{alias}.{number + 1}")
    for end, names in sorted(marks.items(), reverse=True):
        plan = f"{plan[:end]}[{' '.join(names)}]{plan[end:]}"
    return plan


def placed_plans(case: Case, random: Random) -> list[str]:
    """`all_plans`, each with its filters at their inputs, and with every filter anywhere."""
    plans = all_plans(case)
    return [*plans, *(place_filters(plan, case.conditions, random.randrange) for plan in plans)]


def all_plans(case: Case) -> list[str]:
    """Every tree over the case's inputs (but for the order of children) whose joins equalities connect."""
    classes = key_classes(case.equalities)

    def trees(aliases: tuple[str, ...]) -> Iterator[str]:
        if len(aliases) == 1:
            yield aliases[0]
            return
        for parts in _partitions(aliases):
            if len(parts) > 1 and _connected(parts, classes):
                for children in itertools.product(*(list(trees(part)) for part in parts)):
                    yield f"({' '.join(children)})"

    return list(trees(tuple(entry.alias for entry in case.inputs)))


def _connected(parts: tuple[tuple[str, ...], ...], classes: list[frozenset[str]]) -> bool:
    """Whether equalities connect all of these that equalities connect anywhere."""

    def reach(start: set[str], steps: Sequence[frozenset[str]]) -> set[str]:
        while more := [step for step in steps if step & start and not step <= start]:
            start = start.union(*more)
        return start

    def meets(start: set[str], part: tuple[str, ...]) -> bool:
        return any(c & start and c & set(part) for c in classes)

    for first in parts:
        here, grown = set(first), True
        while grown:
            near = [part for part in parts if not set(part) <= here and meets(here, part)]
            grown = bool(near)
            here = here.union(*near)
        if any(reach(set(first), classes) & set(part) and not set(part) <= here for part in parts):
            return False
    return True


def _partitions(items: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ...]]:
    if not items:
        yield ()
        return
    first, *rest = items
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = tuple(item for item in rest if item not in others)
            for parts in _partitions(left):
                yield ((first, *others), *parts)
