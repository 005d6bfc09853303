"""A look ahead never misses a hash that is there, and seldom takes one for present that is not."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.look_ahead import WIDTH, HashFilter

hashes = st.one_of(st.integers(0, 3), st.sampled_from([2**64 - 1, 2**63]), st.integers(0, 2**64 - 1))


@given(st.lists(st.lists(hashes, max_size=20), max_size=4))
def test_what_is_there_is_never_missed(parts: list[list[int]]) -> None:
    arrays = [np.array(part, np.uint64) for part in parts]
    seen = HashFilter.of(arrays)
    for part in arrays:
        assert seen.may_hold(part).all()


def test_what_is_not_there_is_mostly_told() -> None:
    source = np.random.default_rng(1)
    held, others = source.integers(0, 2**64, (2, 50_000), np.uint64)
    seen = HashFilter.of([held[:20_000], held[20_000:]])
    assert seen.may_hold(others).mean() < 1 / WIDTH
    assert not HashFilter.of([]).may_hold(others).any()
