"""Which boundaries of a query with groups are due: no row that counts there can come any more.

A row that comes has T no older than the watermark of its stream, and a result that a join owes none older than what the
join holds back (`state/ledger.py`). So the boundaries before all of these are due, and each is emitted once: the
manifest says up to which (`Manifest.emitted`), in the version that has its results. What joins owe delays a boundary,
and never changes one.

At the end of the input no row will come. Once nothing is owed, all boundaries are due at which some row counts: up to
the last one before the last row has left its window. A run that goes on after that with more rows counts them at later
boundaries alone.

Running totals have no boundaries. But an aggregate of all rows has a value where there are none, which is due once, at
the end of an input of which no row has come to it. It counts as a boundary at the beginning of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.kernel.window import LONG_AGO
from watersmeet.model.aggregates import Panes, Partials
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.state.expiry import Watermarks
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest

_TOTAL_OF_NOTHING = LONG_AGO  # what is emitted as if it were a boundary


@dataclass(frozen=True)
class Boundaries:
    """Those after the one (None: all of them) and up to the other, which is one itself."""

    after_us: int | None
    until_us: int


def due_boundaries(
    plan: PhysicalPlan, manifest: Manifest, watermarks: Watermarks, ledgers: Ledgers, ended: bool
) -> Boundaries | None:
    """The boundaries to emit that any kept row may count at; `ended`: no more rows will come."""
    state = plan.grouped
    if state is None or state.partials is None:
        return None
    if state.partials.panes is None:
        return _total_of_nothing(state, state.partials, manifest, ledgers) if ended else None
    until = _until(plan, state.partials.panes, manifest, watermarks, ledgers)
    emitted = manifest.emitted.get(state.name)
    held = list(manifest.segments.of_state(state.name))
    if ended and not ledgers.holds_us(manifest):
        until = max((segment.max_expiry_us - 1 for segment in held), default=until)
    if until is None or (emitted is not None and until <= emitted):
        return None
    return Boundaries(emitted, until) if any(segment.min_time_us <= until for segment in held) else None


def _total_of_nothing(state: State, partials: Partials, manifest: Manifest, ledgers: Ledgers) -> Boundaries | None:
    """That the aggregates of all rows are due, of which there are none and were none."""
    if not partials.group_by.is_one_total or state.name in manifest.emitted or ledgers.holds_us(manifest):
        return None
    return None if any(True for _ in manifest.segments.of_state(state.name)) else Boundaries(None, _TOTAL_OF_NOTHING)


def _until(
    plan: PhysicalPlan, panes: Panes, manifest: Manifest, watermarks: Watermarks, ledgers: Ledgers
) -> int | None:
    """The last boundary before all that may still come; None before every stream has shown a row."""
    marks = [watermarks[stream] for stream in plan.streams]
    known = [mark for mark in marks if mark is not None]
    if len(known) < len(marks):
        return None
    first = min(*known, *ledgers.holds_us(manifest).values(), known[0])
    return (first - 1) // panes.slide_us * panes.slide_us
