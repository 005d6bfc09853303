"""What a task sees of its groups: exact counts of small batches, close ones of large batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from small_plans import chain_plan, named
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.rows import sort_by_hash
from watersmeet.model.bounds import Bounds
from watersmeet.model.group_figures import GroupObservation
from watersmeet.plan.physical import HASH_FIELD
from watersmeet.runtime.stages.group_statistics import SAMPLE, GroupStatistics

GROUPS = 37
PLAN = chain_plan(lineage=True)
J1, J2 = named(PLAN, "J1"), named(PLAN, "J2")
LOWER, UPPER = PLAN.operators[J1], PLAN.operators[J2]


def statistics() -> GroupStatistics:
    assert LOWER.lineage is not None
    return GroupStatistics({LOWER.lineage: J1}, dict.fromkeys(PLAN.operators, Bounds(GROUPS)))


def drawn_hashes(seed: int, rows: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """A few groups have most of the rows. None lies at the edge of a group, where 16 bits do not tell."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 1 << 64, rows, dtype=np.uint64)
    heavy = random.integers(0, 1 << 60, rows, dtype=np.uint64)
    values = np.where(random.random(rows) < 0.5, heavy, values)
    cells = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    last = cells + np.uint64((1 << 48) - 1)
    edge = Bounds(GROUPS).groups_of(cells) != Bounds(GROUPS).groups_of(last)
    kept: np.ndarray[tuple[int], np.dtype[np.uint64]] = values[~edge[(values >> np.uint64(48)).astype(np.int64)]]
    return kept


def batch(hashes: np.ndarray[tuple[int], np.dtype[np.uint64]], below: bool = False) -> pa.RecordBatch:
    """Rows with these hashes, and, `below`, with a lineage in J1 that is a hash of its own."""
    fields = {HASH_FIELD: pa.array(hashes)}
    if below:
        assert LOWER.lineage is not None
        lineage = np.random.default_rng(len(hashes)).permutation(hashes) >> np.uint64(48)
        fields[LOWER.lineage] = pa.array(lineage.astype(np.uint16))
    return sort_by_hash(pa.RecordBatch.from_pydict(fields))


def runs(*inputs: pa.RecordBatch) -> list[list[Indexed]]:
    return [[Indexed.run(rows)] for rows in inputs]


def exact(hashes: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.bincount(Bounds(GROUPS).groups_of(hashes), minlength=GROUPS)


@pytest.mark.parametrize("rows", [0, 1, 500, 2 * SAMPLE - 1])
def test_small_batches_are_counted_exactly(rows: int) -> None:
    hashes = drawn_hashes(rows, rows)
    found = statistics()
    found.come(LOWER, runs(batch(hashes), batch(hashes[: rows // 2])))
    made = batch(hashes, below=True)
    assert list(found.emitted(UPPER, found.made(UPPER, [made, made.slice(0, 0)]))) == [made, made.slice(0, 0)]
    if len(hashes) == 0:
        assert found.seen == {}
        return
    lower, upper = found.seen[J1], found.seen[J2]
    assert [entry.tolist() for entry in lower.arrivals] == [
        exact(hashes).tolist(),
        exact(hashes[: rows // 2]).tolist(),
    ]
    assert upper.local.tolist() == upper.traced.tolist() == exact(hashes).tolist()
    assert lower.traced.tolist() == exact(hashes).tolist(), "the lineages are the same hashes in another order"
    assert lower.local.sum() == 0, "these are results of the other join"


@pytest.mark.parametrize("rows", [2 * SAMPLE + 50, 100_000])
def test_large_batches_are_counted_closely(rows: int) -> None:
    hashes = drawn_hashes(rows, rows)
    step = len(hashes) // SAMPLE
    assert step > 1
    found = statistics()
    list(found.emitted(UPPER, [batch(hashes, below=True)]))
    expected = exact(hashes)
    upper, lower = found.seen[J2].traced, found.seen[J1].traced
    # Rows that are sorted by the hash: a group is off by what lies between two rows that were looked at.
    assert np.abs(upper - expected).max() <= 2 * step
    # Rows in any order: off by chance, which is small against what tells groups apart.
    assert np.abs(lower - expected).max() <= 5 * np.sqrt(step * expected.max())
    assert upper.sum() == pytest.approx(len(hashes))
    assert lower.sum() == pytest.approx(len(hashes))


def test_rows_that_come_from_below_count_as_bytes_kept_above() -> None:
    hashes = drawn_hashes(5, 400)
    found = statistics()
    rows = batch(hashes, below=True)
    found.come(UPPER, runs(rows, batch(hashes[:0])))
    assert found.seen[J1].inter_bytes.sum() == pytest.approx(rows.nbytes)
    share = found.seen[J1].inter_bytes / rows.nbytes * len(hashes)
    assert np.round(share).astype(int).tolist() == exact(hashes).tolist()


def test_tasks_add_up() -> None:
    """Two tasks with half of the rows each saw what one would have seen of all of them."""
    hashes = drawn_hashes(9, 3000)
    total = GroupObservation.nothing(2, GROUPS)
    for part in (hashes[:1000], hashes[1000:]):
        found = statistics()
        found.come(LOWER, runs(batch(part), batch(part)))
        total = total.plus(found.seen[J1])
    assert [entry.tolist() for entry in total.arrivals] == [exact(hashes).tolist()] * 2
    again = GroupObservation.from_json(total.to_json())
    assert [entry.tolist() for entry in again.arrivals] == [entry.tolist() for entry in total.arrivals]


def test_rows_without_a_lineage_are_nobodys() -> None:
    """What a merge emits was not earned by what is in memory."""
    rows = batch(drawn_hashes(5, 400), below=True)
    assert LOWER.lineage is not None
    place = rows.schema.get_field_index(LOWER.lineage)
    merged = rows.set_column(place, LOWER.lineage, pa.nulls(len(rows), pa.uint16()))
    found = statistics()
    list(found.emitted(UPPER, [merged]))
    found.come(UPPER, runs(merged, merged.slice(0, 0)))
    assert J1 not in found.seen or not (found.seen[J1].traced.any() or found.seen[J1].inter_bytes.any())
    assert found.seen[J2].traced.sum() == len(rows), "that it came through the root is plain"


def test_finer_groups_of_one_operator_are_counted_apart() -> None:
    """J1 has one group more than J2, whose groups are as they were."""
    assert LOWER.lineage is not None
    fine = Bounds(GROUPS, (3 << 58,))
    found = GroupStatistics({LOWER.lineage: J1}, {J1: fine, J2: Bounds(GROUPS)})
    values = drawn_hashes(9, 1000)
    rows = batch(values, below=True)  # the same hashes below, in another order
    list(found.made(LOWER, [rows]))
    list(found.emitted(UPPER, [rows]))
    expected = np.bincount(fine.groups_of(values), minlength=GROUPS + 1)
    assert expected[1] and expected[2] and expected[1] + expected[2] == exact(values)[1]
    assert found.seen[J1].local.tolist() == found.seen[J1].traced.tolist() == expected.tolist()
    assert found.seen[J2].traced.tolist() == exact(values).tolist()
