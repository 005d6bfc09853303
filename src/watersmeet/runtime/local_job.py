"""Runs a job file in this process, without a JVM."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable

from watersmeet.config import Job
from watersmeet.lang.binder import bind
from watersmeet.model.routing import Routing
from watersmeet.plan.layout import lay_out
from watersmeet.runtime.checkpoint import Layout, in_memory, open_checkpoint, refuse_made_on_spark
from watersmeet.runtime.clock import Clock
from watersmeet.runtime.events import Report, note_to
from watersmeet.runtime.local import LocalRun, run_batches
from watersmeet.runtime.local_sources import FileSource, LocalSource
from watersmeet.runtime.outputs import Outputs
from watersmeet.runtime.planning import plan_run


def run_job(job: Job, report: Report, stopped: Callable[[], bool] = lambda: False, clock: Clock | None = None) -> None:
    """Run `job` to its end, or until `stopped()` between two batches, telling `report` of each batch."""
    streams = job.streams()
    query = bind(job.query, streams)
    layout = None if job.run.checkpoint is None else Layout(job.run.checkpoint, job.run.cache)
    chosen = plan_run(query, job.adapt.plan, job.stats, job.run.limits, layout, note_to(report))
    plan = lay_out(query, chosen.tree, chosen.orders)
    sources: dict[str, LocalSource] = {}
    for name in plan.streams:
        source = job.sources[name]
        assert source.path is not None, "the job file was checked"
        sources[name] = FileSource(streams[name], source.path, source.format, source.options)
    routing = Routing.even(job.run.groups, job.run.slots)
    owner = uuid.uuid4().hex if layout is None else layout.home.path()
    outputs = Outputs.of(job.sink.format, job.sink.path, job.sink.late, owner)
    if layout is None:
        for folder in outputs.waiting_folders:
            folder.make()
        checkpoint = in_memory(query, plan.tree, routing)
    else:
        refuse_made_on_spark(layout)
        checkpoint = open_checkpoint(layout, query, plan.tree, routing, outputs.waiting_folders, chosen.reason)
    run = LocalRun(plan, checkpoint, outputs.writer, outputs.late_waiting)
    report({"event": "start", "plan": plan.tree})
    try:
        for _ in run_batches(run, sources, outputs.deliver, report, job.run.trigger, clock, stopped):
            pass
    finally:
        run.close()
        if layout is None:
            for folder in outputs.waiting_folders:
                shutil.rmtree(folder.path(), ignore_errors=True)
