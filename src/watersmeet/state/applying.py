"""What updates do: each is applied to a draft of the next manifest.

`apply_all` makes one draft, applies each update to it once, and turns it into the next manifest: what that costs grows
with the updates and with the buckets of segments that they touch, not with the manifest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from functools import singledispatch
from typing import Any

from watersmeet.errors import InternalError
from watersmeet.model.group_figures import GroupFigures
from watersmeet.model.ids import LIVE, DeliveryId
from watersmeet.model.placement import Placement
from watersmeet.model.routing import expand_ranges
from watersmeet.model.smoothing import find_smoothing
from watersmeet.state.epochs import CLAIMS_KEPT
from watersmeet.state.manifest import BatchRecord, Delivery, Manifest, StreamProgress, Withdrawal
from watersmeet.state.segment_table import SegmentDraft, SegmentTable
from watersmeet.state.taken import still_to_come
from watersmeet.state.updates import (
    AddSegment,
    AdvanceStream,
    Claim,
    CloseGroups,
    CoolGroups,
    CutRange,
    FinishBatch,
    GatherDeliveries,
    GoBack,
    Learn,
    ListFiles,
    MarkDelivered,
    MarkWithdrawn,
    ObserveBatch,
    ObserveGroups,
    PassBoundary,
    PassGate,
    RecordDecision,
    Regroup,
    ReleaseGroups,
    ResolveEnds,
    SetLibrary,
    SetNewest,
    SetPlacement,
    SetRetention,
    SetTracks,
    SwitchPlan,
    Update,
)

DECISIONS_KEPT = 200


class Draft:
    """A manifest while a commit changes it: its fields that are replaced whole, and its segments."""

    def __init__(self, manifest: Manifest) -> None:
        self.before = manifest
        self.segments = SegmentDraft(manifest.segments)
        self.streams = dict(manifest.streams)
        self.figures = dict(manifest.figures)
        self.undelivered = manifest.undelivered
        self.decisions = list(manifest.decisions)
        self._changed: dict[str, Any] = {}

    @property
    def version(self) -> int:
        return self.before.version + 1

    def get(self, name: str) -> Any:
        """A field as it is now."""
        return self._changed.get(name, getattr(self.before, name))

    def set(self, **values: Any) -> None:
        self._changed.update(values)

    def finish(self) -> Manifest:
        manifest = replace(
            self.before,
            version=self.version,
            committed_us=None,  # who commits it knows, and what is kept by then
            segments=self.segments.finish(),
            streams=self.streams,
            figures=self.figures,
            undelivered=self.undelivered,
            **self._changed,
        )
        taken = still_to_come(manifest.taken, manifest.last_batch)
        return replace(manifest, decisions=tuple(self.decisions[-DECISIONS_KEPT:]), taken=taken)


def apply_all(updates: Iterable[Update], manifest: Manifest) -> Manifest:
    """The next version."""
    return draft_of(updates, manifest).finish()


def draft_of(updates: Iterable[Update], manifest: Manifest) -> Draft:
    draft = Draft(manifest)
    for update in updates:
        apply(update, draft)
    return draft


@singledispatch
def apply(update: Any, draft: Draft) -> None:
    raise InternalError(f"no way to apply a {type(update).__name__}")


@apply.register
def _(update: Claim, draft: Draft) -> None:
    held = draft.get("holder").epoch
    if update.holder.epoch != held + 1:
        raise InternalError(f"epoch {update.holder.epoch} cannot follow epoch {held}")
    draft.set(holder=update.holder, claims=(*draft.get("claims"), draft.version)[-CLAIMS_KEPT:])


@apply.register
def _(update: SetPlacement, draft: Draft) -> None:
    draft.set(placement=update.placement)


@apply.register
def _(update: SetRetention, draft: Draft) -> None:
    draft.set(retention=update.retention)


# What a rollback leaves as it is, and what it has said itself in the draft; all else goes back.
_OF_THE_CHECKPOINT = (
    *("version", "query", "id", "holder", "claims", "next_delivery"),
    *("committed_us", "retention", "kept_from", "undone", "withdrawals"),
    *("segments", "streams", "figures", "undelivered", "decisions"),
)


@apply.register
def _(update: GoBack, draft: Draft) -> None:
    to = update.to
    waiting = {entry.id for entry in draft.undelivered}
    reason = f"rolled back to version {to.version}"
    draft.segments.replace_all(to.segments)
    draft.streams, draft.figures = dict(to.streams), dict(to.figures)
    draft.undelivered = tuple(entry for entry in to.undelivered if entry.id in waiting)  # others are delivered by now
    draft.decisions = [*to.decisions, {"decision": "GoBack", "reason": reason, "version": draft.version}]
    undone = [entry for entry in draft.get("undone") if entry[1] >= draft.get("kept_from")]
    withdrawal = Withdrawal(draft.version, to.last_batch, update.how, update.files, update.places)
    draft.set(**{entry.name: getattr(to, entry.name) for entry in fields(to) if entry.name not in _OF_THE_CHECKPOINT})
    draft.set(
        undone=(*undone, (to.version + 1, draft.version - 1)),
        withdrawals=(*draft.get("withdrawals"), withdrawal),
    )


@apply.register
def _(update: MarkWithdrawn, draft: Draft) -> None:
    draft.set(withdrawals=())


@apply.register
def _(update: CutRange, draft: Draft) -> None:
    placement: Placement = draft.get("placement")
    draft.set(
        placement=placement.cut(update.partitioning, update.group, update.at_hash),
        tracks=tuple(track.cut(update.group) for track in draft.get("tracks")),
    )
    for state in update.states:
        draft.segments.cut(state, update.group, update.first)
    for operator, share in update.shares.items():
        if operator in draft.figures:
            draft.figures[operator] = draft.figures[operator].cut(update.group, share)


@apply.register
def _(update: Regroup, draft: Draft) -> None:
    waiting = list(draft.segments.finish().all_waiting)  # these lie in no groups
    draft.segments.replace_all(SegmentTable.of((*update.segments, *waiting)))
    draft.figures = {}  # they are of groups
    draft.set(placement=update.placement)


@apply.register
def _(update: SetTracks, draft: Draft) -> None:
    draft.set(tracks=update.tracks)


@apply.register
def _(update: SwitchPlan, draft: Draft) -> None:
    for state, within in update.dropped:
        draft.segments.drop(state, within)
    for state, within in update.reopened:
        draft.segments.reopen(state, within)
    changed = expand_ranges(update.within or ())
    draft.figures = {
        name: figures.opened(changed) for name, figures in draft.figures.items() if name in update.operators
    }
    draft.set(tracks=update.tracks, query=update.query or draft.get("query"))
    if update.query is not None:  # windows and filters are not among the figures that plans are kept with
        draft.set(library=())


@apply.register
def _(update: AddSegment, draft: Draft) -> None:
    draft.segments.add(update.segment)


@apply.register
def _(update: ReleaseGroups, draft: Draft) -> None:
    draft.segments.release(update.segment, update.groups)


@apply.register
def _(update: CloseGroups, draft: Draft) -> None:
    for state in update.states:
        for segment in list(draft.segments.active(state).values()):
            draft.segments.turn_cold(segment, update.groups, update.generation)
        if LIVE in draft.segments.generations(state):
            for segment in list(draft.segments.cold(state, LIVE).values()):
                draft.segments.turn_cold(segment, update.groups, update.generation)
    if update.operator in draft.figures:
        figures = draft.figures[update.operator]
        draft.figures[update.operator] = figures.opened(expand_ranges(update.groups))


@apply.register
def _(update: CoolGroups, draft: Draft) -> None:
    segment = draft.segments.active(update.state).get(update.segment)
    if segment is not None:  # what is left of it may have had no rows, and have gone
        draft.segments.turn_cold(segment, update.groups, LIVE)


@apply.register
def _(update: AdvanceStream, draft: Draft) -> None:
    before = draft.streams.get(update.stream, StreamProgress())
    draft.streams[update.stream] = replace(
        before.reach(update.newest_us, update.intake),
        rows=before.rows + update.rows,
        late=before.late + update.late,
        files=before.files + update.files,
        ignored_before_us=max(before.ignored_before_us, update.ignored_before_us),
        ahead=before.ahead + update.ahead,
    )


@apply.register
def _(update: SetNewest, draft: Draft) -> None:
    before = draft.streams[update.stream]
    if before.newest_us is None or update.newest_us >= before.newest_us:
        raise InternalError(f'stream "{update.stream}" can be set back only')
    draft.streams[update.stream] = replace(before, newest_us=update.newest_us)


@apply.register
def _(update: ListFiles, draft: Draft) -> None:
    before = draft.streams[update.stream]
    kept = tuple(entry for entry in before.file_lists if entry[0] not in update.replaced)
    draft.streams[update.stream] = replace(
        before, files=before.files[update.moved :], file_lists=(*kept, (update.name, update.count))
    )


@apply.register
def _(update: FinishBatch, draft: Draft) -> None:
    batch = update.batch
    last: BatchRecord | None = draft.get("batch")
    before, round_before = (-1, 0) if last is None else (last.number, last.round)
    following = [(before, round_before + 1), (before + 1, 0)]
    if (batch.number, batch.round) not in following:
        raise InternalError(
            f"batch {batch.number} cannot follow batch {-1 if last is None else last.number}",
            detail="Batches are committed in order, each exactly once.",
        )
    number: DeliveryId = draft.get("next_delivery")
    results, late = update.results, update.late_files
    draft.undelivered += (Delivery(number, batch.number, batch.round, results, late, update.sums),)
    draft.set(
        batch=batch,
        next_delivery=DeliveryId(number + 1),
        rows_in=draft.get("rows_in") + batch.rows_in,
        rows_out=draft.get("rows_out") + batch.rows_out,
        rows_late=draft.get("rows_late") + batch.rows_late,
        rows_ahead=draft.get("rows_ahead") + batch.rows_ahead,
    )


@apply.register
def _(update: GatherDeliveries, draft: Draft) -> None:
    gathered = [entry for entry in draft.undelivered if entry.id in update.ids]
    if len(gathered) != len(update.ids):
        raise InternalError("some of the deliveries to gather are not waiting")
    last = replace(gathered[-1], results=update.results, late_files=update.late_files, sums=update.sums)
    rest = [entry for entry in draft.undelivered if entry.id not in update.ids]
    draft.undelivered = tuple(sorted([*rest, last], key=lambda entry: entry.id))
    draft.set(next_delivery=update.next_delivery)


@apply.register
def _(update: MarkDelivered, draft: Draft) -> None:
    draft.undelivered = tuple(entry for entry in draft.undelivered if entry.id not in update.ids)


@apply.register
def _(update: ObserveBatch, draft: Draft) -> None:
    draft.set(measured=draft.get("measured").then(update.measured))


@apply.register
def _(update: ObserveGroups, draft: Draft) -> None:
    method = find_smoothing(update.smoothing)
    for operator, seen in update.operators.items():
        before = draft.figures.get(operator) or GroupFigures.nothing(len(seen.arrivals), len(seen.local))
        draft.figures[operator] = before.then(update.batch, seen, method.then)


@apply.register
def _(update: RecordDecision, draft: Draft) -> None:
    draft.decisions.append({**update.decision, "version": draft.version})
    if update.taken is not None:
        draft.set(taken=(*draft.get("taken"), update.taken))


@apply.register
def _(update: Learn, draft: Draft) -> None:
    draft.set(learned=update.learned)


@apply.register
def _(update: PassBoundary, draft: Draft) -> None:
    draft.set(emitted={**draft.get("emitted"), update.state: update.until_us})


@apply.register
def _(update: PassGate, draft: Draft) -> None:
    draft.set(gate=update.gate)


@apply.register
def _(update: ResolveEnds, draft: Draft) -> None:
    draft.segments.change(
        update.segment, lambda segment: replace(segment.gone_by(update.time_us), rank_ends=update.rank_ends)
    )


@apply.register
def _(update: SetLibrary, draft: Draft) -> None:
    draft.set(library=update.plans)
