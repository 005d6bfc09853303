"""Runs a job file in this process, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from watersmeet.config import Job
from watersmeet.lang.binder import bind
from watersmeet.plan.output_mode import IN_JOB_FILE, check_output_mode
from watersmeet.plan.query import Query
from watersmeet.run.ending import Ending
from watersmeet.runtime.clock import Clock
from watersmeet.runtime.events import Report, note_to
from watersmeet.runtime.gathering import Gatherer
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import FileSource
from watersmeet.runtime.made_by import refuse_made_on_spark
from watersmeet.runtime.moved_files import take_along
from watersmeet.runtime.opening import open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.settings.run import WAIT
from watersmeet.start.promises import Promises
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.syncing import POWER_LOSS


def run_job(
    job: Job,
    report: Report,
    stopped: Callable[[], bool] = lambda: False,
    clock: Clock | None = None,
    drain: bool = False,
) -> None:
    """Run `job` to its end, or until `stopped()` between two batches, telling `report` of each batch.

    With `drain`, a run that is stopped emits what it owes first.
    """
    query = bind(job.query, job.streams())
    check_output_mode(query, job.sink.mode, IN_JOB_FILE)
    sources = _open_sources(job, query)  # a mistake shows before anything is made
    durable = job.run.checkpoint is not None and job.run.durability == POWER_LOSS
    folders = None if job.run.checkpoint is None else CheckpointFolders(job.run.checkpoint, job.run.cache, durable)
    sink = job.sink
    wanted = Outputs.of(sink.format, sink.path, sink.late, durable, sink.existing, sink.max_rows_per_file)
    if folders is not None:
        refuse_made_on_spark(folders)
    run = open_run(query, job.settings, folders, wanted, note=note_to(report))
    outputs = run.outputs
    try:
        for name, progress in run.checkpoint.manifest.streams.items():
            sources[name].ignored_before_us = progress.ignored_before_us
        if folders is None:
            for folder in outputs.waiting_folders:
                folder.make()
        # Files can be read again, and a delivery that is repeated finds its files where it has moved them.
        run.report_start(Promises(dict.fromkeys(sources, True), True), report, clock)
        local = LocalRun(
            run.plan,
            run.checkpoint,
            outputs.writer,
            controller=run.controller,
            late=outputs.late_waiting,
            deliver=outputs.deliver,
            report=report,
            clock=clock,
            gatherer=None if sink.deliver_every is None else Gatherer(outputs, sink.deliver_every),
            make_spec=run.make_spec,
            start=run.start,
            at_end=Ending.PAUSED if job.run.at_end == WAIT else Ending.CLOSED,
        )
        try:
            _take_files_along(job, sources, local, note_to(report))
            for _ in local.batches(sources, job.run.trigger, stopped, drain):
                pass
        except Exception as error:
            if (reason := run.checkpoint.reason(error)) is not error:
                raise reason from None
            raise
        finally:
            local.close()
    finally:
        run.close()
        if folders is None:
            for folder in outputs.waiting_folders:
                folder.remove()


def _take_files_along(job: Job, sources: Mapping[str, FileSource], run: LocalRun, note: Callable[[str], None]) -> None:
    """Commit that files which have moved since they were read are the same ones."""
    checkpoint = run.checkpoint
    found = [
        take_along(source.root, source.recursive, job.sources[name].moved, checkpoint.files, checkpoint.manifest, note)
        for name, source in sources.items()
    ]
    if updates := [update for update in found if update is not None]:
        run.driver.note(updates)
        for update in updates:
            checkpoint.files.add(update.stream, update.files)


def _open_sources(job: Job, query: Query) -> dict[str, FileSource]:
    sources: dict[str, FileSource] = {}
    for stream in {entry.stream.name: entry.stream for entry in query.inputs}.values():
        source = job.sources[stream.name]
        assert source.path is not None, "the job file was checked"
        sources[stream.name] = FileSource(stream, source.path, source.format, source.options, source.batch.limits)
    return sources
