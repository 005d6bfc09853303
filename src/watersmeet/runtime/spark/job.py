"""Runs a job file on Spark: a session from `[spark]`, a streaming DataFrame for each stream, the query, the end."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from watersmeet.config import FILE_FORMATS, Job, SourceConfig, SparkConfig
from watersmeet.errors import JobError, cause
from watersmeet.lang.binder import bind
from watersmeet.model.quantities import microseconds
from watersmeet.plan.output_mode import IN_JOB_FILE, check_output_mode
from watersmeet.runtime.events import Report, note_to
from watersmeet.runtime.file_formats import SPARK_OPTIONS
from watersmeet.runtime.local.sources import first_csv_header, is_recursive, partition_columns, probe_files
from watersmeet.runtime.moved_files import refuse_moved_on_spark
from watersmeet.runtime.opening import look_ahead
from watersmeet.runtime.source_files import SourceRoot
from watersmeet.runtime.spark.errors import SPARK_ERRORS, translate, translate_start
from watersmeet.runtime.spark.versions import quick_settings
from watersmeet.runtime.spark.writer import StreamWriter
from watersmeet.secrets import hide
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.addresses import for_spark, is_local, local_path
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.table import OlderFormatError

# Formats that Spark finds by their names. For another, such as a misspelt one, it also looks in Python, with a worker
# that does not end in silence with `quick_settings`.
FOUND_FORMATS = {*FILE_FORMATS, "kafka", "rate"}

# The options of Spark's sources that limit a batch, by the names that they have here.
_LIMITS = {
    **{name: {"max_batch_bytes": "maxBytesPerTrigger"} for name in FILE_FORMATS},
    "kafka": {"max_batch_rows": "maxOffsetsPerTrigger"},
    "rate-micro-batch": {"max_batch_rows": "rowsPerBatch"},
}

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
    streams = {entry.stream.name for entry in query.inputs}
    fresh = not folders.home.names()
    for name in sorted(streams):
        source_limits(job.sources[name])
        _check_files(job.sources[name], fresh)
    if not fresh:
        _refuse_moved([job.sources[name] for name in sorted(streams)], folders)
    config = _quick(job.spark, {job.sources[name].format for name in streams})
    with _session(config) as session, _noted_interrupts() as interrupted:
        try:
            frames = {name: _open(session, job.sources[name]) for name in streams}
            writer = StreamWriter(query, frames, job.stats).settings(job.sections).report(report)
            if start is not None:
                writer.begin_with(start)
            run = writer.trigger(**_trigger(job.run.trigger)).start()
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


def _trigger(every: timedelta | None) -> dict[str, object]:
    if every is None:
        return {"availableNow": True}
    return {"processingTime": f"{microseconds(every) // 1000} milliseconds"}  # Spark knows nothing shorter


def _check_files(source: SourceConfig, fresh: bool) -> None:
    """Look at the files of a file source, to tell a wrong path or schema before a JVM starts.

    Spark reads a missing column as NULLs and takes a wrong type for a fault of its own. Files that come while the query
    runs are not looked at.
    """
    if source.format in FILE_FORMATS and source.path is not None and is_local(source.path):
        probe_files(source.name, source.path, source.format, source.schema, source.options, fresh)


def _refuse_moved(sources: Sequence[SourceConfig], folders: CheckpointFolders) -> None:
    """Tell of files that lie elsewhere than Spark has read them, before it stops at that itself."""
    roots = [
        SourceRoot.of(source.name, source.path)
        for source in sources
        if source.format in FILE_FORMATS and source.path is not None and is_local(source.path)
    ]
    refuse_moved_on_spark(roots, folders.spark)


def _open(session: SparkSession, source: SourceConfig) -> DataFrame:
    if source.format in FILE_FORMATS:
        return _open_files(session, source)
    reader = session.readStream.format(source.format).options(**{**source_limits(source), **source.options})
    frame = reader.load(for_spark(source.path)) if source.path is not None else reader.load()
    # A source with a schema of its own is cast to the declared one, column by column.
    target = from_arrow_schema(source.schema)
    missing = [field.name for field in target if field.name not in frame.columns]
    if missing:
        raise JobError(
            f'stream "{source.name}" has no column "{missing[0]}"',
            detail=f"The {source.format} source gives {', '.join(frame.columns)}.",
        )
    return frame.select(*(frame[field.name].cast(field.dataType).alias(field.name) for field in target))


def _open_files(session: SparkSession, source: SourceConfig) -> DataFrame:
    """A stream of files, read with the meaning that they have on the local runtime."""
    assert source.path is not None, "the job file was checked"
    names = source.schema.names
    partitions: list[str] = []
    if is_local(source.path):
        partitions = partition_columns(source.name, source.path, source.schema, source.options)
    reader = session.readStream.format(source.format).options(**SPARK_OPTIONS[source.format])
    columns = [name for name in names if name not in partitions]
    if source.format == "csv":
        header = _header(source)
        # Spark takes the columns of a CSV file by position, so they are declared as the file has them; one whose header
        # differs is refused.
        columns = header or columns
        reader = reader.option("header", header is not None)
        reader = reader.option("emptyValue", source.options.get("nullValue", ""))  # empty text is NULL, quoted or not
    # Spark has the columns of partition folders last.
    declared = pa.schema([source.schema.field(name) for name in (*columns, *partitions)])
    reader = reader.schema(from_arrow_schema(declared)).options(**{**source_limits(source), **source.options})
    path = source.path
    if is_local(path) and os.path.isfile(local_path(path)):  # Spark streams folders alone
        folder, name = os.path.split(local_path(path))
        path, reader = folder, reader.option("pathGlobFilter", re.sub(r"([\\*?\[\]{}])", r"\\\1", name))
    frame = reader.load(for_spark(path))
    if not is_recursive(source.options):
        frame = _refuse_new_partitions(frame, source.path, columns)
    return frame.select(*(frame[f"`{name}`"] for name in names))


def source_limits(source: SourceConfig) -> dict[str, int]:
    """What `max_batch_rows` and `max_batch_bytes` are to Spark's source, which cuts its batches itself.

    Only what was asked for: the watermark moves between these batches, so that a default could make rows late.
    """
    known = _LIMITS.get(source.format, {})
    found = {}
    for name, value in (("max_batch_rows", source.batch.rows), ("max_batch_bytes", source.batch.bytes)):
        if not isinstance(value, int):
            continue
        if name not in known:
            raise JobError(
                f'{name} does not apply to stream "{source.name}"',
                detail=f"Spark's source {source.format} has no such limit."
                if known
                else f"It is not known which option of Spark's source {source.format} sets it.",
                hint=f"It has {', '.join(known)}." if known else "Set the option of the source that limits a batch.",
            )
        found[known[name]] = value
    if "maxBytesPerTrigger" in found and "maxFilesPerTrigger" in source.options:
        raise JobError(
            f'stream "{source.name}" has max_batch_bytes and maxFilesPerTrigger',
            detail="Spark's file source takes one of the two.",
            hint="Leave one of them out.",
        )
    return found


def _refuse_new_partitions(frame: DataFrame, path: str, columns: list[str]) -> DataFrame:
    """Stop at a file in a folder that says the value of one of `columns`.

    Spark looks for partition folders when a query starts. If they come later it mixes the columns up, without a word.
    """
    pattern = f"(?i)/({'|'.join(map(re.escape, columns))})=[^/]*/"
    if re.search(pattern, f"{path}/"):
        return frame  # the path is itself in such a folder, which says nothing about the files in it
    file = F.input_file_name()
    text = F.concat(F.lit("a file came in a partition folder, and there was none when the run started: "), file)
    is_new = file.contains("=") & file.rlike(pattern)
    return frame.where(F.when(is_new, F.raise_error(text).cast("boolean")).otherwise(F.lit(True)))


def _header(source: SourceConfig) -> list[str] | None:
    """The columns in the order of the header of the first file of a CSV source; None where it has none."""
    assert source.path is not None
    if is_local(source.path):
        return first_csv_header(source.name, source.path, source.schema, source.options)
    if "header" not in source.options:
        raise JobError(
            f'stream "{source.name}" does not say whether its CSV files have a header',
            detail="On Spark, files that are not on this machine are not looked at before the query starts.",
            hint="Add options = { header = true } or { header = false }.",
        )
    return None


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
