"""From a join graph and limits on CPU and memory to a plan: the strategies that a user can name.

- `mjoin-init` [Zhu06, ch. 5]: the mjoin with its best orders, then one intermediate state more at a time.
- `bjtree-init` [Zhu06, ch. 6]: the binary tree with least state, then one intermediate state less at a time.
- `exhaustive` [Zhu06, ch. 7]: all plans.
- `auto`: exhaustive where that is quick, else the better of the other two.

The first two stop at the first plan that qualifies. A departure: where no plan on their way does, they go on from the
best of them to its neighbours (`local_search.py`), then from the next best, until one qualifies or `EFFORT` is spent.
Where none qualifies it is the one least beyond the limits, so that a caller who must run something can. A strategy
never calls a plan qualified whose `cost` is beyond a limit. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from watersmeet.errors import JobError, did_you_mean
from watersmeet.optimize.cost import NO_LIMITS, Cost, Limits, PlannedTree, finish_plan
from watersmeet.optimize.estimates import DEFAULT_MODEL, CostModel, Estimates
from watersmeet.optimize.exhaustive import exhaustive
from watersmeet.optimize.local_search import improve
from watersmeet.optimize.min_state import min_state
from watersmeet.optimize.shape import Shape
from watersmeet.optimize.state_removal import remove_states
from watersmeet.optimize.state_selection import select_states
from watersmeet.plan.join_graph import JoinGraph

# Streams. 7 take 6 ms of CPU (10 the first time) and 8 take 30, so this stays under 50 ms on a busy machine too.
EXHAUSTIVE_UP_TO = 7

# In units of `Estimates.effort`, of some 8 µs. Tuned on random graphs: 20 streams stay under 100 ms, and with 8 streams
# the share of settings with a qualified plan is within 3 points of exhaustive search; 8000 found no more.
EFFORT = 6000


def mjoin_init(graph: JoinGraph, limits: Limits = NO_LIMITS, model: CostModel = DEFAULT_MODEL) -> PlannedTree:
    """Start from the mjoin, and keep intermediate states until the plan qualifies."""
    estimates = Estimates(graph, model)
    found = _search(estimates, limits, select_states(estimates, limits.memory, EFFORT))
    if found.steps == 0:
        reason = "the mjoin with its best probe orders"
    else:
        reason = f"kept {_states(found.shape)}, from the mjoin with {found.first}"
    return finish_plan(estimates, "mjoin-init", found.shape, limits, reason)


def bjtree_init(graph: JoinGraph, limits: Limits = NO_LIMITS, model: CostModel = DEFAULT_MODEL) -> PlannedTree:
    """Start from the binary tree with least state, and remove intermediate states until the plan qualifies."""
    estimates = Estimates(graph, model)
    found = _search(estimates, limits, remove_states(estimates, min_state(estimates)))
    if found.steps == 0:
        reason = "the binary tree with the least intermediate state"
    else:
        reason = f"left with {_states(found.shape)}, from the binary tree with {found.first}"
    return finish_plan(estimates, "bjtree-init", found.shape, limits, reason)


def auto(graph: JoinGraph, limits: Limits = NO_LIMITS, model: CostModel = DEFAULT_MODEL) -> PlannedTree:
    """Exhaustive search for up to 7 streams, else the better plan of mjoin-init and bjtree-init."""
    if len(graph.streams) <= EXHAUSTIVE_UP_TO:
        plan = exhaustive(graph, limits, model)
    else:
        plans = (mjoin_init(graph, limits, model), bjtree_init(graph, limits, model))
        plan = min(plans, key=lambda plan: limits.merit(plan.cost))
    return replace(plan, strategy="auto", reason=f"auto by {plan.reason}")


Strategy = Callable[[JoinGraph, Limits, CostModel], PlannedTree]
STRATEGIES: tuple[tuple[str, Strategy], ...] = (
    ("auto", auto),
    ("mjoin-init", mjoin_init),
    ("bjtree-init", bjtree_init),
    ("exhaustive", exhaustive),
)


def is_strategy(setting: str) -> bool:
    """Whether a plan setting names a strategy that searches for a plan, and not a plan.

    >>> is_strategy("auto"), is_strategy("((A B) C)"), is_strategy("left-deep")
    (True, False, False)
    """
    return setting in dict(STRATEGIES)


def find_strategy(name: str) -> Strategy:
    """The strategy of this name."""
    known = dict(STRATEGIES)
    if name not in known:
        raise JobError(
            f'unknown strategy "{name}"', detail=f"There are {', '.join(known)}.", hint=did_you_mean(name, known)
        )
    return known[name]


@dataclass(frozen=True)
class _Found:
    shape: Shape
    cost: Cost
    first: Cost  # of the plan that the search started from
    steps: int  # from there to this one


def _search(estimates: Estimates, limits: Limits, plans: Iterator[tuple[Shape, Cost]]) -> _Found:
    """The first plan that qualifies, or the best one that effort lets us meet."""
    shape, cost = next(plans)
    best = _Found(shape, cost, cost, 0)

    def unfinished() -> bool:
        return not limits.allow(best.cost) and estimates.effort < EFFORT

    passed = [(shape, cost)]

    def nearby() -> Iterator[tuple[Shape, Cost]]:
        for start in sorted(passed, key=lambda plan: limits.merit(plan[1])):
            yield from improve(estimates, limits, *start)

    steps = 0
    for source in (plans, nearby()):
        while unfinished() and (step := next(source, None)) is not None:
            steps += 1
            if source is plans:
                passed.append(step)
            if limits.merit(step[1]) < limits.merit(best.cost):
                best = _Found(*step, best.first, steps)
    return best


def _states(shape: Shape) -> str:
    count = len(shape) - 1
    return {0: "no intermediate state", 1: "1 intermediate state"}.get(count, f"{count} intermediate states")
