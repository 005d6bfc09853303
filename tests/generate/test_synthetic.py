"""Synthetic streams: the statistics that were asked for, exact where that is promised, in batches of any size."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.errors import JobError
from watersmeet.generate.synthetic import (
    KeyColumn,
    Keys,
    Phase,
    Ranged,
    Share,
    StreamSpec,
    SyntheticSpec,
    Uniform,
    batches,
    lay_out,
    ranged,
    shuffle,
)
from watersmeet.kernel.hashing import hash_keys

THIRD = Fraction(1, 3)
THOUSAND = Uniform(1000)


def one(keys: Keys = THOUSAND, rows: int | None = 10_000, seed: int = 1, **fields: object) -> SyntheticSpec:
    return SyntheticSpec((StreamSpec("A", rows, (KeyColumn("k", keys),), **fields),), seed)  # type: ignore[arg-type]


def table(spec: SyntheticSpec, stream: str = "A") -> pa.Table:
    return pa.Table.from_batches(batches(spec, stream))


def keys_of(spec: SyntheticSpec) -> np.ndarray:
    return table(spec)["k"].to_numpy()


SPECS = {
    "uniform keys, steady": one(),
    "poisson with disorder": one(arrivals="poisson", disorder=timedelta(seconds=1)),
    "pareto with shares": one(Ranged(tuple(Share(THIRD, 1400, r) for r in (4, 2, 1))), arrivals="pareto"),
    "ranges that differ": one(Ranged((Share(Fraction(1, 2), 600, 4), Share(Fraction(1, 2), 900, 3)))),
    "shifts": one(
        ranged(70, 7),
        arrivals="poisson",
        phases=(
            Phase(timedelta(seconds=2), rate=500),
            Phase(timedelta(seconds=3), keys=(KeyColumn("k", Uniform(5)),)),
            Phase(timedelta(seconds=4), 2000, (KeyColumn("k", ranged(300, 2)),)),
        ),
    ),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@settings(max_examples=25, deadline=None)
@given(batch_rows=st.integers(1, 12_000), first=st.integers(0, 10_000), rows=st.integers(0, 3_000))
def test_batch_sizes_and_parts_do_not_matter(spec: SyntheticSpec, batch_rows: int, first: int, rows: int) -> None:
    whole = table(spec)
    last = first + rows
    # Small batches of a large part are slow and tell no more.
    parts = list(batches(spec, "A", batch_rows=max(batch_rows, rows // 50, 1), first=first, last=last))
    assert pa.Table.from_batches(parts, whole.schema).equals(whole.slice(first, rows))


def test_same_seed_same_rows_and_streams_are_independent() -> None:
    streams = (StreamSpec("A", 1000), StreamSpec("B", 1000))
    first, again, other = (SyntheticSpec(streams, seed) for seed in (1, 1, 2))
    assert table(first).equals(table(again))
    assert not table(first)["k"].equals(table(other)["k"])
    assert not table(first)["k"].equals(table(first, "B")["k"])
    alone = SyntheticSpec((StreamSpec("B", 1000),), 1)
    assert table(first, "B").equals(table(alone, "B"))


def test_schema_and_ranges_of_values() -> None:
    stream = StreamSpec("C", 50_000, (KeyColumn("a", Uniform(10)), KeyColumn("b", ranged(100, 4))))
    rows = table(SyntheticSpec((stream,)), "C")
    assert rows.schema == pa.schema([("a", pa.int64()), ("b", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
    assert set(rows["a"].to_pylist()) == set(range(10))
    assert set(rows["b"].to_pylist()) == set(range(25))
    assert set(rows["v"].to_pylist()) == set(range(1000))
    assert rows["ts"].to_pylist()[:3] == [0, 1000, 2000]


def test_uniform_keys_are_uniform_and_columns_independent() -> None:
    stream = StreamSpec("A", 100_000, (KeyColumn("a", Uniform(10)), KeyColumn("b", Uniform(10))))
    rows = table(SyntheticSpec((stream,)))
    pairs = np.bincount(rows["a"].to_numpy() * 10 + rows["b"].to_numpy(), minlength=100)
    assert abs(pairs - 1000).max() < 160  # five standard deviations


@settings(max_examples=50, deadline=None)
@given(ratio=st.integers(1, 9), values=st.integers(1, 60), seed=st.integers(0, 100))
def test_a_value_appears_r_times_in_every_k_rows(ratio: int, values: int, seed: int) -> None:
    range_rows = ratio * values
    keys = keys_of(one(ranged(range_rows, ratio), range_rows * 5, seed))
    for block in keys.reshape(5, range_rows):
        assert np.bincount(block, minlength=values).tolist() == [ratio] * values


def test_blocks_are_shuffled_anew_and_well() -> None:
    blocks = keys_of(one(ranged(10_000, 1), 30_000)).reshape(3, 10_000)
    for block in blocks:
        assert sorted(block) == list(range(10_000))
        assert abs(np.corrcoef(block, np.arange(10_000))[0, 1]) < 0.05
        # Successors of a random permutation are one apart about once.
        assert (np.diff(block) == 1).sum() < 10
    assert (blocks[0] == blocks[1]).sum() < 10


@settings(max_examples=200, deadline=None)
@given(size=st.integers(1, 500), key=st.integers(0, 2**64 - 1), block=st.integers(0, 2**40))
def test_shuffle_is_a_permutation(size: int, key: int, block: int) -> None:
    assert sorted(shuffle(key, np.full(size, block), np.arange(size), size)) == list(range(size))


def appearances(keys: np.ndarray, range_rows: int) -> list[dict[int, int]]:
    blocks = keys[: len(keys) // range_rows * range_rows].reshape(-1, range_rows)
    return [dict(zip(*(a.tolist() for a in np.unique(block, return_counts=True)), strict=True)) for block in blocks]


def test_thirds_of_the_groups_with_ratios_4_2_1() -> None:
    keys = Ranged(tuple(Share(THIRD, 2100, ratio) for ratio in (4, 2, 1)))
    for counts in appearances(keys_of(one(keys, 4 * 2100)), 2100):
        assert len(counts) == 900  # average ratio 7/3
        hashes = hash_keys([pa.array(list(counts))]).astype(float) / 2.0**64
        ratios = np.array([4, 2, 1])[(hashes * 3).astype(int)]
        assert ratios.tolist() == list(counts.values())
        assert np.bincount(ratios)[[4, 2, 1]].tolist() == [300, 300, 300]


def test_the_values_of_shares_are_the_same_in_every_stream() -> None:
    keys = (KeyColumn("k", Ranged(tuple(Share(THIRD, 2100, ratio) for ratio in (4, 2, 1)))),)
    spec = SyntheticSpec((StreamSpec("A", 2100, keys), StreamSpec("B", 2100, keys)))
    assert set(table(spec, "A")["k"].to_pylist()) == set(table(spec, "B")["k"].to_pylist())


def test_shares_with_different_ranges_are_all_exact() -> None:
    shares = (Share(Fraction(1, 2), 600, 4), Share(Fraction(1, 4), 1200, 3), Share(Fraction(1, 4), 1800, 2))
    keys = keys_of(one(Ranged(shares), 7200))
    share_of = np.searchsorted([0.5, 0.75], hash_keys([pa.array(keys)]).astype(float) / 2.0**64, side="right")
    _, placed = lay_out(Ranged(shares))
    total = sum(p.values for p in placed)
    for number, (share, p) in enumerate(zip(shares, placed, strict=True)):
        assert p.values / total == pytest.approx(float(share.of_values), rel=0.05)
        mine = np.where(share_of == number, keys, -1)
        for counts in appearances(mine, share.range_rows):
            counts.pop(-1)
            assert set(counts.values()) == {share.ratio}
            assert len(counts) == p.values


def test_the_whole_block_is_filled_when_numbers_do_not_divide() -> None:
    keys = Ranged(tuple(Share(THIRD, 30_000, ratio) for ratio in (4, 2, 1)))
    block, placed = lay_out(keys)
    assert sum(p.block_rows for p in placed) == block == 30_000
    assert max(p.values for p in placed) - min(p.values for p in placed) <= 1


def test_shifts_of_rate_and_keys_happen_at_their_time() -> None:
    phases = (
        Phase(timedelta(seconds=2), rate=500.0),
        Phase(timedelta(seconds=4), keys=(KeyColumn("k", Uniform(3)),)),
        Phase(timedelta(seconds=5), 4000.0, (KeyColumn("k", ranged(40, 4)),)),
    )
    rows = table(one(Uniform(1000), 10_000, rate=1000.0, phases=phases))
    times, keys = rows["ts"].to_numpy(), rows["k"].to_numpy()
    per_second = np.bincount(times // 1_000_000)
    assert per_second[:6].tolist() == [1000, 1000, 500, 500, 500, 4000]
    assert keys[times < 4_000_000].max() > 900
    assert set(keys[(times >= 4_000_000) & (times < 5_000_000)]) == {0, 1, 2}
    last = keys[times >= 5_000_000]
    for block in last[: len(last) // 40 * 40].reshape(-1, 40):
        assert np.bincount(block).tolist() == [4] * 10
    assert (np.diff(times) >= 0).all()


def test_a_phase_at_zero_replaces_the_beginning() -> None:
    shifted = one(Uniform(1000), rate=1000.0, phases=(Phase(timedelta(0), 100.0),))
    assert table(shifted)["ts"].to_pylist()[:3] == [0, 10_000, 20_000]


def test_disorder_keeps_rows_within_the_lateness() -> None:
    plain, disordered = one(rate=100.0), one(rate=100.0, disorder=timedelta(seconds=1))
    before, after = table(plain), table(disordered)
    assert before["k"].equals(after["k"])
    times = after["ts"].to_numpy()
    lag = np.maximum.accumulate(times) - times
    assert 900_000 < lag.max() <= 1_000_000
    assert times.min() >= 0
    assert (np.diff(times) < 0).mean() > 0.3


def test_a_stream_without_end_goes_on() -> None:
    spec = one(rows=None)
    assert sum(batch.num_rows for batch in islice(batches(spec, "A", batch_rows=1000), 20)) == 20_000


MISTAKES = {
    "no rows": (lambda: StreamSpec("A", 0), 'stream "A" has 0 rows'),
    "rate of zero": (lambda: StreamSpec("A", rate=0.0), "rate 0 is not positive"),
    "unknown arrivals": (lambda: StreamSpec("A", arrivals="poison"), 'Did you mean "poisson"?'),
    "empty domain": (lambda: Uniform(0), "domain 0"),
    "range no multiple of ratio": (lambda: ranged(10, 3), "tuple range 10 is no multiple of join ratio 3"),
    "ratio larger than range": (lambda: ranged(3, 10), "larger than tuple range"),
    "shares that do not add up": (lambda: Ranged((Share(THIRD, 10, 1),)), "add up to 1/3"),
    "shares that do not fit": (
        lambda: Ranged((Share(THIRD, 9, 4), Share(2 * THIRD, 9, 2))),
        "cannot be filled exactly",
    ),
    "column called v": (lambda: StreamSpec("A", keys=(KeyColumn("v", Uniform(1)),)), 'two columns "v"'),
    "phase of an unknown column": (
        lambda: StreamSpec("A", phases=(Phase(timedelta(1), keys=(KeyColumn("kk", Uniform(1)),)),)),
        'no key column "kk"',
    ),
    "phases out of order": (
        lambda: StreamSpec("A", phases=(Phase(timedelta(2)), Phase(timedelta(1)))),
        "ascending order",
    ),
    "two streams of a name": (lambda: SyntheticSpec((StreamSpec("A"), StreamSpec("A"))), 'called "A"'),
    "unknown stream": (lambda: list(batches(one(), "B")), 'unknown stream "B"'),
}


@pytest.mark.parametrize(("build", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(build: object, message: str) -> None:
    with pytest.raises(JobError) as error:
        build()  # type: ignore[operator]
    assert message in error.value.render()
