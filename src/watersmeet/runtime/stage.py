"""One task: one stage of a plan, for one slot, for one batch.

Takes the rows that were sent to the slot, joins them with each other and with the slot's segments, hands the results
on (to the next stage, or to a result file), and writes the new rows down as segments, merging segments where
compaction asks for it. Holds nothing afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from watersmeet import faults
from watersmeet.kernel.evaluate import evaluate
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.look_ahead import HashFilter
from watersmeet.kernel.prepare import cut, keyed
from watersmeet.kernel.rows import concat, merge_sorted, sort_by_hash
from watersmeet.kernel.step import join_step, merge_step
from watersmeet.kernel.tally import Tally
from watersmeet.model.segments import Segment
from watersmeet.model.statistics import PairCounts, add_pairs
from watersmeet.plan.physical import HASH_FIELD, AnyStage, Exchange, Insert, Node, RoutedStage, Stage, State
from watersmeet.plan.query import Query
from watersmeet.runtime.batch import BatchContext, TaskReport
from watersmeet.runtime.earnings import Earnings
from watersmeet.runtime.slot_state import SlotState
from watersmeet.state.segment_files import Segments

# A look ahead costs a pass over the hashes of the state in all slots; so many rows or more to be sent are worth one if
# the state has no more than so many times as many.
LOOK_AHEAD_ROWS = 2_048
LOOK_AHEAD_SHARE = 4


class ResultWriter(Protocol):
    """Where a task puts its part of the answer."""

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, batch: int, slot: int
    ) -> tuple[list[str], int]:
        """Write the rows down; the names of the files made, and the number of rows."""


@dataclass(frozen=True)
class Sent:
    """Rows on their way to a port of a later stage."""

    slot: int
    port: int
    rows: pa.RecordBatch


@dataclass(frozen=True)
class Told:
    """Word to a later stage of the same slot: rows that this batch adds to a state are in `segment`.

    The segment is for this batch alone. No version lists it, so it is garbage as soon as the batch is done.
    """

    slot: int
    stage: int
    segment: Segment


@dataclass
class Arrived:
    """What has come for one slot: rows by port, and word of rows by the name of their state."""

    rows: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    told: dict[str, list[Segment]] = field(default_factory=dict)

    def at(self, port: int, state: State) -> pa.RecordBatch:
        """All rows at a port, sorted by hash."""
        return merge_sorted(self.rows.get(port, ()), state.schema)


@dataclass(frozen=True)
class Outcome:
    """What a task leaves: messages for later stages, and the report for the commit."""

    sent: list[Sent]
    told: list[Told]
    report: TaskReport


def run_stage(
    context: BatchContext, stage: AnyStage, slot: int, arrived: Arrived, segments: Segments, results: ResultWriter
) -> Outcome:
    """Run `stage` for `slot` on what has `arrived`."""
    faults.reach("in-task")
    task = _Task(context, slot, SlotState(context, slot, segments), results)
    if isinstance(stage, RoutedStage):
        return _run_hop(task, stage, arrived)
    return _run_nodes(task, stage, arrived)


def _run_nodes(task: _Task, stage: Stage, arrived: Arrived) -> Outcome:
    """The joins of a stage that share a key, from the lowest to its root."""
    outputs: dict[str, pa.RecordBatch] = {}
    for node in stage.nodes:
        new = [
            outputs[entry.source] if entry.port is None else arrived.at(entry.port, entry.state)
            for entry in node.inputs
        ]
        tally = Tally()
        # A round of merges brings rows only to what stands above them.
        kept = [task.state.kept(entry.state) for entry in node.inputs] if any(b.num_rows for b in new) else []
        probed = join_step(node, new, kept, tally=tally) if kept else iter(())
        chunks = task.watch(node, new, itertools.chain(probed, task.merge(node)))
        if node is stage.nodes[-1]:
            rows = task.pass_on([(chunks, stage.exchanges)], node)
        else:
            schema = pa.schema([(HASH_FIELD, pa.uint64()), *node.out_fields])
            outputs[node.id] = sort_by_hash(concat([chunk for chunk in chunks if chunk.num_rows], schema))
            rows = outputs[node.id].num_rows
        task.count(node.id, sum(batch.num_rows for batch in new), rows)
        task.observe(tally, [entry.state for entry in node.inputs])
        for entry, batch in zip(node.inputs, new, strict=True):
            if batch.num_rows or not task.context.round:
                task.state.keep(entry.state, batch)
            if entry.port is not None and len(entry.state.aliases) == 1:
                task.rows[entry.source] = batch.num_rows
    return task.outcome()


def _run_hop(task: _Task, stage: RoutedStage, arrived: Arrived) -> Outcome:
    """One hop of a routed join, for all origins."""
    fresh = {insert.state.name: arrived.at(insert.port, insert.state) for insert in stage.inserts}
    if stage.hop > 0:
        fresh = {
            name: merge_sorted([task.state.segments.read(entry).rows for entry in entries], task.schema_of(name))
            for name, entries in arrived.told.items()
        }
    answers = []
    tallies = []
    rows_in = 0
    for probe in stage.probes:
        partial = arrived.at(probe.port, probe.node.inputs[0].state)
        rows_in += partial.num_rows
        kept = task.state.kept(probe.state)
        if probe.sees_new and probe.state.name in fresh:
            kept = [*kept, Indexed.of(fresh[probe.state.name])]
        bound = probe.node.inputs[0].state
        if stage.hop == 0 and len(bound.aliases) == 1:
            task.rows[bound.aliases[0]] = partial.num_rows
        tally = Tally()
        nothing = concat([], probe.state.schema)
        answers.append((join_step(probe.node, [partial, nothing], [[], kept], tally=tally), probe.exchanges))
        tallies.append((tally, [bound, probe.state]))
    rows = task.pass_on(answers)
    for tally, sides in tallies:
        task.observe(tally, sides)
    last = stage.hop == len(stage.node.inputs) - 2
    task.count(stage.node.id, rows_in if stage.hop == 0 else 0, rows if last else 0)
    for insert in stage.inserts:
        new = fresh[insert.state.name]
        task.state.keep(insert.state, new)
        if insert.read_again_in and new.num_rows:
            task.tell(insert, new)
    return task.outcome()


class _Task:
    """Collects what one task does."""

    def __init__(self, context: BatchContext, slot: int, state: SlotState, results: ResultWriter) -> None:
        self.context = context
        self.slot = slot
        self.state = state
        self.results = results
        self.sent: list[Sent] = []
        self.told: list[Told] = []
        self.files: list[str] = []
        self.rows_out = 0
        self.counts: dict[str, dict[str, int]] = {}
        self.rows: dict[str, int] = {}
        self.rows_merged = 0
        self.earnings = None if context.upkeep is None else Earnings(context.plan, context.routing.groups)
        self.pairs: list[PairCounts] = []
        self.ahead: dict[str, HashFilter] = {}

    def watch(
        self, node: Node, new: Sequence[pa.RecordBatch], chunks: Iterable[pa.RecordBatch]
    ) -> Iterable[pa.RecordBatch]:
        """What the join makes of new rows, with an eye on what its groups earn."""
        if self.earnings is None:
            return chunks
        self.earnings.come(node, new)
        return self.earnings.made(node, chunks)

    def pass_on(
        self, answers: Sequence[tuple[Iterable[pa.RecordBatch], Sequence[Exchange]]], root: Node | None = None
    ) -> int:
        """Send joined rows through their exchanges, or, where there is none, write them as results; how many."""
        final = [chunks for chunks, exchanges in answers if not exchanges]
        if final:
            query = self.context.plan.query
            joined = itertools.chain.from_iterable(final)
            select = _selected(query, joined if self.earnings is None else self.earnings.emitted(root, joined))
            self.files, self.rows_out = self.results.write(select, query.output_schema, self.context.batch, self.slot)
        rows = self.rows_out
        for chunks, exchanges in answers:
            if exchanges:
                for chunk in chunks:
                    rows += chunk.num_rows
                    self._send(chunk, exchanges)
        return rows

    def _send(self, rows: pa.RecordBatch, exchanges: Sequence[Exchange]) -> None:
        for exchange in exchanges:
            ahead = self._look_ahead(exchange, rows.num_rows)
            onward = keyed(rows, exchange.key_fields, exchange.fields, ahead)
            if ahead is not None:
                self._note_unsent(exchange, rows.num_rows - onward.num_rows)
            self.sent += [Sent(to, exchange.port, piece) for to, piece in cut(onward, self.context.routing)]

    def _look_ahead(self, exchange: Exchange, rows: int) -> HashFilter | None:
        """Which hashes the rows to be sent may find, where they are enough to be worth a look at all of the state."""
        state = exchange.meets
        if state is None or rows < LOOK_AHEAD_ROWS:
            return None
        if state.name not in self.ahead:
            if rows * LOOK_AHEAD_SHARE < self.state.rows_held(state):
                return None
            self.ahead[state.name] = self.state.hashes_everywhere(state)
        return self.ahead[state.name]

    def _note_unsent(self, exchange: Exchange, rows: int) -> None:
        """Rows that are not sent could have met all of the state, and met none of it."""
        assert exchange.meets is not None
        plan = self.context.plan
        sent = plan.stages[plan.port_stage[exchange.port]].ports[exchange.port]
        possible = rows * self.state.rows_held(exchange.meets)
        self.pairs.append(PairCounts(sent.aliases, exchange.meets.aliases, possible))

    def tell(self, insert: Insert, rows: pa.RecordBatch) -> None:
        """Let later stages of this slot read rows that this batch adds."""
        segment = self.state.segments.write(rows, insert.state, self.state.owned, self.context.batch)
        self.told += [Told(self.slot, stage, segment) for stage in insert.read_again_in]

    def schema_of(self, state: str) -> pa.Schema:
        return self.context.plan.states[state].schema

    def merge(self, node: Node) -> Iterator[pa.RecordBatch]:
        """What the node's groups owe that are to be merged now, their generations united one after the other."""
        states = [entry.state for entry in node.inputs]
        merges = [
            merge
            for merge in self.context.merges
            if merge.operator == node.id and self.context.routing.owners[merge.group] == self.slot
        ]
        if not merges:
            return
        faults.reach("in-merge")
        generations = self.state.closed_generations(merges, states)
        united: list[list[Indexed]] = [[] for _ in states]
        for place, generation in enumerate(generations):
            if place:
                for chunk in merge_step(node, generation, united):
                    self.rows_merged += chunk.num_rows
                    yield chunk
            for pieces, rows in zip(united, generation, strict=True):
                pieces.append(Indexed.of(rows))
        self.state.unite(merges, states, generations)

    def count(self, node: str, rows_in: int, rows_out: int) -> None:
        self.counts[node] = {"rows_in": rows_in, "rows_out": rows_out}

    def observe(self, tally: Tally, inputs: Sequence[State]) -> None:
        """Note what a join saw. Rows in other slots count as rows that could have met, but had another key."""
        for (i, j), (possible, same) in tally.met.items():
            everywhere = possible * self.state.rows_everywhere(inputs[j])
            low, high = sorted((i, j))
            self.pairs.append(PairCounts(inputs[low].aliases, inputs[high].aliases, everywhere, same))
        for reads, (checked, passed) in tally.checked.items():
            if len(reads) == 2:
                low, high = sorted(reads)
                self.pairs.append(PairCounts(inputs[low].aliases, inputs[high].aliases, 0, 0, checked, passed))

    def outcome(self) -> Outcome:
        report = TaskReport(
            added=tuple(self.state.added),
            released=tuple(self.state.released),
            results=tuple(self.files),
            rows_out=self.rows_out,
            nodes=self.counts,
            rows=self.rows,
            pairs=add_pairs(self.pairs),
            rows_merged=self.rows_merged,
            groups={} if self.earnings is None else self.earnings.seen,
        )
        return Outcome(self.sent, self.told, report)


def _selected(query: Query, chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = query.output_schema
    for chunk in chunks:
        if chunk.num_rows:
            arrays = [evaluate(column.expr, chunk) for column in query.select]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
