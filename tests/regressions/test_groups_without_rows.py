"""Was: a slot let go of the groups of a segment that have rows, and the entry went. Another slot, which owned groups of
it without rows, let go of these in the same commit, and the run ended with `no segment "..."`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from small_plans import CHAIN, STREAMS, chain_plan, state_of
from watersmeet.lang.binder import bind
from watersmeet.model.placement import Placement
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import SourceBatch
from watersmeet.state.table import AtVersion
from watersmeet.state.updates import SetPlacement


def rows(*entries: tuple[int, int]) -> SourceBatch:
    """Of (key, second)."""
    found = [{"k": key, "v": 1, "ts": second * 1_000_000} for key, second in entries]
    return SourceBatch([pa.RecordBatch.from_pylist(found, schema=STREAMS["A"].schema)])


@pytest.mark.parametrize("slots", [2, 3])
def test_after_a_change_of_owners_all_slots_let_go(slots: int) -> None:
    plan, results = chain_plan(), MemoryResults()
    checkpoint = in_memory(bind(CHAIN, STREAMS), plan.spec, Placement(1, 6))
    run = LocalRun(plan, checkpoint, results)

    def batch(streams: Mapping[str, SourceBatch]) -> None:
        run.driver.run_batch(streams)

    # Two segments of one key, which expire together: once that stretch of time has ended, they become one.
    batch({"A": rows((1, 0)), "B": rows((1, 0)), "C": rows((1, 0))})
    batch({"A": rows((1, 0)), "B": rows((1, 5)), "C": rows((1, 5))})
    checkpoint.commit([AtVersion(checkpoint.manifest.version)], [SetPlacement(Placement(slots, 6))])
    batch({"B": rows((1, 6))})
    assert len(checkpoint.manifest.segments.active(state_of(plan, "A")).entries) == 1
    assert sum(len(found) for found in results.pop()) > 0
    run.close()
