"""The routes of a routed join: for each input, the order in which its rows visit the others, and on which keys.

A row of one input is an origin: it probes a second input on the equalities between the two, the pair probes a third on
the equalities with either, and so on. An input is kept once for each key that it is probed on, so a hop takes a key
that its target is kept on already, if there is one among the equalities at hand, and checks the others afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.plan.query import KeyClass, Query

Keys = tuple[KeyClass, ...]


@dataclass(frozen=True)
class Visit:
    """A visit to input number `input`: hashed on `keys`, while the equalities in `rest` are checked afterwards."""

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
            j = next(j for j in waiting if _between(query, bound, parts[j]))
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


def _between(query: Query, bound: frozenset[str], part: frozenset[str]) -> Keys:
    return tuple(key for key in query.keys if key.aliases & bound and key.aliases & part)
