"""The driver: the one loop that both runtimes share. Nothing else commits.

A batch: ask the controller, run, commit, deliver, ask again, report, tidy. Rounds of work between batches (merges) go
through the same steps. Whoever calls takes turns: a batch and a round never overlap.

Delivery: what is committed stays listed as undelivered until its delivery is known, however many commits follow. It is
marked as delivered with the next commit, whatever that is for, or when the run ends. So whatever dies, the next run
finds what may not have been delivered, and delivers it again, the oldest first, before anything else. Its files wait
for as long as it is listed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from watersmeet import faults
from watersmeet.adapt.controller import Controller
from watersmeet.adapt.decisions import ChangePlan, Decision, MigrationAbandoned, Work, for_people, to_json
from watersmeet.adapt.effects import Effects
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.migrate import find_road
from watersmeet.errors import InternalError, ResourceError
from watersmeet.model.ids import DeliveryId
from watersmeet.model.stretches import Stretch
from watersmeet.optimize.choose import choose_plan
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.matching import match_plans
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec, spec_of
from watersmeet.runtime.ahead import AheadNotes, TimesToFind, take_limits
from watersmeet.runtime.checkpoint import Checkpoint
from watersmeet.runtime.clock import Clock, WallClock
from watersmeet.runtime.commit import commit_batch
from watersmeet.runtime.context import BatchContext, watermarks_us
from watersmeet.runtime.cutting import count_cut
from watersmeet.runtime.events import EndEvent, Report, StartEvent, batch_event, silent, warn
from watersmeet.runtime.gathering import Gatherer
from watersmeet.runtime.reports import StreamReport, TaskReport, merge_stream_reports
from watersmeet.runtime.seeding import Seeding
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Delivery, Manifest, Track
from watersmeet.state.table import AtVersion
from watersmeet.state.updates import AddSegment, Learn, MarkDelivered, RecordDecision, SwitchPlan, Update

SourceT = TypeVar("SourceT", contravariant=True)
Deliver = Callable[[Delivery], Sequence[Folder] | None]  # the folders, if any, that its files have come to


# The spec of a plan that a setting names, by what a manifest has measured, with lineage or not; and why it is that one.
MakeSpec = Callable[[str, Manifest, bool], tuple[PlanSpec, str]]


def _by_standard_costs(query: Query) -> MakeSpec:
    """For runs that nobody has told what this machine is like."""

    def make_spec(plan: str, manifest: Manifest, lineage: bool) -> tuple[PlanSpec, str]:
        chosen = choose_plan(query, plan, Statistics(measured=manifest.measured))
        return spec_of(query, chosen.tree, chosen.orders, lineage), chosen.reason

    return make_spec


class Executor(Protocol[SourceT]):
    """Runs the tasks of a batch somewhere."""

    def run(self, context: BatchContext, source: SourceT | None) -> tuple[list[StreamReport], list[TaskReport]]:
        """Prepare the rows of `source`, run all stages, and gather the reports. None: a round without new rows.

        What the reports name is on disk when it returns, or handed to `Checkpoint.sync_first`.
        """

    def make_states(self, seeding: Seeding) -> list[TaskReport]:
        """Make the states of a plan that is to take over. The same holds of what the reports name."""

    def find_stretches(self, look: TimesToFind, source: SourceT) -> list[Stretch]:
        """The stretches of time that have rows in `source`, in any order and in parts."""


class Driver(Generic[SourceT]):
    def __init__(
        self,
        plan: PhysicalPlan,
        checkpoint: Checkpoint,
        controller: Controller,
        executor: Executor[SourceT],
        deliver: Deliver,
        report: Report = silent,
        clock: Clock | None = None,
        gatherer: Gatherer | None = None,
        make_spec: MakeSpec | None = None,
        asked_plan: str | None = None,
    ) -> None:
        """`asked_plan`: what the run is to change its plan to before it does anything else."""
        self.plan = plan
        self._make_spec = make_spec or _by_standard_costs(plan.query)
        self._asked_plan = asked_plan
        self.checkpoint = checkpoint
        self.controller = controller
        self.turn = threading.RLock()  # held by whoever works: a batch, or a round
        self._executor = executor
        self._deliver = deliver
        self._report = report
        self._clock = clock or WallClock()
        self._gatherer = gatherer
        self._waiting_since: dict[DeliveryId, float] = {}  # what this run has committed, and may gather
        self._before = checkpoint.manifest
        self._learned = checkpoint.manifest.learned
        self._delivered: dict[DeliveryId, Delivery] = {}  # since the last commit
        self._told: list[Mapping[str, Any]] = []  # decisions since the last event
        self._ahead = AheadNotes()
        self._began: float | None = None
        self.last_work = self._clock.now()

    @property
    def manifest(self) -> Manifest:
        return self.checkpoint.manifest

    # --- what callers ask for ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Report the start, and deliver what an earlier run may not have delivered."""
        self._report(StartEvent(self.plan.tree).to_json(self._clock.utc_us()))
        self.deliver_pending()
        self._change_as_asked()

    def deliver_pending(self, at_end: bool = False) -> None:
        """Deliver everything that is committed and not known to be delivered, the oldest first.

        Where results are gathered, those of this run wait until the oldest have waited long enough, or the run ends.
        """
        with self.turn:
            if self._gatherer is not None:
                self._gather(self._gatherer, at_end)
            for delivery in self.manifest.undelivered:
                if delivery.id not in self._delivered and delivery.id not in self._waiting_since:
                    self.checkpoint.check_held()
                    folders = self._deliver(delivery) or ()
                    self.checkpoint.sync_first(dict.fromkeys(folders, ()))  # before it is marked as delivered
                    self._delivered[delivery.id] = delivery

    def _gather(self, gatherer: Gatherer, at_end: bool) -> None:
        """Put what has waited long enough together, so that it can be delivered."""
        due = [entry for entry in self.manifest.undelivered if entry.id in self._waiting_since]
        if not due:
            return
        waited = self._clock.now() - self._waiting_since[due[0].id]
        if at_end or waited >= gatherer.every.total_seconds():
            self.checkpoint.check_held()
            if len(due) > 1 and (gathered := gatherer.gather(due, self.manifest)) is not None:
                self.checkpoint.sync_first(gatherer.files_of(gathered))
                faults.reach("before-gather")
                self._commit([gathered])
                faults.reach("after-gather")
                gatherer.discard(due, gathered)
            self._waiting_since = {}

    def run_batch(self, source: SourceT) -> Manifest:
        """Join one batch, commit and deliver it."""
        with self.turn:
            self.deliver_pending()
            self._change_as_asked()
            started = self._clock.now()
            self._began = started if self._began is None else self._began
            work = self._decide(Moment.BEFORE_BATCH)
            return self._run(work, source, started)

    def run_idle(self) -> bool:
        """Do what is worth doing while the sources are silent; whether there was anything."""
        with self.turn:
            self.checkpoint.check_held()
            self.deliver_pending()
            if self.manifest.batch is None:
                return False
            started = self._clock.now()
            work = self._decide(Moment.IDLE)
            if work:
                self._run(work, None, started)
            return bool(work)

    def drain_step(self, ended: bool) -> bool:
        """One round of emitting what is owed; whether there was anything. `ended`: no more rows will come."""
        with self.turn:
            if self.manifest.batch is None:
                return False
            started = self._clock.now()
            work = self._decide(Moment.END if ended else Moment.DRAIN)
            if work:
                self._run(work, None, started)
            return bool(work)

    def drain(self, ended: bool) -> None:
        """Emit everything that is owed."""
        with self.turn:
            while self.drain_step(ended):
                pass

    def force(self, decisions: list[Decision]) -> Work:
        """Carry out decisions that somebody else made; the work that they leave for the next batch or round."""
        with self.turn:
            return self._carry_out(self.controller.effects(decisions, self.manifest, self._learned))

    def run_round(self, work: Work) -> Manifest:
        """A round of work after the last batch."""
        with self.turn:
            return self._run(work, None, self._clock.now())

    def end(self) -> None:
        """Note down what was delivered, and report the sums of this run."""
        with self.turn:
            self.deliver_pending(at_end=True)
            if self._delivered:
                self._commit([])
                self.checkpoint.tidy()
            batches = self.manifest.last_batch - self._before.last_batch
            seconds = 0.0 if self._began is None else self._clock.now() - self._began
            event = EndEvent.of(self._before, self.manifest, batches, seconds, self._pop_told())
        self._report(event.to_json(self._clock.utc_us()))

    # --- the steps ---------------------------------------------------------------------------------------------------

    def _decide(self, moment: Moment) -> Work:
        """Ask, and carry out; ask again where groups were cut or the plan was changed: nothing else goes with that."""
        while True:
            effects = self._ask(moment)
            work = self._carry_out(effects)
            if effects.change is not None:
                self._change_plan(effects.change)
            elif not effects.cuts:
                return work

    def _ask(self, moment: Moment) -> Effects:
        marks = watermarks_us(self.plan, self.manifest)
        return self.controller.ask(moment, self.manifest, self._learned, marks)

    def _carry_out(self, effects: Effects) -> Work:
        """Commit what was decided; the work that is left for tasks."""
        counted = [count_cut(cut, self.plan, self.manifest, self.checkpoint.segments) for cut in effects.cuts]
        if updates := [*effects.updates, *counted]:
            faults.reach("before-spill")
            self._commit(updates)
            faults.reach("after-spill")
            self._learned = replace(self.manifest.learned, batch_seconds=self._learned.batch_seconds)
        self._told += effects.shown
        return effects.work

    # --- another plan ------------------------------------------------------------------------------------------------

    def migrate(self, plan: str, by: str, reason: str) -> Mapping[str, Any]:
        """Change the plan, now; the decision, as users are shown it."""
        with self.turn:
            self.deliver_pending()
            return self._change_plan(ChangePlan(plan, by, self.manifest.last_batch + 1, reason))

    def _change_as_asked(self) -> None:
        """Change to the plan that the settings of the run name, where its checkpoint has another."""
        with self.turn:
            if self._asked_plan is not None:
                plan, self._asked_plan = self._asked_plan, None
                self._change_plan(ChangePlan(plan, "auto", self.manifest.last_batch + 1, "the settings say so"), plan)

    def _change_plan(self, change: ChangePlan, asked: str | None = None) -> Mapping[str, Any]:
        """Go over to another plan by moving state, between two batches.

        First all that is owed is emitted: then every group has one generation, and what each state holds is all that
        it should. So the states that both plans have can be taken over, and the others made from them; all rows of a
        group are one generation of the new plan too, for no result among them is missing. One commit switches.
        """
        started, road = self._clock.now(), find_road(change.by)
        former, before = self.plan, self.manifest.answering
        spec, why = self._make_spec(change.plan, self.manifest, self.controller.watched)
        plan = lay_out_spec(former.query, spec)
        matching = match_plans(former, plan)
        told = {**to_json(change), "by": road, "from": former.tree, "plan": plan.tree}
        try:
            faults.reach("before-migration")
            self.drain(ended=False)
            if self.controller.owes(self.manifest):
                raise InternalError("results are owed after all of them were to be emitted")
            seeding = Seeding(plan, self.manifest, matching)
            tasks = self._executor.make_states(seeding) if matching.made and self.manifest.segments else []
        except ResourceError as error:
            abandoned = MigrationAbandoned(plan.tree, road, change.before_batch, f"{change.reason}: {error.primary}")
            self._commit([RecordDecision(to_json(abandoned))])
            self._told.append(self.manifest.decisions[-1])
            return self._told[-1]
        added = [segment for task in tasks for segment in task.added]
        told |= {
            "states_kept": len(matching.kept),
            "states_made": len(matching.made),
            "rows_made": sum(segment.rows for segment in added),
            "seconds": round(self._clock.now() - started, 6),
        }
        since = self.manifest.last_batch + 1
        track = Track(spec, why, since_batch=since, asked=before.asked if asked is None else asked)
        reopened = [state for state in matching.kept if former.operator_of.get(state) not in matching.operators]
        switch = SwitchPlan(track, matching.dropped, tuple(reopened), tuple(sorted(matching.operators)))
        faults.reach("before-switch")
        self._learned = replace(self._learned, expected=None)
        self._commit([switch, *map(AddSegment, added), RecordDecision(told)])
        faults.reach("after-switch")
        self.checkpoint.drop_later(scratch=[name for task in tasks for name in task.scratch])
        decision = self.manifest.decisions[-1]
        self._told.append(decision)
        self.plan = plan
        self.controller = self.controller.follow(plan)
        self._decide(Moment.AFTER_BATCH)  # what is in memory now may be too much
        self._tidy()
        return decision

    def _run(self, work: Work, source: SourceT | None, started: float) -> Manifest:
        """Run tasks and commit what they did, then all that follows a commit of results."""
        context = BatchContext(
            self.plan,
            self.manifest,
            self.controller.ledgers,
            work,
            new_rows=source is not None,
            watched=self.controller.watched,
            limits_us={} if source is None else self._take_limits(source),
        )
        synced = self.checkpoint.sync_seconds
        streams, tasks = self._executor.run(context, source)
        ran = self._clock.now()
        commit_batch(
            self.checkpoint,
            context,
            streams,
            tasks,
            self.controller.settings.smoothing,
            self._learned,
            self._marks(),
        )
        commit_seconds = self._clock.now() - ran
        sync_seconds = self.checkpoint.sync_seconds - synced + sum(task.sync_seconds for task in tasks)
        self._let_go_of_delivered()
        if self._gatherer is not None:
            self._waiting_since[self.manifest.undelivered[-1].id] = self._clock.now()
        self._learned = self.manifest.learned
        for report in streams:
            self.checkpoint.files.add(report.stream, report.files)
        self.checkpoint.drop_later(scratch=[name for task in tasks for name in task.scratch])
        self.deliver_pending()
        seconds = self._clock.now() - started
        if source is not None:
            self._learned = replace(self._learned, batch_seconds=seconds)  # as figures of groups are: of batches
        self._decide(Moment.AFTER_BATCH)
        decisions = self._pop_told()
        now_us = self._clock.utc_us()
        event = batch_event(
            self.plan,
            self.manifest,
            self.controller.ledgers,
            seconds,
            decisions,
            commit_seconds,
            now_us,
            sync_seconds,
            {report.stream: report.backlog for report in streams if report.backlog is not None},
        )
        self._report(event.to_json(now_us))
        for note in self._ahead.of_batch(self.plan.query, merge_stream_reports(streams)):
            warn(note, self._report)
        self._tidy()
        self.last_work = self._clock.now()
        return self.manifest

    def _pop_told(self) -> list[Mapping[str, Any]]:
        """What was decided since the last event, as users are told it."""
        told, self._told = self._told, []
        return [for_people(entry, self.plan.label) for entry in told]

    def _take_limits(self, source: SourceT) -> dict[str, int]:
        """How far ahead the rows of a batch may be, for all of its tasks."""
        return take_limits(
            self.plan.query,
            self.manifest,
            self._clock,
            lambda look: self._executor.find_stretches(look, source),
        )

    def _tidy(self) -> None:
        if rolled := list(self.checkpoint.files.roll(self.manifest)):
            self._commit(rolled)
        self.checkpoint.tidy()

    def _commit(self, updates: Sequence[Update]) -> None:
        changed = self._learned != self.manifest.learned
        learn = [Learn(self._learned)] if changed and not any(isinstance(u, Learn) for u in updates) else []
        self.checkpoint.commit([AtVersion(self.manifest.version)], [*self._marks(), *updates, *learn])
        self._let_go_of_delivered()

    def _let_go_of_delivered(self) -> None:
        """It is written down that these were delivered, so nobody will deliver them again."""
        for delivery in self._delivered.values():
            self.checkpoint.drop_later(delivered=(*delivery.results, *delivery.late_files))
        self._delivered = {}

    def _marks(self) -> list[Update]:
        return [MarkDelivered(tuple(self._delivered))] if self._delivered else []
