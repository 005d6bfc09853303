"""Runs a job file in this process, without a JVM."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable

from watersmeet.config import Job
from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.model.routing import Routing
from watersmeet.runtime.checkpoint import Layout, in_memory, open_checkpoint, refuse_made_on_spark
from watersmeet.runtime.clock import Clock
from watersmeet.runtime.events import Report, note_to
from watersmeet.runtime.local import LocalRun, run_batches
from watersmeet.runtime.local_sources import FileSource, LocalSource
from watersmeet.runtime.outputs import Outputs
from watersmeet.runtime.planning import lay_out_run, plan_run
from watersmeet.state.files import Folder


def run_job(
    job: Job,
    report: Report,
    stopped: Callable[[], bool] = lambda: False,
    clock: Clock | None = None,
    drain: bool = False,
) -> None:
    """Run `job` to its end, or until `stopped()` between two batches, telling `report` of each batch.

    With `drain`, a run that is stopped pays what it owes first.
    """
    streams = job.streams()
    query = bind(job.query, streams)
    layout = None if job.run.checkpoint is None else Layout(job.run.checkpoint, job.run.cache)
    chosen = plan_run(query, job.adapt.plan, job.stats, job.run.limits, layout, note_to(report))
    plan = lay_out_run(query, chosen, job.memory.watched, layout)
    sources: dict[str, LocalSource] = {}
    for name in plan.streams:
        source = job.sources[name]
        assert source.path is not None, "the job file was checked"
        sources[name] = FileSource(streams[name], source.path, source.format, source.options)
    routing = Routing.even(job.run.groups, job.run.slots)
    owner = uuid.uuid4().hex if layout is None else layout.home.path()
    outputs = Outputs.of(job.sink.format, job.sink.path, job.sink.late, owner)
    spill: Folder | None = None
    if layout is None:
        for folder in outputs.waiting_folders:
            folder.make()
        spill = Folder(tempfile.mkdtemp(prefix="watersmeet-")) if job.memory.watched else None
        checkpoint = in_memory(query, plan.tree, routing, plan.traced, spill)
    else:
        refuse_made_on_spark(layout)
        checkpoint = open_checkpoint(
            layout, query, plan.tree, routing, outputs.waiting_folders, chosen.reason, plan.traced
        )
    try:
        run = LocalRun(plan, checkpoint, outputs.writer, outputs.late_waiting, job.memory)
    except JobError:
        checkpoint.close()
        raise
    report({"event": "start", "plan": plan.tree})
    try:
        for _ in run_batches(run, sources, outputs.deliver, report, job.run.trigger, clock, stopped, drain):
            pass
    finally:
        run.close()
        if spill is not None:
            shutil.rmtree(spill.path(), ignore_errors=True)
        if layout is None:
            for folder in outputs.waiting_folders:
                shutil.rmtree(folder.path(), ignore_errors=True)
