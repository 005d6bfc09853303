"""What a run measures of its streams agrees with what its streams are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.lang.binder import bind
from watersmeet.model.placement import Placement
from watersmeet.model.statistics import Measured
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.tree import choose_tree
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.runtime.stages.task import Sent

CHAIN = (
    "SELECT A.x, D.z FROM A [RANGE 20 SECONDS], B [RANGE 20 SECONDS], C [RANGE 20 SECONDS], D [RANGE 20 SECONDS] "
    "WHERE A.x = B.x AND B.y = C.y AND C.z = D.z AND A.v < B.v"
)
SHARED = "SELECT A.v, C.v AS w FROM A, B, C WHERE A.x = B.x AND B.x = C.x AND B.v < C.v"
RATES = {"A": 100, "B": 60, "C": 40, "D": 80}  # rows a second of event time
DOMAINS = {"x": 100, "y": 40, "z": 80}  # a pair of rows has the same key with a chance of one in so many


def make_rows(name: str, seconds: int, seed: int) -> pa.RecordBatch:
    source = np.random.default_rng([seed, ord(name)])
    count = RATES[name] * seconds
    columns = {key: source.integers(0, size, count) for key, size in DOMAINS.items()}
    times = np.sort(source.integers(0, seconds * 1_000_000, count))
    return pa.record_batch({**columns, "v": source.random(count), "ts": times})


def measure(text: str, names: str, plan: str, slots: int, batches: int = 8) -> Measured:
    rows = {name: make_rows(name, 10, 7) for name in names}
    streams = {name: Stream(name, batch.schema, "ts") for name, batch in rows.items()}
    query = bind(text, streams, {})
    physical = lay_out(query, choose_tree(query, plan))
    run = LocalRun(physical, in_memory(query, physical.spec, Placement(slots, 30)), MemoryResults())
    sources = {
        name: RowsSource(streams[name], [batch.slice(i * (n := len(batch) // batches), n) for i in range(batches)])
        for name, batch in rows.items()
    }
    *_, last = run.batches(sources)
    run.close()
    return last.measured


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("look_ahead_rows", [1, 10**9])
@pytest.mark.parametrize("plan", ["mjoin", "left-deep", "((A B) (C D))", "(A (B C) D)"])
def test_rates_and_selectivities_of_a_chain(
    plan: str, look_ahead_rows: int, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watersmeet.runtime.stages.task.LOOK_AHEAD_ROWS", look_ahead_rows)
    measured = measure(CHAIN, "ABCD", plan, slots)
    for name in "ABCD":
        assert measured.rate(name) == pytest.approx(RATES[name], rel=0.1)
    seen = {(pair.left, pair.right): pair for pair in measured.pairs}
    edges = {("A", "B"): "x", ("B", "C"): "y", ("C", "D"): "z"}
    found = 0
    for (left, right), pair in seen.items():
        crossing = [key for (a, b), key in edges.items() if (a in left and b in right) or (b in left and a in right)]
        assert len(crossing) == 1
        assert pair.key_share == pytest.approx(1 / DOMAINS[crossing[0]], rel=0.15)
        found += 1
    assert found >= 3
    predicate = next(pair for pair in seen.values() if pair.checked)
    assert predicate.pass_share == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("plan", ["mjoin", "((A B) C)"])
def test_selectivities_of_a_shared_key(plan: str, slots: int) -> None:
    measured = measure(SHARED, "ABC", plan, slots)
    for pair in measured.pairs:
        assert pair.key_share == pytest.approx(1 / DOMAINS["x"], rel=0.1)
        if "C" in pair.right and "B" in (*pair.left, *pair.right):
            assert pair.pass_share == pytest.approx(0.5, abs=0.05)


def test_partial_results_without_a_match_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of A, B and C meet in plenty, and D has only keys that C lacks: what is sent and what is measured."""
    text = "SELECT A.v FROM A, B, C, D WHERE A.x = B.x AND B.y = C.y AND C.z = D.z + 1000"
    sent: dict[bool, int] = {}
    shares: dict[bool, float] = {}
    for looks_ahead in (False, True):
        rows: list[int] = []

        def note(slot: int, port: int, piece: pa.RecordBatch, rows: list[int] = rows) -> Sent:
            rows.append(piece.num_rows)
            return Sent(slot, port, piece)

        monkeypatch.setattr("watersmeet.runtime.stages.task.LOOK_AHEAD_ROWS", 1 if looks_ahead else 10**9)
        monkeypatch.setattr("watersmeet.runtime.stages.task.Sent", note)
        measured = measure(text, "ABCD", "mjoin", 2)
        sent[looks_ahead] = sum(rows)
        shares[looks_ahead] = sum(p.possible for p in measured.pairs if p.right == ("D",) and not p.hashed)
    assert sent[True] < 0.3 * sent[False]
    assert shares[True] == pytest.approx(shares[False], rel=0.1)


def test_what_no_input_has_does_not_count_as_a_match() -> None:
    text = "SELECT A.v FROM A, B WHERE A.x = B.y + 1000"
    measured = measure(text, "AB", "mjoin", 2)
    (pair,) = measured.pairs
    assert pair.hashed == 0
    assert pair.possible > 0
