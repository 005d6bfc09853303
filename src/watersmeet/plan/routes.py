"""The routes of a routed join: for each input, the order in which its rows visit the others, and on which keys.

A row of one input is an origin: it probes a second input on the equalities between the two, the pair probes a third on
the equalities with either, and so on. An input is kept once for each key that it is probed on, so a hop takes a key
that its target is kept on already, if there is one among the equalities at hand, and checks the others afterwards.

Where no equality leads to any input that is left, the next one is visited on no key: it lies in slices of time, and the
row goes to all slots that have one within its windows (`model/slices.py`). A route of such visits alone is a ring.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.model.expressions import aliases_of
from watersmeet.plan.query import KeyClass, Query

Keys = tuple[KeyClass, ...]


@dataclass(frozen=True)
class Visit:
    """A visit to input number `input`: hashed on `keys`, while the equalities in `rest` are checked afterwards.

    Without keys it is a visit to slices of time.
    """

    input: int
    keys: Keys
    rest: Keys


def choose_routes(
    query: Query, parts: tuple[frozenset[str], ...], orders: tuple[tuple[int, ...], ...]
) -> tuple[tuple[Visit, ...], ...]:
    """For each of `parts`, its hops through the others: in the order wanted, as far as equalities reach."""
    kept: list[list[Keys]] = [[] for _ in parts]
    routes = []
    for origin, part in enumerate(parts):
        bound, waiting, route = part, list(orders[origin]), []
        while waiting:
            j = next((j for j in waiting if _between(query, bound, parts[j])), waiting[0])
            shared = _between(query, bound, parts[j])
            fitting = [keys for keys in kept[j] if set(keys) <= set(shared)]
            keys = max(fitting, key=len) if fitting else shared
            if not fitting:
                kept[j].append(keys)
            route.append(Visit(j, keys, tuple(key for key in shared if key not in keys)))
            bound |= parts[j]
            waiting.remove(j)
        routes.append(tuple(route))
    return tuple(routes)


def text_orders(query: Query, parts: tuple[frozenset[str], ...]) -> tuple[tuple[int, ...], ...]:
    """For each of `parts`, the others in the order of the text, for where nothing is known of them.

    Where no equality connects some of them, those come first that a condition connects with what is there already: to
    visit one that nothing is checked with makes a product.
    """
    everyone = range(len(parts))
    orders = tuple(tuple(j for j in everyone if j != i) for i in everyone)
    return orders if len(query.parts) == 1 else tuple(_checked_first(query, parts, i, orders[i]) for i in everyone)


def _checked_first(
    query: Query, parts: tuple[frozenset[str], ...], origin: int, others: tuple[int, ...]
) -> tuple[int, ...]:
    bound, waiting, found = parts[origin], list(others), list[int]()
    reads = [aliases_of(expr) for expr in query.predicates]
    while waiting:

        def is_checked(j: int, bound: frozenset[str] = bound) -> bool:
            both = bound | parts[j]
            return any(read <= both and read & bound and read & parts[j] for read in reads)

        near = (j for j in waiting if _between(query, bound, parts[j]) or is_checked(j))
        found.append(next(near, waiting[0]))
        waiting.remove(found[-1])
        bound |= parts[found[-1]]
    return tuple(found)


def _between(query: Query, bound: frozenset[str], part: frozenset[str]) -> Keys:
    return tuple(key for key in query.keys if key.aliases & bound and key.aliases & part)
