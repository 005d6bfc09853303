"""Going over to another plan, and what comes before and after that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Draft, carry_out
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.policies.migrate import find_road
from watersmeet.adapt.policies.migrate.road import learn_road
from watersmeet.adapt.trials import PRICE_BY_MODEL, PRICE_FOUND, close_trials, forget_lessons, open_trial
from watersmeet.model.origin import origin_from_json
from watersmeet.model.routing import Groups
from watersmeet.model.segments import ranges_from_json
from watersmeet.plan.spec import PlanSpec
from watersmeet.state.learned import MERGE, RING, SLOTS, Learned, Look, Trial
from watersmeet.state.learned import PLAN as PLAN_TRIAL
from watersmeet.state.taken import PLAN, Taken
from watersmeet.state.updates import RecordDecision, SetLibrary


@dataclass(frozen=True)
class ChangePlan(Decision):
    """Go over to another plan, by one of the ways of `policies/migrate/`, before batch `before_batch`."""

    plan: str  # as a setting has it
    by: str
    before_batch: int
    reason: str
    trial: Trial | None = None
    found_by: str = ""  # how the plan was come to, where nobody named it
    within: Groups | None = None  # the groups that are to have it; None: all
    review: Review | None = None  # of the last change, if that was due
    spec: PlanSpec | None = None  # the plan in full, as it was priced; None: whoever begins the change makes it


@dataclass(frozen=True)
class LookAtPlan(Decision):
    """A look at the plan found this; see `policies/replan/looks.py` and `library.py`."""

    look: Look
    library: tuple[Mapping[str, Any], ...] | None = None  # None: as it was
    search_seconds: float | None = None  # that a full search is thought to take now; None: as before


@dataclass(frozen=True)
class BeginMigration(Decision):
    """A change of the plan is under way, which `ChangePlan` will be the end of."""

    plan: str
    by: str
    before_batch: int
    reason: str


@dataclass(frozen=True)
class MigrationAbandoned(Decision):
    """A change of the plan came to nothing, and the former plan goes on."""

    plan: str
    by: str
    before_batch: int
    reason: str
    within: Groups | None = None
    asked: str = ""  # the plan, as it was named


@carry_out.register
def _(decision: ChangePlan, draft: Draft) -> None:
    """The runtime records it when it has come to the plan, or sets out for it."""
    if decision.review is not None:
        carry_out(replace(decision.review, origin=decision.origin), draft)
    draft.learned = open_trial(draft.learned, decision.trial)
    draft.work.append(decision)


@carry_out.register
def _(decision: LookAtPlan, draft: Draft) -> None:
    draft.learned = replace(draft.learned, look=decision.look)
    if decision.search_seconds is not None:
        draft.learned = replace(draft.learned, search_seconds=decision.search_seconds)
    if decision.library is not None:
        draft.updates.append(SetLibrary(decision.library))


def after_change(learned: Learned, told: Mapping[str, Any], next_batch: int) -> Learned:
    """What is known once another plan answers, by the decision `told`: what that took, and what is to be reviewed.

    What came before under the former plan is no trend of this one, and says nothing of its slots. Where nothing was
    expected of the change, what was expected of the former plan cannot be compared any more.
    """
    trials = [trial for trial in learned.trials if trial.kind == PLAN_TRIAL]
    own = next((t for t in trials if (t.what, t.at_batch) == (told["plan"], told["before_batch"])), None)
    roads, seconds = learned.roads, told["seconds"]
    if told["rows"]:
        road = find_road(told["by"])
        known = {} if own is None else own.notes
        model = known.get(PRICE_BY_MODEL, road.price(told["rows"], None, 0.0))
        roads = learn_road(roads, road.name, model, seconds)
    learned = replace(learned, roads=roads, recent={}, resizing=None)
    learned = forget_lessons(close_trials(learned, PLAN_TRIAL, MERGE, SLOTS, RING), SLOTS, RING)
    for trial in trials:
        if trial.of and trial != own:  # of the groups of another slot
            learned = open_trial(learned, trial)
    if own is None:
        return learned
    return open_trial(learned, replace(own, at_batch=next_batch, notes={**own.notes, PRICE_FOUND: seconds}))


def record_change(told: Mapping[str, Any]) -> RecordDecision:
    """The update that records a change of the plan, its beginning or its failure: no step asks for it a second time."""
    within = told["within"]
    groups = None if within is None else ranges_from_json(within)
    origin = origin_from_json(told["origin"])
    return RecordDecision(told, Taken(PLAN, told["before_batch"], origin, told["asked"], groups))
