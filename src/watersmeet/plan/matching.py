"""What two plans have in common, and what the second needs that the first does not have.

They are of one query, or the second is of what that was changed to (`changed_query.py`).

States are matched by their names, which say what they hold: one that both plans name is kept by reference, whatever
join it belongs to in each. All others of the new plan are *made*: from the rows of their inputs, which some state of
the former plan keeps, by the joins of the new plan below them. Of these only those run whose results a made state
holds.

A departure from the published algorithm (seeds map: DISS 1615-1633), which walks both trees side by side and looks at
the children of a matched state too (trap 3): here every state of the plan is looked at by itself, so that nothing
hinges on the walk. The same state on another key has another name, and is made from rows of the streams again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.model.expressions import Expr
from watersmeet.model.ids import Alias, OperatorName, StateName
from watersmeet.plan.changed_query import added_filters
from watersmeet.plan.physical import FromInput, FromOperator, LeafPort, PhysicalPlan, State


@dataclass(frozen=True)
class FedPort:
    """A port of the new plan that gets the rows of its input again, from a state of the former plan."""

    leaf: LeafPort
    source: State
    filters: tuple[Expr, ...] = ()  # that its rows have not been through: the query was changed


@dataclass(frozen=True)
class Matching:
    kept: tuple[StateName, ...]  # in both
    dropped: tuple[StateName, ...]  # in the former alone
    made: tuple[StateName, ...]  # in the new one alone
    operators: frozenset[OperatorName]  # in both: joins of the same states
    joins: frozenset[OperatorName]  # of the new plan, whose results the made states hold
    ports: tuple[FedPort, ...]


def match_plans(former: PhysicalPlan, new: PhysicalPlan) -> Matching:
    """What `new` can take from `former`, and what has to be made for it."""
    kept = tuple(name for name in new.states if name in former.states)
    made = tuple(name for name in new.states if name not in former.states)
    joins = _joins(new, frozenset(made))
    added = added_filters(former.query, new.query)
    fed = _fed(new, frozenset(made), joins)
    ports = tuple(FedPort(leaf, _state_of(former, leaf.alias), added[leaf.alias]) for leaf in fed)
    return Matching(
        kept=kept,
        dropped=tuple(name for name in former.states if name not in new.states),
        made=made,
        operators=frozenset(new.operators.keys() & former.operators.keys()),
        joins=joins,
        ports=ports,
    )


def _joins(plan: PhysicalPlan, made: frozenset[StateName]) -> frozenset[OperatorName]:
    """The joins whose results are needed, found from the top down: a join that runs may need those below it."""
    needed: set[OperatorName] = set()
    for feed in (feed for stage in reversed(plan.stages) for feed in reversed(stage.feeds)):
        if isinstance(feed.source, FromOperator):
            missing = any(state.name in made for state in feed.states)
            if missing or (feed.join in needed and not feed.reads_kept):
                needed.add(feed.source.name)
    return frozenset(needed)


def _fed(plan: PhysicalPlan, made: frozenset[StateName], joins: frozenset[OperatorName]) -> Iterator[LeafPort]:
    """The ports whose state is to be made, or whose rows a join that runs can have in no other way."""
    for leaf in plan.leaves:
        stage = plan.stages[plan.port_stage[leaf.port]]
        sent = {
            feed.join for feed in stage.feeds if feed.source == FromInput(Alias(leaf.alias)) and not feed.reads_kept
        }
        if leaf.state.name in made or sent & joins:
            yield leaf


def _state_of(plan: PhysicalPlan, alias: str) -> State:
    """A state that keeps the rows of an input; every plan has one."""
    return next(state for state in plan.states.values() if state.aliases == (alias,))
