"""What the controller shows to a policy: cheap facts at once, and the signals that the policy has said it needs.

A signal is worked out when it is first looked at, and then shared by all policies that are asked at the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Any

from watersmeet.adapt.take_view import view_memory
from watersmeet.adapt.view import MemoryView
from watersmeet.errors import InternalError
from watersmeet.model.ids import OperatorName
from watersmeet.model.placement import Placement
from watersmeet.model.routing import Groups
from watersmeet.model.statistics import Measured
from watersmeet.optimize.cost import PlannedTree
from watersmeet.optimize.reconsider import (
    Comparison,
    Planning,
    Reconsidering,
    figures_of,
    price_known,
    price_standing,
    search_fully,
    search_quickly,
)
from watersmeet.plan.join_graph import JoinGraph
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.plan.spec import PlanSpec, spec_of, way_of
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.state.by_slot import cold_bytes_by_slot, grouped_bytes_by_slot
from watersmeet.state.expiry import Watermarks, horizon_us
from watersmeet.state.learned import Learned
from watersmeet.state.ledger import Ledger, Ledgers
from watersmeet.state.manifest import BatchRecord, Manifest, Track
from watersmeet.state.taken import Taken


class Moment(Enum):
    """When policies are asked."""

    BEFORE_BATCH = auto()
    AFTER_BATCH = auto()
    IDLE = auto()  # the sources are silent
    DRAIN = auto()  # everything owed is to be emitted, and more rows may come afterwards
    END = auto()  # everything owed is to be emitted, and no more rows will come


class Signal(Enum):
    MEMORY = auto()  # sizes and earnings of all groups, live and cold
    PARTS = auto()  # the segments that cold generations lie in
    GENERATIONS = auto()  # what each closed generation has in each group
    PLANS = auto()  # what the plan costs by what was measured, and what others would


@dataclass(frozen=True)
class Facts:
    """What one moment looks like; `Outlook` is how much of it a policy sees."""

    moment: Moment
    plan: PhysicalPlan
    manifest: Manifest
    ledgers: Ledgers
    learned: Learned
    watermarks_us: Watermarks
    settings: AdaptSettings
    planning: Planning = Planning()  # noqa: RUF009 - frozen
    now_us: int = 0  # since 1970, by the clock of the run
    within: Groups | None = None  # what groups hold and owe is shown of these alone, if any

    @cached_property
    def reconsidering(self) -> Reconsidering:
        spec = self.manifest.answering.spec
        return Reconsidering(self.plan.query, spec, self.manifest.measured, self.planning)

    @cached_property
    def graph(self) -> JoinGraph:
        return self.reconsidering.graph()

    @cached_property
    def standing(self) -> PlannedTree:
        return price_standing(self.reconsidering, self.graph)

    @cached_property
    def horizons_us(self) -> dict[OperatorName, int]:
        """For each operator with windows, the time up to which rows of all its inputs may expire unseen."""
        held = self.ledgers.holds_us(self.manifest)
        result = {}
        for node in self.plan.operators.values():
            if all(entry.state.expires for entry in node.inputs):
                times = [horizon_us(self.plan, entry.state, self.watermarks_us, held) for entry in node.inputs]
                known = [time for time in times if time is not None]
                if len(known) == len(times):
                    result[node.name] = min(known)
        return result

    @cached_property
    def memory(self) -> MemoryView:
        settings, learned = self.settings, self.learned
        return view_memory(
            self.plan,
            self.manifest,
            self.ledgers,
            settings.budget_bytes,
            settings.smoothing,
            learned.batch_seconds,
            self.horizons_us,
            self.within,
        )


@dataclass(frozen=True)
class Outlook:
    facts: Facts
    signals: frozenset[Signal]

    @property
    def moment(self) -> Moment:
        return self.facts.moment

    @property
    def next_batch(self) -> int:
        return self.facts.manifest.last_batch + 1

    @property
    def last_batch(self) -> BatchRecord | None:
        """The last batch, or round after it."""
        return self.facts.manifest.batch

    @property
    def active_bytes(self) -> int:
        return self.facts.manifest.active_bytes

    @property
    def now_us(self) -> int:
        return self.facts.now_us

    @property
    def state_bytes(self) -> int:
        """In memory and cold."""
        return self.facts.manifest.active_bytes + self.facts.manifest.cold_bytes

    @property
    def slot_bytes(self) -> list[int]:
        """That slots have in memory of joins with groups; adding up what the groups of `memory` have takes longer."""
        return grouped_bytes_by_slot(self.facts.plan, self.facts.manifest)

    @property
    def cold_slot_bytes(self) -> list[int]:
        """That slots have in closed generations."""
        return cold_bytes_by_slot(self.facts.plan, self.facts.manifest, self.facts.ledgers)

    @property
    def learned(self) -> Learned:
        return self.facts.learned

    @property
    def owes(self) -> bool:
        """Whether any group has two generations or more, the live one among them."""
        return any(ledger.owes(self.facts.within) for ledger in self._ledgers.values())

    @property
    def has_mergeable(self) -> bool:
        """Whether any group has two closed generations or more."""
        return any(bool((ledger.count > 1).any()) for ledger in self._ledgers.values())

    @property
    def has_passed(self) -> bool:
        """Whether any group has a closed generation that has outlived its windows, and something to merge it with."""
        for operator, until in self.facts.horizons_us.items():
            ledger = self._ledgers[operator]
            if (ledger.passed(until) & ((ledger.count > 1) | ledger.cooled)).any():
                return True
        return False

    @property
    def taken(self) -> tuple[Taken, ...]:
        """What was done, or tried, before the batch to come."""
        return self.facts.manifest.taken

    @property
    def placement(self) -> Placement:
        return self.facts.manifest.placement

    @property
    def unspillable(self) -> tuple[str, ...]:
        """What people call what cannot be spilled: routed joins, and running totals."""
        plan = self.facts.plan
        spillable = {node.label for node in plan.operators.values()}
        stages = [stage for stage in plan.stages if stage.title not in spillable]
        if plan.grouped is not None and _at_boundaries(plan.grouped):
            stages = [stage for stage in stages if plan.grouped not in stage.states]
        return tuple(dict.fromkeys(stage.title for stage in stages))

    @property
    def aggregate_bytes(self) -> int:
        """In memory, of what a group-by keeps and reads at boundaries alone."""
        grouped = self.facts.plan.grouped
        if grouped is None or not _at_boundaries(grouped):
            return 0
        return self.facts.manifest.segments.active(grouped.name).bytes

    @property
    def memory(self) -> MemoryView:
        self._check(Signal.MEMORY)
        return self.facts.memory

    @property
    def manifest(self) -> Manifest:
        self._check(Signal.PARTS)
        return self.facts.manifest

    @property
    def plan_figures(self) -> Mapping[str, float]:
        """What plans are chosen by: rates, selectivities, and what filters pass."""
        self._check(Signal.PLANS)
        return figures_of(self.facts.graph, self.facts.reconsidering.prices)

    @property
    def standing(self) -> PlannedTree:
        """What the plan costs by what was measured."""
        self._check(Signal.PLANS)
        return self.facts.standing

    def price(self, plan: str) -> PlannedTree | None:
        """What a plan that somebody knows would cost; None if it is none of this query."""
        self._check(Signal.PLANS)
        return price_known(self.facts.reconsidering, self.facts.graph, plan)

    def spec_of(self, plan: PlannedTree) -> PlanSpec:
        """A plan in full, as it was priced."""
        self._check(Signal.PLANS)
        facts = self.facts
        standing = facts.manifest.answering.spec
        return spec_of(facts.plan.query, plan.tree, dict(plan.orders), facts.settings.watched, way_of(standing))

    def search(self, effort: int | None = None) -> tuple[PlannedTree, float]:
        """The best plan that a search finds, a quick one if there is a limit on its effort; and the seconds it took."""
        self._check(Signal.PLANS)
        facts, clock = self.facts, self.facts.planning.clock
        started = clock()
        if effort is None:
            found = search_fully(facts.reconsidering)
        else:
            found = search_quickly(facts.reconsidering, facts.graph, facts.standing, effort)
        return found, clock() - started

    def compare(self, spec: PlanSpec, measured: Measured) -> Comparison:
        """A plan beside the best one, by what was measured somewhere."""
        self._check(Signal.PLANS)
        asked = Reconsidering(self.plan.query, spec, measured, self.facts.planning)
        return Comparison(self.price_of(spec, measured), search_fully(asked))

    def price_of(self, spec: PlanSpec, measured: Measured) -> PlannedTree:
        """What a plan costs by what was measured somewhere."""
        self._check(Signal.PLANS)
        asked = Reconsidering(self.plan.query, spec, measured, self.facts.planning)
        return price_standing(asked, asked.graph())

    @property
    def shapes(self) -> tuple[Track, ...]:
        """The tracks that answer, each for its groups."""
        return self.facts.manifest.shapes

    @property
    def library(self) -> tuple[Mapping[str, Any], ...]:
        """Plans that served well; see `policies/replan/library.py`."""
        return self.facts.manifest.library

    @property
    def measured(self) -> Measured:
        return self.facts.manifest.measured

    @property
    def migrating(self) -> bool:
        """Whether a change of the plan is under way."""
        return self.facts.manifest.warming_up is not None

    @property
    def tree(self) -> str:
        return self.facts.plan.tree

    @property
    def input_rows(self) -> int:
        """Rows of the inputs that are kept, each once."""
        segments, held = self.facts.manifest.segments, dict[str, int]()
        for state in self.facts.plan.states.values():
            if len(state.aliases) == 1 and state.aliases[0] not in held:
                held[state.aliases[0]] = sum(segment.live_rows for segment in segments.of_state(state.name))
        return sum(held.values())

    @property
    def window_seconds(self) -> float | None:
        """The longest that rows of an input are kept for; None where those of one never expire."""
        query = self.facts.plan.query
        widths = [query.reach.kept_for_us(alias) for alias in query.aliases]
        known = [max(0, width) / 1e6 for width in widths if width is not None]
        return max(known) if len(known) == len(widths) else None

    @property
    def ledgers(self) -> Mapping[OperatorName, Ledger]:
        self._check(Signal.GENERATIONS)
        return self._ledgers

    @property
    def plan(self) -> PhysicalPlan:
        return self.facts.plan

    @property
    def _ledgers(self) -> Mapping[OperatorName, Ledger]:
        return self.facts.ledgers.at(self.facts.manifest)

    def _check(self, signal: Signal) -> None:
        if signal not in self.signals:
            raise InternalError(f"a policy looked at {signal.name}, which it does not say that it needs")


def _at_boundaries(grouped: State) -> bool:
    """Whether a group-by emits at boundaries, and not the groups that change."""
    return grouped.partials is not None and grouped.partials.panes is not None
