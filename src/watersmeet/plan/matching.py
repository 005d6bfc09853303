"""What two plans have in common, and what the second needs that the first does not have.

They are of one query, or the second is of what that was changed to (`changed_query.py`).

States are matched by their names, which say what they hold: one that both plans name is kept by reference, whatever
join it belongs to in each. All others of the new plan are *made*. A state that the former plan keeps on another key is
hashed anew, be it of an input or of a join; what neither has is joined from these, by the joins of the new plan below
it, of which only those run whose results a made state holds.

A departure from the published algorithm (seeds map: DISS 1615-1633), which walks both trees side by side and looks at
the children of a matched state too (trap 3): here every state of the plan is looked at by itself, so that nothing
hinges on the walk.

Limit: what a join of one stage with the join above it makes is never taken from a state on another key, as it arrives
nowhere; it is joined again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from watersmeet.model.expressions import Expr
from watersmeet.model.ids import OperatorName, StateName
from watersmeet.plan.changed_query import added_filters
from watersmeet.plan.layout.walk import state_name
from watersmeet.plan.physical import Feed, FromInput, FromOperator, PhysicalPlan, Stage, State


@dataclass(frozen=True)
class FedPort:
    """A port of the new plan that gets its rows from a state of the former plan."""

    port: int
    state: State  # as rows arrive there
    source: State
    filters: tuple[Expr, ...] = ()  # that its rows have not been through: the query was changed


@dataclass(frozen=True)
class Matching:
    """`at_once`: rows from before can be taken in only all together, since a join that runs reads those of one input
    from several states that are kept: what is a part of the rows in one of them is none in another."""

    kept: tuple[StateName, ...]  # in both
    dropped: tuple[StateName, ...]  # in the former alone
    made: tuple[StateName, ...]  # in the new one alone
    operators: frozenset[OperatorName]  # in both: joins of the same states
    joins: frozenset[OperatorName]  # of the new plan, whose results the made states hold
    ports: tuple[FedPort, ...]
    at_once: bool = False


@dataclass(frozen=True)
class _Entry:
    """An input of a join of the new plan, with the state of the former plan that has its rows, if there is one."""

    feed: Feed
    ports: Mapping[int, State]
    source: State | None

    def is_sent(self, joins: frozenset[OperatorName]) -> bool:
        """Whether its join needs rows to be sent that are kept already."""
        return self.feed.join in joins and not self.feed.reads_kept


def match_plans(former: PhysicalPlan, new: PhysicalPlan) -> Matching:
    """What `new` can take from `former`, and what has to be made for it."""
    kept = tuple(name for name in new.states if name in former.states)
    made = frozenset(name for name in new.states if name not in former.states)
    entries = [_entry(former, stage, feed) for stage in new.stages for feed in stage.feeds]
    joins = _joins(entries, made)
    return Matching(
        kept=kept,
        dropped=tuple(name for name in former.states if name not in new.states),
        made=tuple(name for name in new.states if name in made),
        operators=frozenset(new.operators.keys() & former.operators.keys()),
        joins=joins,
        ports=tuple(_fed(entries, made, joins, added_filters(former.query, new.query))),
        at_once=any(
            len({state.name for state in entry.feed.states} - made) > (entry.source is not None)
            for entry in entries
            if entry.is_sent(joins)
        ),
    )


def _entry(former: PhysicalPlan, stage: Stage, feed: Feed) -> _Entry:
    aliases = feed.states[0].aliases
    ports = {port: state for port, state in stage.ports.items() if state.aliases == aliases}
    held = [state for state in former.states.values() if state.aliases == aliases]
    if isinstance(feed.source, FromOperator):
        held = [state for state in held if ports and all(_serves(former, state, other) for other in ports.values())]
    # Of several, one that this join keeps too: parts of its rows are the same parts there.
    here = {state.name for state in feed.states}
    return _Entry(feed, ports, min(held, key=lambda state: state.name not in here, default=None))


def _serves(plan: PhysicalPlan, state: State, other: State) -> bool:
    """Whether rows of a state of `plan`, less some columns and hashed on another key, are those of another one.

    Each has to be named by its columns and by all filters and predicates of its inputs. So never where rows carry the
    hash that they had in a join, which is no part of a name: that join may have another key.
    """
    by_content = (state_name(plan.query, each.aliases, each.key_fields, each.fields) for each in (state, other))
    return set(other.fields) <= set(state.fields) and (state.name, other.name) == tuple(by_content)


def _joins(entries: Sequence[_Entry], made: frozenset[StateName]) -> frozenset[OperatorName]:
    """The joins whose results are needed, found from the top down: a join that runs may need those below it."""
    needed: set[OperatorName] = set()
    for entry in reversed(entries):
        if isinstance(entry.feed.source, FromOperator) and entry.source is None:
            missing = any(state.name in made for state in entry.feed.states)
            if missing or entry.is_sent(frozenset(needed)):
                needed.add(entry.feed.source.name)
    return frozenset(needed)


def _fed(
    entries: Sequence[_Entry],
    made: frozenset[StateName],
    joins: frozenset[OperatorName],
    added: Mapping[str, tuple[Expr, ...]],
) -> Iterator[FedPort]:
    """The ports whose state is to be made, or whose rows a join that runs can have in no other way."""
    for entry in entries:
        comes_from = entry.feed.source
        filters = added[comes_from.alias] if isinstance(comes_from, FromInput) else ()
        for port, state in entry.ports.items():
            if entry.source is not None and (state.name in made or entry.is_sent(joins)):
                yield FedPort(port, state, entry.source, filters)
