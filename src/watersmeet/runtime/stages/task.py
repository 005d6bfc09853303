"""What tasks of all kinds of stages have in common: what comes, where results go, what is reported.

A task takes the rows that were sent to its slot, joins them with each other and with the slot's segments, hands the
results on (to later stages, or to a result file), and writes the new rows down as segments. Holds nothing afterwards.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from watersmeet.errors import LimitError
from watersmeet.kernel.aggregate import partial_rows
from watersmeet.kernel.evaluate import evaluate
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.look_ahead import HashFilter
from watersmeet.kernel.pieces import Runs, is_piece
from watersmeet.kernel.prepare import keyed
from watersmeet.kernel.rows import merge_sorted, sort_by_hash
from watersmeet.kernel.tally import FilterTally, PredicateTally, Tally
from watersmeet.kernel.to_slots import to_slots
from watersmeet.kernel.weigh import combine_alike, count_left, count_rows
from watersmeet.model.file_sums import FileSum
from watersmeet.model.ids import Label, StateName
from watersmeet.model.segments import Segment
from watersmeet.model.statistics import (
    AlikeCounts,
    FilterCounts,
    PairCounts,
    PredicateCounts,
    add_counts,
)
from watersmeet.plan.physical import Exchange, Node, State
from watersmeet.plan.query import Query
from watersmeet.runtime.context import StageContext
from watersmeet.runtime.reports import TaskReport
from watersmeet.runtime.spool import Spool
from watersmeet.runtime.stages.group_statistics import GroupStatistics
from watersmeet.runtime.stages.slot_state import SlotState
from watersmeet.state.output_names import Stamp
from watersmeet.state.segment_files import Segments

# A look ahead costs a pass over the hashes of the state in all slots; so many rows or more to be sent are worth one if
# the state has no more than so many times as many.
LOOK_AHEAD_ROWS = 2_048
LOOK_AHEAD_SHARE = 4
# Rows of an input that are compared with each other, to see how many agree: 0.3 ms for each input of a batch.
ALIKE_ROWS = 2_048


class ResultWriter(Protocol):
    """Where a task puts its part of the answer."""

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, stamp: Stamp, slot: int
    ) -> tuple[dict[str, FileSum], int]:
        """Write the rows down; the files made, by name, and the number of rows."""


@dataclass(frozen=True)
class Sent:
    """Rows on their way to a port of a later stage."""

    slot: int
    port: int
    rows: pa.RecordBatch


@dataclass(frozen=True)
class SegmentNotice:
    """Tells a later stage of the same slot that rows which this batch adds to a state are in `segment`.

    The segment is for this batch alone. No version lists it, so it is garbage as soon as the batch is done.
    """

    slot: int
    stage: int
    segment: Segment


@dataclass
class Arrived:
    """What has come for one stage and slot: rows by port, and notices of rows by the name of their state."""

    rows: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    notices: dict[StateName, list[Segment]] = field(default_factory=dict)

    def at(self, port: int, state: State) -> Runs:
        """All rows at a port, in sorted runs; one run if they are few."""
        rows = self.rows.get(port, [])
        if len(rows) > 1 and not is_piece(rows):
            whole = merge_sorted(rows, state.schema)
            rows[:] = [whole if state.weighing is None else combine_alike(whole, state.weighing)]
        return [Indexed.run(run) for run in rows]

    def take(self, port: int, state: State) -> Runs:
        """The same, for who alone will have them."""
        runs = self.at(port, state)
        self.rows.pop(port, None)
        return runs


@dataclass(frozen=True)
class Answer:
    """Joined rows, and where they go: through exchanges, or, where there is none, out. `watched`: groups earn by it."""

    chunks: Iterable[pa.RecordBatch]
    exchanges: tuple[Exchange, ...]
    watched: bool = True


@dataclass(frozen=True)
class Outcome:
    """What a task leaves: messages for later stages, and the report for the commit."""

    sent: list[Sent]
    notices: list[SegmentNotice]
    report: TaskReport


class StageTask:
    """Collects what one task does."""

    def __init__(
        self, context: StageContext, slot: int, segments: Segments, results: ResultWriter, spool: Spool
    ) -> None:
        self.context = context
        self.slot = slot
        self.state = SlotState(context, slot, segments, spool.settle)
        self.results = results
        self.spool = spool
        self.rows: dict[str, int] = {}
        self.rows_merged = 0
        self._sent: list[Sent] = []
        self._notices: list[SegmentNotice] = []
        self._files: dict[str, FileSum] = {}
        self._rows_out = 0
        self._counts: dict[str, dict[str, int]] = {}
        self._statistics = GroupStatistics(context.lineage, context.watched) if context.watched else None
        self._pairs: list[PairCounts] = []
        self._own_pairs: list[PairCounts] = []
        self._filters: list[FilterCounts] = []
        self._predicates: list[PredicateCounts] = []
        self._ahead: dict[StateName, HashFilter] = {}
        self._candidates = 0
        self._alike: dict[str, AlikeCounts] = {}

    def watch(self, node: Node, new: Sequence[Runs], chunks: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """What the join makes of new rows, with an eye on what its groups earn."""
        if self._statistics is None:
            return chunks
        aliases = [entry.state.aliases for entry in node.inputs]
        self._statistics.come(node, [self.state.own(each, runs) for each, runs in zip(aliases, new, strict=True)])
        return self._statistics.made(node, chunks, [share.group for share in self.state.foreign(node.aliases)])

    def hold(self, chunks: Iterable[pa.RecordBatch]) -> Runs:
        """Joined rows for another join of this task, in sorted runs; one run if they are few."""
        rows = [self.spool.put(sort_by_hash(chunk)) for chunk in chunks if chunk.num_rows]
        if len(rows) > 1 and not is_piece(rows):
            rows = [merge_sorted(rows, rows[0].schema)]
        return [Indexed.run(run) for run in rows]

    def pass_on(self, answers: Sequence[Answer], root: Node | None = None) -> int:
        """Send joined rows through their exchanges, or write them as results; how many."""
        if any(not answer.exchanges for answer in answers):
            query = self.context.query
            assert query is not None, "a stage without exchanges emits results"
            joined = itertools.chain.from_iterable(
                self._traced(answer, root) for answer in answers if not answer.exchanges
            )
            self._files, self._rows_out = self.results.write(
                _selected(query, joined), query.output_schema, self.context.stamp, self.slot
            )
        rows = self._rows_out
        for answer in answers:
            for chunk in self._onward(answer, root):
                rows += chunk.num_rows
                self._send(chunk, answer.exchanges)
        return rows

    def _onward(self, answer: Answer, root: Node | None) -> Iterable[pa.RecordBatch]:
        """What is sent. Rows that are grouped next are results of the query, as far as what joins earn goes."""
        if not answer.exchanges:
            return ()
        grouped = any(exchange.partials is not None for exchange in answer.exchanges)
        return self._traced(answer, root) if grouped else answer.chunks

    def _traced(self, answer: Answer, root: Node | None) -> Iterable[pa.RecordBatch]:
        if self._statistics is None or not answer.watched:
            return answer.chunks
        return self._statistics.emitted(root, answer.chunks)

    def _send(self, rows: pa.RecordBatch, exchanges: Sequence[Exchange]) -> None:
        for exchange in exchanges:
            ahead = self._look_ahead(exchange, rows.num_rows)
            if exchange.partials is not None:
                onward = partial_rows(rows, exchange.partials, exchange.weighed)
            else:
                onward = keyed(rows, exchange.key, exchange.fields, ahead, exchange.copied)
            if ahead is not None:
                self._note_unsent(exchange, rows.num_rows - onward.num_rows)
            routing = self.context.placement.of(exchange.partitioning)
            shares = self.context.shares
            shared = shares.get(self.context.port_stage[exchange.port], ()) if shares else ()
            sent = to_slots(onward, routing, exchange.reach, shared, exchange.aliases)
            self._sent += [Sent(to, exchange.port, self.spool.put(piece)) for to, piece in sent]

    def _look_ahead(self, exchange: Exchange, rows: int) -> HashFilter | None:
        """Which hashes the rows to be sent may find, where they are enough to be worth a look at all of the state."""
        state = exchange.meets
        if state is None or rows < LOOK_AHEAD_ROWS:
            return None
        if state.name not in self._ahead:
            if rows * LOOK_AHEAD_SHARE < self.state.rows_in_all_slots(state):
                return None
            self._ahead[state.name] = self.state.hashes_in_all_slots(state)
        return self._ahead[state.name]

    def _note_unsent(self, exchange: Exchange, rows: int) -> None:
        """Rows that are not sent could have met all of the state, and met none of it."""
        assert exchange.meets is not None
        possible = rows * self.state.rows_in_all_slots(exchange.meets)
        self._pairs.append(PairCounts(exchange.aliases, exchange.meets.aliases, possible))

    def notify(self, state: State, stages: Sequence[int], rows: Runs) -> None:
        """Let later stages of this slot read rows that this batch adds."""
        segment = self.state.write_scratch(rows, state)
        if segment is not None:
            self._notices += [SegmentNotice(self.slot, stage, segment) for stage in stages]

    def count(self, join: Label, rows_in: int, rows_out: int) -> None:
        self._counts[join] = {"rows_in": rows_in, "rows_out": rows_out}

    def spend(self, candidates: int) -> None:
        """Note that so many pairs are about to be compared; refuse if they are more than there may be."""
        self._candidates += candidates
        most = self.context.max_candidates
        if most is not None and self._candidates > most:
            raise LimitError(
                f"a task would compare {self._candidates:,} pairs of rows in one batch, and max_candidates is {most:,}",
                detail=f"No equality says which rows {self.context.stage.title} has to compare, so that every one is "
                "compared with all that are in time for it. The batch was not done, and nothing is lost.",
                hint="Use smaller batches, shorter windows or more slots, join by an equality, or set a higher limit.",
            )

    def tally(self) -> Tally:
        """For what a join is going to see."""
        known = {entry.predicate: entry for entry in self.context.predicates}
        clock = time.perf_counter
        return Tally(filters=FilterTally(clock), predicates=PredicateTally(clock, known))

    def observe(self, tally: Tally, inputs: Sequence[State], own: Sequence[float] = ()) -> None:
        """Note what a join saw. Rows in other slots count as rows that could have met, but had another key.

        `own` is the share of the new rows of each input that are no copies of what another slot has: what these could
        have met counts once, and so, roughly, does what they met of other copies.
        """
        for (i, j), (possible, same) in tally.met.items():
            everywhere, hashed = possible * self.state.share_of_all_slots(inputs[j]), float(same)
            if own and own[i] < 1.0:
                everywhere *= own[i]
                hashed *= own[i] if self.state.foreign(inputs[j].aliases) else 1.0
            everywhere = max(everywhere, hashed)  # copies that are at home elsewhere have met what they met here
            low, high = sorted((i, j))
            self._pairs.append(PairCounts(inputs[low].aliases, inputs[high].aliases, everywhere, hashed))
            self._own_pairs.append(PairCounts(inputs[low].aliases, inputs[high].aliases, possible, same))
        for reads, (checked, passed) in tally.checked.items():
            if len(reads) == 2:
                low, high = sorted(reads)
                seen = PairCounts(inputs[low].aliases, inputs[high].aliases, 0, 0, checked, passed)
                self._pairs.append(seen)
                self._own_pairs.append(seen)
        self._filters += tally.filters.counts
        self._predicates += tally.predicates.counts

    def count_input(self, alias: str, state: State, runs: Runs, rows: int) -> None:
        """Note how many rows of an input have come, `rows` as they are, and of some how many agree."""
        came = count_rows(runs, state, rows)
        self.rows[alias] = came
        if not rows or state.likeness is None:
            return
        if state.weighing is not None and state.weighing.combined:
            self._alike[alias] = AlikeCounts(came, rows)
            return
        sample = runs[0].part.slice(0, ALIKE_ROWS)  # whole keys, as they are sorted
        if sample.num_rows:
            self._alike[alias] = AlikeCounts(sample.num_rows, count_left(sample, state.likeness))

    def outcome(self) -> Outcome:
        report = TaskReport(
            added=tuple(self.state.added),
            released=tuple(self.state.released),
            scratch=tuple(self.state.scratch),
            results=tuple(self._files),
            sums=self._files,
            rows_out=self._rows_out,
            joins=self._counts,
            rows=self.rows,
            pairs=add_counts(self._pairs),
            own_pairs=add_counts(self._own_pairs) if self.context.by_slot else (),
            rows_merged=self.rows_merged,
            groups={} if self._statistics is None else self._statistics.seen,
            filters=add_counts(self._filters),
            predicates=add_counts(self._predicates),
            alike=self._alike,
        )
        return Outcome(self._sent, self._notices, report)


def _selected(query: Query, chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = query.output_schema
    for chunk in chunks:
        if chunk.num_rows:
            arrays = [evaluate(column.expr, chunk) for column in query.select]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
