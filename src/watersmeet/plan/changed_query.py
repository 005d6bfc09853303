"""A query that differs from the one that a state was made by, and can go on with it all the same.

The same streams under the same aliases, which others have seen to, joined on the same keys. What may differ: the
columns that are selected, as far as the state holds them; filters and predicates, of which there may be more; windows,
which may be narrower; lateness.

Rows that were emitted stay as they were: from the change on, new rows meet the rows that are kept, by the new query.
Anything else is refused, with what differs. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from watersmeet.model.expressions import Expr, columns_of, describe
from watersmeet.model.streams import Range, Window
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan, time_field
from watersmeet.plan.query import Query, QueryInput
from watersmeet.plan.tree import bare


@dataclass(frozen=True)
class QueryChange:
    """What is other in the new query, as sentences, and what stands against it."""

    told: tuple[str, ...]
    refused: tuple[str, ...]


def compare_queries(
    former: Query, new: Query, show: Callable[[Expr], str] = describe, show_window: Callable[[Window], str] = str
) -> QueryChange:
    """What differs, and what stands against it. Whether all columns are held is for `missing_columns` to say."""
    if former.aliases != new.aliases:
        inputs = f"The inputs were {', '.join(former.aliases)}, and are {', '.join(new.aliases)} now."
        return QueryChange((), (inputs,))
    told: list[str] = []
    refused: list[str] = []
    for before, after in zip(former.inputs, new.inputs, strict=True):
        if before.window != after.window:
            was, now = show_window(before.window), show_window(after.window)
            if _is_narrower(before, after):
                told.append(f"The window of {after.alias} was {was}, and becomes {now}.")
            else:
                refused.append(f"The window of {after.alias} was {was}, and rows that {now} needs have gone.")
        told += [
            f"Rows of {after.alias} are filtered by {text} too." for text in _added(before.filters, after.filters, show)
        ]
        refused += [
            f"Rows of {after.alias} that do not satisfy {text} were not kept."
            for text in _added(after.filters, before.filters, show)
        ]
        if before.stream.lateness != after.stream.lateness:
            told.append(
                f'The lateness of stream "{after.stream.name}" becomes {after.stream.lateness}, from the next row on.'
            )
    if _keys(former) != _keys(new):
        refused.append("The equalities that inputs are joined on are others.")
    told += [f"Results must satisfy {text} too." for text in _added(former.predicates, new.predicates, show)]
    refused += [f"Results had to satisfy {text} before." for text in _added(new.predicates, former.predicates, show)]
    if [(c.name, describe(c.expr)) for c in former.select] != [(c.name, describe(c.expr)) for c in new.select]:
        told.append("Other columns are selected.")
    return QueryChange(tuple(told), tuple(refused))


def missing_columns(former: PhysicalPlan, new: PhysicalPlan) -> list[str]:
    """What the new plan needs of rows that the state of the former does not hold.

    What is there for the sake of a filter above a join counts on neither side: rows that had passed it need not have
    that column, and it is not looked at in those.
    """
    held, needed = _columns(former), _columns(new)
    for alias, filters in added_filters(former.query, new.query).items():
        needed[alias] |= {column.field_name for expr in filters for column in columns_of(expr)}
    found = sorted(name for alias, names in needed.items() for name in names - held[alias])
    times = {time_field(alias) for alias in new.query.aliases}
    return [f"event times of {name[1:]}" if name in times else name for name in found]


def added_filters(former: Query, new: Query) -> dict[str, tuple[Expr, ...]]:
    """Filters of each input that its kept rows have not been through."""
    known = {entry.alias: set(map(describe, entry.filters)) for entry in former.inputs}
    return {
        entry.alias: tuple(expr for expr in entry.filters if describe(expr) not in known[entry.alias])
        for entry in new.inputs
    }


def _columns(plan: PhysicalPlan) -> dict[str, set[str]]:
    """The columns of each input that are kept where all filters stand at their inputs."""
    states = lay_out(plan.query, bare(plan.spec.tree)).states.values()
    return {state.aliases[0]: {name for name, _ in state.fields} for state in states if len(state.aliases) == 1}


def _added(former: Iterable[Expr], new: Iterable[Expr], show: Callable[[Expr], str]) -> list[str]:
    known = set(map(describe, former))
    return [show(expr) for expr in new if describe(expr) not in known]


def _keys(query: Query) -> list[Sequence[tuple[str, str]]]:
    return [[(alias, describe(term)) for alias, term in key.terms] for key in query.keys]


def _is_narrower(before: QueryInput, after: QueryInput) -> bool:
    old, new = (entry.window.width if isinstance(entry.window, Range) else None for entry in (before, after))
    return old is None or (new is not None and new <= old)
