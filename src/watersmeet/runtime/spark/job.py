"""Runs a job file on Spark: a session from `[spark]`, a streaming DataFrame for each stream, the query, the end."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import replace

import pyarrow as pa
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from watersmeet.config import FILE_FORMATS, Job, SourceConfig, SparkConfig
from watersmeet.errors import JobError, cause
from watersmeet.lang.binder import bind
from watersmeet.plan.output_mode import IN_JOB_FILE, check_output_mode
from watersmeet.runtime.events import Report, note_to
from watersmeet.runtime.local.sources import probe_files
from watersmeet.runtime.looking_ahead import look_ahead
from watersmeet.runtime.moved_files import refuse_moved_on_spark
from watersmeet.runtime.source_files import SourceRoot
from watersmeet.runtime.spark.carried_types import refuse_collations
from watersmeet.runtime.spark.errors import SPARK_ERRORS, translate, translate_start
from watersmeet.runtime.spark.read_streams import read_stream, source_limits
from watersmeet.runtime.spark.versions import quick_settings
from watersmeet.runtime.spark.writer import StreamWriter
from watersmeet.secrets import hide
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.addresses import is_local
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.table import OlderFormatError

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

    With `drain`, a run that is stopped emits what it owes first.
    """
    query = bind(job.query, job.streams())
    check_output_mode(query, job.sink.mode, IN_JOB_FILE)
    assert job.run.checkpoint is not None, "the job file was checked"
    folders = CheckpointFolders(job.run.checkpoint)
    start: StartPlan | None = None
    with suppress(OlderFormatError):  # it is brought up to date when it is opened
        # A mistake shows before a JVM starts.
        start = look_ahead(query, job.settings, folders, job.run.runtime, note_to(report))
    columns = {entry.stream.name: entry.columns for entry in query.inputs}
    streams = columns.keys()
    fresh = not folders.home.names()
    for name in sorted(streams):
        source_limits(job.sources[name])
        _check_files(job.sources[name], columns[name], fresh)
    if not fresh:
        _refuse_moved([job.sources[name] for name in sorted(streams)], folders)
    config = _quick(job.spark, {job.sources[name].format for name in streams})
    with _session(config) as session, _noted_interrupts() as interrupted:
        try:
            frames = {name: read_stream(session, job.sources[name]) for name in streams}
            refuse_collations(query, frames)
            writer = StreamWriter(query, frames, job.stats).settings(job.sections).report(report)
            if start is not None:
                writer.begin_with(start)
            run = writer.start()
        except SPARK_ERRORS as error:
            raise translate(error) from cause(error)
        try:
            while not run.awaitTermination(timeout=1):
                if interrupted():
                    raise KeyboardInterrupt
                if stopped():
                    run.end(drain)
        except KeyboardInterrupt:
            run.stop()
            raise


def _check_files(source: SourceConfig, columns: Sequence[str], fresh: bool) -> None:
    """Look at the files of a file source, to tell a wrong path or schema before a JVM starts.

    Spark reads a missing column as NULLs and takes a wrong type for a fault of its own. Files that come while the query
    runs are not looked at, and nor are columns that the query does not read: files may be older than these.
    """
    if source.format in FILE_FORMATS and source.path is not None and is_local(source.path):
        read = pa.schema([source.schema.field(name) for name in columns])
        probe_files(source.name, source.path, source.format, read, source.options, fresh)


def _refuse_moved(sources: Sequence[SourceConfig], folders: CheckpointFolders) -> None:
    """Tell of files that lie elsewhere than Spark has read them, before it stops at that itself."""
    roots = [
        SourceRoot.of(source.name, source.path)
        for source in sources
        if source.format in FILE_FORMATS and source.path is not None and is_local(source.path)
    ]
    refuse_moved_on_spark(roots, folders.spark)


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
            try:
                _start_jvm({name: value for name, value in builder._options.items() if hide(value) == value})
                session = builder.getOrCreate()
            except SPARK_ERRORS as error:
                raise translate_start(error, config.master) from cause(error)
        session.sparkContext.setLogLevel("OFF")
        logging.disable(logging.ERROR)  # py4j logs a trace for every call that an interrupt or a stop cuts short
        try:
            yield session
        finally:
            session.stop()
            logging.disable(logging.NOTSET)


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start Spark's JVM with these settings, if there is none: they are its command line, for everybody to read. All
    others it is told when it runs.
    """
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(settings.items())))


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
