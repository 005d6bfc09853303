"""What a run tells its users as it goes: one event for each batch, and one at the end. Plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from watersmeet.plan.physical import PhysicalPlan
from watersmeet.runtime.batch import watermarks_of
from watersmeet.runtime.generations import owed
from watersmeet.state.manifest import Manifest

Event = dict[str, Any]
Report = Callable[[Event], None]


def silent(event: Event) -> None:
    """Tell nobody."""


def note_to(report: Report) -> Callable[[str], None]:
    """A function that reports a sentence to the user."""
    return lambda text: report({"event": "note", "text": text})


def batch_event(
    plan: PhysicalPlan, manifest: Manifest, seconds: float, decisions: Sequence[Mapping[str, Any]] = ()
) -> Event:
    """What users are told after a batch, or after a round of merges that no rows came with."""
    batch = manifest.batch
    assert batch is not None
    marks = watermarks_of(plan, manifest)
    states: dict[str, dict[str, Any]] = {
        name: {"inputs": list(state.aliases), "rows": 0, "bytes": 0, "cold_rows": 0, "cold_bytes": 0, "segments": 0}
        for name, state in plan.states.items()
    }
    for segment in manifest.segments.values():
        total = states[segment.state]
        cold = "cold_" if segment.tier == "cold" else ""
        total[f"{cold}rows"] += segment.live_rows
        total[f"{cold}bytes"] += segment.live_bytes
        total["segments"] += 1
    return {
        "event": "merge" if batch.round else "batch",
        "batch": batch.number,
        "rows_in": batch.rows_in,
        "rows_out": batch.rows_out,
        "rows_late": batch.rows_late,
        "seconds": round(seconds, 6),
        "state_rows": manifest.state_rows,
        "active_bytes": manifest.active_bytes,
        "cold_bytes": manifest.cold_bytes,
        "owed_groups": {operator: len(groups) for operator, groups in owed(plan, manifest).items()},
        "rows_merged": batch.rows_merged,
        "streams": {
            name: {"rows": progress.rows, "late": progress.late, "watermark": marks.get(name)}
            for name, progress in manifest.streams.items()
        },
        "states": states,
        "nodes": batch.nodes,
        "decisions": list(decisions),
    }


def end_event(before: Manifest, after: Manifest, batches: int, seconds: float) -> Event:
    """What users are told at the end: the sums over this run."""
    return {
        "event": "end",
        "rows_in": after.rows_in - before.rows_in,
        "rows_out": after.rows_out - before.rows_out,
        "rows_late": after.rows_late - before.rows_late,
        "batches": batches,
        "seconds": round(seconds, 6),
    }
