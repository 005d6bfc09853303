"""Slots that choose the trees of their groups by what they measure themselves: `replan_scope = "slot"`."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strategies import counted
from watersmeet.adapt.controller import Controller
from watersmeet.adapt.policies.replan_by_slot import ReplanBySlot
from watersmeet.errors import JobError
from watersmeet.kernel.hashing import hash_keys
from watersmeet.lang.binder import bind
from watersmeet.model.placement import Placement
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.tree import choose_tree
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.replan import ReplanSettings

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
SECOND = 1_000_000
LEFT, RIGHT = "((A B) C)", "(A (B C))"
MANY = 30


def keys_of(group: int) -> list[int]:
    return [key for key in range(400) if int(hash_keys([pa.array([key])])[0] >> np.uint64(63)) == group]


def rows_of(second: int, group: int) -> dict[str, list[int]]:
    """Keys by stream: in the first group A and B meet often, and C hardly ever; in the second B and C do, and A not."""
    hot, *others = keys_of(group)
    often = [hot] * MANY
    rare = [hot, *others[second * MANY % 100 :][: MANY - 1]]
    return {"A": often if group == 0 else rare, "B": often, "C": rare if group == 0 else often}


class SlottedRun:
    def __init__(self, scope: str, plan: str = LEFT) -> None:
        self.streams = {name: Stream(name, SCHEMA, "ts", timedelta(0), time_unit="us") for name in "ABC"}
        froms = ", ".join(f"{name} [RANGE 2 SECONDS]" for name in "ABC")
        text = f"SELECT A.v AS a, B.v AS b, C.v AS c FROM {froms} WHERE A.k = B.k AND B.k = C.k"
        self.query = bind(text, self.streams)
        laid_out = lay_out(self.query, choose_tree(self.query, plan))
        settings = AdaptSettings(replan=ReplanSettings("refined", every=3, scope=scope))
        self.results = MemoryResults()
        checkpoint = in_memory(self.query, laid_out.spec, Placement(2, 2))
        self.run = LocalRun(laid_out, checkpoint, self.results, controller=Controller(laid_out, settings))
        self.came: dict[str, list[tuple[int, int, int]]] = {name: [] for name in "ABC"}

    def batch(self, second: int) -> None:
        pulled = {}
        for name in "ABC":
            keys = [key for group in (0, 1) for key in rows_of(second, group)[name]]
            rows = [{"k": k, "v": 1000 * second + i, "ts": second * SECOND} for i, k in enumerate(keys)]
            self.came[name] += [(row["k"], row["v"], second) for row in rows]
            source = RowsSource(self.streams[name], [pa.RecordBatch.from_pylist(rows, schema=SCHEMA)])
            pulled[name] = source.pull(set())
        self.run.driver.run_batch({name: rows for name, rows in pulled.items() if rows is not None})

    def answer(self) -> Counter[tuple[Any, ...]]:
        return counted(pa.Table.from_batches(self.results.pop(), schema=self.query.output_schema))

    def expected(self) -> Counter[tuple[Any, ...]]:
        by_key: dict[int, dict[str, list[tuple[int, int]]]] = {}
        for name, rows in self.came.items():
            for key, value, second in rows:
                by_key.setdefault(key, {"A": [], "B": [], "C": []})[name].append((value, second))
        found = Counter[tuple[Any, ...]]()
        for streams in by_key.values():
            for rows_together in itertools.product(*streams.values()):
                times = [second for _, second in rows_together]
                if max(times) - min(times) < 2:
                    found[tuple(value for value, _ in rows_together)] += 1
        return found


def test_each_slot_gets_the_tree_that_is_best_for_its_groups() -> None:
    run = SlottedRun("slot")
    for second in range(8):
        run.batch(second)
    trees = {group: str(track.spec.tree) for track in run.run.manifest.shapes for group, _ in track.within or ()}
    assert len(set(trees.values())) == 2, run.run.manifest.plan
    told = [entry for entry in run.run.manifest.decisions if entry["decision"] == "ChangePlan"]
    assert all(entry["within"] in ([[0, 1]], [[1, 2]]) for entry in told)
    assert told[0]["reason"].startswith("by what slot 0 has measured, groups 0 cost ")
    assert [len(run.run.manifest.learned.by_slot), bool(run.run.manifest.learned.by_slot[0].pairs)] == [2, True]
    assert run.answer() == run.expected()


def test_a_whole_query_has_one_tree() -> None:
    run = SlottedRun("query")
    for second in range(4):
        run.batch(second)
    assert len(run.run.manifest.shapes) == 1
    assert run.run.manifest.learned.by_slot == ()


def test_settings() -> None:
    with pytest.raises(JobError) as caught:
        ReplanSettings("refined", scope="slots")
    assert caught.value.primary == 'unknown replan_scope "slots"'
    assert not ReplanSettings("off", scope="slot").is_by_slot
    asked = Controller(SlottedRun("slot").run.plan, AdaptSettings(replan=ReplanSettings("refined", scope="slot")))
    assert any(isinstance(policy, ReplanBySlot) for policy in asked.policies)
