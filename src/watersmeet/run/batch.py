"""Run tasks, commit what they did, and report it: a batch with new rows, or a round of work between two batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from watersmeet.adapt.decisions.work import Work
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.replan import recent
from watersmeet.adapt.policies.replan.triggers import signals
from watersmeet.adapt.policies.ring.length import ring_signals
from watersmeet.adapt.policies.scale.seconds import signals as load_signals
from watersmeet.model.ids import DeliveryId
from watersmeet.run.change import progress
from watersmeet.run.ending import Ending
from watersmeet.run.steps import Announce, Ask, Conclude, RunBatch, RunRound, Taken, Tidy, deliver_all, take
from watersmeet.runtime.ahead import take_limits
from watersmeet.runtime.commit import batch_commit, of_joins, slots_of
from watersmeet.runtime.context import BatchContext
from watersmeet.runtime.events import batch_event, warn
from watersmeet.runtime.gate import GateStep
from watersmeet.runtime.reports import Backlog, TaskReport, merge_stream_reports
from watersmeet.runtime.watermarks import stream_watermarks_us, watermarks_us
from watersmeet.settings.words import AUTO, OFF
from watersmeet.state.boundaries import Boundaries, due_boundaries
from watersmeet.state.by_slot import state_bytes_by_slot
from watersmeet.state.learned import Learned

if TYPE_CHECKING:
    from watersmeet.run.session import Session


@take.register(RunBatch)
def _(step: RunBatch, session: Session[Any]) -> Taken:
    due, gate = _due_boundaries(session), _gate_step(session)
    return _run_tasks(session, step.work, step.source, step.started, due, gate)


@take.register(RunRound)
def _(step: RunRound, session: Session[Any]) -> Taken:
    closes = step.ending is not None and step.ending.closes_streams
    due = _due_boundaries(session, closes)
    # Rows that wait for the watermarks of other streams are not owed.
    gate = None if step.ending is Ending.OPEN else _due_at_gate(session, closes)
    if not (step.work or due or gate is not None):
        return Taken()
    taken = _run_tasks(session, step.work, None, step.started, due, gate)
    return replace(taken, then=(*taken.then, *step.then))


@take.register(Conclude)
def _(step: Conclude, session: Session[Any]) -> Taken:
    now = session.clock.now()
    backlogs = {report.stream: report.backlog for report in step.streams if report.backlog is not None}
    backlogs |= session.find_backlogs()
    if step.context.new_rows:  # a round says nothing of the next batch
        took = session.clock.now() - step.begun
        session.rhythm.note(session.clock.now(), took)
        session.learned = _learn(session, took, backlogs, step.tasks, step.context.placement.slots)
    return Taken((Ask(Moment.AFTER_BATCH), Announce(step, now - step.started, backlogs)), worked=True)


@take.register(Announce)
def _(step: Announce, session: Session[Any]) -> Taken:
    batch, decided, now_us = step.batch, session.take_decided(), session.clock.utc_us()
    event = batch_event(
        session.plan,
        session.manifest,
        session.controller.ledgers,
        step.seconds,
        decided,
        batch.commit_seconds,
        now_us,
        batch.sync_seconds,
        step.backlogs,
        progress(session),
        slots_of(batch.tasks, batch.context.placement.slots),
    )
    session.report(event.to_json(now_us))
    query, seen = session.plan.query, merge_stream_reports(batch.streams)
    for note in (*session.ahead.of_batch(query, seen), *session.odd_times.of_batch(query, seen)):
        warn(note, session.report)
    session.tidy()
    session.last_work = session.clock.now()
    return Taken()


@take.register(Tidy)
def _(step: Tidy, session: Session[Any]) -> Taken:
    session.tidy()
    return Taken()


def _run_tasks(
    session: Session[Any],
    work: Work,
    source: Any,
    started: float,
    boundaries: Boundaries | None,
    gate: GateStep | None,
) -> Taken:
    """Run the tasks and commit what they did."""
    checkpoint, clock, settings = session.checkpoint, session.clock, session.controller.settings
    context = BatchContext(
        session.plan,
        session.manifest,
        session.controller.ledgers,
        work,
        new_rows=source is not None,
        watched=session.controller.watched,
        limits_us={} if source is None else _limits_ahead(session, source),
        by_slot=settings.replan.is_by_slot,
        max_candidates=session.max_candidates,
        boundaries=boundaries,
        gate=gate,
    )
    synced, begun = checkpoint.sync_seconds, clock.now()
    streams, tasks = session.executor.run(context, source)
    ran = clock.now()
    session.commit(*batch_commit(context, streams, tasks, settings.smoothing, session.learned))
    commit_seconds = clock.now() - ran
    sync_seconds = checkpoint.sync_seconds - synced + sum(task.sync_seconds for task in tasks)
    delivery: DeliveryId = session.manifest.undelivered[-1].id
    session.deliveries.note_committed(delivery, clock.now())
    session.learned = session.manifest.learned
    for report in streams:
        checkpoint.files.add(report.stream, report.files)
    checkpoint.drop_later(scratch=[name for task in tasks for name in task.scratch])
    batch = Conclude(context, streams, tasks, started, begun, commit_seconds, sync_seconds)
    return Taken((*deliver_all(), batch))


def _learn(
    session: Session[Any], seconds: float, backlogs: Mapping[str, Backlog], tasks: Sequence[TaskReport], slots: int
) -> Learned:
    """Return what is known after a batch that took `seconds`."""
    settings, ledgers, manifest = session.controller.settings, session.controller.ledgers, session.manifest
    learned, found = replace(session.learned, batch_seconds=seconds), dict[str, float]()
    if settings.replan.trigger != OFF:
        owing = sum(int(ledger.owing.sum()) for ledger in ledgers.at(manifest).values())
        fullest = None
        if settings.slot_bytes is not None:
            fullest = max(state_bytes_by_slot(session.plan, manifest, ledgers))
        found |= signals(manifest.active_bytes + manifest.cold_bytes, owing, backlogs, fullest)
    if settings.scale.policy != OFF:
        found |= load_signals(seconds, slots_of(tasks, slots))
    if settings.ring.policy == AUTO and session.plan.has_ring:
        ring = of_joins(tasks, session.plan.ring_labels)
        pairs = sum(pair.hashed for task in ring for pair in task.pairs)
        found |= ring_signals(slots_of(ring, slots), pairs, settings.balance.by_cpu)
    return replace(learned, recent=recent.then(learned.recent, found)) if found else learned


def _limits_ahead(session: Session[Any], source: Any) -> dict[str, int]:
    """Return how far ahead the rows of a batch may be, the same for all of its tasks."""
    return take_limits(
        session.plan.query,
        session.manifest,
        session.clock,
        lambda look: session.executor.find_stretches(look, source),
    )


def _due_boundaries(session: Session[Any], closes: bool = False) -> Boundaries | None:
    """Return the boundaries at which groups can be emitted, from what is committed."""
    marks = watermarks_us(session.plan, session.manifest)
    return due_boundaries(session.plan, session.manifest, marks, session.controller.ledgers, closes)


def _gate_step(session: Session[Any], closes: bool = False) -> GateStep | None:
    """Return which rows enter the join next, where rows wait for that."""
    marks = stream_watermarks_us(session.plan, session.manifest)
    held = session.controller.ledgers.holds_us(session.manifest)
    return session.gate.step(session.plan, session.manifest, marks, held, closes)


def _due_at_gate(session: Session[Any], closes: bool) -> GateStep | None:
    """Return the same, if any waiting row can enter."""
    marks = stream_watermarks_us(session.plan, session.manifest)
    due = session.gate.is_due(session.plan, session.manifest, marks, closes)
    return _gate_step(session, closes) if due else None
