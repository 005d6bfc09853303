"""The driver: the one loop that both runtimes share. Nothing else commits while a run goes on.

It keeps an agenda of steps (`steps.py`), takes the first one, and puts what must follow before the rest. Whoever calls
takes turns: a batch and a round never overlap. A batch is: deliver, bring the run to what it was started with, take the
next steps of a change of the plan, ask the policies, run the tasks, commit, deliver, ask again, report, tidy.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple

from watersmeet.adapt.controller import Controller
from watersmeet.adapt.decisions.change_plan import ChangePlan
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.outcome import Outcome
from watersmeet.adapt.decisions.rescale import Rescale
from watersmeet.adapt.decisions.work import Work
from watersmeet.adapt.outlook import Moment
from watersmeet.errors import ResourceError
from watersmeet.model.origin import ByHand
from watersmeet.model.placement import check_slots
from watersmeet.model.routing import Groups
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.run import ask, batch, change_as_asked, deliver, migrate, set_out, settle
from watersmeet.run.deliver import DeliverFiles, Deliveries
from watersmeet.run.ending import Ending
from watersmeet.run.session import Executor, FindBacklogs, Session, SourceT
from watersmeet.run.steps import (
    ATTEMPTS,
    Ask,
    ChangeAsAsked,
    Migrate,
    RunBatch,
    RunRound,
    SetOut,
    Settle,
    Step,
    Taken,
    deliver_all,
    take,
)
from watersmeet.runtime.checkpoint import Checkpoint
from watersmeet.runtime.clock import Clock, WallClock
from watersmeet.runtime.events import EndEvent, Report, silent
from watersmeet.runtime.gathering import Gatherer
from watersmeet.runtime.make_spec import MakeSpec, by_standard_costs
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.manifest import Manifest
from watersmeet.state.updates import Update

# The files that say how steps are taken; each registers its own.
TAKEN_IN = (ask, batch, change_as_asked, deliver, migrate, set_out, settle)


class Story(NamedTuple):
    """What came of the steps that a caller asked for."""

    worked: bool  # whether any round ran, or a change of the plan went a step further
    outcomes: tuple[Outcome, ...]  # of decisions, in their order


class Driver(Generic[SourceT]):
    def __init__(
        self,
        plan: PhysicalPlan,
        checkpoint: Checkpoint,
        controller: Controller,
        executor: Executor[SourceT],
        deliver: DeliverFiles,
        report: Report = silent,
        clock: Clock | None = None,
        gatherer: Gatherer | None = None,
        make_spec: MakeSpec | None = None,
        start: StartPlan | None = None,
        find_backlogs: FindBacklogs = dict,
        at_end: Ending = Ending.CLOSED,
    ) -> None:
        """`start` holds what the run changes to before anything else; `at_end` says what ends with the input."""
        self.turn = threading.RLock()  # held by whoever works: a batch, or a round
        self.clock = clock or WallClock()
        self.at_end = at_end
        self.session: Session[SourceT] = Session(
            plan,
            checkpoint,
            controller,
            executor,
            Deliveries(deliver, gatherer),
            report,
            self.clock,
            make_spec or by_standard_costs(plan.query),
            find_backlogs,
            start,
        )
        self._before = checkpoint.manifest
        self._began: float | None = None

    @property
    def plan(self) -> PhysicalPlan:
        return self.session.plan

    @property
    def checkpoint(self) -> Checkpoint:
        return self.session.checkpoint

    @property
    def controller(self) -> Controller:
        return self.session.controller

    @property
    def manifest(self) -> Manifest:
        return self.session.manifest

    @property
    def migrating(self) -> bool:
        """Whether a change of the plan is under way."""
        return self.manifest.warming_up is not None

    @property
    def last_work(self) -> float:
        """When the last batch or round was done."""
        return self.session.last_work

    # --- what callers ask for ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Deliver what an earlier run may not have delivered, and change to what the run was started with."""
        self._take(*deliver_all(), ChangeAsAsked())

    def deliver_pending(self) -> None:
        """Deliver everything that is committed, not known to be delivered, and not to be gathered later."""
        self._take(*deliver_all())

    def run_batch(self, source: SourceT) -> Manifest:
        """Join one batch, commit and deliver it."""
        with self.turn:
            self._take(*deliver_all(), ChangeAsAsked())
            started = self.clock.now()
            self._began = started if self._began is None else self._began
            self._take(Migrate(), Ask(Moment.BEFORE_BATCH, then=RunBatch(source, started)))
            return self.manifest

    def run_idle(self) -> bool:
        """Do what is worth doing while the sources are silent; whether there was anything."""
        with self.turn:
            self.checkpoint.check_held()
            self._take(*deliver_all())
            if self.manifest.last_batch < 0:
                return False
            started = self.clock.now()
            if self._take(Migrate(started - self.last_work)).worked:
                return True
            return self._take(Ask(Moment.IDLE, then=RunRound(None, started))).worked

    def drain_step(self, ending: Ending, within: Groups | None = None) -> bool:
        """Run one round that emits what is owed, by these groups or by all; whether there was anything."""
        return self._take(Settle(ending, within, once=True)).worked

    def drain(self, ending: Ending, within: Groups | None = None) -> None:
        """Emit everything that is owed, by these groups or by all."""
        self._take(Settle(ending, within))

    def force(self, decisions: list[Decision]) -> Work:
        """Carry out decisions that the caller has made; the work that they leave for the next batch or round."""
        with self.turn:
            session = self.session
            return ask.carry_out(session, session.controller.effects(decisions, self.manifest, session.learned))

    def run_round(self, work: Work) -> Manifest:
        """Run a round of work after the last batch."""
        with self.turn:
            self._take(RunRound(Ending.OPEN, self.clock.now(), work))
            return self.manifest

    def note(self, updates: Sequence[Update]) -> None:
        """Commit what the caller has found out about its sources."""
        with self.turn:
            self.session.commit(updates)

    def end(self) -> None:
        """Note down what was delivered, and report the sums of this run."""
        session = self.session
        with self.turn:
            self._take(*deliver_all(at_once=True))
            if session.deliveries.delivered:
                session.commit([])
                self.checkpoint.tidy()
            batches = self.manifest.last_batch - self._before.last_batch
            seconds = 0.0 if self._began is None else self.clock.now() - self._began
            event = EndEvent.of(self._before, self.manifest, batches, seconds, session.take_decided())
        session.report(event.to_json(self.clock.utc_us()))

    def migrate(self, plan: str, by: str, reason: str, groups: Groups | None = None) -> Mapping[str, Any]:
        """Change the plan, of these groups or of all, or set out for it; the decision."""
        with self.turn:
            self._take(*deliver_all())
            change = ChangePlan(plan, by, self.manifest.last_batch + 1, reason, within=groups, origin=ByHand())
            set_out.check_change(self.session, change)
            return self._take(SetOut(change)).outcomes[-1].recorded

    def rescale(self, slots: int, reason: str) -> Mapping[str, Any]:
        """Have so many slots from the next batch on; the decision."""
        with self.turn:
            before = self.manifest.placement
            check_slots(slots, before.groups)
            decision = Rescale(before.slots, slots, self.manifest.last_batch + 1, reason, origin=ByHand())
            if slots != before.slots:
                self.checkpoint.check_held()
                self.force([decision])
                self._take(Ask(Moment.AFTER_BATCH))  # what a slot has in memory now may be too much
            return decision.to_json()

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _take(self, *steps: Step) -> Story:
        """Take these steps, and all that follow from them, one at a time."""
        with self.turn:
            agenda, worked, outcomes = list(steps), False, list[Outcome]()
            while agenda:
                step = agenda.pop(0)
                try:
                    taken = take(step, self.session)
                except ResourceError as error:
                    taken, agenda = self._end_attempt(error, [step, *agenda])
                agenda[:0] = taken.then
                worked |= taken.worked
                outcomes += [] if taken.outcome is None else [taken.outcome]
                self.session.validate()
            return Story(worked, tuple(outcomes))

    def _end_attempt(self, error: ResourceError, steps: list[Step]) -> tuple[Taken, list[Step]]:
        """End the attempt that these steps lead to: what comes of that, and the steps after it."""
        for place, step in enumerate(steps):
            if isinstance(step, ATTEMPTS) and (taken := migrate.fail(step, self.session, error)) is not None:
                return taken, steps[place + 1 :]
            if isinstance(step, ATTEMPTS):
                break
        raise error
