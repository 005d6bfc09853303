"""Python predicates with what they prepare, over whole runs: whatever happens, the answer is the oracle's."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import oracle
import watersmeet as wm
from strategies import RANDOMS, contract_settings, counted
from test_memory_contract import DecideAnything, check_counts
from watersmeet.adapt.controller import Controller
from watersmeet.adapt.policies.migrate import seeded
from watersmeet.kernel import combine, pieces
from watersmeet.lang.binder import bind
from watersmeet.model.placement import Placement
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out, lay_out_spec
from watersmeet.plan.query import Query
from watersmeet.plan.tree import choose_tree
from watersmeet.run.ending import Ending
from watersmeet.runtime.checkpoint import Checkpoint, in_memory
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import Table

SECOND = 1_000_000
FRAME = pa.list_(pa.int16(), 3)
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("j", pa.int64()),
        ("frame", FRAME),
        ("photo", pa.binary()),
        ("n", pa.int64()),
        ("ts", pa.int64()),
    ]
)
QUERIES = (
    ("A.k = B.k AND near(A.frame, B.frame)", "AB"),
    ("A.k = B.k AND B.k = C.k AND near(A.frame, C.frame) AND alike(B.photo, A.photo)", "ABC"),
    ("A.k = B.k AND B.j = C.j AND near(A.frame, B.frame) AND near(C.frame, A.frame) AND alike(C.photo, 'ab')", "ABC"),
    ("A.k = B.k AND B.j = C.j AND (near(A.frame, C.frame) OR A.n < B.n) AND alike(B.photo, C.photo)", "ABC"),
    ("near(A.frame, B.frame) AND alike(A.photo, B.photo)", "AB"),
)
PLANS = {"AB": ("(A B)",), "ABC": ("(A B C)", "((A B) C)", "(A (B C))")}


def functions() -> dict[str, Any]:
    """New ones with every start, as a program has them that is started again."""

    def sums(frames: pa.Array) -> Any:
        return np.asarray(frames.flatten()).reshape(len(frames), 3).sum(axis=1, dtype=np.int64)

    def spread(frames: pa.Array) -> Any:  # more dimensions than are needed, to be carried
        return np.stack([sums(frames), -sums(frames)], axis=1).astype(np.float32)

    def near(a: pa.Array, b: pa.Array) -> Any:
        left, right = (np.asarray(each.flatten()).reshape(len(each), 2) for each in (a, b))
        return np.abs(left - right).max(axis=1) <= 2

    def first_byte(photos: pa.Array) -> pa.Array:
        return pc.binary_slice(photos.cast(pa.binary()), 0, 1)

    return {
        "near": wm.predicate(near, symmetric=True, prepare=spread, cost=1e-7),
        "alike": wm.predicate(lambda a, b: pc.equal(a, b), prepare=[first_byte, first_byte], prepared_type=pa.binary()),
    }


def is_near(a: oracle.Row, b: oracle.Row) -> bool | None:
    return None if None in (a["frame"], b["frame"]) else abs(sum(a["frame"]) - sum(b["frame"])) <= 2


def is_alike(photo: bytes | None, other: bytes | None) -> bool | None:
    return None if None in (photo, other) else photo[:1] == other[:1]  # type: ignore[index]


def satisfies(number: int, rows: oracle.Combination) -> bool:
    a, b, c = rows["A"], rows["B"], rows.get("C", {})
    if number == 0:
        return a["k"] == b["k"] and is_near(a, b) is True
    if number == 1:
        return a["k"] == b["k"] == c["k"] and is_near(a, c) is True and is_alike(b["photo"], a["photo"]) is True
    if number == 4:
        return is_near(a, b) is True and is_alike(a["photo"], b["photo"]) is True
    linked = a["k"] == b["k"] and b["j"] == c["j"]
    if number == 2:
        return linked and is_near(a, b) is True and is_near(c, a) is True and is_alike(c["photo"], b"ab") is True
    return linked and (is_near(a, c) is True or a["n"] < b["n"]) and is_alike(b["photo"], c["photo"]) is True


def draw_batches(random: Random, names: str, count: int) -> list[dict[str, list[oracle.Row]]]:
    numbers = iter(range(10_000))

    def row(batch: int) -> oracle.Row:
        return {
            "k": random.randint(0, 2),
            "j": random.randint(0, 2),
            "frame": None if random.random() < 0.1 else [random.randint(0, 3) for _ in range(3)],
            "photo": None if random.random() < 0.1 else random.choice([b"", b"ab", b"aa", b"b", b"\x00\xff"]),
            "n": next(numbers),
            "ts": batch * SECOND + random.randint(0, SECOND),
        }

    return [{name: [row(batch) for _ in range(random.randint(0, 5))] for name in names} for batch in range(count)]


def started_again(run: LocalRun, query: Query, results: MemoryResults, policy: DecideAnything) -> LocalRun:
    """The run that goes on from what the manifest says, with functions of its own."""
    data = json.loads(json.dumps(run.manifest.to_json()))
    manifest = Manifest.from_json(data)
    plan = lay_out_spec(query, manifest.answering.spec)
    checkpoint = Checkpoint(Table(manifest), run.checkpoint.segments)
    return LocalRun(plan, checkpoint, results, controller=Controller(plan, policies=(policy,)))


@contract_settings(20)
@given(st.sampled_from(range(len(QUERIES))), RANDOMS, st.sampled_from([0.0, 0.3, 0.8]), st.sampled_from([None, 2, 4]))
def test_batches_restarts_spills_and_changes_of_the_plan(
    number: int, random: Random, often: float, window: int | None
) -> None:
    where, names = QUERIES[number]
    froms = ", ".join(f"{name} [RANGE {window} SECONDS]" if window else name for name in names)
    text = f"SELECT {', '.join(f'{name}.n AS {name.lower()}' for name in names)} FROM {froms} WHERE {where}"
    note(text)
    batches = draw_batches(random, names, random.randint(1, 6))
    streams = {name: Stream(name, SCHEMA, "ts", timedelta(seconds=2)) for name in names}
    inputs = [oracle.Input(name, name, window and window * SECOND) for name in names]
    expected = oracle.answer(
        batches,
        inputs,
        lambda rows: satisfies(number, rows),
        lambda rows: tuple(rows[name]["n"] for name in names),
        dict.fromkeys(names, 2 * SECOND),
    )
    with (
        mock.patch.object(seeded, "_rows_allowed", lambda standing: random.choice([1, 2, 5])),
        mock.patch.object(pieces, "JOINED_BYTES", random.choice([200, 1 << 20])),
        mock.patch.object(combine, "CHUNK_BYTES", random.choice([64, 1 << 20])),
    ):
        assert run_all(text, streams, batches, random, often, PLANS[names]) == expected.rows


def run_all(
    text: str,
    streams: dict[str, Stream],
    batches: list[dict[str, list[oracle.Row]]],
    random: Random,
    often: float,
    plans: tuple[str, ...],
) -> Counter[tuple[Any, ...]]:
    query = bind(text, streams, functions())
    policy = DecideAnything(random, often, plans)
    plan = lay_out(query, choose_tree(query, random.choice(plans)))
    results = MemoryResults()
    checkpoint = in_memory(query, plan.spec, Placement(random.randint(1, 3), 6))
    run = LocalRun(plan, checkpoint, results, controller=Controller(plan, policies=(policy,)))
    for batch in batches:
        sources = {
            name: RowsSource(streams[name], [pa.RecordBatch.from_pylist(rows, schema=SCHEMA)])
            for name, rows in batch.items()
        }
        pulled = {name: found for name, source in sources.items() if (found := source.pull(set())) is not None}
        if pulled:
            run.driver.run_batch(pulled)
            check_counts(run)
        if run.manifest.warming_up is None and len(run.manifest.tracks) == 1 and random.random() < 0.5:
            run._executor.close()
            run = started_again(run, bind(text, streams, functions()), results, policy)
    while run.driver.drain_step(Ending.CLOSED):
        pass
    run.close()
    return counted(pa.Table.from_batches(results.pop(), schema=query.output_schema))


def test_each_row_is_prepared_once_however_often_it_is_met_and_kept() -> None:
    """Of a routed join, whose inputs are kept on several keys."""
    seen: Counter[int] = Counter()

    def total(frames: pa.Array) -> pa.Array:
        values = np.asarray(frames.flatten()).reshape(len(frames), 3)
        seen.update(values[:, 0].tolist())
        return pa.array(values.sum(axis=1, dtype=np.int64))

    near = wm.predicate(lambda a, b: pc.less_equal(pc.abs(pc.subtract(a, b)), 2), prepare=total)

    def rows(first: int) -> pa.Table:
        frames = pa.array([[first + i, 1, 2] for i in range(20)], FRAME)
        return pa.table(
            {"k": [i % 2 for i in range(20)], "j": [i % 3 for i in range(20)], "frame": frames, "ts": range(20)}
        )

    text = "SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.j = C.j AND near(A.frame, B.frame) AND near(B.frame, C.frame)"
    query = wm.sql(text, A=rows(0), B=rows(100), C=rows(200), functions={"near": near})
    query.run(plan="(A B C)", batch_rows=5)
    assert len(seen) == 60
    assert set(seen.values()) == {1}


@pytest.mark.parametrize("plan", ["(A B)", "(A B)[A]"])
def test_nothing_is_prepared_of_rows_that_a_filter_keeps_out(plan: str) -> None:
    def reciprocal(values: pa.Array) -> Any:
        return np.array([1 / value for value in values.to_pylist()])

    same = wm.predicate(lambda a, b: pc.equal(a, b), prepare=reciprocal, prepared_type="DOUBLE")
    streams = {
        "A": pa.table({"k": [1, 1], "v": [0, 2], "ts": [1, 2]}),
        "B": pa.table({"k": [1, 1], "v": [2, 3], "ts": [1, 2]}),
    }
    query = wm.sql(
        "SELECT A.v FROM A, B WHERE A.k = B.k AND same(A.v, B.v) AND A.v > 0", functions={"same": same}, **streams
    )
    assert query.run(plan=plan).to_pydict() == {"v": [2]}
