"""The commit that makes a batch true: everything its tasks wrote becomes visible in one version, or none of it does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from watersmeet.adapt.trials import learn_merges
from watersmeet.model.file_sums import FileSum
from watersmeet.model.group_figures import GroupObservation
from watersmeet.model.ids import OperatorName
from watersmeet.model.quantities import microseconds
from watersmeet.model.slot_figures import Slots, add_up, follow
from watersmeet.model.statistics import Measured, add_alike, add_counts
from watersmeet.runtime.context import BatchContext
from watersmeet.runtime.reports import StreamReport, TaskReport, merge_stream_reports
from watersmeet.runtime.watermarks import at_gate, stream_watermarks_us
from watersmeet.state.expiry import expire
from watersmeet.state.learned import Learned
from watersmeet.state.manifest import BatchRecord, Manifest, StreamProgress
from watersmeet.state.table import AfterBatch, AtVersion, Consequences, Requirement
from watersmeet.state.updates import (
    AddSegment,
    AdvanceStream,
    FinishBatch,
    Learn,
    ObserveBatch,
    ObserveGroups,
    PassBoundary,
    ReleaseGroups,
    Update,
)


def batch_commit(
    context: BatchContext,
    streams: Iterable[StreamReport],
    tasks: Sequence[TaskReport],
    smoothing: str,
    learned: Learned,
) -> tuple[list[Update], Consequences, list[Requirement]]:
    """Return the commit of one version that holds all that the tasks of a batch wrote, less what has now expired.

    `learned` is what was learned up to now.
    """
    streams = merge_stream_reports(streams)
    record = BatchRecord(
        number=context.batch,
        rows_in=sum(report.rows for report in streams),
        rows_out=sum(task.rows_out for task in tasks),
        rows_late=sum(report.late for report in streams),
        joins=_joins(tasks),
        rows_merged=sum(task.rows_merged for task in tasks),
        round=context.round,
        rows_ahead=sum(report.ahead for report in streams),
    )
    measured = _measured(context.manifest, streams, tasks)
    gate = context.gate
    updates: list[Update] = [
        *(() if gate is None else gate.resolve(context.manifest)),
        *(_advance(report) for report in streams),
        *(AddSegment(s if gate is None else gate.resolved(s)) for task in tasks for s in task.added),
        *(AddSegment(segment) for report in streams for segment in report.waiting),
        *(ReleaseGroups(name, groups) for task in tasks for name, groups in task.released),
        FinishBatch(
            record,
            tuple(sorted(name for task in tasks for name in task.results)),
            tuple(sorted(name for report in streams for name in report.late_files)),
            {name: found for sums in _sums(streams, tasks) for name, found in sums.items()},
        ),
        ObserveBatch(measured),
        Learn(_with_slots(_with_merges(learned, context, record), context, tasks, measured)),
    ]
    if context.watched and context.new_rows:
        updates.append(ObserveGroups(context.batch, smoothing, _seen(context, tasks)))
    if context.boundaries is not None and context.plan.grouped is not None:
        updates.append(PassBoundary(context.plan.grouped.name, context.boundaries.until_us))
    if gate is not None:
        updates += gate.updates()
    marks = _watermarks_after(context, streams)
    before = context.batch if context.round else context.batch - 1

    def expired(after: Manifest) -> Sequence[Update]:
        return expire(context.plan, after, marks, context.ledgers)

    return updates, expired, [AtVersion(context.manifest.version), AfterBatch(before)]


def _sums(streams: Sequence[StreamReport], tasks: Sequence[TaskReport]) -> list[Mapping[str, FileSum]]:
    return [*(task.sums for task in tasks), *(report.sums for report in streams)]


def _advance(report: StreamReport) -> AdvanceStream:
    return AdvanceStream(
        report.stream,
        report.newest_us,
        report.rows,
        report.late,
        report.files,
        report.ignored_before_us,
        report.ahead,
        report.intake,
    )


def _joins(tasks: Sequence[TaskReport]) -> dict[str, dict[str, int]]:
    joins: dict[str, dict[str, int]] = {}
    for task in tasks:
        for join, counts in task.joins.items():
            total = joins.setdefault(join, {})
            for name, count in counts.items():
                total[name] = total.get(name, 0) + count
    return joins


def _measured(manifest: Manifest, streams: Sequence[StreamReport], tasks: Sequence[TaskReport]) -> Measured:
    """What this batch says about rates and selectivities."""
    known = [time for progress in manifest.streams.values() if (time := progress.newest_read_us) is not None]
    begin = max(known) if known else min((r.oldest_us for r in streams if r.oldest_us is not None), default=None)
    end = max((report.newest_us for report in streams if report.newest_us is not None), default=None)
    rows = _rows(tasks)
    seconds = max(0, end - begin) / 1e6 if begin is not None and end is not None else 0.0
    asked = [entry for report in streams for entry in report.filters]
    asked += [entry for task in tasks for entry in task.filters]
    batch = Measured(
        seconds,
        rows,
        add_counts(pair for task in tasks for pair in task.pairs),
        add_counts(asked),
        add_counts(entry for task in tasks for entry in task.predicates),
        add_alike(task.alike for task in tasks),
    )
    after = manifest.measured.then(batch)
    for entry in manifest.answering.spec.filters:
        # Rows that a filter above a join has still to see: of those that will pass it, as many as did.
        if entry.at and entry.alias in rows and (seen := after.filter(entry.alias, entry.filter)) is not None:
            rows[entry.alias] *= seen.share
    return batch


def _rows(tasks: Sequence[TaskReport]) -> dict[str, float]:
    """That entered, by query input."""
    rows: dict[str, float] = {}
    for task in tasks:
        for alias, count in task.rows.items():
            rows[alias] = rows.get(alias, 0.0) + count
    return rows


def _with_merges(learned: Learned, context: BatchContext, record: BatchRecord) -> Learned:
    """See how many of the results expected of merges came."""
    return learn_merges(learned, record.rows_merged) if context.work.merges or context.work.partial_merges else learned


def _with_slots(learned: Learned, context: BatchContext, tasks: Sequence[TaskReport], batch: Measured) -> Learned:
    """Of batches: what a round of merges takes says nothing of the next one."""
    if not context.new_rows:
        return learned
    learned = replace(learned, slots=follow(learned.slots, slots_of(tasks, context.placement.slots)))
    return replace(learned, by_slot=_by_slot(learned.by_slot, batch.seconds, tasks, context) if context.by_slot else ())


def _by_slot(
    before: tuple[Measured, ...], seconds: float, tasks: Sequence[TaskReport], context: BatchContext
) -> tuple[Measured, ...]:
    """What each slot has measured of its own rows, after a batch of so many seconds."""
    slots = context.placement.slots
    known = before if len(before) == slots else (Measured(),) * slots
    found = []
    for slot, measured in enumerate(known):
        own = [task for task in tasks if task.slot == slot]
        pairs = add_counts(pair for task in own for pair in task.own_pairs)
        found.append(measured.then(Measured(seconds, _rows(own), pairs)))
    return tuple(found)


def slots_of(tasks: Sequence[TaskReport], slots: int) -> Slots:
    """What the tasks of a batch took, by slot."""
    return add_up(((task.slot, task.figures) for task in tasks), slots)


def of_joins(tasks: Sequence[TaskReport], labels: Collection[str]) -> list[TaskReport]:
    """The tasks of these joins alone."""
    return [task for task in tasks if not task.joins.keys().isdisjoint(labels)]


def _seen(context: BatchContext, tasks: Sequence[TaskReport]) -> dict[OperatorName, GroupObservation]:
    """What the tasks saw of the groups; a join that saw nothing saw zeros."""
    total = {
        operator: GroupObservation.nothing(len(node.inputs), context.placement.of(node.partitioning).groups)
        for operator, node in context.plan.operators.items()
    }
    for task in tasks:
        for operator, seen in task.groups.items():
            total[operator] = total[operator].plus(seen)
    return total


def _watermarks_after(context: BatchContext, streams: Sequence[StreamReport]) -> dict[str, int | None]:
    """How far the streams have come with this batch."""
    lateness = {entry.stream.name: microseconds(entry.stream.lateness) for entry in context.plan.query.inputs}
    marks = stream_watermarks_us(context.plan, context.manifest)
    for report in streams:
        before = context.manifest.streams.get(report.stream, StreamProgress())
        marks[report.stream] = before.reach(report.newest_us, report.intake).watermark_us(lateness[report.stream])
    return at_gate(context.plan, marks, context.manifest.gate if context.gate is None else context.gate.progress)
