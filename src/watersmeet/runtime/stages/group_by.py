"""The task of a group-by: emits the groups of a slot, and keeps the partial aggregates that have come.

At boundaries it emits what was kept before this batch: rows that count there have all come by then, which is when a
boundary is due (`state/boundaries.py`). What was spilled is read again there, piece by piece along the hash. Running
totals are emitted of the groups that have changed, with what has come; where there are no rows at all, the total of
these is emitted at the end by the slot that would have it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from watersmeet.kernel import pieces
from watersmeet.kernel.aggregate import at_boundaries, changed_totals, total_of_nothing
from watersmeet.kernel.evaluate import satisfied
from watersmeet.kernel.pieces import Runs, merged, piece_ranges
from watersmeet.kernel.rows import take
from watersmeet.model.expressions import Expr
from watersmeet.plan.group_by import GROUPS, GroupByStage
from watersmeet.runtime.stages.task import Answer, Arrived, Outcome, StageTask


def run_group_by(task: StageTask, arrived: Arrived) -> Outcome:
    stage = task.context.stage
    assert isinstance(stage, GroupByStage)
    if task.context.seeds is not None:  # a plan that is to take over finds it as it is
        return task.outcome()
    task.state.unite_parts()
    new = arrived.take(stage.port, stage.state)
    emitted = _changed(task, stage, new) if stage.partials.panes is None else _due(task, stage)
    rows = task.pass_on([Answer(_having(emitted, stage.partials.group_by.having), (), watched=False)])
    task.count(stage.title, sum(run.count for run in new), rows)
    if new or not task.context.round:
        task.state.keep(stage.state, new)
    return task.outcome()


def _due(task: StageTask, stage: GroupByStage) -> Iterator[pa.RecordBatch]:
    """The groups at the boundaries that are due."""
    due = task.context.boundaries
    kept = [*task.state.kept(stage.state), *task.state.spilled(stage.state)] if due is not None else []
    for within in piece_ranges(kept, pieces.PIECE_BYTES) if kept else ():
        assert due is not None
        parts = [run.clipped(*within).part for run in kept]
        yield from at_boundaries(parts, stage.partials, due.after_us, due.until_us)


def _changed(task: StageTask, stage: GroupByStage, new: Runs) -> Iterator[pa.RecordBatch]:
    """The groups that have come, with all that was kept of them."""
    if task.context.boundaries is not None and not new and task.context.placement.of(GROUPS).owners[0] == task.slot:
        yield total_of_nothing(stage.partials)
    kept = task.state.kept(stage.state) if new else []
    for within in piece_ranges(new, pieces.JOINED_BYTES) if new else ():
        rows = merged(new, stage.state.schema, within)
        if rows.num_rows:
            yield changed_totals(rows, kept, stage.partials)


def _having(chunks: Iterator[pa.RecordBatch], having: Expr | None) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        if having is None or not chunk.num_rows:
            yield chunk
        else:
            mask = satisfied(having, chunk)
            yield chunk if mask.all() else take(chunk, mask.nonzero()[0])
