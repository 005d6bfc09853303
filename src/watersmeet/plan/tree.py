"""The shape of a plan: a tree whose leaves are query inputs and whose inner nodes are multi-way joins.

One node over all inputs is an mjoin, all nodes binary a bjtree, anything between a hybrid. A tree is pure shape: what
each node joins on, keeps and emits is worked out by `plan/layout/`. As text a node is its children in
parentheses: `((A B) C)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from watersmeet.errors import JobError, did_you_mean
from watersmeet.plan.query import KeyClass, Query


@dataclass(frozen=True)
class Leaf:
    alias: str

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset({self.alias})

    def __str__(self) -> str:
        return self.alias


@dataclass(frozen=True)
class Join:
    children: tuple[Tree, ...]

    def __post_init__(self) -> None:
        assert len(self.children) >= 2, "a join has two or more inputs"

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset().union(*(child.aliases for child in self.children))

    def __str__(self) -> str:
        return f"({' '.join(map(str, self.children))})"


Tree = Leaf | Join


def parse_tree(text: str, query: Query) -> Tree:
    """The tree that `text` describes, each input of the query exactly once."""
    tokens = re.findall(r"[()]|[^\s(),]+", text)
    tree, rest = _parse(tokens, text)
    if rest:
        raise JobError(f'plan "{text}" goes on after its end', detail=f'Left over: "{" ".join(rest)}".')
    named = [token for token in tokens if token not in "()"]
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
    return tree


def _parse(tokens: list[str], text: str) -> tuple[Tree, list[str]]:
    if not tokens or tokens[0] == ")":
        raise JobError(
            f'plan "{text}" is not a tree',
            hint='Write "mjoin", "left-deep", or a tree such as "((A B) C)".',
        )
    head, *rest = tokens
    if head != "(":
        return Leaf(head), rest
    children: list[Tree] = []
    while rest and rest[0] != ")":
        child, rest = _parse(rest, text)
        children.append(child)
    if not rest:
        raise JobError(f'plan "{text}" lacks a closing parenthesis')
    if len(children) < 2:
        raise JobError(f'plan "{text}" has a join of fewer than two inputs')
    return Join(tuple(children)), rest[1:]


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

    The binder refuses a disconnected join graph, so every input finds its place.
    """
    first, *waiting = query.aliases
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
    """One node over all inputs, in the order of the text."""
    return Join(tuple(map(Leaf, query.aliases)))


def choose_tree(query: Query, plan: str) -> Tree:
    """The tree that the setting `plan` names. What `auto` means is `optimize/choose.py`'s to say."""
    if plan == "left-deep":
        return left_deep(query)
    if plan == "mjoin":
        tree: Tree = mjoin(query)
    elif "(" in plan or ")" in plan:
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
    """Refuse a tree that has a node whose inputs the equalities do not connect: it would be a cartesian product."""
    if isinstance(tree, Leaf):
        return
    connected, *waiting = [child.aliases for child in tree.children]
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
    for child in tree.children:
        check_tree(query, child)
