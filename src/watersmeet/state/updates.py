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
from watersmeet.model.routing import GroupRange, Routing
from watersmeet.model.segments import Segment
from watersmeet.model.statistics import Measured
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
        return cls(data["segment"], tuple((low, high) for low, high in data["groups"]))


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


DECISIONS_KEPT = 200

Update = SetRouting | AddSegment | ReleaseGroups | AdvanceStream | FinishBatch | ObserveBatch | RecordDecision
UPDATES: tuple[type[Update], ...] = (
    SetRouting,
    AddSegment,
    ReleaseGroups,
    AdvanceStream,
    FinishBatch,
    ObserveBatch,
    RecordDecision,
)
_BY_NAME = {kind.__name__: kind for kind in UPDATES}


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
    if batch.number != manifest.last_batch + 1:
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
def _(update: RecordDecision, manifest: Manifest) -> Manifest:
    kept = (*manifest.decisions, {**update.decision, "version": manifest.version})[-DECISIONS_KEPT:]
    return replace(manifest, decisions=kept)
