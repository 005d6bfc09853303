"""The experiments on plans that differ by slot: settings worked out by hand, and answers that no way changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from experiments import balancing_runs
from experiments.balancing import (
    AB,
    BALANCED,
    BC,
    GROUPS,
    MOVING,
    NEW,
    NONE,
    PARALLEL,
    QUICK,
    Extent,
    Setting,
    crowded,
    fall,
    parted,
    rise,
)
from experiments.banded import band, draw_rows
from watersmeet.kernel.hashing import hash_keys
from watersmeet.optimize import CostConstants

TINY: Extent = replace(QUICK, fall_rate=0.02, rise_rate=0.2, cell_rate=0.03)
PRICES = CostConstants(insert=2e-7, delete=0.0, join=3e-8, probe=5e-8, compare=4e-8)


def group_of(keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return (hash_keys([pa.array(keys)]) / 2.0**64 * GROUPS).astype(np.int64)


def rate(setting: Setting, stream: str, since: float, until: float) -> float:
    """Rows a second of all copies, by what was drawn."""
    times = draw_rows(setting, 60.0, 1)[stream].column("ts").to_numpy() / 1e6
    return int(((times >= since) & (times < until)).sum()) / (until - since)


def test_half_of_the_groups_are_on_one_slot() -> None:
    assert Counter(crowded()) == {0: 50, 1: 17, 2: 17, 3: 16}


def test_every_group_has_as_many_keys() -> None:
    keys = fall(replace(TINY, copies=200)).values()
    assert set(Counter(group_of(keys).tolist()).values()) == {2}


def test_rates_change_at_second_30() -> None:
    falling, rising = fall(TINY), rise(TINY)
    assert rate(falling, "B", 0, 30) == pytest.approx(200, rel=0.05)
    assert rate(falling, "B", 30, 60) == pytest.approx(10, rel=0.2)
    assert rate(falling, "A", 30, 60) == pytest.approx(200, rel=0.05)
    assert rate(rising, "A", 0, 30) == pytest.approx(100, rel=0.05)
    assert rate(rising, "A", 30, 60) == pytest.approx(2000, rel=0.05)


def test_slots_have_statistics_of_their_own() -> None:
    setting = parted(TINY)
    rows = draw_rows(setting, 20.0, 1)
    first = group_of(rows["B"].column("g").to_numpy()) < GROUPS // 2
    for pair, often in ((AB, first), (BC, ~first)):
        values = rows["B"].column("".join(pair).lower()).to_numpy()
        part = band(setting.selectivities[pair]) / band(0.005)
        assert values[often].max() <= part
        assert values[~often].max() > 0.9


def test_all_ways_give_what_duckdb_gives() -> None:
    setting = replace(rise(TINY), seconds=50.0, batch_seconds=2.0)
    rows = draw_rows(setting, 1.3 * setting.seconds, 1)
    found = {}
    for contender in (NONE, replace(BALANCED, by=MOVING), replace(BALANCED, name="waits", by=PARALLEL)):
        kept: list[pa.RecordBatch] = []
        run = balancing_runs.start(setting, contender, rows, setting.seconds, PRICES, kept)
        for sample in run.batches():
            taken = sample.taken_seconds
            if contender.balanced and not run.changes and not run.migrating and taken >= 32:
                run.migrate(NEW, contender.by, ((0, 50),))
        run.close()
        found[contender.name] = balancing_runs.answer_of(kept, rows, 1.0)
        assert bool(run.moves) == contender.balanced
        assert [(change.by, change.groups) for change in run.changes] == [(contender.by, 50)] * contender.balanced
    tables = {name.lower(): pa.Table.from_batches([batch]) for name, batch in rows.items()}
    limits = {pair: band(selectivity) for pair, selectivity in setting.selectivities.items()}
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        width = round(setting.width * 1e6)
        expected = connection.execute(
            f"""select greatest(a.ts, b.ts, c.ts) // 1000000 as second, count(*) from a, b, c
            where a.g = b.g and a.g = c.g and abs(a.ab - b.ab) < {limits[AB]} and abs(b.bc - c.bc) < {limits[BC]}
            and greatest(a.ts, b.ts, c.ts) - least(a.ts, b.ts, c.ts) < {width} group by second"""
        ).fetchall()
    counts = {second: count for second, count in expected if second < int(taken)}
    assert sum(counts.values()) > 100
    for name, answer in found.items():
        assert {second: count for second, (count, _) in answer.items() if second < int(taken)} == counts, name
        assert {s: v for s, v in answer.items() if s < int(taken)} == {
            s: v for s, v in found[NONE.name].items() if s < int(taken)
        }, name
