"""Runs a job file on Spark: a session from `[spark]`, a streaming DataFrame for each stream, the query, the end."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from watersmeet.config import FILE_FORMATS, Job, SourceConfig, SparkConfig
from watersmeet.errors import JobError, cause
from watersmeet.lang.binder import bind
from watersmeet.model.quantities import microseconds
from watersmeet.runtime.checkpoint import Layout
from watersmeet.runtime.events import Report, note_to
from watersmeet.runtime.local_sources import csv_header, list_files, missing_path, probe_files
from watersmeet.runtime.planning import plan_run
from watersmeet.runtime.spark.errors import SPARK_ERRORS, translate
from watersmeet.runtime.spark.query import StreamWriter
from watersmeet.runtime.spark.versions import quick_settings
from watersmeet.state.files import is_local, local_path

# Formats that Spark finds by their names. For another, such as a misspelt one, it also looks in Python, with a worker
# that does not end in silence with `quick_settings`.
FOUND_FORMATS = {*FILE_FORMATS, "kafka", "rate"}

# Spark's own log would bury the progress of a job and show traces for mistakes that we explain ourselves.
_LOG4J = """rootLogger.level = off
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""


def run_job(job: Job, report: Report, stopped: Callable[[], bool] = lambda: False, drain: bool = False) -> None:
    """Run `job` to its end, or until `stopped()` between two batches, telling `report` of each batch.

    With `drain`, a run that is stopped pays what it owes first.
    """
    query = bind(job.query, job.streams())
    assert job.run.checkpoint is not None, "the job file was checked"
    chosen = plan_run(query, job.adapt.plan, job.stats, job.run.limits, Layout(job.run.checkpoint), note_to(report))
    streams = {entry.stream.name for entry in query.inputs}
    for name in sorted(streams):
        _check_files(job.sources[name])
    config = _quick(job.spark, {job.sources[name].format for name in streams})
    with _session(config) as session, _noted_interrupts() as interrupted:
        try:
            frames = {name: _open(session, job.sources[name]) for name in streams}
            writer = StreamWriter(query, frames, job.stats).format(job.sink.format).adapt(job.adapt).report(report)
            settings = {
                "path": job.sink.path,
                "latePath": job.sink.late,
                "checkpointLocation": job.run.checkpoint,
                "slots": job.run.slots,
                "groups": job.run.groups,
                "memory": job.run.memory,
                "cores": job.run.cores,
                "cache": job.run.cache,
            }
            writer.options(**{name: value for name, value in settings.items() if value is not None})
            report({"event": "start", "plan": str(chosen.tree)})
            run = writer.trigger(**_trigger(job.run.trigger)).start()
        except SPARK_ERRORS as error:
            raise translate(error) from cause(error)
        try:
            while not run.awaitTermination(timeout=1):
                if interrupted():
                    raise KeyboardInterrupt
                if stopped() and not run.status["isTriggerActive"]:
                    if drain:
                        run.drain()
                    run.stop()
        except KeyboardInterrupt:
            run.stop()
            raise


def _trigger(every: timedelta | None) -> dict[str, object]:
    if every is None:
        return {"availableNow": True}
    return {"processingTime": f"{microseconds(every) // 1000} milliseconds"}


def _check_files(source: SourceConfig) -> None:
    """Look at the files of a file source, to tell a wrong path or schema before a JVM starts.

    Spark reads a missing column as NULLs and takes a wrong type for a fault of its own. Files that come while the query
    runs are not looked at.
    """
    if source.format not in FILE_FORMATS or source.path is None or not is_local(source.path):
        return
    path = local_path(source.path)
    if not os.path.exists(path):
        raise missing_path(source.name, source.path)
    probe_files(source.name, path, source.format, source.schema)


def _open(session: SparkSession, source: SourceConfig) -> DataFrame:
    reader = session.readStream.format(source.format)
    if source.format in FILE_FORMATS:
        header = _header(source) if source.format == "csv" else None
        # Spark takes the columns of a CSV file by position, so they are declared as the file has them; one whose header
        # differs is refused.
        columns = [source.schema.field(name) for name in header or source.schema.names]
        reader = reader.schema(from_arrow_schema(pa.schema(columns)))
        if source.format == "csv":
            reader = reader.option("header", header is not None).option("enforceSchema", False)
    if source.format in ("csv", "json"):
        reader = reader.option("mode", "FAILFAST")  # a row that does not fit is an error, not a row of NULLs
    for name, value in source.options.items():
        reader = reader.option(name, value)
    frame = reader.load(source.path) if source.path is not None else reader.load()
    if source.format not in FILE_FORMATS:
        # A source with a schema of its own is cast to the declared one, column by column.
        target = from_arrow_schema(source.schema)
        missing = [field.name for field in target if field.name not in frame.columns]
        if missing:
            raise JobError(
                f'stream "{source.name}" has no column "{missing[0]}"',
                detail=f"The {source.format} source gives {', '.join(frame.columns)}.",
            )
        frame = frame.select(*(frame[field.name].cast(field.dataType).alias(field.name) for field in target))
    return frame


def _header(source: SourceConfig) -> list[str] | None:
    """The header of the first file of a CSV source; None where it has none, or cannot be looked at."""
    assert source.path is not None
    path = local_path(source.path)
    names = list_files(path) if is_local(source.path) else []
    if not names:
        return None
    separator = str(source.options.get("sep", source.options.get("delimiter", ",")))
    return csv_header(os.path.join(path, names[0]) if os.path.isdir(path) else path, source.schema, separator)


def _quick(config: SparkConfig, formats: Set[str]) -> SparkConfig:
    """The settings with those that make a session faster below them, where these are silent."""
    return replace(config, conf={**quick_settings(), **config.conf}) if formats <= FOUND_FORMATS else config


@contextmanager
def _session(config: SparkConfig) -> Iterator[SparkSession]:
    if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
        raise JobError(
            "Java was not found",
            detail="Spark needs Java 17 or newer: a java command on the PATH, or JAVA_HOME.",
            hint='Install it (on Debian: apt-get install openjdk-17-jre-headless), or use runtime = "local".',
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="watersmeet-") as folder:
        log = os.path.join(folder, "log4j2.properties")
        with open(log, "w", encoding="utf-8") as file:
            file.write(_LOG4J)
        builder = (
            SparkSession.builder.master(config.master)
            .appName("watersmeet")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{log}")
        )
        for name, value in config.conf.items():
            builder = builder.config(name, value)
        with _own_handler_of_interrupts():
            session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        logging.disable(logging.ERROR)  # py4j logs a trace for every call that an interrupt or a stop cuts short
        try:
            yield session
        finally:
            session.stop()
            logging.disable(logging.NOTSET)


@contextmanager
def _own_handler_of_interrupts() -> Iterator[None]:
    """Keep the handler of SIGINT that there is. A new session puts one of its own there, which cancels all jobs from
    within the call that was interrupted: it breaks that call, fails the batch under way, and leaves traces of both.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _noted_interrupts() -> Iterator[Callable[[], bool]]:
    """Whether the run was interrupted. Nothing is raised, which could be in the middle of a call to the JVM; but a
    second interrupt is as always. Who has a handler of SIGINT keeps it.
    """
    noted: list[int] = []

    def note(number: int, frame: object) -> None:
        noted.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
