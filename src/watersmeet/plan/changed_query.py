"""A query that differs from the one that a state was made by, and can go on with it all the same.

The same streams under the same aliases, which others have seen to, joined on the same keys. What may differ: the
columns that are selected, as far as the state holds them; filters and predicates, of which there may be more; windows,
those for pairs of inputs too, which may be narrower, but not windows of rows; lateness.

Windows are compared in their closed form (`model/pair_windows.py`): if no pair has a wider bound than before, every row
that the new query needs has been kept, and every result of it would have been one before.

Where results are grouped, what is kept of groups holds rows that were joined before. So the rows that are joined, the
groups and their aggregates stay as they are; what is selected of them, and HAVING, may differ.

Rows that were emitted stay as they were: from the change on, new rows meet the rows that are kept, by the new query.
Anything else is refused, with what differs. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from watersmeet.model.aggregates import Partial, aggregate_column
from watersmeet.model.expressions import Expr, columns_of, describe
from watersmeet.model.streams import Rows, Window
from watersmeet.plan.count_windows import own_predicates
from watersmeet.plan.layout import lay_out
from watersmeet.plan.pair_windows import kept_text
from watersmeet.plan.physical import PhysicalPlan, time_field
from watersmeet.plan.query import Query, QueryWindow
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
            if isinstance(before.window, Rows) or isinstance(after.window, Rows):
                refused.append(f"The window of {after.alias} was {was}, and rows are not counted as {now} needs it.")
            elif _is_kept(former, new, after.alias):
                told.append(f"The window of {after.alias} was {was}, and becomes {now}.")
            else:
                refused.append(f"The window of {after.alias} was {was}, and rows that {now} needs have gone.")
        elif not _is_kept(former, new, after.alias):
            was, now = (kept_text(query, query.reach, after.alias) for query in (former, new))
            refused.append(f"Rows that are needed now have gone: {was}; now {now}.")
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
    were, are = own_predicates(former), own_predicates(new)
    told += [f"Results must satisfy {text} too." for text in _added(were, are, show)]
    implied = {describe(window.expr) for window in former.pair_windows if _follows(window, new)}
    lost = [expr for expr in were if describe(expr) not in implied]
    refused += [f"Results had to satisfy {text} before." for text in _added(are, lost, show)]
    refused += _of_groups(former, new)
    if _selected(former) != _selected(new):
        told.append("Other columns are selected.")
    if _having(former) != _having(new):
        told.append("What groups must satisfy to be emitted (HAVING) is other.")
    return QueryChange(tuple(told), tuple(refused))


def _of_groups(former: Query, new: Query) -> list[str]:
    """What stands against a change where there are groups: what is kept of them cannot be made anew from rows."""
    if former.group_by is None and new.group_by is None:
        return []
    if former.group_by is None or new.group_by is None:
        return ["The results are grouped in one of the two, and not in the other."]
    found = []
    kept = [
        ([describe(expr) for expr in each.groups], [_partial(part) for part in each.partials], each.slide_us)
        for each in (former.group_by, new.group_by)
    ]
    if kept[0] != kept[1] and _sorted(kept[0]) == _sorted(kept[1]):
        found.append("The groups and what is computed of them are the same in another order than they are kept in.")
    elif kept[0] != kept[1]:
        found.append("The groups are others, or what is computed of them is, or how often they are emitted.")
    if _joined(former) != _joined(new):
        found.append("The groups have rows in them that the other query would not join.")
    return found


def _selected(query: Query) -> list[tuple[str, object]]:
    return [(column.name, _meaning(query, column.expr)) for column in query.select]


def _having(query: Query) -> object:
    group_by = query.group_by
    return None if group_by is None or group_by.having is None else _meaning(query, group_by.having)


def _meaning(query: Query, expr: Expr) -> object:
    """What an expression says of results. Aggregates are called by their place there, so they are added."""
    aggregates = () if query.group_by is None else query.group_by.aggregates
    read = set(columns_of(expr))
    return describe(expr), [
        (entry.function, None if entry.arg is None else describe(entry.arg))
        for place, entry in enumerate(aggregates)
        if aggregate_column(place, entry) in read
    ]


def _sorted(kept: tuple[list[str], list[tuple[str, str]], int | None]) -> tuple[object, ...]:
    groups, partials, slide_us = kept
    return sorted(groups), sorted(partials), slide_us


def _partial(part: Partial) -> tuple[str, str]:
    return part.function, "*" if part.arg is None else describe(part.arg)


def _joined(query: Query) -> tuple[object, ...]:
    """What says which rows a query joins, beside its keys."""
    inputs = [(entry.window, sorted(map(describe, entry.filters))) for entry in query.inputs]
    return inputs, sorted(map(describe, query.predicates))


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


def _is_kept(former: Query, new: Query, alias: str) -> bool:
    """Whether rows of an input were kept for as long as they are needed now, whoever needs them."""
    others = (other for other in new.aliases if other != alias)
    return all(_is_within(new.reach.most_us(alias, k), former.reach.most_us(alias, k)) for k in others)


def _follows(window: QueryWindow, query: Query) -> bool:
    """Whether the windows of a query say as much."""
    return all(_is_within(query.reach.most_us(each.first, each.second), each.most_us) for each in window.bounds)


def _is_within(bound: int | None, other: int | None) -> bool:
    return other is None or (bound is not None and bound <= other)
