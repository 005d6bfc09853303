"""The state of a run between two steps: plan, checkpoint, controller, what was learned. Every commit goes through it.

Nothing in it is truth: a run that dies loses pace figures, notes for the next event and the knowledge of what it has
just delivered, and the next run finds the rest in the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from watersmeet.adapt.controller import Controller
from watersmeet.adapt.decisions.decision import for_people
from watersmeet.model.stretches import Stretch
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.run.change import Changing
from watersmeet.run.deliver import Deliveries
from watersmeet.runtime.ahead import AheadNotes, TimesToFind
from watersmeet.runtime.checkpoint import Checkpoint
from watersmeet.runtime.clock import Clock
from watersmeet.runtime.context import BatchContext
from watersmeet.runtime.events import Report
from watersmeet.runtime.gate import Gate
from watersmeet.runtime.make_spec import MakeSpec
from watersmeet.runtime.odd_times import OddTimeNotes
from watersmeet.runtime.reports import Backlog, StreamReport, TaskReport
from watersmeet.runtime.rhythm import Rhythm
from watersmeet.runtime.seeding import Seeding
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.learned import Learned
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import AtVersion, Consequences, Requirement, none
from watersmeet.state.updates import Learn, MarkDelivered, Update

SourceT = TypeVar("SourceT", contravariant=True)

# Rows that the sources have and no batch has read, by stream, where the batches themselves do not say.
FindBacklogs = Callable[[], Mapping[str, Backlog]]


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


class Session(Generic[SourceT]):
    def __init__(
        self,
        plan: PhysicalPlan,
        checkpoint: Checkpoint,
        controller: Controller,
        executor: Executor[SourceT],
        deliveries: Deliveries,
        report: Report,
        clock: Clock,
        make_spec: MakeSpec,
        find_backlogs: FindBacklogs,
        start: StartPlan | None = None,
    ) -> None:
        self.plan = plan
        self.checkpoint = checkpoint
        self.controller = controller
        self.executor = executor
        self.deliveries = deliveries
        self.report = report
        self.clock = clock
        self.make_spec = make_spec
        self.find_backlogs = find_backlogs
        self.start = start  # until what it asks for was done
        self.max_candidates = None if start is None else start.settings.max_candidates  # of each task
        self.learned: Learned = checkpoint.manifest.learned
        self.gate = Gate(checkpoint.segments)
        self.rhythm = Rhythm()
        self.ahead = AheadNotes()
        self.odd_times = OddTimeNotes()
        self.changing = Changing(plan.query, checkpoint.manifest)
        self.last_work = clock.now()
        self._decided: list[Mapping[str, Any]] = []  # since the last event

    @property
    def manifest(self) -> Manifest:
        return self.checkpoint.manifest

    def commit(
        self, updates: Sequence[Update], consequences: Consequences = none, requirements: Sequence[Requirement] = ()
    ) -> Manifest:
        """Add the next version: these updates, with what was learned and delivered since the last one."""
        changed = self.learned != self.manifest.learned
        learn = [Learn(self.learned)] if changed and not any(isinstance(u, Learn) for u in updates) else []
        known = [AtVersion(self.manifest.version), *requirements]
        manifest = self.checkpoint.commit(known, [*self._delivered(), *updates, *learn], consequences)
        self.checkpoint.drop_later(delivered=self.deliveries.forget_delivered())
        return manifest

    def _delivered(self) -> list[Update]:
        ids = tuple(self.deliveries.delivered)
        return [MarkDelivered(ids)] if ids else []

    def run_plan(self, plan: PhysicalPlan) -> None:
        """Run another plan from the next batch on."""
        self.plan = plan
        self.controller = self.controller.follow(plan)

    def learn(self, learned: Learned) -> None:
        """Take what was learned into the next commit. The duration of the last batch is this run's own."""
        self.learned = replace(learned, batch_seconds=self.learned.batch_seconds)

    def tell(self, *decisions: Mapping[str, Any]) -> None:
        """Queue decisions for the next event."""
        self._decided += decisions

    def tell_last(self) -> Mapping[str, Any]:
        """Queue the last decision of the manifest for the next event, and return it."""
        self.tell(self.manifest.decisions[-1])
        return self._decided[-1]

    def take_decided(self) -> list[Mapping[str, Any]]:
        """The decisions since the last event, with the labels that people know."""
        decided, self._decided = self._decided, []
        return [for_people(entry, self.plan.label) for entry in decided]

    def validate(self) -> None:
        """Check what must hold between any two steps."""
        manifest = self.manifest
        assert (manifest.warming_up is None) or self.changing.target is not None, "a change without a target"
        listed = {entry.id for entry in manifest.undelivered}
        assert self.deliveries.delivered.keys() <= listed, "a delivery is marked that no version lists"
        assert self.deliveries.waiting_since.keys() <= listed, "a delivery waits that no version lists"

    def tidy(self) -> None:
        """Move long lists of files out of the manifest, snapshot if due, delete unneeded files."""
        if rolled := list(self.checkpoint.files.roll(self.manifest)):
            self.commit(rolled)
        self.checkpoint.tidy()
