"""Every change that a manifest can undergo, as data. `state/applying.py` has what each does.

A commit is a list of updates; the version file holds them as JSON, tagged with the class name. To add a kind of
change: a dataclass with `from_json` in `UPDATES`, and its `apply` there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from watersmeet.model.file_names import checked_name, checked_names
from watersmeet.model.file_sums import FileSum, sums_from_json
from watersmeet.model.group_figures import GroupObservation
from watersmeet.model.ids import (
    FIRST_DELIVERY,
    DeliveryId,
    Generation,
    OperatorName,
    Partitioning,
    SegmentId,
    StateName,
)
from watersmeet.model.intake import UnfinishedIntake
from watersmeet.model.placement import Placement
from watersmeet.model.routing import GroupRange, Groups
from watersmeet.model.segments import Segment, ranges_from_json
from watersmeet.model.statistics import Measured
from watersmeet.state.epochs import Holder
from watersmeet.state.learned import Learned
from watersmeet.state.manifest import BatchRecord, GateProgress, Manifest, Track
from watersmeet.state.query_identity import QueryIdentity
from watersmeet.state.retention import Retention
from watersmeet.state.taken import Taken


@dataclass(frozen=True)
class Claim:
    """A run takes the checkpoint: the first that it commits."""

    holder: Holder

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Claim:
        return cls(Holder.from_json(data["holder"]))


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
        files, places = checked_names(data["files"]), tuple(data["places"])
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
class Regroup:
    """There are other groups from now on, and nothing is owed: these are all segments, described by them."""

    placement: Placement
    segments: tuple[Segment, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Regroup:
        return cls(Placement.from_json(data["placement"]), tuple(map(Segment.from_json, data["segments"])))


@dataclass(frozen=True)
class SetTracks:
    """The plans at work."""

    tracks: tuple[Track, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SetTracks:
        return cls(tuple(map(Track.from_json, data["tracks"])))


StatePart = tuple[StateName, Groups | None]  # a state in some groups; None: in all


@dataclass(frozen=True)
class SwitchPlan:
    """Other tracks answer from now on, and nothing is owed in the groups that change when they begin.

    The states of `dropped` go. All rows of those of `reopened`, which belong to other joins than before, are of the
    live generations of their groups: results among them have been emitted. Of what is known of the groups of operators
    only that of `operators` stays, and nothing of what groups have earned that are `within`.
    """

    tracks: tuple[Track, ...]
    dropped: tuple[StatePart, ...]
    reopened: tuple[StatePart, ...]
    operators: tuple[OperatorName, ...]
    query: QueryIdentity | None = None  # the query that they are plans of, where that was changed
    within: Groups | None = None  # the groups that change, where others do not

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SwitchPlan:
        query, within = data["query"], data["within"]
        return cls(
            tuple(map(Track.from_json, data["tracks"])),
            _parts(data["dropped"]),
            _parts(data["reopened"]),
            tuple(data["operators"]),
            None if query is None else QueryIdentity.from_json(query),
            None if within is None else ranges_from_json(within),
        )


def _parts(data: Any) -> tuple[StatePart, ...]:
    return tuple((StateName(name), None if within is None else ranges_from_json(within)) for name, within in data)


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
        return cls(**{**data, "files": files, "intake": UnfinishedIntake.from_json(data["intake"])})


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
    next_delivery: DeliveryId = FIRST_DELIVERY

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GatherDeliveries:
        results, late_files = checked_names(data["results"]), checked_names(data["late_files"])
        return cls(tuple(data["ids"]), results, late_files, sums_from_json(data), data["next_delivery"])


@dataclass(frozen=True)
class MarkDelivered:
    """These are known to have been delivered."""

    ids: tuple[DeliveryId, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MarkDelivered:
        return cls(tuple(data["ids"]))


@dataclass(frozen=True)
class RecordDecision:
    """Something that was decided, and why; the last `DECISIONS_KEPT` are kept in the manifest.

    `taken`: what must not be done a second time, of a decision that is looked for again.
    """

    decision: Mapping[str, Any]
    taken: Taken | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RecordDecision:
        taken = data.get("taken")
        return cls(data["decision"], None if taken is None else Taken.from_json(taken))


@dataclass(frozen=True)
class Learn:
    """What policies have learned."""

    learned: Learned

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Learn:
        return cls(Learned.from_json(data["learned"]))


@dataclass(frozen=True)
class SetLibrary:
    """The plans that served well, and the figures that they did so under. Apart from `Learn`, which every batch has."""

    plans: tuple[Mapping[str, Any], ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SetLibrary:
        return cls(tuple(data["plans"]))


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


@dataclass(frozen=True)
class PassBoundary:
    """Groups have been emitted at all boundaries up to this one; it goes with the results."""

    state: StateName
    until_us: int

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PassBoundary:
        return cls(**data)


@dataclass(frozen=True)
class PassGate:
    """Rows of streams have entered the join, as the gate says now; it goes with what came of them."""

    gate: GateProgress

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PassGate:
        return cls(GateProgress.from_json(data["gate"]))


@dataclass(frozen=True)
class ResolveEnds:
    """By windows of rows, the rows of a segment are not needed from `time_us` on; what `rank_ends` has is open."""

    segment: SegmentId
    time_us: int
    rank_ends: tuple[tuple[str, int], ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ResolveEnds:
        return cls(data["segment"], data["time_us"], tuple((stream, end) for stream, end in data["rank_ends"]))


class Update(Protocol):
    """One of `UPDATES`."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Update: ...


UPDATES: tuple[type[Update], ...] = (
    Claim,
    SetPlacement,
    SetRetention,
    GoBack,
    MarkWithdrawn,
    CutRange,
    Regroup,
    SetTracks,
    SwitchPlan,
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
    PassBoundary,
    PassGate,
    ResolveEnds,
    RecordDecision,
    Learn,
    SetLibrary,
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
