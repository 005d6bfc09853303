"""The step of a node: what a batch of new rows adds to the answer of a multi-way join whose inputs share a key.

New rows D_1..D_m meet the rows S_1..S_m kept from earlier batches. Origin i contributes

    D_i  x  (S_j and D_j, for j < i)  x  (S_j, for j > i)

so each combination with at least one new row comes out exactly once: at the last of its new rows' origins.

`merge_step` unites two sets of rows whose own results have come out before: the same, less the combinations of new rows
alone. These are all at the last origin m, which is therefore expanded once for each p < m with new rows of the inputs
before p, old rows of p, and any rows of those after it: every combination with an old row, by its first one.

The work goes by key, not by origin. First the distinct hashes of all new rows are narrowed, input by input and the
smallest state first, to those that every input holds in old or new rows; a hash that one input lacks costs one search
and is gone. Then the old rows of the survivors are gathered into one small *bench* for each input, and origins are
expanded on the benches alone. So the cost is one search for each distinct new hash in each segment, plus work in
proportion to the candidates. After [Viglas03], which probes by origin and does not narrow first.

Invariants: nothing is held between calls; inputs and segments are sorted by hash; the output of `join_step` comes in
chunks of bounded size, in rows and in bytes of text, so a hot key or a long text costs time but not memory. Benches are
bounded, too, unless one hash has more rows. What is made for each new row is not: `kernel/join_pieces.py` bounds that,
by working through the new rows one stretch of the hash after the other.

Filters that stand above the join are put to whole combinations, after everything else: each row that is in one is
looked at once in a step, however many combinations it is in. A row that fails is in no result, wherever its filter
stands. So where a predicate cannot be computed, the filters that rows have still to pass come first, and so do the
other predicates that are due (`kernel/predicates.py`).

`#h` collisions: hashes only nominate candidates. Unless the plan says that the hash is exact, the real keys of every
candidate are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

import numpy as np
import pyarrow as pa

from watersmeet.kernel.combine import (
    CHUNK_ROWS,
    Bench,
    Partial,
    Verdicts,
    all_meet_in_time,
    chunks,
    join_rows,
    passing,
    stretches,
)
from watersmeet.kernel.hashing import UInt64Array
from watersmeet.kernel.indexed import BoolArray, Indexed
from watersmeet.kernel.probe import expand, number_distinct
from watersmeet.kernel.rows import Int64Array, gather, hashes, take
from watersmeet.kernel.tally import Tally
from watersmeet.kernel.window import LONG_AGO, NEVER, Lifetimes, lifetimes
from watersmeet.plan.physical import Node

# Rows gathered to be combined, unless one hash alone has more.
BENCH_BYTES = 32 << 20


def join_step(
    node: Node,
    new: Sequence[pa.RecordBatch],
    kept: Sequence[Sequence[Indexed]],
    chunk_rows: int = CHUNK_ROWS,
    tally: Tally | None = None,
    among: Sizes | None = None,
) -> Iterator[pa.RecordBatch]:
    """The combinations that the rows `new` (a batch for each input) add, given the rows `kept` (segments for each).

    Batches of `#h` and the node's output columns, in no particular order. `tally` is told what was seen on the way;
    `among` says how many rows there are where these are those of a stretch of the hash.
    """
    everyone = range(len(new))
    ways = [(i, {j: _Which.ANY if j < i else _Which.OLD for j in everyone}) for i in everyone]
    tally = Tally() if tally is None else tally
    return _step(node, new, kept, ways, chunk_rows, tally, among or Sizes.of(new, kept))


@dataclass(frozen=True)
class Sizes:
    """How many rows could meet, for each input."""

    new: tuple[int, ...]
    kept: tuple[int, ...]

    @classmethod
    def of(cls, new: Sequence[pa.RecordBatch], kept: Sequence[Sequence[Indexed]]) -> Sizes:
        return cls(
            tuple(batch.num_rows for batch in new), tuple(sum(segment.count for segment in each) for each in kept)
        )


def merge_step(
    node: Node, new: Sequence[pa.RecordBatch], kept: Sequence[Sequence[Indexed]], chunk_rows: int = CHUNK_ROWS
) -> Iterator[pa.RecordBatch]:
    """The combinations of rows of both `new` and `kept`: what is owed between them."""
    everyone = range(len(new))
    last = len(new) - 1
    ways = [(i, {j: _Which.ANY if j < i else _Which.OLD for j in everyone}) for i in everyone[:-1]]
    for p in everyone[:-1]:
        ways.append((last, {j: _Which.NEW if j < p else _Which.OLD if j == p else _Which.ANY for j in everyone}))
    return _step(node, new, kept, ways, chunk_rows, Tally(), Sizes.of(new, kept))


class _Which(Enum):
    """Which rows of an input an origin meets."""

    OLD = 0
    NEW = 1
    ANY = 2


def _step(
    node: Node,
    new: Sequence[pa.RecordBatch],
    kept: Sequence[Sequence[Indexed]],
    ways: Sequence[tuple[int, Mapping[int, _Which]]],
    chunk_rows: int,
    tally: Tally,
    among: Sizes,
) -> Iterator[pa.RecordBatch]:
    """The combinations of the new rows of an origin and the rows of the others that it is to meet, for all `ways`."""
    if not any(batch.num_rows for batch in new):
        return
    search = _Search([hashes(batch) for batch in new], kept, tally, among)
    alive = search.narrow()
    if not alive.any():
        return
    oldest = _oldest(node, new)
    names = [name for name, _ in node.out_fields]
    for some in search.pieces(alive, new):
        benches = [search.bench(node, j, new[j], some, oldest[j]) for j in range(len(new))]
        if all_meet_in_time(benches):
            benches = [replace(bench, lifetimes=None) for bench in benches]
        filters = [Verdicts(entry, benches, tally.filters) for entry in node.filters]
        for i, which in ways:
            start = benches[i].new_rows(i)
            for whole in _extend(node, benches, start, which, node.orders[i], chunk_rows, tally):
                whole = passing(whole, filters)
                for piece in whole.pieces(benches, names) if len(whole.key) else ():
                    yield piece.output(node, benches, search.distinct)


def _oldest(node: Node, new: Sequence[pa.RecordBatch]) -> list[int]:
    """For each input, the least event time of a combination with a new row of another input."""
    least = [NEVER] * len(new)
    for i, batch in enumerate(new):
        life = lifetimes(batch, node.inputs[i].state)
        if life is None:
            return [LONG_AGO] * len(new)
        if batch.num_rows:
            first = int(life.newest.min())
            least = [min(limit, first) if j != i else limit for j, limit in enumerate(least)]
    return least


class _Search:
    """Narrows the distinct new hashes to those that every input holds, and remembers where old rows were found."""

    def __init__(
        self, new_hashes: Sequence[UInt64Array], kept: Sequence[Sequence[Indexed]], tally: Tally, among: Sizes
    ) -> None:
        self.kept = kept
        self.tally = tally
        self.among = among
        self.distinct, self.positions = number_distinct(new_hashes)
        self.new_count = [np.bincount(positions, minlength=len(self.distinct)) for positions in self.positions]
        self.is_new = [count > 0 for count in self.new_count]
        self.inputs_with_new = np.sum(self.is_new, axis=0, dtype=np.int32)
        # for each input and segment: key numbers, first rows and row counts of the runs found
        self.found: list[list[tuple[Int64Array, Int64Array, Int64Array]]] = [[] for _ in kept]

    def narrow(self) -> BoolArray:
        alive = np.ones(len(self.distinct), dtype=bool)
        sizes = self.among.kept
        for j in np.argsort(sizes, kind="stable"):
            # Old rows of j matter only to new rows of another input.
            wanted = np.flatnonzero(alive & (self.inputs_with_new > self.is_new[j]))
            needles = self.distinct[wanted]
            present = self.is_new[j].copy()
            for segment in self.kept[j]:
                which, start, count = segment.find(needles)
                numbers = wanted[which]
                present[numbers] = True
                self.found[j].append((numbers, start, count))
            self._tell(int(j), wanted, sizes[j])
            alive &= present
        return alive

    def _tell(self, j: int, wanted: Int64Array, size: int) -> None:
        """Tell how many pairs of a new row and a row of input j could meet, and how many have the same hash.

        Only hashes that were looked for count, on both sides; those that an input searched before lacks were not.
        """
        for i, counts in enumerate(self.new_count):
            if i != j and len(self.positions[i]):
                same = sum(int(counts[numbers] @ count) for numbers, _, count in self.found[j])
                self.tally.meet(i, j, int(counts[wanted].sum()) * size, same)
            if i < j and len(self.positions[i]) and len(self.positions[j]):
                met = int(counts @ self.new_count[j])
                self.tally.meet(i, j, len(self.positions[i]) * self.among.new[j], met)

    def pieces(self, alive: BoolArray, new: Sequence[pa.RecordBatch]) -> Iterator[BoolArray]:
        """The surviving hashes, as many at once as have no more rows than `BENCH_BYTES`, one at least.

        Few new rows may meet many old ones.
        """
        found = [
            (numbers, count, _row_bytes(segment.rows))
            for segments, places in zip(self.kept, self.found, strict=True)
            for segment, (numbers, _, count) in zip(segments, places, strict=True)
            if len(numbers)
        ]
        old_bytes = sum(int(count.sum()) * row for _, count, row in found)
        if old_bytes + sum(batch.num_rows * _row_bytes(batch) for batch in new) <= BENCH_BYTES:
            yield alive
            return
        sizes = np.zeros(len(self.distinct), dtype=np.int64)
        for counts, batch in zip(self.new_count, new, strict=True):
            sizes += counts * _row_bytes(batch)
        for numbers, count, row in found:
            sizes[numbers] += count * row
        for low, high in chunks(sizes * alive, BENCH_BYTES):
            some = np.zeros(len(alive), dtype=bool)
            some[low:high] = alive[low:high]
            if some.any():
                yield some

    def bench(self, node: Node, j: int, new: pa.RecordBatch, alive: BoolArray, oldest: int) -> _Bench:
        """The rows of input j with a surviving hash, old before new for each key.

        Old rows that have expired by the time of the `oldest` new row that they could meet are left out.
        """
        pieces: list[pa.RecordBatch] = []
        keys: list[Int64Array] = []
        for segment, (numbers, start, count) in zip(self.kept[j], self.found[j], strict=True):
            keep = alive[numbers]
            if not keep.any():
                continue
            run, row = expand(start[keep], count[keep])
            pieces.append(take(segment.rows, row))
            keys.append(numbers[keep][run])
        old_rows = sum(piece.num_rows for piece in pieces)
        fresh = np.flatnonzero(alive[self.positions[j]])
        pieces.append(new if len(fresh) == new.num_rows else take(new, fresh))
        keys.append(self.positions[j][fresh])
        state = node.inputs[j].state
        rows = gather(pieces, state.schema)
        key = np.concatenate(keys)
        life = lifetimes(rows, state)
        if life is not None and old_rows and int(life.expiry[:old_rows].min()) <= oldest:
            in_time = life.expiry > oldest
            in_time[old_rows:] = True
            kept = np.flatnonzero(in_time)
            old_rows -= len(key) - len(kept)
            rows, key, life = take(rows, kept), key[kept], Lifetimes(life.newest[kept], life.expiry[kept])
        width = len(self.distinct)
        return _Bench(
            rows=rows,
            key=key,
            old_rows=old_rows,
            order=np.argsort(key, kind="stable"),
            old_count=np.bincount(key[:old_rows], minlength=width),
            count=np.bincount(key, minlength=width),
            key_fields=state.key.columns,
            lifetimes=life,
        )


def _row_bytes(rows: pa.RecordBatch) -> int:
    """What a row takes, or more: all of what a slice is a slice of counts, which is quick to tell."""
    return int(rows.get_total_buffer_size() // max(1, rows.num_rows))


@dataclass(frozen=True)
class _Bench(Bench):
    """Of these rows `rows[:old_rows]` were kept, the rest are new; `key` numbers their hash."""

    key: Int64Array
    old_rows: int
    order: Int64Array  # row numbers sorted by key, old rows first within a key
    old_count: Int64Array  # by key
    count: Int64Array  # by key, old and new

    @cached_property
    def start(self) -> Int64Array:
        """For each key, where its rows begin in `order`."""
        return np.cumsum(self.count) - self.count

    def new_rows(self, i: int) -> Partial:
        """The new rows, as those of input i."""
        own = np.arange(self.old_rows, self.rows.num_rows)
        return Partial.of_rows(self, i, own, self.key[own])

    def runs(self, which: _Which, keys: Int64Array) -> tuple[Int64Array, Int64Array]:
        """For each of `keys`, where the wanted rows begin in `order`, and how many there are."""
        old = self.old_count[keys]
        if which is _Which.OLD:
            return self.start[keys], old
        if which is _Which.NEW:
            return self.start[keys] + old, self.count[keys] - old
        return self.start[keys], self.count[keys]


def _extend(
    node: Node,
    benches: Sequence[_Bench],
    partial: Partial,
    which: Mapping[int, _Which],
    hops: Sequence[int],
    chunk_rows: int,
    tally: Tally,
) -> Iterator[Partial]:
    """Every way to complete `partial` with rows of the inputs `hops`, in chunks."""
    if not len(partial.key):
        return
    if not hops:
        yield partial
        return
    j, *rest = hops
    bench = benches[j]
    starts, counts = bench.runs(which[j], partial.key)
    for low, begins, sizes in stretches(starts, counts, chunk_rows):
        part, row = expand(begins, sizes)
        wider = join_rows(node, benches, partial, part + low, j, bench.order[row], tally)
        yield from _extend(node, benches, wider, which, rest, chunk_rows, tally)
