"""What a run tells its users: one event at the start, one for each batch, and one at the end. Each with its JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, ClassVar

from watersmeet.model.ids import StateName
from watersmeet.model.routing import groups_text
from watersmeet.model.slot_figures import SlotFigures, Slots
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.runtime.clock import utc_us
from watersmeet.runtime.reports import Backlog
from watersmeet.runtime.watermarks import stream_watermarks_us
from watersmeet.start.promises import Promises
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.by_slot import active_bytes_by_slot, owing_by_slot
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_table import SegmentTable

_LOG = logging.getLogger("watersmeet")

Event = dict[str, Any]
Report = Callable[[Event], None]


def silent(event: Event) -> None:
    """Tell nobody."""


def time_text(now_us: int) -> str:
    """A time as events have it.

    >>> time_text(1_700_000_000_123_456)
    '2023-11-14T22:13:20.123456Z'
    """
    return f"{datetime.fromtimestamp(now_us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%S}.{now_us % 1_000_000:06d}Z"


class _Told:
    """An event as JSON: its kind, and its fields."""

    event: ClassVar[str]

    def to_json(self, now_us: int | None = None) -> Event:
        """With the time `now_us`, or the present one."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}  # type: ignore[arg-type]
        return {"event": self.event, "timestamp": time_text(utc_us() if now_us is None else now_us), **values}


@dataclass(frozen=True)
class NoteEvent(_Told):
    """A sentence for the user."""

    text: str
    event: ClassVar[str] = "note"


@dataclass(frozen=True)
class StartEvent(_Told):
    """Before anything else: the plan and the placement by the first batch, what changes before it, and promises."""

    plan: str
    placement: Mapping[str, Any]
    change: Mapping[str, Any] | None
    promises: Mapping[str, Any]
    event: ClassVar[str] = "start"

    @classmethod
    def of(cls, start: StartPlan, promises: Promises) -> StartEvent:
        return cls(start.tree, start.placement.to_json(), start.change_json(), promises.to_json())


@dataclass(frozen=True)
class BatchEvent(_Told):
    """After a batch. Joins and decisions name operators as people do."""

    batch: int
    rows_in: int
    rows_out: int
    rows_late: int
    seconds: float
    commit_seconds: float  # that the commit of the batch took, of all its seconds
    state_rows: int
    active_bytes: int
    cold_bytes: int
    owed_groups: Mapping[str, int]
    rows_merged: int
    streams: Mapping[str, Mapping[str, Any]]
    states: Mapping[str, Mapping[str, Any]]
    nodes: Mapping[str, Mapping[str, int]]
    decisions: Sequence[Mapping[str, Any]]
    rows_ahead: int = 0
    sync_seconds: float = 0.0  # that its commit and its tasks, all together, have waited for the disk
    migration: Mapping[str, Any] | None = None  # how far a change of the plan is that is under way
    slots: Sequence[Mapping[str, Any]] = ()  # what each did, and what its groups hold and owe
    shapes: Sequence[Mapping[str, str]] = ()  # the trees that groups run, and which, where these are several
    event: ClassVar[str] = "batch"


@dataclass(frozen=True)
class MergeEvent(BatchEvent):
    """After a round of merges that no rows came with."""

    event: ClassVar[str] = "merge"


@dataclass(frozen=True)
class EndEvent(_Told):
    """The sums over a run, and what was decided after its last batch."""

    rows_in: int
    rows_out: int
    rows_late: int
    batches: int
    seconds: float
    rows_ahead: int = 0
    decisions: Sequence[Mapping[str, Any]] = ()
    event: ClassVar[str] = "end"

    @classmethod
    def of(
        cls,
        before: Manifest,
        after: Manifest,
        batches: int,
        seconds: float,
        decisions: Sequence[Mapping[str, Any]] = (),
    ) -> EndEvent:
        return cls(
            rows_in=after.rows_in - before.rows_in,
            rows_out=after.rows_out - before.rows_out,
            rows_late=after.rows_late - before.rows_late,
            batches=batches,
            seconds=round(seconds, 6),
            rows_ahead=after.rows_ahead - before.rows_ahead,
            decisions=list(decisions),
        )


def note_to(report: Report) -> Callable[[str], None]:
    """A function that reports a sentence to the user."""
    return lambda text: report(NoteEvent(text).to_json())


def warn(text: str, report: Report) -> None:
    """Tell the user what must not go unseen: where nobody listens to events, in the log."""
    if report is silent:
        _LOG.warning(text)
    else:
        report(NoteEvent(text).to_json())


def _waiting(manifest: Manifest, stream: str) -> dict[str, int]:
    """The rows of a stream in files that have rows which wait at the gate, where there is one."""
    if manifest.gate is None:
        return {}
    entered, held = manifest.gate.admitted_us, manifest.segments.waiting(StateName(stream)).entries.values()
    return {"waiting": sum(segment.rows for segment in held if entered is None or segment.max_expiry_us >= entered)}


def batch_event(
    plan: PhysicalPlan,
    manifest: Manifest,
    ledgers: Ledgers,
    seconds: float,
    decisions: Sequence[Mapping[str, Any]] = (),
    commit_seconds: float = 0.0,
    now_us: int | None = None,
    sync_seconds: float = 0.0,
    backlogs: Mapping[str, Backlog] = MappingProxyType({}),
    migration: Mapping[str, Any] | None = None,
    slots: Slots = (),
) -> BatchEvent:
    """What users are told after a batch, or after a round of merges that no rows came with."""
    batch = manifest.batch
    assert batch is not None
    marks = stream_watermarks_us(plan, manifest)
    furthest = max((mark for mark in marks.values() if mark is not None), default=None)
    owing = {plan.label(name): int(ledger.owing.sum()) for name, ledger in ledgers.at(manifest).items()}
    kind = MergeEvent if batch.round else BatchEvent
    return kind(
        batch=batch.number,
        rows_in=batch.rows_in,
        rows_out=batch.rows_out,
        rows_late=batch.rows_late,
        seconds=round(seconds, 6),
        commit_seconds=round(commit_seconds, 6),
        state_rows=manifest.state_rows,
        active_bytes=manifest.active_bytes,
        cold_bytes=manifest.cold_bytes,
        owed_groups={label: count for label, count in owing.items() if count},
        rows_merged=batch.rows_merged,
        streams={
            name: {
                "rows": progress.rows,
                "late": progress.late,
                "ahead": progress.ahead,
                "watermark": marks.get(name),
                **_lags(marks.get(name), furthest, utc_us() if now_us is None else now_us),
                "backlog": backlogs.get(name),
                **_waiting(manifest, name),
            }
            for name, progress in manifest.streams.items()
        },
        states=state_sizes(plan, manifest),
        nodes=batch.joins,
        decisions=list(decisions),
        rows_ahead=batch.rows_ahead,
        sync_seconds=round(sync_seconds, 6),
        migration=migration,
        slots=_slots(plan, manifest, ledgers, slots),
        shapes=[{"plan": tree, "groups": groups_text(within)} for tree, within in plan.shapes if within is not None],
    )


def _slots(plan: PhysicalPlan, manifest: Manifest, ledgers: Ledgers, did: Slots) -> list[dict[str, Any]]:
    """What the slots of a batch did, and what those that there are now hold and owe."""
    held, owing = active_bytes_by_slot(plan, manifest), owing_by_slot(plan, manifest, ledgers)
    return [
        {
            "slot": slot,
            **(did[slot] if slot < len(did) else SlotFigures()).shown(),
            "active_bytes": held[slot],
            "owed_groups": owing[slot],
        }
        for slot in range(manifest.placement.slots)
    ]


def _lags(watermark_us: int | None, furthest_us: int | None, now_us: int) -> dict[str, float | None]:
    """How far a watermark is behind the clock, and behind the furthest one: which stream holds the others back.

    >>> _lags(4_000_000, 5_000_000, 7_500_000)
    {'watermark_lag_seconds': 3.5, 'behind_seconds': 1.0}
    """
    if watermark_us is None or furthest_us is None:
        return {"watermark_lag_seconds": None, "behind_seconds": None}
    lag_us, behind_us = now_us - watermark_us, furthest_us - watermark_us
    return {"watermark_lag_seconds": lag_us / 1e6, "behind_seconds": behind_us / 1e6}


def state_sizes(plan: PhysicalPlan, manifest: Manifest) -> dict[str, dict[str, Any]]:
    """What each state of a plan holds, by its name."""
    return {name: _state_size(state, manifest.segments) for name, state in plan.states.items()}


def _state_size(state: State, segments: SegmentTable) -> dict[str, Any]:
    active, cold = segments.active(state.name), segments.cold(state.name).values()
    return {
        "inputs": list(state.aliases),
        "rows": active.rows,
        "bytes": active.bytes,
        "cold_rows": sum(bucket.rows for bucket in cold),
        "cold_bytes": sum(bucket.bytes for bucket in cold),
        "segments": len(active.entries) + sum(len(bucket.entries) for bucket in cold),
    }
