"""How far streams have come, as of the last batch: in what was read, and in what the join knows of."""

from __future__ import annotations

from watersmeet.model.quantities import microseconds
from watersmeet.plan.count_windows import counted_streams
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.state.expiry import Watermarks
from watersmeet.state.manifest import GateProgress, Manifest


def watermarks_us(plan: PhysicalPlan, manifest: Manifest) -> dict[str, int | None]:
    """How far each stream has come in the join, as of the last batch: what waits at the gate is still to come."""
    return at_gate(plan, stream_watermarks_us(plan, manifest), manifest.gate)


def at_gate(plan: PhysicalPlan, marks: Watermarks, gate: GateProgress | None) -> dict[str, int | None]:
    """Watermarks of streams, as far as the join knows of them."""
    if not counted_streams(plan.query):
        return dict(marks)
    admitted = None if gate is None else gate.admitted_us
    return {name: None if mark is None or admitted is None else min(mark, admitted) for name, mark in marks.items()}


def late_before_us(plan: PhysicalPlan, manifest: Manifest) -> dict[str, int | None]:
    """The time before which rows of each stream are late.

    Of a stream that is counted, rows are too that are before what has entered: its rows up to there have been counted.
    Of all others, rows whose counts are not known any more. That says no more than watermarks do, unless the input had
    come to its end before, or somebody has set a watermark back or allowed for more lateness.
    """
    marks = stream_watermarks_us(plan, manifest)
    gate = manifest.gate
    if gate is None:
        return marks
    counted = counted_streams(plan.query)
    known = [each.before_us for each in gate.counted.values()]
    floors = {stream: [gate.admitted_us] if stream in counted else known for stream in marks}
    return {
        stream: max((time for time in (mark, *floors[stream]) if time is not None), default=None)
        for stream, mark in marks.items()
    }


def passed_ranks(manifest: Manifest) -> dict[str, int]:
    """For each stream that is counted, the count that no row which enters will be below."""
    return {} if manifest.gate is None else {name: each.rows for name, each in manifest.gate.counted.items()}


def stream_watermarks_us(plan: PhysicalPlan, manifest: Manifest) -> dict[str, int | None]:
    """How far each stream has come, as of the last batch."""
    lateness = {entry.stream.name: microseconds(entry.stream.lateness) for entry in plan.query.inputs}
    return {
        name: manifest.streams[name].watermark_us(lateness[name]) if name in manifest.streams else None
        for name in plan.streams
    }
