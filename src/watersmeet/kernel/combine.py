"""Combinations of rows that lie on benches: put together one input at a time, checked, and copied out.

A *bench* holds the rows of one input that take part in a step. A `Partial` is a set of combinations, each by the
numbers of its rows on their benches, so that nothing is copied until a predicate or the output needs it. Who proposes
which rows meet is the caller's matter: `step.py` goes by equal hashes, `scan.py` by time and sorted values. What is
checked is the same: windows first, then real keys where hashes are not exact, then predicates, and at the end the
filters that stand above the join, each row once.

What is copied at once is bounded, in rows and in bytes of text, so a hot key or a long text costs time but not memory.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.evaluate import satisfied
from watersmeet.kernel.hashing import UInt64Array
from watersmeet.kernel.indexed import BoolArray
from watersmeet.kernel.predicates import satisfying
from watersmeet.kernel.rows import Int64Array, narrow
from watersmeet.kernel.tally import FilterTally, Tally
from watersmeet.kernel.widths import widths
from watersmeet.kernel.window import LONG_AGO, Lifetimes
from watersmeet.plan.physical import HASH_FIELD, Node, RaisedFilter

# Candidates expanded at once: bounds the memory that a hot key takes, and is large enough to hide the cost of a call.
CHUNK_ROWS = 262_144
# Text copied at once, unless one combination alone has more. Far below the 2 GiB that an Arrow array can hold, and no
# less than what a full chunk has where texts take 256 bytes.
CHUNK_BYTES = 64 << 20


@dataclass(frozen=True)
class Bench:
    """The rows of one input that take part, with the numbers that say whether they are in time for each other."""

    rows: pa.RecordBatch
    lifetimes: Lifetimes | None
    key_fields: tuple[str, ...]

    @cached_property
    def everybody(self) -> Int64Array:
        """The numbers of all rows. Combinations that have this very array as theirs share the columns, uncopied."""
        return np.arange(self.rows.num_rows)

    @cached_property
    def widths(self) -> dict[str, Int64Array]:
        """For each column of variable width, the bytes of each row."""
        found = {name: widths(self.rows.column(name)) for name in self.rows.schema.names}
        return {name: each for name, each in found.items() if each is not None and len(each)}

    @cached_property
    def widest(self) -> dict[str, int]:
        """For each column of variable width, the bytes of the row with most."""
        return {name: int(each.max()) for name, each in self.widths.items()}


def all_meet_in_time(benches: Sequence[Bench]) -> bool:
    """Whether no combination of rows on the benches can fail its windows."""
    lives = [bench.lifetimes for bench in benches if bench.rows.num_rows]
    newest = max((int(life.newest.max()) for life in lives if life is not None), default=LONG_AGO)
    return all(life is None or newest < int(life.expiry.min()) for life in lives)


@dataclass(frozen=True)
class Partial:
    """Combinations of rows of some inputs: for each input its row numbers, and the number of their common hash."""

    key: Int64Array
    rows: dict[int, Int64Array]
    lifetimes: Lifetimes | None

    @classmethod
    def of_rows(cls, bench: Bench, i: int, own: Int64Array, key: Int64Array) -> Partial:
        """Rows of input i alone, less those that no combination can be in time with."""
        life = bench.lifetimes
        if life is None:
            return cls(key, {i: own}, None)
        alive = np.flatnonzero(life.newest[own] < life.expiry[own])
        own, key = own[alive], key[alive]
        return cls(key, {i: own}, Lifetimes(life.newest[own], life.expiry[own]))

    @classmethod
    def concat(cls, parts: Sequence[Partial]) -> Partial:
        """Combinations of the same inputs, one after the other."""
        if len(parts) == 1:
            return parts[0]
        lives = [part.lifetimes for part in parts if part.lifetimes is not None]
        return cls(
            np.concatenate([part.key for part in parts]),
            {j: np.concatenate([part.rows[j] for part in parts]) for j in parts[0].rows},
            Lifetimes.concat(lives) if lives else None,
        )

    def with_rows(self, j: int, rows: Int64Array) -> Partial:
        """Each combination with a row of input j besides, that it is in time with."""
        return Partial(self.key, {**self.rows, j: rows}, self.lifetimes)

    def repeated(self, times: int) -> Partial:
        """Each of these combinations so many times in a row; without lifetimes."""
        return Partial(np.repeat(self.key, times), {j: np.repeat(rows, times) for j, rows in self.rows.items()}, None)

    def filter(self, keep: Int64Array | slice) -> Partial:
        life = self.lifetimes
        return Partial(
            self.key[keep],
            {j: rows[keep] for j, rows in self.rows.items()},
            None if life is None else Lifetimes(life.newest[keep], life.expiry[keep]),
        )

    def pieces(self, benches: Sequence[Bench], names: Sequence[str]) -> Iterator[Partial]:
        """These combinations, in stretches whose named columns can be copied at once."""
        texts = [(j, name) for j in self.rows for name in benches[j].widest if name in names]
        if len(self.key) * sum(benches[j].widest[name] for j, name in texts) <= CHUNK_BYTES:
            yield self
            return
        sizes = sum(benches[j].widths[name][self.rows[j]] for j, name in texts)
        assert isinstance(sizes, np.ndarray)
        for low, high in chunks(sizes, CHUNK_BYTES):
            yield self.filter(slice(low, high))

    def columns(self, benches: Sequence[Bench], names: Sequence[str]) -> pa.RecordBatch:
        """The named columns of these combinations, which are one of the `pieces`."""
        arrays = []
        for name in names:
            j = next(j for j in self.rows if benches[j].rows.schema.get_field_index(name) >= 0)
            column = benches[j].rows.column(name)
            if self.rows[j] is not benches[j].everybody:
                column = column.take(pa.array(self.rows[j]))
            arrays.append(narrow(column))
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    def output(self, node: Node, benches: Sequence[Bench], distinct: UInt64Array) -> pa.RecordBatch:
        names = [name for name, _ in node.out_fields if name != node.lineage]
        body = self.columns(benches, names)
        hashed = distinct[self.key]
        arrays = dict(zip(names, body.columns, strict=True))
        if node.lineage is not None:
            arrays[node.lineage] = pa.array((hashed >> np.uint64(48)).astype(np.uint16))
        ordered = [arrays[name] for name, _ in node.out_fields]
        return pa.RecordBatch.from_arrays(
            [pa.array(hashed), *ordered], names=[HASH_FIELD, *(name for name, _ in node.out_fields)]
        )


def stretches(starts: Int64Array, counts: Int64Array, chunk_rows: int) -> Iterator[tuple[int, Int64Array, Int64Array]]:
    """Runs of rows, or part of a run, to be expanded at once: the number of the first, and their starts and counts."""
    for low, high in chunks(counts, chunk_rows):
        begins, sizes = starts[low:high], counts[low:high]
        if high - low > 1 or sizes[0] <= chunk_rows:
            yield low, begins, sizes
            continue
        even = -(-int(sizes[0]) // -(-int(sizes[0]) // chunk_rows))  # no short one at the end
        for done in range(0, int(sizes[0]), even):
            yield low, begins + done, np.minimum(sizes - done, even)


def chunks(counts: Int64Array, chunk_rows: int) -> Iterator[tuple[int, int]]:
    """Stretches of `counts` whose sums stay near `chunk_rows`; a single larger count gets a stretch of its own."""
    ends = np.cumsum(counts)
    low = 0
    while low < len(counts):
        before = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + chunk_rows, side="right")))
        yield low, high
        low = high


def join_rows(
    node: Node, benches: Sequence[Bench], partial: Partial, part: Int64Array, j: int, rows: Int64Array, tally: Tally
) -> Partial:
    """`partial[part]` combined with `rows` of input j, less what fails a key, window or predicate check."""
    life = partial.lifetimes
    other = benches[j].lifetimes
    if life is not None and other is not None:
        newest = np.maximum(life.newest[part], other.newest[rows])
        expiry = np.minimum(life.expiry[part], other.expiry[rows])
        keep = np.flatnonzero(newest < expiry)
        if len(keep) < len(part):
            part, rows, newest, expiry = part[keep], rows[keep], newest[keep], expiry[keep]
        life = Lifetimes(newest, expiry)
    wider = Partial(partial.key[part], {**{i: numbers[part] for i, numbers in partial.rows.items()}, j: rows}, life)
    return check_rows(node, benches, wider, j, tally)


def check_rows(node: Node, benches: Sequence[Bench], wider: Partial, j: int, tally: Tally) -> Partial:
    """Combinations that are in time and have got a row of input j, less those that fail a key or a predicate check."""
    if not node.exact_hash:
        wider = _compare_keys(wider, benches, j)
    due = [(reads, expr) for reads, expr in node.predicates if j in reads and reads <= wider.rows.keys()]
    if not due:
        return wider

    def look(partial: Partial, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return (piece.columns(benches, names) for piece in partial.pieces(benches, names))

    def excuse(partial: Partial) -> Partial | None:
        awaited = [Verdicts(entry, benches, tally.filters) for entry in node.awaited if entry.input in partial.rows]
        return passing(partial, awaited) if awaited else None

    return satisfying(due, wider, look, excuse, tally)


class Verdicts:
    """What a filter that stands above a join says of the rows on a bench.

    It is asked of each row once, and not of those that have passed it before they were kept.
    """

    def __init__(self, entry: RaisedFilter, benches: Sequence[Bench], tally: FilterTally) -> None:
        self.entry = entry
        self.benches = benches
        self.tally = tally
        passed = benches[entry.input].rows.column(entry.passed.field_name)
        self.known = np.array(passed.to_numpy(zero_copy_only=False), dtype=bool)
        self.satisfied = self.known.copy()

    def of(self, rows: Int64Array) -> BoolArray:
        """For each of `rows`, which may come up more than once, whether it passes."""
        wanted = np.zeros(len(self.known), dtype=bool)
        wanted[rows] = True
        asked = np.flatnonzero(wanted & ~self.known)
        if len(asked):
            self.satisfied[asked] = np.concatenate(list(self._ask(asked)))
            self.known[asked] = True
        result: BoolArray = self.satisfied[rows]
        return result

    def _ask(self, rows: Int64Array) -> Iterator[BoolArray]:
        expr, alias = self.entry.expr, self.entry.passed.alias
        names = [column.field_name for column in self.entry.columns]  # one at least, also for a filter that reads none
        for piece in Partial(rows, {self.entry.input: rows}, None).pieces(self.benches, names):
            yield self.tally.ask(alias, expr, functools.partial(satisfied, expr, piece.columns(self.benches, names)))


def passing(partial: Partial, filters: Sequence[Verdicts]) -> Partial:
    """The combinations whose rows pass all these filters."""
    for each in filters:
        mask = each.of(partial.rows[each.entry.input])
        if not mask.all():
            partial = partial.filter(np.flatnonzero(mask))
    return partial


def _compare_keys(partial: Partial, benches: Sequence[Bench], j: int) -> Partial:
    """Drop combinations whose row of input j has the same hash as the others but another key."""
    i = next(iter(partial.rows))
    pairs = list(zip(benches[i].key_fields, benches[j].key_fields, strict=True))
    parts: list[np.ndarray[tuple[int], np.dtype[np.bool_]]] = []
    for piece in partial.pieces(benches, [name for pair in pairs for name in pair]):
        same = np.ones(len(piece.key), dtype=bool)
        for pair in pairs:
            left, right = piece.columns(benches, pair).columns
            same &= pc.equal(left, right).to_numpy(zero_copy_only=False)
        parts.append(same)
    keep = np.concatenate(parts)
    return partial if keep.all() else partial.filter(np.flatnonzero(keep))
