"""The cold group that is worth a merge while the query runs: the state manager of [Levandoski11, section V].

Walks the plan from the root down, and stops at the first operator at which a merge yields more results of the query a
second than memory does: results expected per row read, times the rows that can be read a second, against the recent
output of the operator's groups. There it takes the best cold group. In the paper the operators below wait while it is
merged. Here they do not: a merge runs in the tasks of a batch, beside the joining of new rows and never instead of it,
and batches wait for each other. What would have waited is told with the decision. Rows that come meanwhile wait in
their sources, which have room: the paper's buffer, which a merge must not overrun (BufSpace), is not modelled. Groups
whose results would not fit into memory above them are passed over (`fits_memory`), of which the paper says nothing:
what they owe is left to the clean-up, which goes group by group. And so are groups of which nearly all was read by a
merge before (`has_grown`): a merge writes all that it reads down again, so that without windows each would cost more
than the last, for ever; as it is, a row is read about five times, however long a query runs.

Where the paper leaves things open:
- memConst is a rate of results there, and multiplies a number of results. Here the recent output is divided by the
  seconds it took, so that both sides are results a second, and `memory_weight` is a plain factor.
- What holds before any result of an operator has come through to the end. Here all of them are taken to.
- The paper has a chain. Here operators at one distance from the root come by their ids, and a bushy plan's operators
  below are those that feed the merging one; other branches go on.

Limits: what the cold generations owe to the live one does not count, since only closed generations are merged. A group
with a single cold generation is never chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.estimates import global_share, kept_bytes, owed_by
from watersmeet.adapt.view import ColdView, MemoryView
from watersmeet.model.ids import OperatorName


@dataclass(frozen=True)
class MergePace:
    """What the machine can do."""

    disk_rows: float  # cold rows that can be read a second (dskConst)
    memory_weight: float = 1.0  # more than 1 favours memory (memConst)
    room: float = 0.3  # share of the budget that results may take above: what a spill makes room for
    growth: float = 0.2  # share of a group that is not in its largest generation, less than which is not worth a merge


def choose_merge(view: MemoryView, pace: MergePace) -> MergeGroup | None:
    """The group to merge now, or None where memory yields more at every operator."""
    for operator in sorted(view.operators, key=lambda operator: (operator.depth, operator.id)):
        probing = memory_throughput(view, operator.id, pace)
        cold = [(disk_throughput(view, group), group) for group in view.cold if group.operator == operator.id]
        for per_row, group in sorted(cold, key=lambda entry: (-entry[0], entry[1].group)):
            merging = per_row * pace.disk_rows
            if merging <= probing:
                break
            if fits_memory(view, group, pace) and has_grown(group, pace):
                reason = (
                    f"merging {view.label(group.operator)}:{group.group} should give {merging:.4g} results a second, "
                    f"{per_row:.4g} for each of {group.rows} rows read; memory gives {probing:.4g}"
                )
                waiting = tuple(sorted(set(view.below(operator.id))))
                return MergeGroup(group.operator, group.group, reason, waiting, with_live=False)
    return None


def memory_throughput(view: MemoryView, operator: OperatorName, pace: MergePace) -> float:
    """Results of the query that the operator's groups yield a second (memThroughput)."""
    return pace.memory_weight * view.recent_outputs[operator][1] / view.seconds


def disk_throughput(view: MemoryView, cold: ColdView) -> float:
    """Results of the query expected for each row that a merge of the group reads (dskThroughput)."""
    # Before any result of the operator has come through to the end its share would be 0, nothing below the root would
    # be merged, and so nothing would ever come through.
    come_through = view.recent_outputs[cold.operator][1] > 0
    share = global_share(view, cold.operator, cold.group) if come_through else 1.0
    return owed_by(cold) * share / max(1, cold.rows)


def has_grown(cold: ColdView, pace: MergePace) -> bool:
    """Whether enough of the group is in other generations than its largest, which a merge would write down again."""
    return cold.rows - cold.largest_rows >= pace.growth * cold.rows


def fits_memory(view: MemoryView, cold: ColdView, pace: MergePace) -> bool:
    """Whether what a merge of the group should emit has room in the states above."""
    if view.budget_bytes is None:
        return True
    emitted = owed_by(cold) * kept_bytes(view, cold.operator)
    return emitted <= pace.room * view.budget_bytes
