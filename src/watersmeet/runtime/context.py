"""What the tasks of a batch are told: the manifest, cut down to what each of them needs.

A `BatchContext` is one consistent look at a manifest; its `for_sources` and `for_stage` cut out what one kind of task
reads. A task reads its context and files, and writes new files. It changes nothing that exists, so it may run twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from watersmeet.adapt.decisions.work import Work
from watersmeet.kernel.counting import CountedRows
from watersmeet.model.bounds import Bounds
from watersmeet.model.ids import UNITED, Generation, OperatorName, Partitioning, StateName
from watersmeet.model.placement import Placement
from watersmeet.model.routing import GroupRange, Groups, expand_ranges, union_ranges
from watersmeet.model.segments import Segment
from watersmeet.model.statistics import PredicateCounts
from watersmeet.model.time_units import TimeColumn
from watersmeet.plan.physical import LeafPort, Node, PhysicalPlan, Stage, State
from watersmeet.plan.query import Query
from watersmeet.plan.spreading import Shares, spread_stages
from watersmeet.runtime.gate import GateForTasks, GateStep, WaitingPiece
from watersmeet.runtime.watermarks import late_before_us, passed_ranks, watermarks_us
from watersmeet.state.boundaries import Boundaries
from watersmeet.state.expiry import Watermarks, emitted_until_us, horizon_us
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest
from watersmeet.state.output_names import Stamp


@dataclass(frozen=True)
class GroupsToMerge:
    """Emit what is owed between closed generations of groups of an operator: their cold segments, of all states.

    They become part of the generation `into`. `others_since_us` is the oldest time in the other generations of each
    group, the live one among them, which what is united still owes results to.
    """

    operator: OperatorName
    groups: tuple[int, ...]
    segments: tuple[Segment, ...]
    others_since_us: tuple[int, ...]
    into: Generation


@dataclass(frozen=True)
class PartsToUnite:
    """Write parts of one cold generation of a state down as one."""

    state: StateName
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class SourceContext:
    """What a task that prepares rows of streams is told."""

    placement: Placement
    watermarks_us: Watermarks
    times: Mapping[str, TimeColumn]  # of each stream
    columns: Mapping[str, tuple[str, ...]]  # of each stream, those that the query reads
    leaves: tuple[LeafPort, ...]
    port_stage: tuple[int, ...]
    stamp: Stamp  # which the files that are written are named after
    limits_us: Mapping[str, int] = field(default_factory=dict)  # by stream, if any: rows that are later are ahead
    shares: Shares = field(default_factory=dict)
    gate: GateForTasks | None = None  # where rows wait before they enter


@dataclass(frozen=True)
class Seeds:
    """For tasks that make the states of a plan which is to take over, and emit nothing.

    `given` are segments of states that the plan takes from another: their rows are new to its joins, and are kept
    already. Of all joins only `joins` are needed.
    """

    given: Mapping[StateName, tuple[Segment, ...]]
    joins: frozenset[OperatorName]


@dataclass(frozen=True)
class StageContext:
    """What a task of one stage is told."""

    stage: Stage
    stamp: Stamp  # which the files that are written are named after
    round: int
    placement: Placement
    port_stage: tuple[int, ...]
    segments: Mapping[StateName, tuple[Segment, ...]]  # the active ones
    horizons_us: Mapping[StateName, int | None]  # the time up to which rows may expire unseen
    closed: Mapping[StateName, tuple[GroupRange, ...]]  # groups with a closed generation, where there are any
    merges: tuple[GroupsToMerge, ...] = ()
    parts: tuple[PartsToUnite, ...] = ()
    watched: Mapping[OperatorName, Bounds] = field(default_factory=dict)  # whose groups statistics are kept of
    lineage: Mapping[str, OperatorName] = field(default_factory=dict)  # by field, the join whose hash it is
    query: Query | None = None  # for a stage that emits results
    seeds: Seeds | None = None  # None: for a batch or a round
    apart: tuple[int, ...] = ()  # deliveries after which rows are not written into one file with those before
    within: Groups | None = None  # that the tasks are for, of the only partitioning that there is then; None: all
    by_slot: bool = False  # what a slot sees of its own rows is reported too
    max_candidates: int | None = None  # pairs that a task may compare where no key says which
    predicates: tuple[PredicateCounts, ...] = ()  # what is known of predicates: who is asked first
    shares: Shares = field(default_factory=dict)
    boundaries: Boundaries | None = None  # for a group-by: those that are due
    spilled: tuple[Segment, ...] = ()  # for a group-by: what counts there beside what is active
    passed_ranks: Mapping[str, int] = field(default_factory=dict)  # rows that end by these, of a stream, are not needed
    counted: Mapping[str, CountedRows] = field(default_factory=dict)  # for merges, of streams with windows of rows

    def side(self, delivery: int) -> int:
        """On which side of those deliveries rows are."""
        return sum(delivery > bound for bound in self.apart)

    def is_given(self, state: State) -> bool:
        """Whether a state is taken from another plan, as it is."""
        return self.seeds is not None and state.name in self.seeds.given

    def runs(self, join: OperatorName) -> bool:
        """Whether anybody needs the results of a join."""
        return self.seeds is None or join in self.seeds.joins


@dataclass(frozen=True)
class BatchContext:
    """One consistent look at a manifest, for one batch or round."""

    plan: PhysicalPlan
    manifest: Manifest
    ledgers: Ledgers
    work: Work
    new_rows: bool  # False: a round of work after the last batch
    watched: bool = False
    limits_us: Mapping[str, int] = field(
        default_factory=dict
    )  # taken once for the batch: rows that are later are ahead
    by_slot: bool = False  # what each slot measures is kept
    max_candidates: int | None = None  # for each task
    boundaries: Boundaries | None = None  # those that are due
    gate: GateStep | None = None  # what enters of rows that wait; None: nothing does, or none wait

    @property
    def batch(self) -> int:
        return self.manifest.last_batch + 1 if self.new_rows else self.manifest.last_batch

    @property
    def round(self) -> int:
        last = self.manifest.batch
        return 0 if self.new_rows else 1 if last is None else last.round + 1

    @property
    def stamp(self) -> Stamp:
        batch = max(self.batch, 0)  # in names of files; a round may come before the first batch
        return Stamp(batch, self.manifest.next_delivery, self.manifest.id, self.manifest.epoch)

    @property
    def placement(self) -> Placement:
        return self.manifest.placement

    @property
    def watermarks_us(self) -> dict[str, int | None]:
        return watermarks_us(self.plan, self.manifest)

    @cached_property
    def shares(self) -> Shares:
        """The groups that are spread in this batch. Not those that are merged: what that emits only their owner has."""
        merged: dict[Partitioning, set[int]] = {}
        for operator, group in self.work.merges:
            merged.setdefault(self.plan.operators[operator].partitioning, set()).add(group)
        for tier in self.work.partial_merges:
            partitioning = self.plan.operators[tier.operator].partitioning
            merged.setdefault(partitioning, set()).update(expand_ranges(tier.within))
        return spread_stages(self.plan, self.placement, merged)

    @cached_property
    def _bounds(self) -> dict[OperatorName, Bounds]:
        """The groups of each operator."""
        return {name: self.placement.of(node.partitioning).bounds for name, node in self.plan.operators.items()}

    @cached_property
    def merges(self) -> tuple[GroupsToMerge, ...]:
        """The groups to merge with all their closed generations, for each operator together, and those with some."""
        wanted: dict[OperatorName, list[int]] = {}
        for operator, group in self.work.merges:
            wanted.setdefault(operator, []).append(group)
        ledgers = self.ledgers.at(self.manifest)
        whole = [self._merge(name, sorted(groups), ledgers[name].closed, UNITED) for name, groups in wanted.items()]
        partial = [
            self._merge(tier.operator, expand_ranges(tier.within), tier.generations, max(tier.generations))
            for tier in self.work.partial_merges
        ]
        return (*whole, *partial)

    def _merge(
        self, operator: OperatorName, groups: list[int], generations: Collection[Generation], into: Generation
    ) -> GroupsToMerge:
        ranges = union_ranges((group, group + 1) for group in groups)
        node, total = self.plan.operators[operator], len(self._bounds[operator])
        found = [
            segment.only(ranges)
            for state in node.states
            for generation, bucket in self.manifest.segments.cold(state).items()
            if generation in generations and bucket.by_group(total).rows[groups].any()
            for segment in bucket.entries.values()
        ]
        since = self.ledgers.at(self.manifest)[operator].others_since_us(generations)[groups].tolist()
        return GroupsToMerge(operator, tuple(groups), tuple(part for part in found if part.groups), tuple(since), into)

    @property
    def parts(self) -> tuple[PartsToUnite, ...]:
        """The parts to unite, without groups that are merged in the same batch: a merge unites them by itself."""
        result = []
        for unite in self.work.unites:
            operators = self.plan.operators_of.get(unite.state, ())
            merged = union_ranges(
                (group, group + 1) for merge in self.merges if merge.operator in operators for group in merge.groups
            )
            entries = self.manifest.segments.cold(unite.state)[unite.generation].entries
            result.append(PartsToUnite(unite.state, tuple(entries[name].without(merged) for name in unite.parts)))
        return tuple(result)

    @property
    def waiting_pieces(self) -> tuple[WaitingPiece, ...]:
        """The rows that have waited at the gate and enter now."""
        return () if self.gate is None else self.gate.pieces

    def for_sources(self) -> SourceContext:
        inputs = self.plan.query.inputs
        return SourceContext(
            self.placement,
            late_before_us(self.plan, self.manifest),
            {entry.stream.name: entry.stream.time_column for entry in inputs},
            {entry.stream.name: entry.columns for entry in inputs},
            self.plan.leaves,
            self.plan.port_stage,
            self.stamp,
            self.limits_us,
            self.shares,
            None if self.gate is None else self.gate.tasks,
        )

    def for_stage(self, stage: Stage) -> StageContext:
        plan, segments = self.plan, self.manifest.segments
        marks, held = self.watermarks_us, self.ledgers.holds_us(self.manifest)
        ledgers = self.ledgers.at(self.manifest)
        due = None if self.boundaries is None else self.boundaries.until_us
        operators = {node.name for node in stage.operators}
        closed = {
            state: ledgers[node.name].closed_ranges
            for node in stage.operators
            for state in node.states
            if ledgers[node.name].closed_ranges
        }
        return StageContext(
            stage=stage,
            stamp=self.stamp,
            round=self.round,
            placement=self.placement,
            port_stage=plan.port_stage,
            segments={state.name: tuple(segments.active(state.name).entries.values()) for state in stage.reads},
            horizons_us={
                state.name: horizon_us(plan, state, marks, held)
                if state.partials is None
                else emitted_until_us(state, self.manifest, due)
                for state in stage.states
            },
            closed=closed,
            merges=tuple(merge for merge in self.merges if merge.operator in operators),
            parts=tuple(parts for parts in self.parts if parts.state in {state.name for state in stage.states}),
            watched=self._bounds if self.watched and self.new_rows else {},
            lineage={n.lineage: n.name for n in self._traced(stage) if n.lineage is not None},
            query=None if stage.exchanges else plan.query,
            apart=self.manifest.apart,
            shares=self.shares,
            within=stage.within,
            by_slot=self.by_slot,
            max_candidates=self.max_candidates,
            predicates=self.manifest.measured.predicates,
            boundaries=self.boundaries,
            spilled=self._spilled(stage),
            passed_ranks=passed_ranks(self.manifest) if self.gate is None else self.gate.passed,
            counted={} if self.gate is None or not self.merges else self.gate.known,
        )

    def _spilled(self, stage: Stage) -> tuple[Segment, ...]:
        """What a group-by has to read again for the boundaries that are due."""
        grouped = self.plan.grouped
        if self.boundaries is None or grouped is None or grouped not in stage.states:
            return ()
        buckets = self.manifest.segments.cold(grouped.name).values()
        return tuple(entry for bucket in buckets for entry in bucket.entries.values())

    def _traced(self, stage: Stage) -> Iterable[Node]:
        """The joins that rows of a stage may have come through: those of its own shape."""
        return self.plan.operators.values() if stage.within is None else stage.operators
