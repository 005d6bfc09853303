"""Runs a query over record batches in this process, without a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing

import pyarrow as pa

from watersmeet.model.intake import BatchLimits
from watersmeet.plan.query import Query
from watersmeet.runtime.clock import Clock
from watersmeet.runtime.events import Report, note_to
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import LocalSource, RowsSource
from watersmeet.runtime.opening import open_run
from watersmeet.runtime.planning import stored_costs
from watersmeet.settings.run import RunSettings
from watersmeet.start.promises import Promises


def results_in_memory(
    query: Query,
    settings: RunSettings,
    inputs: Mapping[str, Iterable[pa.RecordBatch]],
    limits: BatchLimits,
    promises: Promises,
    report: Report,
    clock: Clock | None,
) -> Iterator[pa.RecordBatch]:
    """The results, batch by batch, as the `inputs` are read; these are by stream."""
    opened = open_run(query, settings, note=note_to(report), costs=stored_costs)
    results = MemoryResults()
    with closing(opened):
        run = LocalRun(
            opened.plan,
            opened.checkpoint,
            results,
            controller=opened.controller,
            report=report,
            clock=clock,
            make_spec=opened.make_spec,
            start=opened.start,
        )
        opened.report_start(promises, report, clock)
        sources: dict[str, LocalSource] = {
            entry.stream.name: RowsSource(entry.stream, inputs[entry.stream.name], limits) for entry in query.inputs
        }
        with closing(run):
            for _ in run.batches(sources):
                yield from results.pop()
