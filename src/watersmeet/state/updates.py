"""Every change that a manifest can undergo, as data, and the function that applies it to a draft of the next one.

A commit is a list of updates; the version file holds them as JSON, tagged with the class name. To add a kind of
change: a dataclass with `from_json` in `UPDATES`, and its `apply`.

`apply_all` makes one draft, applies each update to it once, and turns it into the next manifest: what that costs grows
with the updates and with the buckets of segments that they touch, not with the manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import singledispatch
from typing import Any, Protocol

from watersmeet.errors import InternalError
from watersmeet.model.file_names import checked_name, checked_names
from watersmeet.model.file_sums import FileSum, sums_from_json
from watersmeet.model.group_figures import GroupFigures, GroupObservation
from watersmeet.model.ids import LIVE, DeliveryId, Generation, OperatorName, Partitioning, SegmentId, StateName
from watersmeet.model.intake import UnfinishedIntake
from watersmeet.model.placement import Placement
from watersmeet.model.routing import GroupRange, expand_ranges
from watersmeet.model.segments import Segment, ranges_from_json
from watersmeet.model.smoothing import find_smoothing
from watersmeet.model.statistics import Measured
from watersmeet.state.epochs import CLAIMS_KEPT, Holder
from watersmeet.state.manifest import BatchRecord, Delivery, Learned, Manifest, StreamProgress, Track, Withdrawal
from watersmeet.state.retention import Retention
from watersmeet.state.segment_table import SegmentDraft

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
        return replace(
            self.before,
            version=self.version,
            committed_us=None,  # who commits it knows, and what is kept by then
            segments=self.segments.finish(),
            streams=self.streams,
            figures=self.figures,
            undelivered=self.undelivered,
            decisions=tuple(self.decisions[-DECISIONS_KEPT:]),
            **self._changed,
        )


@dataclass(frozen=True)
class Claim:
    """A run takes the checkpoint: the first that it commits."""

    holder: Holder

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Claim:
        return cls(Holder.from_json(data["holder"]))


@dataclass(frozen=True)
class NameCheckpoint:
    """A checkpoint from before there were names gets one."""

    id: str

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NameCheckpoint:
        return cls(**data)


@dataclass(frozen=True)
class SetPlacement:
    """Other owners for the groups; the number of slots may change with them."""

    placement: Placement

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SetPlacement:
        return cls(Placement.from_json(data["placement"]))


@dataclass(frozen=True)
class SetRetention:
    """From now on so many versions are kept, for so long."""

    retention: Retention

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SetRetention:
        return cls(Retention.from_json(data["retention"]))


@dataclass(frozen=True)
class GoBack:
    """The state is again what it was at an earlier version; what is of the checkpoint and its runs stays as it is.

    It holds all of that version, so that nothing that comes after depends on files of before. Results that were
    delivered since are in `files`, and waited in `places`; `how` says what becomes of them (`Withdrawal`). Ids of
    deliveries go on: they only grow.
    """

    to: Manifest
    how: str
    files: tuple[str, ...] = ()
    places: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GoBack:
        files, places = checked_names(data["files"]), tuple(data.get("places", ()))
        return cls(Manifest.from_json(data["to"]), data["how"], files, places)


@dataclass(frozen=True)
class MarkWithdrawn:
    """What rollbacks up to now left to be done is done."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MarkWithdrawn:
        return cls()


@dataclass(frozen=True)
class CutRange:
    """A group of a partitioning, which these states are hashed on, becomes two: the second begins at `at_hash`.

    `first` has, for each file with rows of the group, the rows and the distinct keys of the first of the two; `shares`,
    for each operator, how much of the figures of the group the first gets. No row is rewritten.
    """

    partitioning: Partitioning
    group: int
    at_hash: int
    states: tuple[StateName, ...]
    first: Mapping[SegmentId, tuple[int, int]]
    shares: Mapping[OperatorName, float]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CutRange:
        first = {file: (rows, keys) for file, (rows, keys) in data["first"].items()}
        return cls(**{**data, "states": tuple(data["states"]), "first": first})


@dataclass(frozen=True)
class SetTracks:
    """The plans at work."""

    tracks: tuple[Track, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SetTracks:
        return cls(tuple(map(Track.from_json, data["tracks"])))


@dataclass(frozen=True)
class Rename:
    """States and operators get other names: a checkpoint of an earlier format knew them by others."""

    states: Mapping[StateName, StateName]
    operators: Mapping[OperatorName, OperatorName]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rename:
        return cls(**data)


@dataclass(frozen=True)
class AddSegment:
    segment: Segment

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AddSegment:
        return cls(Segment.from_json(data["segment"]))


@dataclass(frozen=True)
class ReleaseGroups:
    """These groups leave the segment: other segments hold their rows, or nobody needs them any more."""

    segment: SegmentId
    groups: tuple[GroupRange, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReleaseGroups:
        return cls(data["segment"], ranges_from_json(data["groups"]))


@dataclass(frozen=True)
class CloseGroups:
    """The live generation of these groups of an operator, which has these states, is closed and goes cold.

    It gets the number `generation`, which none of the groups has had before, and a new and empty one opens. No row is
    rewritten: a file that is cold in part has an entry for each part.
    """

    operator: OperatorName
    states: tuple[StateName, ...]
    groups: tuple[GroupRange, ...]
    generation: Generation

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CloseGroups:
        groups = ranges_from_json(data["groups"])
        return cls(data["operator"], tuple(data["states"]), groups, data["generation"])


@dataclass(frozen=True)
class CoolGroups:
    """These groups of an active segment have expired but are owed results: they go cold with their live generation."""

    segment: SegmentId
    state: StateName
    groups: tuple[GroupRange, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CoolGroups:
        return cls(data["segment"], data["state"], ranges_from_json(data["groups"]))


@dataclass(frozen=True)
class AdvanceStream:
    """`rows` more rows were read, `late` of them late and `ahead` of them ahead; `newest_us` is the largest event time
    but for those ahead.

    They came from `files`, each with the time that it was modified; those before `ignored_before_us` are passed over.
    `intake` is what they are a part of, if it is not yet at its end.
    """

    stream: str
    newest_us: int | None
    rows: int
    late: int
    files: tuple[tuple[str, int], ...] = ()
    ignored_before_us: int = 0
    ahead: int = 0
    intake: UnfinishedIntake | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AdvanceStream:
        files = tuple((name, time) for name, time in data["files"])
        return cls(**{**data, "files": files, "intake": UnfinishedIntake.from_json(data.get("intake"))})


@dataclass(frozen=True)
class SetNewest:
    """A stream has come to an earlier time than it seemed: somebody has set its watermark back."""

    stream: str
    newest_us: int

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SetNewest:
        return cls(**data)


@dataclass(frozen=True)
class ListFiles:
    """The first `moved` names of files that a stream has read have moved on to a list.

    It has `count` of them, with those of the lists that it takes the place of.
    """

    stream: str
    name: str
    count: int
    moved: int
    replaced: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ListFiles:
        return cls(**{**data, "name": checked_name(data["name"]), "replaced": checked_names(data["replaced"])})


@dataclass(frozen=True)
class FinishBatch:
    """A batch, or a round of merges, is done; its results are to be delivered."""

    batch: BatchRecord
    results: tuple[str, ...] = ()
    late_files: tuple[str, ...] = ()
    sums: Mapping[str, FileSum] = field(default_factory=dict)  # of these files

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FinishBatch:
        batch = BatchRecord(**data["batch"])
        results, late_files = checked_names(data["results"]), checked_names(data["late_files"])
        return cls(batch, results, late_files, sums_from_json(data))


@dataclass(frozen=True)
class GatherDeliveries:
    """What is undelivered under these ids, the last of which stays, is in these files now, and in no others.

    The next delivery gets the id `next_delivery`: names of files tell by it what came before (`state/output_names.py`).
    """

    ids: tuple[DeliveryId, ...]
    results: tuple[str, ...] = ()
    late_files: tuple[str, ...] = ()
    sums: Mapping[str, FileSum] = field(default_factory=dict)
    next_delivery: DeliveryId | None = None  # None: of a release that left it as it was

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GatherDeliveries:
        results, late_files = checked_names(data["results"]), checked_names(data["late_files"])
        return cls(tuple(data["ids"]), results, late_files, sums_from_json(data), data.get("next_delivery"))


@dataclass(frozen=True)
class MarkDelivered:
    """These are known to have been delivered."""

    ids: tuple[DeliveryId, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MarkDelivered:
        return cls(tuple(data["ids"]))


@dataclass(frozen=True)
class RecordDecision:
    """Something that was decided, and why; the last `DECISIONS_KEPT` are kept in the manifest."""

    decision: Mapping[str, Any]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RecordDecision:
        return cls(data["decision"])


@dataclass(frozen=True)
class Learn:
    """What policies have learned."""

    learned: Learned

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Learn:
        return cls(Learned.from_json(data["learned"]))


@dataclass(frozen=True)
class ObserveBatch:
    """What a batch says about rates and selectivities; earlier ones fade."""

    measured: Measured

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ObserveBatch:
        return cls(Measured.from_json(data["measured"]))


@dataclass(frozen=True)
class ObserveGroups:
    """What a batch saw of the groups of operators; `smoothing` names the method that recent figures are kept by."""

    batch: int
    smoothing: str
    operators: Mapping[OperatorName, GroupObservation]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ObserveGroups:
        seen = {operator: GroupObservation.from_json(entry) for operator, entry in data["operators"].items()}
        return cls(data["batch"], data["smoothing"], seen)


class Update(Protocol):
    """One of `UPDATES`."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Update: ...


UPDATES: tuple[type[Update], ...] = (
    Claim,
    NameCheckpoint,
    SetPlacement,
    SetRetention,
    GoBack,
    MarkWithdrawn,
    CutRange,
    SetTracks,
    Rename,
    AddSegment,
    ReleaseGroups,
    CloseGroups,
    CoolGroups,
    AdvanceStream,
    SetNewest,
    ListFiles,
    FinishBatch,
    GatherDeliveries,
    MarkDelivered,
    ObserveBatch,
    ObserveGroups,
    RecordDecision,
    Learn,
)
_BY_NAME = {kind.__name__: kind for kind in UPDATES}


def update_to_json(update: Update) -> dict[str, Any]:
    values = {entry.name: getattr(update, entry.name) for entry in fields(update)}  # type: ignore[arg-type]
    return {"update": type(update).__name__, **{name: _plain(value) for name, value in values.items()}}


def _plain(value: Any) -> Any:
    """A field of an update as plain JSON data."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "__dataclass_fields__"):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in fields(value)}
    return value


def update_from_json(data: Mapping[str, Any]) -> Update:
    return _BY_NAME[data["update"]].from_json({name: value for name, value in data.items() if name != "update"})


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
def _(update: NameCheckpoint, draft: Draft) -> None:
    draft.set(id=update.id, named_at=draft.version)


@apply.register
def _(update: SetPlacement, draft: Draft) -> None:
    draft.set(placement=update.placement)


@apply.register
def _(update: SetRetention, draft: Draft) -> None:
    draft.set(retention=update.retention)


# What a rollback leaves as it is, and what it has said itself in the draft; all else goes back.
_OF_THE_CHECKPOINT = (
    *("version", "query", "id", "named_at", "holder", "claims", "next_delivery"),
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
    draft.set(placement=placement.cut(update.partitioning, update.group, update.at_hash))
    for state in update.states:
        draft.segments.cut(state, update.group, update.first)
    for operator, share in update.shares.items():
        if operator in draft.figures:
            draft.figures[operator] = draft.figures[operator].cut(update.group, share)


@apply.register
def _(update: SetTracks, draft: Draft) -> None:
    draft.set(tracks=update.tracks)


@apply.register
def _(update: Rename, draft: Draft) -> None:
    for old, new in update.states.items():
        for segment in list(draft.segments.active(old).values()):
            _rename(draft, segment, new)
        for generation in draft.segments.generations(old):
            for segment in list(draft.segments.cold(old, generation).values()):
                _rename(draft, segment, new)
    draft.figures = {update.operators.get(name, name): figures for name, figures in draft.figures.items()}


def _rename(draft: Draft, segment: Segment, state: StateName) -> None:
    draft.segments.release(segment.id, segment.groups)
    draft.segments.add(replace(segment, state=state))


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
    following = [(0, 0)] if last is None else [(last.number, last.round + 1), (last.number + 1, 0)]
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
    if update.next_delivery is not None:
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


@apply.register
def _(update: Learn, draft: Draft) -> None:
    draft.set(learned=update.learned)
