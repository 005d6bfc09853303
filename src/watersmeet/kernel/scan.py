"""The step of a visit to slices of time: partial results meet all rows of a state that they are in time for.

No hash says who meets whom, so every pair that the windows allow is a candidate: a nested loop in blocks, each of which
is one vectorised pass. Blocks of the state are gathered once and meet all partial results before the next ones come;
what is expanded at once is bounded, as in every step (`combine.py`).

Where windows, or predicates that are bands, say so, a partial result meets a stretch of a block that is sorted by event
time or by a value (`orders.py`). After [Wang09], where a node compares a row with all of its slice. Windows are checked
for each pair, unless the stretch shows already that they are satisfied: rows over several inputs have an expiry that
no single order shows, and a slot may hold rows that have expired (seeds map, trap 19).

Invariants: nothing is held between calls; each pair of a partial result and a row of the state is met once, because a
row of the state is in one slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.kernel.bands import Band, find_bands
from watersmeet.kernel.combine import (
    Bench,
    Partial,
    Verdicts,
    all_meet_in_time,
    check_rows,
    join_rows,
    passing,
    stretches,
)
from watersmeet.kernel.orders import Met, Proposal, Visitors, propose
from watersmeet.kernel.pieces import Runs
from watersmeet.kernel.probe import expand
from watersmeet.kernel.rows import gather
from watersmeet.kernel.tally import Tally
from watersmeet.kernel.tiles import cut_tiles
from watersmeet.kernel.window import lifetimes
from watersmeet.model.expressions import Column, columns_of
from watersmeet.plan.physical import HASH_FIELD, Node, State

# Pairs looked at in one pass, and what the columns that predicates read may take of them. Tuned with `benchmarks.scan`
# and `benchmarks.similarity`: what a pass costs in itself, some 0.1 ms, is lost among so many pairs of a comparison of
# numbers (20 ns each, and 54 with 8,192 of them). Vectors of 32 numbers on both sides, 16,384 pairs of them, stay in a
# core's share of the cache: 65,536 take a quarter longer, and two slots then wait for the same memory.
CHUNK_PAIRS = 131_072
CHUNK_BYTES = 8 << 20
# Pairs that are copied out at once, or more where one pass finds more.
TOGETHER_PAIRS = 32_768
# Rows of either side that are worked with at once.
BLOCK_BYTES = 32 << 20

_NO_HASH = np.zeros(1, dtype=np.uint64)


def scan_pieces(
    node: Node,
    partial: Runs,
    kept: Runs,
    tally: Tally,
    spend: Callable[[int], None] = lambda candidates: None,
    after_piece: Callable[[], None] = lambda: None,
) -> Iterator[pa.RecordBatch]:
    """What partial results, the first input of `node`, make with the rows `kept`, its second, in runs each.

    `spend` is told of so many candidates before they are looked at, and may raise.
    """
    first, second = (entry.state for entry in node.inputs)
    bands = [band for _, predicate in node.predicates for band in find_bands(predicate, second.aliases)]
    visiting = [_visitors(_bench(rows, first)) for rows in blocks(partial, first.schema)]
    if not visiting:
        return
    for rows in blocks(kept, second.schema):
        met = Met(_bench(rows, second), second)
        for visitors in visiting:
            yield from _scan(node, visitors, met, bands, tally, spend)
        after_piece()


def blocks(runs: Runs, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of runs in any order, in blocks of bounded size."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for part in (piece for run in runs for piece in _cut(run.part)):
        if waiting and size + part.nbytes > BLOCK_BYTES:
            yield gather(waiting, schema)
            waiting, size = [], 0
        waiting.append(part)
        size += part.nbytes
    if waiting:
        yield gather(waiting, schema)


def _cut(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if not rows.num_rows:
        return
    length = max(1, rows.num_rows * BLOCK_BYTES // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, length):
        yield rows.slice(start, length)


def _bench(rows: pa.RecordBatch, state: State) -> Bench:
    return Bench(rows, lifetimes(rows, state), state.key.columns)


def _visitors(bench: Bench) -> Visitors:
    own = np.arange(bench.rows.num_rows)
    return Visitors(bench, Partial.of_rows(bench, 0, own, np.zeros(len(own), dtype=np.int64)))


def _scan(
    node: Node, visitors: Visitors, met: Met, bands: Sequence[Band], tally: Tally, spend: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    benches = [visitors.bench, met.bench]
    everybody = all_meet_in_time(benches)
    proposed = propose(visitors, met, bands, everybody)
    candidates = proposed.candidates
    spend(candidates)
    # Rows that were passed over for their times alone have expired, and are no part of what a window holds.
    by_time = proposed.in_time and not everybody
    tally.meet(0, 1, candidates if by_time else visitors.bench.rows.num_rows * met.bench.rows.num_rows, candidates)
    start = replace(visitors.start, lifetimes=None) if proposed.in_time else visitors.start
    filters = [Verdicts(entry, benches, tally.filters) for entry in node.filters]
    names = [name for name, _ in node.out_fields]
    for found in _together(_pairs(node, benches, start, proposed, tally)):
        pairs = passing(found, filters)
        for piece in pairs.pieces(benches, names) if len(pairs.key) else ():
            yield piece.output(node, benches, _NO_HASH)


def _together(found: Iterator[Partial]) -> Iterator[Partial]:
    """What several passes found, as one: few pairs pass, and to copy them out has a price of its own."""
    waiting: list[Partial] = []
    count = 0
    for pairs in found:
        if len(pairs.key):
            waiting.append(pairs)
            count += len(pairs.key)
        if count >= TOGETHER_PAIRS:
            yield Partial.concat(waiting)
            waiting, count = [], 0
    if waiting:
        yield Partial.concat(waiting)


def _pairs(node: Node, benches: Sequence[Bench], start: Partial, proposed: Proposal, tally: Tally) -> Iterator[Partial]:
    """The candidates that are in time and satisfy the predicates, as many as one pass finds."""
    visiting, met = benches
    looked_at = {name for column in _looked_at(node) if (name := column.field_name) in met.rows.schema.names}
    names = sorted(looked_at) or [HASH_FIELD]  # a batch of no columns has no rows
    at_once = _pairs_at_once(node, benches)
    for stretch in proposed.stretches:
        tiles, rest = cut_tiles(stretch, met.rows.num_rows if stretch.rows is None else len(stretch.rows), at_once)
        for tile in tiles:
            for group, laid_out in tile.passes(met, names):
                both = [visiting, laid_out]
                if start.lifetimes is None:
                    wider = start.filter(group).repeated(len(tile.rows)).with_rows(1, laid_out.everybody)
                    yield tile.placed(check_rows(node, both, wider, 1, tally))
                else:
                    part = np.repeat(group, len(tile.rows))
                    yield tile.placed(join_rows(node, both, start, part, 1, laid_out.everybody, tally))
        for each in rest:
            for low, starts, sizes in stretches(each.begins, each.counts, at_once):
                part, row = expand(starts, sizes)
                rows = row if each.rows is None else each.rows[row]
                yield join_rows(node, benches, start, part + low, 1, rows, tally)


def _looked_at(node: Node) -> Iterator[Column]:
    """The columns that it takes to check a pair."""
    for _, predicate in node.predicates:
        yield from columns_of(predicate)
    for entry in node.awaited:
        yield from entry.columns


def _pairs_at_once(node: Node, benches: Sequence[Bench]) -> int:
    read = {column.field_name for _, predicate in node.predicates for column in columns_of(predicate)}
    width = sum(
        bench.rows.column(name).nbytes / max(1, bench.rows.num_rows)
        for bench in benches
        for name in read.intersection(bench.rows.schema.names)
    )
    return max(1, min(CHUNK_PAIRS, int(CHUNK_BYTES / max(1.0, width))))
