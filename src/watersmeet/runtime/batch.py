"""One batch, whatever runs it: what its tasks are told, what they report, and the commit that makes it true.

    1. `context_of`   the manifest, cut down to what a task needs;
    2. tasks          `runtime/stage.py`, once for each stage and slot, anywhere;
    3. `commit_batch` everything the tasks wrote becomes visible in one version, or none of it does.

A task reads the context and files, and writes new files. It changes nothing that exists, so it may run twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from watersmeet.model.group_figures import GroupObservation
from watersmeet.model.quantities import microseconds
from watersmeet.model.routing import GroupRange, Routing
from watersmeet.model.segments import Segment
from watersmeet.model.statistics import Measured, PairCounts, add_pairs
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.runtime.expiry import expire, horizon
from watersmeet.runtime.generations import holds
from watersmeet.state.manifest import BatchRecord, Manifest
from watersmeet.state.table import AfterBatch, AtVersion, Table
from watersmeet.state.updates import (
    AddSegment,
    AdvanceStream,
    FinishBatch,
    ObserveBatch,
    ObserveGroups,
    ReleaseGroups,
    Update,
    apply_all,
)


@dataclass(frozen=True)
class BatchContext:
    """What every task of one batch is told."""

    plan: PhysicalPlan
    batch: int
    routing: Routing
    watermarks: Mapping[str, int | None]  # by stream, as of the batch before
    segments: Mapping[str, tuple[Segment, ...]]  # by state, the active ones
    closed: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # as in the manifest
    holds: Mapping[str, int] = field(default_factory=dict)  # by operator that owes results: their oldest time
    merges: tuple[GroupMerge, ...] = ()
    round: int = 0
    upkeep: str | None = None  # how recent figures of groups are kept; None: groups are not watched

    def horizon(self, state: State) -> int | None:
        """The time up to which rows of `state` may expire unseen."""
        return horizon(self.plan, state, self.watermarks, self.holds)


@dataclass(frozen=True)
class GroupMerge:
    """Emit what is owed between the closed generations of a group: its cold segments, of all states of the operator."""

    operator: str
    group: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class StreamReport:
    """What was read of one stream, or of a part of it."""

    stream: str
    rows: int = 0
    late: int = 0
    newest: int | None = None
    late_files: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    oldest: int | None = None


@dataclass(frozen=True)
class TaskReport:
    """What one task of one stage wrote."""

    added: tuple[Segment, ...] = ()
    released: tuple[tuple[str, tuple[GroupRange, ...]], ...] = ()
    results: tuple[str, ...] = ()
    rows_out: int = 0
    nodes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)  # that entered, by query input
    pairs: tuple[PairCounts, ...] = ()  # what the probes saw
    rows_merged: int = 0  # results of merges, among those of all joins
    groups: Mapping[str, GroupObservation] = field(default_factory=dict)  # by operator, where groups are watched


def watermarks_of(plan: PhysicalPlan, manifest: Manifest) -> dict[str, int | None]:
    lateness = {entry.stream.name: microseconds(entry.stream.lateness) for entry in plan.query.inputs}
    return {
        name: manifest.streams[name].watermark(lateness[name]) if name in manifest.streams else None
        for name in plan.streams
    }


def context_of(
    plan: PhysicalPlan,
    manifest: Manifest,
    merges: Iterable[tuple[str, int]] = (),
    new_rows: bool = True,
    upkeep: str | None = None,
) -> BatchContext:
    """What the tasks of the batch after `manifest` are told; `merges` are groups of operators to merge with it.

    Without `new_rows` it is a round of merges after the batch before.
    """
    last = manifest.batch
    assert new_rows or last is not None, "before the first batch there is nothing to merge"
    by_state: dict[str, list[Segment]] = {name: [] for name in plan.states}
    for segment in manifest.segments.values():
        if segment.tier == "active" and segment.state in by_state:
            by_state[segment.state].append(segment)
    return BatchContext(
        plan=plan,
        batch=manifest.last_batch + 1 if new_rows else manifest.last_batch,
        round=0 if new_rows or last is None else last.round + 1,
        routing=manifest.routing,
        watermarks=watermarks_of(plan, manifest),
        segments={name: tuple(entries) for name, entries in by_state.items()},
        closed=manifest.closed,
        holds=holds(plan, manifest),
        merges=_merges(plan, manifest, list(merges)),
        upkeep=upkeep,
    )


def _merges(plan: PhysicalPlan, manifest: Manifest, wanted: Sequence[tuple[str, int]]) -> tuple[GroupMerge, ...]:
    found: dict[tuple[str, int], list[Segment]] = {key: [] for key in wanted}
    for segment in manifest.segments.values() if wanted else ():
        operator = plan.operator_of.get(segment.state)
        if segment.tier == "cold" and operator is not None:
            for group in segment.rows_by_group:
                key = (operator, group)
                if key in found and segment.generation < manifest.live_generation(operator, group):
                    found[key].append(segment.only(((group, group + 1),)))
    return tuple(GroupMerge(operator, group, tuple(segments)) for (operator, group), segments in found.items())


def merge_stream_reports(reports: Iterable[StreamReport]) -> list[StreamReport]:
    """One report for each stream."""
    merged: dict[str, StreamReport] = {}
    for report in reports:
        before = merged.get(report.stream, StreamReport(report.stream))
        times = [time for time in (before.newest, report.newest) if time is not None]
        merged[report.stream] = StreamReport(
            report.stream,
            before.rows + report.rows,
            before.late + report.late,
            max(times, default=None),
            before.late_files + report.late_files,
            before.files + report.files,
            min((time for time in (before.oldest, report.oldest) if time is not None), default=None),
        )
    return list(merged.values())


def commit_batch(
    table: Table, context: BatchContext, streams: Iterable[StreamReport], tasks: Sequence[TaskReport]
) -> Manifest:
    """Make the batch true: one version that holds all that its tasks wrote, less what has now expired."""
    streams = merge_stream_reports(streams)
    nodes: dict[str, dict[str, int]] = {}
    for task in tasks:
        for node, counts in task.nodes.items():
            total = nodes.setdefault(node, {})
            for name, count in counts.items():
                total[name] = total.get(name, 0) + count
    record = BatchRecord(
        number=context.batch,
        rows_in=sum(report.rows for report in streams),
        rows_out=sum(task.rows_out for task in tasks),
        rows_late=sum(report.late for report in streams),
        results=tuple(sorted(name for task in tasks for name in task.results)),
        late_files=tuple(sorted(name for report in streams for name in report.late_files)),
        nodes=nodes,
        rows_merged=sum(task.rows_merged for task in tasks),
        round=context.round,
    )
    updates: list[Update] = [
        AdvanceStream(report.stream, report.newest, report.rows, report.late, report.files) for report in streams
    ]
    updates += [AddSegment(segment) for task in tasks for segment in task.added]
    updates += [ReleaseGroups(name, groups) for task in tasks for name, groups in task.released]
    updates.append(FinishBatch(record))
    after = apply_all(updates, table.manifest)
    updates += expire(context.plan, after, _watermarks_after(context, streams))
    updates.append(ObserveBatch(_measured(table.manifest, streams, tasks)))
    if context.upkeep is not None:
        seen = _seen(context, tasks)
        updates.append(ObserveGroups(context.batch, context.upkeep, {name: e.to_json() for name, e in seen.items()}))
    before = context.batch if context.round else context.batch - 1
    return table.commit([AtVersion(table.manifest.version), AfterBatch(before)], updates)


def _measured(manifest: Manifest, streams: Sequence[StreamReport], tasks: Sequence[TaskReport]) -> Measured:
    """What this batch says about rates and selectivities."""
    known = [progress.newest for progress in manifest.streams.values() if progress.newest is not None]
    begin = max(known) if known else min((r.oldest for r in streams if r.oldest is not None), default=None)
    end = max((report.newest for report in streams if report.newest is not None), default=None)
    rows: dict[str, float] = {}
    for task in tasks:
        for alias, count in task.rows.items():
            rows[alias] = rows.get(alias, 0.0) + count
    seconds = max(0, end - begin) / 1e6 if begin is not None and end is not None else 0.0
    return Measured(seconds, rows, add_pairs(pair for task in tasks for pair in task.pairs))


def _seen(context: BatchContext, tasks: Sequence[TaskReport]) -> dict[str, GroupObservation]:
    """What the tasks saw of the groups; a join that saw nothing saw zeros."""
    total = {
        operator: GroupObservation.nothing(len(node.inputs), context.routing.groups)
        for operator, node in context.plan.operators.items()
    }
    for task in tasks:
        for operator, seen in task.groups.items():
            total[operator] = total[operator].plus(seen)
    return total


def _watermarks_after(context: BatchContext, streams: Sequence[StreamReport]) -> dict[str, int | None]:
    """How far the streams have come with this batch."""
    lateness = {entry.stream.name: microseconds(entry.stream.lateness) for entry in context.plan.query.inputs}
    marks = dict(context.watermarks)
    for report in streams:
        if report.newest is not None:
            mark = report.newest - lateness[report.stream]
            marks[report.stream] = max(mark, before) if (before := marks[report.stream]) is not None else mark
    return marks
