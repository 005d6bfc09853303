"""Whole runs with spills and merges: forced steps are taken at their batch, and what groups earn is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from small_plans import CHAIN, GROUPS, SECOND, STREAMS, chain_plan, named
from watersmeet.adapt.take_view import view_memory
from watersmeet.kernel.hashing import hash_keys
from watersmeet.lang.binder import bind
from watersmeet.model.bounds import Bounds
from watersmeet.model.ids import UNITED, Label
from watersmeet.model.placement import Placement
from watersmeet.plan.layout import lay_out
from watersmeet.plan.tree import choose_tree
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.events import Event
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.forced_step import ForcedStep
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest

LINEAGE = chain_plan(lineage=True)
J1, J2 = Label("J1"), Label("J2")


def batches_of(count: int, rows: int, keys: int = 40) -> Mapping[str, list[pa.RecordBatch]]:
    """A second of event time for each batch."""
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in STREAMS}
    random = Random(count * rows)
    for number in range(count):
        for name, stream in STREAMS.items():
            entries = [
                {"k": random.randrange(keys), "v": random.randrange(keys), "ts": number * SECOND + i}
                for i in range(rows)
            ]
            found[name].append(pa.RecordBatch.from_pylist(entries, schema=stream.schema))
    return found


def run_with(
    settings: AdaptSettings | None, data: Mapping[str, list[pa.RecordBatch]]
) -> Iterator[tuple[Event, Manifest, list[pa.RecordBatch]]]:
    """After each batch or round: its event, the manifest, and the results."""
    settings = settings or AdaptSettings()
    query = bind(CHAIN, STREAMS)
    plan = lay_out(query, choose_tree(query, "((A B) C)"), lineage=settings.watched)
    results = MemoryResults()
    events: list[Event] = []
    checkpoint = in_memory(query, plan.spec, Placement(2, GROUPS))
    run = LocalRun(plan, checkpoint, results, settings, report=events.append)
    sources = {name: RowsSource(STREAMS[name], batches) for name, batches in data.items()}
    for _ in run.batches(sources):
        yield events[-1], run.manifest, results.pop()
    run.close()


def counted(batches: list[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def test_forced_steps_are_taken_at_their_batch() -> None:
    data = batches_of(6, 30)
    forced = (
        ForcedStep(2, spill=((J1, 3), (J1, 5), (J2, 1))),
        ForcedStep(4, spill_share=0.5),
        ForcedStep(5, spill=((J1, 3), (J1, 4)), merge=((J1, 3),)),
    )
    found = list(run_with(AdaptSettings(forced=forced, merge="off"), data))
    batches = [entry for entry in found if entry[0]["event"] == "batch"]
    decided = {
        event["batch"]: [(entry["decision"], entry["reason"].split(":")[0]) for entry in event["decisions"]]
        for event, _, _ in batches
    }
    assert decided == {
        0: [],
        1: [],
        2: [("SpillGroups", "forced")],
        3: [],
        4: [("SpillGroups", "forced")],
        5: [("SpillGroups", "forced"), ("MergeGroup", "forced")],
    }
    assert closed(batches[1][1]) == {}
    assert closed(batches[2][1]) == {"J1": [3, 5], "J2": [1]}
    half = batches[3][1]
    spilled = next(entry for entry in batches[4][1].decisions if entry["version"] == half.version + 1)
    freed = sum(
        group.size_bytes
        for group in view_memory(LINEAGE, half, Ledgers(LINEAGE), None, "ewma", 1.0).groups
        if [group.operator, group.group] in spilled["groups"]
    )
    assert half.active_bytes * 0.5 <= freed <= half.active_bytes * 0.7
    assert batches[5][0]["rows_merged"] > 0
    assert cold_generations(batches[5][1], "J1", 3) == {UNITED}
    unforced = [row for _, _, rows in run_with(None, data) for row in rows]
    assert counted([row for _, _, rows in found for row in rows]) == counted(unforced)


def closed(manifest: Manifest) -> dict[str, list[int]]:
    """By operator, the groups with closed generations."""
    found = Ledgers(LINEAGE).at(manifest)
    groups = {LINEAGE.label(name): np.flatnonzero(ledger.closed_groups).tolist() for name, ledger in found.items()}
    return {label: numbers for label, numbers in groups.items() if numbers}


def cold_generations(manifest: Manifest, label: str, group: int) -> set[int]:
    states = LINEAGE.operators[named(LINEAGE, label)].states
    return {
        number
        for state in states
        for number, bucket in manifest.segments.cold(state).items()
        if bucket.by_group(GROUPS).rows[group]
    }


# --- what groups earn, counted by the tasks --------------------------------------------------------------------------


def test_what_groups_earn_is_counted_exactly_where_nothing_is_sampled() -> None:
    """Over all batches: rows that came, results of the joins, and results of the query traced to both."""
    data = batches_of(5, 60)
    *_, (_, manifest, _) = run_with(AdaptSettings(10**9, smoothing="recent"), data)
    outputs = [(event, rows) for event, _, rows in run_with(AdaptSettings(10**9), data)]
    results = sum(len(batch) for _, rows in outputs for batch in rows)
    lower, upper = (manifest.figures[named(LINEAGE, label)] for label in ("J1", "J2"))
    assert results > 50
    assert upper.local_output.sum() == upper.global_output.sum() == lower.global_output.sum() == results
    assert lower.local_output.sum() == sum(event["nodes"]["J1"]["rows_out"] for event, _ in outputs)
    assert (lower.global_output <= results).all()
    # A group of J1 without results cannot have results of the query.
    assert not lower.global_output[lower.local_output == 0].any()
    assert lower.inter_bytes.sum() > 0
    assert upper.inter_bytes.sum() == 0, "nothing stands above it"


def test_results_are_traced_to_the_groups_that_made_them() -> None:
    """Against the groups of the keys of the results themselves."""
    data = batches_of(5, 60)
    query = bind(CHAIN.replace("A.v AS a", "A.k AS a"), STREAMS)  # so that a and b are the keys of the two joins
    settings = AdaptSettings(10**9)
    plan = lay_out(query, choose_tree(query, "((A B) C)"), lineage=True)
    results = MemoryResults()
    run = LocalRun(plan, in_memory(query, plan.spec, Placement(2, GROUPS)), results, settings)
    sources = {name: RowsSource(STREAMS[name], batches) for name, batches in data.items()}
    for _ in run.batches(sources):
        pass
    rows = pa.Table.from_batches(results.pop(), schema=query.output_schema).combine_chunks()
    figures = run.manifest.figures
    for label, column in (("J1", "a"), ("J2", "b")):
        groups = Bounds(GROUPS).groups_of(hash_keys([rows.column(column).combine_chunks()]))
        expected = np.bincount(groups, minlength=GROUPS)
        found = figures[named(plan, label)].global_output
        # 16 bits of a hash say the group but for keys at the very edge of one; these keys are not.
        assert found.tolist() == expected.tolist()
    run.close()
