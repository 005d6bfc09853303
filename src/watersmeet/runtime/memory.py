"""What a run does about memory between two batches: spills groups, and says which ones to merge with the next batch.

A spill is a commit of its own: it closes the live generations of some groups and makes them cold. A merge takes place
in the tasks of a batch (`runtime/stage.py`), or in a round of its own when no rows come; the live generation of its
group is closed first, for only closed generations are merged. Whatever dies in between leaves a group that owes a
little more, and nothing lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from watersmeet import faults
from watersmeet.adapt.decisions import MergeGroup, SpillGroups
from watersmeet.adapt.estimates import kept_bytes, owed_results
from watersmeet.adapt.policies.merge.clean_up import clean_up
from watersmeet.adapt.policies.merge.state_manager import MergePace, choose_merge
from watersmeet.adapt.policies.spill import find_spill_policy
from watersmeet.adapt.settings import DEFAULT_POLICY, OFF, MemorySettings
from watersmeet.adapt.view import GroupKey, MemoryView
from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.routing import union_ranges
from watersmeet.plan.physical import PhysicalPlan, RoutedStage
from watersmeet.runtime.checkpoint import Checkpoint
from watersmeet.runtime.generations import owed
from watersmeet.runtime.memory_view import view_memory
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import AtVersion
from watersmeet.state.updates import CloseGroups, RecordDecision, Update

# Cold rows that a merge reads a second. Sources hand rows over when they are asked, so no buffer overruns.
PACE = MergePace(disk_rows=2_000_000.0)
CLEAN_UP_BYTES = 256 << 20  # in the place of a budget, where there is none


class MemoryKeeper:
    """Keeps the memory of one run. Called between batches only."""

    def __init__(self, plan: PhysicalPlan, checkpoint: Checkpoint, settings: MemorySettings | None = None) -> None:
        self.plan = plan
        self.checkpoint = checkpoint
        self.settings = settings or MemorySettings()
        self._begun = False
        self._batch_seconds = 1.0
        self._decided: list[Mapping[str, Any]] = []
        # Of the clean-up: the operator of the last round with the results expected of it, and what became of such.
        self._expected: tuple[str, float] | None = None
        self._come_true: dict[str, float] = {}
        self._check_steps()

    @property
    def manifest(self) -> Manifest:
        return self.checkpoint.manifest

    @property
    def upkeep(self) -> str | None:
        """How figures of groups are kept; None where nobody asks for them."""
        return self.settings.upkeep if self.settings.watched else None

    def taken(self) -> list[Mapping[str, Any]]:
        """What was decided since the last time that somebody asked."""
        decided, self._decided = self._decided, []
        return decided

    def before_batch(self) -> list[GroupKey]:
        """Do what is forced before the next batch; the groups to merge in it."""
        if not self._begun:
            self._stay_inside()  # an earlier run may have died before it did, or have had a larger budget
        self._begun = True
        merges: list[MergeGroup] = []
        for step in self.settings.forced:
            if step.at_batch == self.manifest.last_batch + 1:
                self.spill(SpillGroups(step.spill, "forced"))
                if step.spill_share is not None:
                    self._spill_bytes(int(step.spill_share * self.manifest.active_bytes), "forced")
                merges += [MergeGroup(operator, group, "forced") for operator, group in step.merge]
        return self.prepare_merges(merges or self._worthwhile())

    def after_batch(self, seconds: float) -> None:
        """Spill if the active state has outgrown its budget."""
        record = self.manifest.batch
        if record is None or not record.round:
            self._batch_seconds = seconds  # of a batch, not of merges between batches: so are the figures of groups
        self._begun = True
        self._stay_inside()

    def _stay_inside(self) -> None:
        budget = self.settings.budget_bytes
        active = self.manifest.active_bytes
        if budget is None or self.settings.spill == OFF or active <= budget * self.settings.spill_at:
            return
        self._spill_bytes(max(int(self.settings.share * active), active - budget), self.settings.spill)

    def while_idle(self) -> list[GroupKey]:
        """The groups to merge now that no rows come."""
        return self.prepare_merges(self._worthwhile())

    def clean_up(self, ended: bool = False) -> list[GroupKey]:
        """The next groups to merge so that nothing is owed in the end; none when nothing is.

        Those of one operator, lowest first, and no more at once than fits into the budget, what is read and what should
        be emitted. Where the input has `ended`, nothing more will come to that operator, so all that it has in memory
        makes room for them.
        """
        self._learn()
        owing = self.owed()
        if not owing:
            return []
        operator = owing[0][0]
        lowest = {key for key in owing if key[0] == operator}
        everything = {(operator, group) for group in range(self.manifest.routing.groups)}
        if closed := self._close(everything if ended else lowest):
            self._commit(closed)
        view = self._view()
        budget = self.settings.budget_bytes or CLEAN_UP_BYTES
        left: float = max(budget - self.manifest.active_bytes, budget // 4)
        # What a merge emits goes into memory above it, beside what it reads.
        kept = kept_bytes(view, operator) * self._come_true.get(operator, 1.0)
        emitted = {cold.key: owed_results(cold.generations, cold.unique) for cold in view.cold if cold.key in lowest}
        sizes = {cold.key: cold.bytes + kept * emitted[cold.key] for cold in view.cold if cold.key in lowest}
        chosen: list[MergeGroup] = []
        for entry in clean_up(view):
            if (entry.operator, entry.group) in lowest:
                left -= sizes[entry.operator, entry.group]
                if chosen and left < 0:
                    break
                chosen.append(entry)
        self._expected = operator, sum(emitted[entry.operator, entry.group] for entry in chosen)
        return self.prepare_merges(chosen)

    def _learn(self) -> None:
        """See how many of the results expected of the last round came: estimates know no windows and no predicates."""
        record = self.manifest.batch
        if self._expected is not None and record is not None and record.round:
            operator, expected = self._expected
            self._come_true[operator] = max(record.rows_merged, 1) / max(expected, 1.0)
        self._expected = None

    def _view(self) -> MemoryView:
        settings = self.settings
        return view_memory(self.plan, self.manifest, settings.budget_bytes, settings.upkeep, self._batch_seconds)

    def _worthwhile(self) -> list[MergeGroup]:
        """The merge that pays most, if it beats memory."""
        if self.settings.merge == OFF or self.upkeep is None or not self.manifest.closed:
            return []
        if not any(count > 1 for groups in self.manifest.closed.values() for count in groups.values()):
            return []  # one closed generation has nobody to be merged with
        found = choose_merge(self._view(), PACE)
        return [] if found is None else [found]

    def _spill_bytes(self, wanted: int, why: str) -> None:
        policy = self.settings.spill if self.settings.spill != OFF else DEFAULT_POLICY
        decision = find_spill_policy(policy)(self._view(), wanted)
        if decision.groups:
            self.spill(replace(decision, reason=f"{why}: {decision.reason}"))
        else:
            self._decided.append({"decision": "CannotSpill", "reason": f"{why}: {decision.reason}{self._routed()}"})

    def _routed(self) -> str:
        routed = dict.fromkeys(stage.node.id for stage in self.plan.stages if isinstance(stage, RoutedStage))
        return f"; {', '.join(routed)} cannot be spilled, being routed" if routed else ""

    def _check_steps(self) -> None:
        """Refuse forced steps that name what the plan does not have."""
        known = tuple(self.plan.operators)
        for step in self.settings.forced:
            for operator, group in (*step.spill, *step.merge):
                if operator not in known or group >= self.manifest.routing.groups:
                    near = None if operator in known else did_you_mean(operator, known)
                    raise JobError(
                        f'[[adapt.force]] names "{operator}:{group}", which the plan does not have',
                        detail=f"Its operators are {', '.join(known) or 'none that can spill'}, "
                        f"with groups 0 to {self.manifest.routing.groups - 1}.",
                        hint=near or "`watersmeet explain` shows the operators; routed ones cannot be spilled.",
                    )

    def spill(self, decision: SpillGroups) -> None:
        """Close the live generations of these groups and make them cold."""
        closed = self._close(decision.groups)
        if closed:
            self._commit([*closed, self._record(decision.to_json())])

    def prepare_merges(self, decisions: Sequence[MergeGroup]) -> list[GroupKey]:
        """Close what is live in the groups to be merged; the groups, for the next batch or round."""
        groups = [(decision.operator, decision.group) for decision in decisions]
        updates: list[Update] = [*self._close(groups), *(self._record(entry.to_json()) for entry in decisions)]
        if updates:
            self._commit(updates)
        return groups

    def owed(self) -> list[GroupKey]:
        """The groups that owe results, those of lower operators first."""
        return [(operator, group) for operator, groups in owed(self.plan, self.manifest).items() for group in groups]

    def _close(self, groups: Iterable[GroupKey]) -> list[Update]:
        """Updates that close those of `groups` with live rows."""
        wanted: dict[str, set[int]] = {}
        for operator, group in groups:
            wanted.setdefault(operator, set()).add(group)
        updates: list[Update] = []
        for operator, numbers in wanted.items():
            states = self.plan.operators[operator].states
            live: set[int] = set()
            for segment in self.manifest.segments.values():
                if segment.tier == "active" and segment.state in states:
                    live |= segment.rows_by_group.keys() & numbers
            cold = self._cooled(operator, states, numbers)
            if live | cold:
                ranges = union_ranges((group, group + 1) for group in live | cold)
                updates.append(CloseGroups(operator, states, ranges))
        return updates

    def _cooled(self, operator: str, states: tuple[str, ...], numbers: set[int]) -> set[int]:
        """Groups whose live generation has rows that are cold already, having expired."""
        closed = self.manifest.closed.get(operator, {})
        return {
            group
            for segment in self.manifest.segments.values()
            if segment.tier == "cold" and segment.state in states
            for group in segment.rows_by_group.keys() & numbers
            if segment.generation == closed.get(group, 0)
        }

    def _record(self, decision: dict[str, Any]) -> RecordDecision:
        self._decided.append(decision)
        return RecordDecision(decision)

    def _commit(self, updates: Sequence[Update]) -> None:
        faults.reach("before-spill")
        self.checkpoint.table.commit([AtVersion(self.manifest.version)], updates)
        faults.reach("after-spill")
