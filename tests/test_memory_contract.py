"""The contract under memory pressure: whatever is spilled and merged, whenever, the answer is the oracle's.

`WATERSMEET_EXAMPLES=5000 pytest tests/test_memory_contract.py` draws thousands of new cases.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from strategies import Case, cases, contract_settings, counted
from test_contract import tuned
from watersmeet.adapt.decisions import MergeGroup, SpillGroups
from watersmeet.adapt.policies.spill import SPILL_POLICIES
from watersmeet.lang.binder import bind
from watersmeet.model.routing import Routing
from watersmeet.model.schema import normal_schema
from watersmeet.model.streams import Stream
from watersmeet.optimize.choose import choose_plan
from watersmeet.plan.layout import lay_out
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.local import LocalRun, MemoryResults
from watersmeet.runtime.local_sources import RowsSource
from watersmeet.runtime.memory import MemoryKeeper


def run_with_schedule(case: Case, random: Random, often: float) -> Counter[tuple[Any, ...]]:
    """Run the case batch by batch, with spills and merges of any groups before, in and after any batch, then drain."""
    note(case.text)
    streams = {
        name: Stream(name, normal_schema(stream.schema), "ts", case.lateness[name])
        for name, stream in case.streams.items()
    }
    query = bind(case.text, streams)
    plan = lay_out(query, choose_plan(query, case.plan).tree, traced=random.random() < 0.5)
    results = MemoryResults()
    run = LocalRun(plan, in_memory(query, plan.tree, Routing.even(case.groups, case.slots)), results)
    keeper = MemoryKeeper(plan, run.checkpoint)
    everything = [(operator, group) for operator in plan.operators for group in range(case.groups)]
    rows: list[pa.RecordBatch] = []

    def pick() -> list[tuple[str, int]]:
        share = random.choice([0.0, 0.3, 1.0]) if random.random() < often else 0.0
        return [key for key in everything if random.random() < share]

    def merges() -> list[tuple[str, int]]:
        return keeper.prepare_merges([MergeGroup(*key, "drawn") for key in pick()])

    for batch in case.batches:
        keeper.spill(SpillGroups(tuple(pick()), "drawn"))
        pulled = {}
        for name, entries in batch.items():
            source = RowsSource(streams[name], [pa.RecordBatch.from_pylist(entries, schema=case.streams[name].schema)])
            pulled[name] = source.pull(set())
        pulled = {name: entry for name, entry in pulled.items() if entry is not None}
        if pulled:
            run.run_batch(pulled, merges())
        if run.checkpoint.manifest.batch is not None and random.random() < often:
            run.run_batch({}, merges())
        rows += results.taken()
    rounds = 0
    while owed := keeper.owed():
        rounds += 1
        assert rounds <= 50 * len(everything), "a merge pays what is owed"
        lowest = [key for key in owed if key[0] == owed[0][0]]
        some = random.sample(lowest, random.randint(1, len(lowest)))
        run.run_batch({}, keeper.prepare_merges([MergeGroup(*key, "drain") for key in some]))
        rows += results.taken()
    run.close()
    return counted(pa.Table.from_batches(rows, schema=query.output_schema))


@contract_settings(250)
@given(cases(largest=4), st.randoms(use_true_random=False), st.sampled_from([0.2, 0.6, 1.0]))
def test_spills_and_merges_change_nothing(case: Case, random: Random, often: float) -> None:
    with tuned(case):
        rows = run_with_schedule(case, random, often)
    assert rows == case.answer().rows


@contract_settings(150)
@given(
    cases(largest=4),
    st.sampled_from([name for name, _ in SPILL_POLICIES]),
    st.sampled_from([1, 200, 1000, 5000]),
)
def test_any_budget_and_policy_gives_the_same_answer(case: Case, policy: str, budget: int) -> None:
    with tuned(case):
        rows, events = run_events(case, memory=budget, spill=policy)
    assert rows == case.answer().rows
    *progress, end = events
    assert end["rows_out"] == rows.total()
    routed = any("route" in str(event["decisions"]) for event in progress)
    for event in progress:
        assert event["active_bytes"] <= budget or routed, "after a batch the state is inside its budget"
    if progress:
        assert progress[-1]["owed_groups"] == {}


def run_events(case: Case, **options: Any) -> tuple[Counter[tuple[Any, ...]], list[dict[str, Any]]]:
    note(case.text)
    streams = {name: stream.record_batches() for name, stream in case.streams.items()}
    events: list[dict[str, Any]] = []
    query = wm.sql(case.text, lateness=case.lateness, **streams)
    settings = {"plan": case.plan, "slots": case.slots, "groups": case.groups} | options
    return counted(query.run(report=events.append, **settings)), events
