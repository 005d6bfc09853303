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
from watersmeet.adapt.decisions import ChangePlan, Decision, Rescale, Work, for_people, to_json
from watersmeet.adapt.effects import Effects
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.migrate import find_road
from watersmeet.adapt.policies.migrate.moving_state import MovingState
from watersmeet.adapt.policies.migrate.road import learn_road
from watersmeet.adapt.policies.replan import recent
from watersmeet.adapt.policies.replan.triggers import signals
from watersmeet.adapt.policies.ring.length import ring_signals
from watersmeet.adapt.policies.scale.seconds import signals as load_signals
from watersmeet.errors import ResourceError
from watersmeet.model.ids import DeliveryId
from watersmeet.model.origin import ByHand, BySettings, origin_to_json
from watersmeet.model.placement import check_slots
from watersmeet.model.routing import Groups
from watersmeet.model.stretches import Stretch
from watersmeet.optimize.choose import choose_plan
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec, spec_of, way_of
from watersmeet.runtime.ahead import AheadNotes, TimesToFind, take_limits
from watersmeet.runtime.checkpoint import Checkpoint
from watersmeet.runtime.clock import Clock, WallClock
from watersmeet.runtime.commit import commit_batch, of_joins, slots_of
from watersmeet.runtime.context import BatchContext, stream_watermarks_us, watermarks_us
from watersmeet.runtime.cutting import count_cut
from watersmeet.runtime.events import EndEvent, Report, StartEvent, batch_event, silent, warn
from watersmeet.runtime.gate import Gate, GateStep
from watersmeet.runtime.gathering import Gatherer
from watersmeet.runtime.migrating import Migrator
from watersmeet.runtime.regrouping import regroup
from watersmeet.runtime.reports import Backlog, StreamReport, TaskReport, merge_stream_reports
from watersmeet.runtime.rhythm import Rhythm
from watersmeet.runtime.seeding import Seeding
from watersmeet.settings.words import AUTO, OFF
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.boundaries import Boundaries, due_boundaries
from watersmeet.state.by_slot import state_bytes_by_slot
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Delivery, Manifest
from watersmeet.state.segment_files import FileSegments, file_name
from watersmeet.state.shapes import plan_of
from watersmeet.state.table import AtVersion, Consequences, none
from watersmeet.state.updates import Learn, MarkDelivered, RecordDecision, Regroup, Update

SourceT = TypeVar("SourceT", contravariant=True)
Deliver = Callable[[Delivery], Sequence[Folder] | None]  # the folders, if any, that its files have come to


# What the sources have that no batch has read, by stream, where the batches themselves do not say.
FindBacklogs = Callable[[], Mapping[str, Backlog]]


# The spec of a plan that a setting names, by what a manifest has measured, with lineage or not; and why it is that one.
MakeSpec = Callable[[str, Manifest, bool], tuple[PlanSpec, str]]


def _by_standard_costs(query: Query) -> MakeSpec:
    """For runs that nobody has told what this machine is like."""

    def make_spec(plan: str, manifest: Manifest, lineage: bool) -> tuple[PlanSpec, str]:
        chosen = choose_plan(query, plan, Statistics(measured=manifest.measured))
        ring = way_of(manifest.answering.spec)
        return spec_of(query, chosen.tree, chosen.orders, lineage, ring), chosen.reason

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
        start: StartPlan | None = None,
        find_backlogs: FindBacklogs = dict,
        waits: bool = False,
    ) -> None:
        """`start` holds the plan and the number of groups that the run changes to before it does anything else.

        With `waits`, the end of the input is not that of the streams: what waits for their watermarks goes on waiting.
        """
        self.plan = plan
        self.make_spec = make_spec or _by_standard_costs(plan.query)
        self._start = start  # until what it asks for was done
        self._waits = waits
        self._find_backlogs = find_backlogs
        self.checkpoint = checkpoint
        self.controller = controller
        self.turn = threading.RLock()  # held by whoever works: a batch, or a round
        self.executor = executor
        self._deliver = deliver
        self._report = report
        self.clock = clock or WallClock()
        self._gatherer = gatherer
        self._waiting_since: dict[DeliveryId, float] = {}  # what this run has committed, and may gather
        self._before = checkpoint.manifest
        self._learned = checkpoint.manifest.learned
        self._delivered: dict[DeliveryId, Delivery] = {}  # since the last commit
        self._told: list[Mapping[str, Any]] = []  # decisions since the last event
        self._ahead = AheadNotes()
        self._began: float | None = None
        self.last_work = self.clock.now()
        self.rhythm = Rhythm()
        self._migrator = Migrator(self)
        self._gate = Gate(checkpoint.segments)

    @property
    def migrating(self) -> bool:
        """Whether a change of the plan is under way."""
        return self._migrator.under_way

    @property
    def manifest(self) -> Manifest:
        return self.checkpoint.manifest

    # --- what callers ask for ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Report the start, and deliver what an earlier run may not have delivered."""
        self._report(StartEvent(self.manifest.plan).to_json(self.clock.utc_us()))
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
        waited = self.clock.now() - self._waiting_since[due[0].id]
        if at_end or waited >= gatherer.every.total_seconds():
            self.checkpoint.check_held()
            if len(due) > 1 and (gathered := gatherer.gather(due, self.manifest)) is not None:
                self.checkpoint.sync_first(gatherer.files_of(gathered))
                faults.reach("before-gather")
                self.commit([gathered])
                faults.reach("after-gather")
                gatherer.discard(due, gathered)
            self._waiting_since = {}

    def run_batch(self, source: SourceT) -> Manifest:
        """Join one batch, commit and deliver it."""
        with self.turn:
            self.deliver_pending()
            self._change_as_asked()
            started = self.clock.now()
            self._began = started if self._began is None else self._began
            self._migrator.go_on()
            work = self.decide(Moment.BEFORE_BATCH)
            return self._run(work, source, started, self._due_boundaries(), self._gate_step())

    def run_idle(self) -> bool:
        """Do what is worth doing while the sources are silent; whether there was anything."""
        with self.turn:
            self.checkpoint.check_held()
            self.deliver_pending()
            if self.manifest.last_batch < 0:
                return False
            started = self.clock.now()
            if self._migrator.go_on(started - self.last_work):
                return True
            work = self.decide(Moment.IDLE)
            return self._run_if_due(work, started, self._due_boundaries(), self._due_at_gate())

    def drain_step(self, ended: bool, within: Groups | None = None) -> bool:
        """One round of emitting what is owed, by these groups or by all; whether there was anything.

        `ended`: no more rows will come in this run.
        """
        with self.turn:
            started, closes = self.clock.now(), ended and not self._waits
            if self.manifest.last_batch < 0:  # nothing is owed of no rows but their total
                return self._run_if_due(Work(), started, self._due_boundaries(closes), None)
            work = self.decide(Moment.END if ended else Moment.DRAIN, within)
            gate = self._due_at_gate(closes) if ended else None  # what waits for others is not owed
            return self._run_if_due(work, started, self._due_boundaries(closes), gate)

    def _run_if_due(self, work: Work, started: float, due: Boundaries | None, gate: GateStep | None) -> bool:
        """A round, if there is anything to do."""
        if work or due or gate is not None:
            self._run(work, None, started, due, gate)
            return True
        return False

    def drain(self, ended: bool, within: Groups | None = None) -> None:
        """Emit everything that is owed, by these groups or by all."""
        with self.turn:
            while self.drain_step(ended, within):
                pass

    def force(self, decisions: list[Decision]) -> Work:
        """Carry out decisions that somebody else made; the work that they leave for the next batch or round."""
        with self.turn:
            return self._carry_out(self.controller.effects(decisions, self.manifest, self._learned))

    def run_round(self, work: Work) -> Manifest:
        """A round of work after the last batch."""
        with self.turn:
            return self._run(work, None, self.clock.now())

    def end(self) -> None:
        """Note down what was delivered, and report the sums of this run."""
        with self.turn:
            self.deliver_pending(at_end=True)
            if self._delivered:
                self.commit([])
                self.checkpoint.tidy()
            batches = self.manifest.last_batch - self._before.last_batch
            seconds = 0.0 if self._began is None else self.clock.now() - self._began
            event = EndEvent.of(self._before, self.manifest, batches, seconds, self._pop_told())
        self._report(event.to_json(self.clock.utc_us()))

    # --- the steps ---------------------------------------------------------------------------------------------------

    def decide(self, moment: Moment, within: Groups | None = None) -> Work:
        """Ask, and carry out; ask again where groups were cut or placed, or the plan was changed: that goes alone."""
        while True:
            effects = self._ask(moment, within)
            work = self._carry_out(effects)
            if effects.change is not None:
                self._migrator.begin(effects.change)
            elif not effects.cuts and not effects.placed:
                return work

    def _ask(self, moment: Moment, within: Groups | None) -> Effects:
        marks = watermarks_us(self.plan, self.manifest)
        return self.controller.ask(moment, self.manifest, self._learned, marks, self.clock.utc_us(), within)

    def _carry_out(self, effects: Effects) -> Work:
        """Commit what was decided; the work that is left for tasks."""
        if effects.learned is not None:  # goes with the next commit, whatever that is for
            self._learned = replace(effects.learned, batch_seconds=self._learned.batch_seconds)
        if effects.cuts and self._migrator.under_way:
            self._migrator.abandon("groups are cut")
        counted = [count_cut(cut, self.plan, self.manifest, self.checkpoint.segments) for cut in effects.cuts]
        if updates := [*effects.updates, *counted]:
            faults.reach("before-spill")
            self.commit(updates)
            faults.reach("after-spill")
            self._learned = replace(self.manifest.learned, batch_seconds=self._learned.batch_seconds)
        if counted and len(self.manifest.shapes) > 1:  # groups have other numbers
            self._run_plan(plan_of(self.plan.query, self.manifest))
        self._told += effects.shown
        return effects.work

    # --- another plan ------------------------------------------------------------------------------------------------

    def migrate(self, plan: str, by: str, reason: str, groups: Groups | None = None) -> Mapping[str, Any]:
        """Change the plan, of these groups or of all, or set out for it; the decision."""
        with self.turn:
            self.deliver_pending()
            change = ChangePlan(plan, by, self.manifest.last_batch + 1, reason, within=groups, origin=ByHand())
            self._migrator.check(change)
            return self._migrator.begin(change)

    def rescale(self, slots: int, reason: str) -> Mapping[str, Any]:
        """Have so many slots from the next batch on; the decision."""
        with self.turn:
            before = self.manifest.placement
            check_slots(slots, before.groups)
            decision = Rescale(before.slots, slots, self.manifest.last_batch + 1, reason, origin=ByHand())
            if slots != before.slots:
                self.checkpoint.check_held()
                self.force([decision])
                self.decide(Moment.AFTER_BATCH)  # what a slot has in memory now may be too much
            return to_json(decision)

    def _change_as_asked(self) -> None:
        """Change to the query, the plan and the groups that the run was started with."""
        with self.turn:
            start, self._start = self._start, None
            if start is None:
                return
            if (asked := start.change) is not None:
                before, origin = self.manifest.last_batch + 1, BySettings()
                change = ChangePlan(asked.asked, MovingState.name, before, asked.reason, origin=origin)
                self._migrator.begin(change, asked)
                if self.manifest.query.digest != asked.identity.digest:
                    raise ResourceError(
                        "the state could not be made to serve the query that this run has",
                        detail=str(self.manifest.decisions[-1]["reason"]),
                        hint="See that there is room on the disk, or go back to the former query.",
                    )
            if start.groups != self.manifest.placement.groups:
                self._regroup(start.groups)

    def _regroup(self, groups: int) -> None:
        """Have so many groups, once nothing is owed; see `regrouping.py`."""
        before = self.manifest.placement.groups
        if self._migrator.under_way:
            self._migrator.abandon("the number of groups is changed")
        if len(self.manifest.shapes) > 1:
            self._migrator.unite("the number of groups is changed", BySettings())
        self.drain(ended=False)
        faults.reach("before-regroup")
        segments = self.checkpoint.segments
        update, written = regroup(self.plan, self.manifest, segments, groups)
        if written and isinstance(segments, FileSegments):
            self.checkpoint.sync_first({segments.folder: [file_name(segment.file) for segment in written]})
        told = {
            "decision": Regroup.__name__,
            "from_groups": before,
            "to_groups": groups,
            "before_batch": self.manifest.last_batch + 1,
            "files": len(update.segments),
            "files_written": len(written),
            "reason": "the settings say so",
            "origin": origin_to_json(BySettings()),
        }
        self.commit([update, RecordDecision(told)])
        faults.reach("after-regroup")
        self.tell_decision()
        self.decide(Moment.AFTER_BATCH)  # what is in memory now may be too much
        self.tidy()

    def follow(self, plan: PhysicalPlan, told: Mapping[str, Any]) -> None:
        """Another plan answers from now on, by the decision `told`. What it took is learned, and is to be reviewed."""
        figures, seconds = told.get("figures") or {}, told["seconds"]
        review = {**figures, "batch": self.manifest.last_batch + 1, "price_found": seconds} if figures else None
        roads = self._learned.roads
        if told["rows"]:
            road = find_road(told["by"])
            model = figures.get("price_by_model", road.price(told["rows"], None, 0.0))
            roads = learn_road(roads, road.name, model, seconds)
        # What came before under the former plan is no trend of this one, and says nothing of its slots.
        self._learned = replace(
            self._learned, expected=None, review=review, roads=roads, recent={}, scaled=None, ring=None
        )
        self._run_plan(plan)

    def _run_plan(self, plan: PhysicalPlan) -> None:
        self.plan = plan
        self.controller = self.controller.follow(plan)

    def tell_decision(self) -> Mapping[str, Any]:
        """Have the last decision told with the next event; it."""
        self._told.append(self.manifest.decisions[-1])
        return self._told[-1]

    @property
    def batch_seconds(self) -> float:
        """That the last batch took."""
        return self._learned.batch_seconds

    def _due_boundaries(self, ended: bool = False) -> Boundaries | None:
        """Those at which the groups of a query that has them can be emitted, from what is committed."""
        marks = watermarks_us(self.plan, self.manifest)
        return due_boundaries(self.plan, self.manifest, marks, self.controller.ledgers, ended)

    def _gate_step(self, ended: bool = False) -> GateStep | None:
        """Which rows enter the join next, where they wait for that."""
        marks = stream_watermarks_us(self.plan, self.manifest)
        held = self.controller.ledgers.holds_us(self.manifest)
        return self._gate.step(self.plan, self.manifest, marks, held, ended)

    def _due_at_gate(self, ended: bool = False) -> GateStep | None:
        """The same, if any does that waits."""
        marks = stream_watermarks_us(self.plan, self.manifest)
        return self._gate_step(ended) if self._gate.is_due(self.plan, self.manifest, marks, ended) else None

    def _run(
        self,
        work: Work,
        source: SourceT | None,
        started: float,
        boundaries: Boundaries | None = None,
        gate: GateStep | None = None,
    ) -> Manifest:
        """Run tasks and commit what they did, then all that follows a commit of results."""
        context = BatchContext(
            self.plan,
            self.manifest,
            self.controller.ledgers,
            work,
            new_rows=source is not None,
            watched=self.controller.watched,
            limits_us={} if source is None else self._take_limits(source),
            by_slot=self.controller.settings.replan.is_by_slot,
            max_candidates=self.controller.settings.ring.max_candidates,
            boundaries=boundaries,
            gate=gate,
        )
        synced, begun = self.checkpoint.sync_seconds, self.clock.now()
        streams, tasks = self.executor.run(context, source)
        ran = self.clock.now()
        commit_batch(
            self.checkpoint,
            context,
            streams,
            tasks,
            self.controller.settings.smoothing,
            self._learned,
            self._marks(),
        )
        commit_seconds = self.clock.now() - ran
        sync_seconds = self.checkpoint.sync_seconds - synced + sum(task.sync_seconds for task in tasks)
        self._let_go_of_delivered()
        if self._gatherer is not None:
            self._waiting_since[self.manifest.undelivered[-1].id] = self.clock.now()
        self._learned = self.manifest.learned
        for report in streams:
            self.checkpoint.files.add(report.stream, report.files)
        self.checkpoint.drop_later(scratch=[name for task in tasks for name in task.scratch])
        self.deliver_pending()
        seconds = self.clock.now() - started
        backlogs = {report.stream: report.backlog for report in streams if report.backlog is not None}
        backlogs |= self._find_backlogs()
        if source is not None:  # as figures of groups are: of batches, and not of steps to another plan before them
            took = self.clock.now() - begun
            self.rhythm.note(self.clock.now(), took)
            self._learn(took, backlogs, tasks, context.placement.slots)
        self.decide(Moment.AFTER_BATCH)
        decisions = self._pop_told()
        now_us = self.clock.utc_us()
        event = batch_event(
            self.plan,
            self.manifest,
            self.controller.ledgers,
            seconds,
            decisions,
            commit_seconds,
            now_us,
            sync_seconds,
            backlogs,
            self._migrator.progress,
            slots_of(tasks, context.placement.slots),
        )
        self._report(event.to_json(now_us))
        for note in self._ahead.of_batch(self.plan.query, merge_stream_reports(streams)):
            warn(note, self._report)
        self.tidy()
        self.last_work = self.clock.now()
        return self.manifest

    def _learn(self, seconds: float, backlogs: Mapping[str, Backlog], tasks: Sequence[TaskReport], slots: int) -> None:
        """Note down what came of a batch; as figures of groups are, of batches alone and not of rounds."""
        learned, found = replace(self._learned, batch_seconds=seconds), dict[str, float]()
        if self.controller.settings.replan.trigger != OFF:
            manifest = self.manifest
            owing = sum(int(ledger.owing.sum()) for ledger in self.controller.ledgers.at(manifest).values())
            fullest = None
            if self.controller.settings.slot_bytes is not None:
                fullest = max(state_bytes_by_slot(self.plan, manifest, self.controller.ledgers))
            found |= signals(manifest.active_bytes + manifest.cold_bytes, owing, backlogs, fullest)
        if self.controller.settings.scale.policy != OFF:
            found |= load_signals(seconds, slots_of(tasks, slots))
        if self.controller.settings.ring.policy == AUTO and self.plan.has_ring:
            ring = of_joins(tasks, self.plan.ring_labels)
            pairs = sum(pair.hashed for task in ring for pair in task.pairs)
            found |= ring_signals(slots_of(ring, slots), pairs, self.controller.settings.balance.by_cpu)
        self._learned = replace(learned, recent=recent.then(learned.recent, found)) if found else learned

    def _pop_told(self) -> list[Mapping[str, Any]]:
        """What was decided since the last event, as users are told it."""
        told, self._told = self._told, []
        return [for_people(entry, self.plan.label) for entry in told]

    def _take_limits(self, source: SourceT) -> dict[str, int]:
        """How far ahead the rows of a batch may be, for all of its tasks."""
        return take_limits(
            self.plan.query,
            self.manifest,
            self.clock,
            lambda look: self.executor.find_stretches(look, source),
        )

    def tidy(self) -> None:
        if rolled := list(self.checkpoint.files.roll(self.manifest)):
            self.commit(rolled)
        self.checkpoint.tidy()

    def commit(self, updates: Sequence[Update], consequences: Consequences = none) -> None:
        changed = self._learned != self.manifest.learned
        learn = [Learn(self._learned)] if changed and not any(isinstance(u, Learn) for u in updates) else []
        self.checkpoint.commit([AtVersion(self.manifest.version)], [*self._marks(), *updates, *learn], consequences)
        self._let_go_of_delivered()

    def _let_go_of_delivered(self) -> None:
        """It is written down that these were delivered, so nobody will deliver them again."""
        for delivery in self._delivered.values():
            self.checkpoint.drop_later(delivered=(*delivery.results, *delivery.late_files))
        self._delivered = {}

    def _marks(self) -> list[Update]:
        return [MarkDelivered(tuple(self._delivered))] if self._delivered else []
