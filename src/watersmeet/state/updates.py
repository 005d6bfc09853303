"""Every change that a manifest can undergo, as data, and the pure function that applies it.

A commit is a list of updates; the version file holds them as JSON, tagged with the class name. To add a kind of
change, add a dataclass to `UPDATES` and its `apply`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import singledispatch
from typing import Any

from watersmeet.errors import InternalError
from watersmeet.model.group_figures import GroupFigures, GroupObservation
from watersmeet.model.routing import GroupRange, Routing, expand_ranges, intersect_ranges
from watersmeet.model.segments import Segment
from watersmeet.model.statistics import Measured
from watersmeet.model.upkeep import find_upkeep
from watersmeet.state.manifest import BatchRecord, Manifest, StreamProgress, batch_from_json


@dataclass(frozen=True)
class SetRouting:
    """Other owners for the groups; `slots` may change with them."""

    slots: int
    owners: tuple[int, ...]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SetRouting:
        return cls(data["slots"], tuple(data["owners"]))


@dataclass(frozen=True)
class AddSegment:
    segment: Segment

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> AddSegment:
        return cls(Segment.from_json(data["segment"]))


@dataclass(frozen=True)
class ReleaseGroups:
    """These groups leave the segment: other segments hold their rows, or nobody needs them any more."""

    segment: str
    groups: tuple[GroupRange, ...]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ReleaseGroups:
        return cls(data["segment"], _ranges(data["groups"]))


@dataclass(frozen=True)
class CloseGroups:
    """The live generation of these groups of an operator, which has these states, is closed and goes cold.

    A new and empty one opens. No row is rewritten: a file that is cold in part has an entry for each part.
    """

    operator: str
    states: tuple[str, ...]
    groups: tuple[GroupRange, ...]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CloseGroups:
        return cls(data["operator"], tuple(data["states"]), _ranges(data["groups"]))


@dataclass(frozen=True)
class CoolGroups:
    """These groups of an active segment have expired but are owed results: they go cold with their live generation."""

    operator: str
    segment: str
    groups: tuple[GroupRange, ...]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CoolGroups:
        return cls(data["operator"], data["segment"], _ranges(data["groups"]))


@dataclass(frozen=True)
class AdvanceStream:
    """`rows` more rows were read (from `files`), `late` of them late; `newest` is the largest event time among them."""

    stream: str
    newest: int | None
    rows: int
    late: int
    files: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> AdvanceStream:
        return cls(**{**data, "files": tuple(data["files"])})


@dataclass(frozen=True)
class FinishBatch:
    batch: BatchRecord

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> FinishBatch:
        return cls(batch_from_json(data["batch"]))


@dataclass(frozen=True)
class RecordDecision:
    """Something that was decided, and why; the last `DECISIONS_KEPT` are kept in the manifest."""

    decision: dict[str, Any]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RecordDecision:
        return cls(data["decision"])


@dataclass(frozen=True)
class ObserveBatch:
    """What a batch says about rates and selectivities; earlier ones fade."""

    measured: Measured

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ObserveBatch:
        return cls(Measured.from_json(data["measured"]))


@dataclass(frozen=True)
class ObserveGroups:
    """What a batch saw of the groups of operators; `upkeep` names the method that recent figures are kept by."""

    batch: int
    upkeep: str
    operators: dict[str, dict[str, Any]]  # `GroupObservation`s as JSON

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ObserveGroups:
        return cls(**data)


DECISIONS_KEPT = 200
UNITED = 0  # the number of a generation that a merge has made

Update = (
    SetRouting
    | AddSegment
    | ReleaseGroups
    | CloseGroups
    | CoolGroups
    | AdvanceStream
    | FinishBatch
    | ObserveBatch
    | ObserveGroups
    | RecordDecision
)
UPDATES: tuple[type[Update], ...] = (
    SetRouting,
    AddSegment,
    ReleaseGroups,
    CloseGroups,
    CoolGroups,
    AdvanceStream,
    FinishBatch,
    ObserveBatch,
    ObserveGroups,
    RecordDecision,
)
_BY_NAME = {kind.__name__: kind for kind in UPDATES}


def _ranges(data: Iterable[Iterable[int]]) -> tuple[GroupRange, ...]:
    return tuple((low, high) for low, high in data)


def update_to_json(update: Update) -> dict[str, Any]:
    return {"update": type(update).__name__, **asdict(update)}


def update_from_json(data: dict[str, Any]) -> Update:
    fields = {name: value for name, value in data.items() if name != "update"}
    return _BY_NAME[data["update"]].from_json(fields)


def apply_all(updates: Iterable[Update], manifest: Manifest) -> Manifest:
    """The next version."""
    result = replace(manifest, version=manifest.version + 1)
    for update in updates:
        result = apply(update, result)
    return result


@singledispatch
def apply(update: Any, manifest: Manifest) -> Manifest:
    raise InternalError(f"no way to apply a {type(update).__name__}")


@apply.register
def _(update: SetRouting, manifest: Manifest) -> Manifest:
    return replace(manifest, routing=Routing(update.slots, update.owners))


@apply.register
def _(update: AddSegment, manifest: Manifest) -> Manifest:
    return replace(manifest, segments={**manifest.segments, update.segment.id: update.segment})


@apply.register
def _(update: ReleaseGroups, manifest: Manifest) -> Manifest:
    segments = dict(manifest.segments)
    rest = segments[update.segment].without(update.groups)
    if rest.groups:
        segments[update.segment] = rest
    else:
        del segments[update.segment]
    return replace(manifest, segments=segments)


@apply.register
def _(update: CloseGroups, manifest: Manifest) -> Manifest:
    groups = set(expand_ranges(update.groups))
    by_number: dict[int, list[GroupRange]] = {}
    for group in groups:
        by_number.setdefault(manifest.live_generation(update.operator, group), []).append((group, group + 1))
    segments = dict(manifest.segments)
    for segment in manifest.segments.values():
        if segment.state in update.states and segment.tier == "active":
            for number, part in by_number.items():
                _turn_cold(segments, segment.id, tuple(part), number)
    counts = dict(manifest.closed.get(update.operator, {}))
    counts |= {group: counts.get(group, 0) + 1 for group in groups}
    figures = dict(manifest.figures)
    if update.operator in figures:
        figures[update.operator] = figures[update.operator].opened(sorted(groups))
    closed = {**manifest.closed, update.operator: counts}
    return replace(manifest, segments=segments, closed=closed, figures=figures)


@apply.register
def _(update: CoolGroups, manifest: Manifest) -> Manifest:
    segments = dict(manifest.segments)
    for group in expand_ranges(update.groups):
        number = manifest.live_generation(update.operator, group)
        _turn_cold(segments, update.segment, ((group, group + 1),), number)
    return replace(manifest, segments=segments)


def _turn_cold(segments: dict[str, Segment], name: str, groups: tuple[GroupRange, ...], number: int) -> None:
    """Move `groups` from an entry to one of their own, of the cold generation `number`."""
    if name not in segments or not intersect_ranges(segments[name].groups, groups):
        return
    entry = segments[name]
    cold = entry.cold(groups, number)
    rest = entry.without(groups)
    if rest.live_rows:  # groups without rows would keep a cold file among those that every batch opens
        segments[name] = rest
    else:
        del segments[name]
    if cold.id in segments:
        raise InternalError(f'two entries "{cold.id}" for one part of a file')
    segments[cold.id] = cold


@apply.register
def _(update: AdvanceStream, manifest: Manifest) -> Manifest:
    before = manifest.streams.get(update.stream, StreamProgress())
    known = [time for time in (before.newest, update.newest) if time is not None]
    after = StreamProgress(
        newest=max(known, default=None),
        rows=before.rows + update.rows,
        late=before.late + update.late,
        files=before.files + update.files,
    )
    return replace(manifest, streams={**manifest.streams, update.stream: after})


@apply.register
def _(update: FinishBatch, manifest: Manifest) -> Manifest:
    batch = update.batch
    last = manifest.batch
    next_round = last is not None and (batch.number, batch.round) == (last.number, last.round + 1)
    if not next_round and (batch.number, batch.round) != (manifest.last_batch + 1, 0):
        raise InternalError(
            f"batch {batch.number} cannot follow batch {manifest.last_batch}",
            detail="Batches are committed in order, each exactly once.",
        )
    return replace(
        manifest,
        batch=batch,
        rows_in=manifest.rows_in + batch.rows_in,
        rows_out=manifest.rows_out + batch.rows_out,
        rows_late=manifest.rows_late + batch.rows_late,
    )


@apply.register
def _(update: ObserveBatch, manifest: Manifest) -> Manifest:
    return replace(manifest, measured=manifest.measured.then(update.measured))


@apply.register
def _(update: ObserveGroups, manifest: Manifest) -> Manifest:
    method = find_upkeep(update.upkeep)
    figures = dict(manifest.figures)
    for operator, data in update.operators.items():
        seen = GroupObservation.from_json(data)
        before = figures.get(operator) or GroupFigures.nothing(len(seen.arrivals), manifest.routing.groups)
        figures[operator] = before.then(update.batch, seen, method.then)
    return replace(manifest, figures=figures)


@apply.register
def _(update: RecordDecision, manifest: Manifest) -> Manifest:
    kept = (*manifest.decisions, {**update.decision, "version": manifest.version})[-DECISIONS_KEPT:]
    return replace(manifest, decisions=kept)
