"""What two plans have in common, and what the second needs that the first does not have.

They are of one query, or the second is of what that was changed to (`changed_query.py`).

States are matched by their names, which say what they hold: one that both plans name is kept by reference, whatever
join it belongs to in each. All others of the new plan are *made*. A state that the former plan keeps on another key is
hashed anew, be it of an input or of a join; what neither has is joined from these, by the joins of the new plan below
it, of which only those run whose results a made state holds.

A departure from the published algorithm (seeds map: DISS 1615-1633), which walks both trees side by side and looks at
the children of a matched state too (trap 3): here every state of the plan is looked at by itself, so that nothing
hinges on the walk.

Filters may stand elsewhere in the new plan (DISS 13.1: state filtering). One that is pushed down to its input is
applied to the rows that a port gets; one that is pulled up finds rows that have passed it, which are marked as such. A
column that nobody but that filter needs is not held for these rows, and is NULL where the new state has it (DISS 13.2:
state stuffing): nobody looks at it, because of the mark.

Rows of an input that the new plan weighs, and the former did not, are weighed on their way (DISS 14.1). The other way
round there is none: rows that were combined cannot be told apart. So an input that was weighed stays so, and is at most
not combined any more (`tree.still_weighed`), which leaves its states what they are.

Limits: what a join of one stage with the join above it makes is never taken from a state on another key, as it arrives
nowhere; it is joined again. So is what awaits a filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from watersmeet.errors import InternalError, JobError
from watersmeet.model.expressions import Expr, columns_of, describe
from watersmeet.model.ids import OperatorName, StateName
from watersmeet.model.slices import SliceReach
from watersmeet.model.weights import is_weighed_name
from watersmeet.plan.layout.walk import state_name
from watersmeet.plan.physical import Feed, Fields, FromInput, FromOperator, LeafPort, PhysicalPlan, Stage, State


@dataclass(frozen=True)
class FedPort:
    """A port of the new plan that gets its rows from a state of the former plan."""

    port: int
    state: State  # as rows arrive there
    source: State
    filters: tuple[tuple[Expr, str], ...] = ()  # to apply, each with the column that may say which rows have passed it
    passed: Mapping[str, bool] = field(default_factory=dict)  # for columns that say this, what it is for all rows
    stuffed: Fields = ()  # columns that the rows do not have
    reach: SliceReach | None = None  # of rows that go to every slot which has a slice within it


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
        ports=tuple(_fed(former, new, entries, made, joins)),
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
    by_content = (state_name(plan.query, each.aliases, each.key, each.fields) for each in (state, other))
    alike = _weighed_fields(state) == _weighed_fields(other)  # a row of the one stands for as many as of the other
    return alike and set(other.fields) <= set(state.fields) and (state.name, other.name) == tuple(by_content)


def _weighed_fields(state: State) -> set[str]:
    return {name for name, _ in state.fields if is_weighed_name(name)}


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
    former: PhysicalPlan,
    new: PhysicalPlan,
    entries: Sequence[_Entry],
    made: frozenset[StateName],
    joins: frozenset[OperatorName],
) -> Iterator[FedPort]:
    """The ports whose state is to be made, or whose rows a join that runs can have in no other way."""
    leaves = {leaf.port: leaf for leaf in new.leaves}
    for entry in entries:
        for port, state in entry.ports.items():
            if entry.source is not None and (state.name in made or entry.is_sent(joins)):
                fed = FedPort(port, state, entry.source, reach=new.reaches.get(port))
                yield _of_input(former, new, leaves[port], fed) if isinstance(entry.feed.source, FromInput) else fed


def _of_input(former: PhysicalPlan, new: PhysicalPlan, leaf: LeafPort, fed: FedPort) -> FedPort:
    """With what becomes of the filters of an input: the rows have been through those that stood there."""
    held = {name for name, _ in fed.source.fields}
    applied = set(map(describe, former.filters_at(leaf.alias)))
    filters = [expr for expr in leaf.filters if describe(expr) not in applied]
    # Rows that may have passed a filter which stands above a join in both plans have a column that says so.
    is_passed = {each.passed.field_name: describe(each.expr) in applied for each in leaf.raised}
    weighed = set[str]()  # what rows get as they are weighed
    if fed.state.weighing is not None:
        weighed = {column.field_name for column in fed.state.weighing.columns}
    elif fed.source.weighing is not None:
        raise InternalError(f"rows of {leaf.alias} that were put together cannot be told apart again")
    stuffed = tuple(entry for entry in fed.state.fields if entry[0] not in held | is_passed.keys() | weighed)
    excused = {c.field_name for each in leaf.raised if describe(each.expr) in applied for c in columns_of(each.expr)}
    if missing := [name for name, _ in stuffed if name not in excused]:
        raise JobError(
            f"the state does not hold all that the plan {new.tree} needs",
            detail=f"Of the rows that it keeps it has no {', '.join(missing)}.",
        )
    return replace(
        fed,
        filters=tuple((expr, new.query.passed_column(leaf.alias, expr).field_name) for expr in filters),
        passed={name: known for name, known in is_passed.items() if known or name not in held},
        stuffed=stuffed,
    )
