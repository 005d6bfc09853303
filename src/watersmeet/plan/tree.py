"""The shape of a plan: a tree whose leaves are query inputs and whose inner nodes are multi-way joins.

One node over all inputs is an mjoin, all nodes binary a bjtree, anything between a hybrid. A tree is pure shape: what
each node joins on, keeps and emits is worked out by `plan/layout/`. As text a node is its children in
parentheses: `((A B) C)`.

Filters are applied to the rows of their input, before any join, unless a join says that they stand above it: in
`((A B)[A] C)` those of A do, in `((A B)[A.2] C)` the second one of A, in the order of the text. Trees that differ in
nothing else are two plans.

Rows of an input enter the joins as they are, unless a mark says that they are weighed (`plan/weighing.py`): in
`((A{} B) C)` those rows of A that agree in all that matters are combined, in `((A{1} B) C)` each has a weight of its
own. `bare` is the shape alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from watersmeet.errors import JobError, did_you_mean
from watersmeet.plan.query import KeyClass, Query
from watersmeet.plan.weighing import why_not_weighed

COMBINED, SINGLE = "{}", "{1}"


@dataclass(frozen=True)
class Leaf:
    alias: str
    mark: str = ""  # how its rows are weighed: `COMBINED`, `SINGLE`, or not at all

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset({self.alias})

    def __str__(self) -> str:
        return f"{self.alias}{self.mark}"


@dataclass(frozen=True)
class Join:
    children: tuple[Tree, ...]
    filters: tuple[str, ...] = ()  # that stand above it: all of an input ("A") or one of them ("A.2")

    def __post_init__(self) -> None:
        assert len(self.children) >= 2, "a join has two or more inputs"

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset().union(*(child.aliases for child in self.children))

    def __str__(self) -> str:
        return f"({' '.join(map(str, self.children))})" + (f"[{' '.join(self.filters)}]" if self.filters else "")


Tree = Leaf | Join
T = TypeVar("T", bound=Tree)
Filter = tuple[str, int]  # an input, and the place of a filter among those of it
Standing = Mapping[Filter, frozenset[str]]  # filters that stand above joins, by the inputs of these


def joins_of(tree: Tree) -> Iterator[Join]:
    """The joins of a tree, each after those that feed it."""
    if isinstance(tree, Leaf):
        return
    for child in tree.children:
        yield from joins_of(child)
    yield tree


def bare(tree: T) -> T:
    """The shape alone, with all filters at their inputs, and no input weighed."""
    if isinstance(tree, Leaf):
        return replace(tree, mark="")
    return replace(tree, children=tuple(map(bare, tree.children)), filters=())


def leaves_of(tree: Tree) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
        return
    for child in tree.children:
        yield from leaves_of(child)


def marks_of(tree: Tree) -> dict[str, bool]:
    """The inputs that are weighed, each with whether rows that agree are combined.

    >>> marks_of(Join((Leaf("A", COMBINED), Leaf("B"), Leaf("C", SINGLE))))
    {'A': True, 'C': False}
    """
    return {leaf.alias: leaf.mark == COMBINED for leaf in leaves_of(tree) if leaf.mark}


def with_marks(tree: Tree, weighed: Mapping[str, bool]) -> Tree:
    """The tree with these inputs weighed, and no others; for each, whether rows that agree are combined.

    >>> print(with_marks(Join((Leaf("A"), Leaf("B", COMBINED))), {"A": True}))
    (A{} B)
    """
    if isinstance(tree, Leaf):
        mark = {None: "", True: COMBINED, False: SINGLE}[weighed.get(tree.alias)]
        return tree if tree.mark == mark else Leaf(tree.alias, mark)
    return replace(tree, children=tuple(with_marks(child, weighed) for child in tree.children))


def still_weighed(tree: Tree, former: Tree) -> Tree:
    """A tree for a run that has had another: inputs that were weighed carry weights on, though not combined.

    >>> print(still_weighed(Join((Leaf("A"), Leaf("B"))), Join((Leaf("B"), Leaf("A", COMBINED)))))
    (A{1} B)
    """
    return with_marks(tree, dict.fromkeys(marks_of(former), False) | marks_of(tree))


def standing_filters(tree: Tree, counts: Mapping[str, int]) -> dict[Filter, frozenset[str]]:
    """The filters that stand above joins of `tree`, where each input has so many of them."""
    return {found: join.aliases for join in joins_of(tree) for mark in join.filters for found in _named(mark, counts)}


def with_filters(tree: Tree, standing: Standing, counts: Mapping[str, int]) -> Tree:
    """The tree with these filters above its joins, and no others.

    >>> tree = Join((Leaf("A"), Leaf("B")))
    >>> print(with_filters(tree, {("A", 1): tree.aliases}, {"A": 2}))
    (A B)[A.2]
    >>> print(with_filters(tree, {("A", 0): tree.aliases}, {"A": 1}))
    (A B)[A]
    """
    if isinstance(tree, Leaf):
        return tree
    here = sorted(found for found, above in standing.items() if above == tree.aliases)
    marks: list[str] = []
    for alias in dict.fromkeys(alias for alias, _ in here):
        places = [place for name, place in here if name == alias]
        marks += [alias] if len(places) == counts[alias] else [f"{alias}.{place + 1}" for place in places]
    return Join(tuple(with_filters(child, standing, counts) for child in tree.children), tuple(marks))


def filter_counts(query: Query) -> dict[str, int]:
    return {entry.alias: len(entry.filters) for entry in query.inputs}


def _named(mark: str, counts: Mapping[str, int]) -> list[Filter]:
    """The filters that a mark of a join means."""
    alias, _, number = mark.partition(".")
    return [(alias, int(number) - 1)] if number else [(alias, place) for place in range(counts[alias])]


def parse_tree(text: str, query: Query) -> Tree:
    """The tree that `text` describes, each input of the query exactly once."""
    tokens = re.findall(r"\)\[[^\[\]]*\]|[()]|[^\s(),]+", text)
    tree, rest = _parse(tokens, text, query)
    if rest:
        raise JobError(f'plan "{text}" goes on after its end', detail=f'Left over: "{" ".join(rest)}".')
    named = [leaf.alias for leaf in leaves_of(tree)]
    for name in named:
        if name not in query.aliases:
            raise JobError(
                f'plan "{text}" names unknown input "{name}"',
                detail=f"The query's inputs are {', '.join(query.aliases)}.",
                hint=did_you_mean(name, query.aliases),
            )
    missing = [alias for alias in query.aliases if alias not in named]
    if missing or len(named) != len(query.aliases):
        raise JobError(
            f'plan "{text}" must name each input exactly once',
            detail=f"Missing: {', '.join(missing)}." if missing else "An input appears twice.",
        )
    _check_filters(tree, query, text)
    counts = filter_counts(query)
    placed = with_filters(tree, standing_filters(tree, counts), counts)
    _check_weighed(placed, query, text)
    return placed


def _check_filters(tree: Tree, query: Query, text: str) -> None:
    """Refuse marks that name what is not there, not below the join, or elsewhere too."""
    counts, seen = filter_counts(query), dict[Filter, str]()
    for join, mark in ((each, mark) for each in joins_of(tree) for mark in each.filters):
        alias, dot, number = mark.partition(".")
        if alias not in join.aliases:
            raise JobError(
                f'plan "{text}" places filters of "{alias}" above a join that does not have it',
                detail=f"The join is over {', '.join(sorted(join.aliases))}.",
                hint="Name an input of the join in the brackets after it, as in ((A B)[A] C).",
            )
        if not counts[alias]:
            with_some = [name for name, count in counts.items() if count]
            raise JobError(
                f'plan "{text}" places filters of "{alias}", which has none',
                detail=f"Inputs with filters: {', '.join(with_some) or 'none'}.",
            )
        if dot and not (number.isascii() and number.isdigit() and 1 <= int(number) <= counts[alias]):
            raise JobError(
                f'plan "{text}" places filter "{mark}", which is not there',
                detail=f"{alias} has {_range_text(alias, counts[alias])}, in the order of the text.",
            )
        for found in _named(mark, counts):
            if found in seen:
                raise JobError(
                    f'plan "{text}" places a filter of "{alias}" twice',
                    detail=f"It is named by {seen[found]} and {mark}.",
                )
            seen[found] = mark


def _check_weighed(tree: Tree, query: Query, text: str) -> None:
    """Refuse to weigh inputs of which each row matters."""
    for leaf in leaves_of(tree):
        if leaf.mark and (why := why_not_weighed(query, leaf.alias)) is not None:
            raise JobError(
                f'plan "{text}" puts rows of "{leaf.alias}" together, of which each counts',
                detail=why,
                hint=f"Write {leaf.alias} without {leaf.mark}.",
            )


def _range_text(alias: str, count: int) -> str:
    return f"one filter, {alias}.1" if count == 1 else f"filters {alias}.1 to {alias}.{count}"


def _parse(tokens: list[str], text: str, query: Query) -> tuple[Tree, list[str]]:
    if not tokens or tokens[0].startswith(")"):
        raise JobError(
            f'plan "{text}" is not a tree',
            hint='Write "mjoin", "left-deep", or a tree such as "((A B) C)".',
        )
    head, *rest = tokens
    if head != "(":
        return _leaf(head, text, query), rest
    children: list[Tree] = []
    while rest and not rest[0].startswith(")"):
        child, rest = _parse(rest, text, query)
        children.append(child)
    if not rest:
        raise JobError(f'plan "{text}" lacks a closing parenthesis')
    if len(children) < 2:
        raise JobError(f'plan "{text}" has a join of fewer than two inputs')
    return Join(tuple(children), tuple(re.findall(r"[^\s,]+", rest[0][2:-1]))), rest[1:]


def _leaf(token: str, text: str, query: Query) -> Leaf:
    alias, brace, inside = token.partition("{")
    if token in query.aliases or not brace:
        return Leaf(token)
    if (mark := brace + inside) not in (COMBINED, SINGLE):
        raise JobError(
            f'plan "{text}" has "{token}", which is neither {alias}{COMBINED} nor {alias}{SINGLE}',
            detail=f"With {COMBINED}, rows of an input that agree are combined before they are joined; with {SINGLE}, "
            "each has a weight of its own.",
        )
    return Leaf(alias, mark)


def shared_keys(query: Query, inputs: tuple[frozenset[str], ...]) -> tuple[KeyClass, ...]:
    """The key classes that reach into every one of `inputs`: what a node over them is hashed on."""
    return tuple(key for key in query.keys if all(key.aliases & aliases for aliases in inputs))


def can_spill(query: Query, tree: Tree) -> bool:
    """Whether the inputs of every join share a key, so that no join is routed."""
    if isinstance(tree, Leaf):
        return True
    parts = tuple(child.aliases for child in tree.children)
    return bool(shared_keys(query, parts)) and all(can_spill(query, child) for child in tree.children)


def left_deep(query: Query) -> Tree:
    """Binary joins in the order of the text; an input that shares no key with those before it waits for one that does.

    Parts that no equality connects are each such a tree, and are joined two at a time as well.
    """
    return functools.reduce(lambda tree, part: Join((tree, part)), (_left_deep(query, part) for part in query.parts))


def ring_of_parts(query: Query) -> Tree:
    """One ring over the parts that equalities connect, each a left-deep tree, one join for each key."""
    return Join(tuple(join_by_key(query, _left_deep(query, part)) for part in query.parts))


def _left_deep(query: Query, part: frozenset[str]) -> Tree:
    first, *waiting = (alias for alias in query.aliases if alias in part)
    tree: Tree = Leaf(first)
    while waiting:
        alias = next(a for a in waiting if shared_keys(query, (tree.aliases, frozenset({a}))))
        tree = Join((tree, Leaf(alias)))
        waiting.remove(alias)
    return tree


def join_by_key(query: Query, tree: Tree) -> Tree:
    """`tree` with every join merged into the one above it that is hashed on the same keys."""
    if isinstance(tree, Leaf):
        return tree
    keys = shared_keys(query, tuple(child.aliases for child in tree.children))
    children: list[Tree] = []
    for child in (join_by_key(query, child) for child in tree.children):
        below = tuple(c.aliases for c in child.children) if isinstance(child, Join) else ()
        if isinstance(child, Join) and keys and shared_keys(query, below) == keys:
            children += child.children
        else:
            children.append(child)
    return Join(tuple(children))


def mjoin(query: Query) -> Tree:
    """One node over all inputs, in the order of the text; a single input is joined with nothing."""
    if len(query.aliases) == 1:
        return Leaf(query.aliases[0])
    return Join(tuple(map(Leaf, query.aliases)))


def choose_tree(query: Query, plan: str) -> Tree:
    """The tree that the setting `plan` names. What `auto` means is `optimize/choose.py`'s to say."""
    if plan == "left-deep":
        return left_deep(query)
    if plan == "mjoin":
        tree: Tree = mjoin(query)
    elif "(" in plan or ")" in plan or query.aliases == (plan,):
        tree = parse_tree(plan, query)
    else:
        known = ["auto", "mjoin", "left-deep"]
        raise JobError(
            f'unknown plan "{plan}"',
            detail='A plan is "auto", "mjoin", "left-deep", or a tree such as "((A B) C)".',
            hint=did_you_mean(plan, known),
        )
    check_tree(query, tree)
    return tree


def check_tree(query: Query, tree: Tree) -> None:
    """Refuse a tree that has a node whose inputs equalities connect, but not here: it would be a cartesian product.

    Inputs that nothing connects anywhere are joined by a ring, wherever they meet.
    """
    if isinstance(tree, Leaf):
        return
    for part in query.parts:
        _check_part(query, tree, [child.aliases for child in tree.children if child.aliases & part])
    for child in tree.children:
        check_tree(query, child)


def _check_part(query: Query, tree: Join, children: list[frozenset[str]]) -> None:
    """Refuse inputs of one join that have streams of one part, and share no key."""
    connected, waiting = frozenset[str]().union(*children[:1]), children[1:]
    while waiting:
        found = next((part for part in waiting if shared_keys(query, (connected, part))), None)
        if found is None:
            pairs = "; ".join(" = ".join(alias for alias, _ in key.terms) for key in query.keys)
            raise JobError(
                f'the inputs of join "{tree}" are not connected',
                detail=f"No equality leads from {', '.join(sorted(connected))} to the others. Equalities: {pairs}.",
                hint='Use plan = "left-deep", or a tree whose joins are each connected by equalities.',
            )
        connected |= found
        waiting.remove(found)
