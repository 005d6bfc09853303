"""Every change that a manifest can undergo, as data. `state/applying.py` has what each does.

A commit is a list of updates; the version file holds them as JSON, tagged with the class name. To add a kind of
change: a dataclass that is one of `Update`, and its `apply` there. Their JSON follows from the types of their fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from watersmeet.model.file_names import FileName
from watersmeet.model.file_sums import FileSums
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
from watersmeet.model.plain_json import plain_fields, read
from watersmeet.model.routing import GroupRange, Groups
from watersmeet.model.segments import Segment
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


@dataclass(frozen=True)
class SetPlacement:
    """Other owners for the groups; the number of slots may change with them."""

    placement: Placement


@dataclass(frozen=True)
class SetRetention:
    """From now on so many versions are kept, for so long."""

    retention: Retention


@dataclass(frozen=True)
class GoBack:
    """The state is again what it was at an earlier version; what is of the checkpoint and its runs stays as it is.

    It holds all of that version, so that nothing that comes after depends on files of before. Results that were
    delivered since are in `files`, and waited in `places`; `how` says what becomes of them (`Withdrawal`). Ids of
    deliveries go on: they only grow.
    """

    to: Manifest
    how: str
    files: tuple[FileName, ...] = ()
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class MarkWithdrawn:
    """What rollbacks up to now left to be done is done."""


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


@dataclass(frozen=True)
class Regroup:
    """There are other groups from now on, and nothing is owed: these are all segments, described by them."""

    placement: Placement
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class SetTracks:
    """The plans at work."""

    tracks: tuple[Track, ...]


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


@dataclass(frozen=True)
class AddSegment:
    segment: Segment


@dataclass(frozen=True)
class ReleaseGroups:
    """These groups leave the segment: other segments hold their rows, or nobody needs them any more."""

    segment: SegmentId
    groups: tuple[GroupRange, ...]


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


@dataclass(frozen=True)
class CoolGroups:
    """These groups of an active segment have expired but are owed results: they go cold with their live generation."""

    segment: SegmentId
    state: StateName
    groups: tuple[GroupRange, ...]


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


@dataclass(frozen=True)
class SetNewest:
    """A stream has come to an earlier time than it seemed: somebody has set its watermark back."""

    stream: str
    newest_us: int


@dataclass(frozen=True)
class ListFiles:
    """The first `moved` names of files that a stream has read have moved on to a list.

    It has `count` of them, with those of the lists that it takes the place of.
    """

    stream: str
    name: FileName
    count: int
    moved: int
    replaced: tuple[FileName, ...] = ()


@dataclass(frozen=True)
class FinishBatch:
    """A batch, or a round of merges, is done; its results are to be delivered."""

    batch: BatchRecord
    results: tuple[FileName, ...] = ()
    late_files: tuple[FileName, ...] = ()
    sums: FileSums = field(default_factory=dict)  # of these files


@dataclass(frozen=True)
class GatherDeliveries:
    """What is undelivered under these ids, the last of which stays, is in these files now, and in no others.

    The next delivery gets the id `next_delivery`: names of files tell by it what came before (`state/output_names.py`).
    """

    ids: tuple[DeliveryId, ...]
    results: tuple[FileName, ...] = ()
    late_files: tuple[FileName, ...] = ()
    sums: FileSums = field(default_factory=dict)
    next_delivery: DeliveryId = FIRST_DELIVERY


@dataclass(frozen=True)
class MarkDelivered:
    """These are known to have been delivered."""

    ids: tuple[DeliveryId, ...]


@dataclass(frozen=True)
class RecordDecision:
    """Something that was decided, and why; the last `DECISIONS_KEPT` are kept in the manifest.

    `taken`: what must not be done a second time, of a decision that is looked for again.
    """

    decision: Mapping[str, Any]
    taken: Taken | None = None


@dataclass(frozen=True)
class Learn:
    """What policies have learned."""

    learned: Learned


@dataclass(frozen=True)
class SetLibrary:
    """The plans that served well, and the figures that they did so under. Apart from `Learn`, which every batch has."""

    plans: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class ObserveBatch:
    """What a batch says about rates and selectivities; earlier ones fade."""

    measured: Measured


@dataclass(frozen=True)
class ObserveGroups:
    """What a batch saw of the groups of operators; `smoothing` names the method that recent figures are kept by."""

    batch: int
    smoothing: str
    operators: Mapping[OperatorName, GroupObservation]


@dataclass(frozen=True)
class PassBoundary:
    """Groups have been emitted at all boundaries up to this one; it goes with the results."""

    state: StateName
    until_us: int


@dataclass(frozen=True)
class PassGate:
    """Rows of streams have entered the join, as the gate says now; it goes with what came of them."""

    gate: GateProgress


@dataclass(frozen=True)
class ResolveEnds:
    """By windows of rows, the rows of a segment are not needed from `time_us` on; what `rank_ends` has is open."""

    segment: SegmentId
    time_us: int
    rank_ends: tuple[tuple[str, int], ...]


Update = (
    Claim
    | SetPlacement
    | SetRetention
    | GoBack
    | MarkWithdrawn
    | CutRange
    | Regroup
    | SetTracks
    | SwitchPlan
    | AddSegment
    | ReleaseGroups
    | CloseGroups
    | CoolGroups
    | AdvanceStream
    | SetNewest
    | ListFiles
    | FinishBatch
    | GatherDeliveries
    | MarkDelivered
    | ObserveBatch
    | ObserveGroups
    | PassBoundary
    | PassGate
    | ResolveEnds
    | RecordDecision
    | Learn
    | SetLibrary
)
_BY_NAME: dict[str, type[Update]] = {kind.__name__: kind for kind in get_args(Update)}


def update_to_json(update: Update) -> dict[str, Any]:
    return {"update": type(update).__name__, **plain_fields(update)}


def update_from_json(data: Mapping[str, Any]) -> Update:
    return read(_BY_NAME[data["update"]], {name: value for name, value in data.items() if name != "update"})
