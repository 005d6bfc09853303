"""A writer shaped like PySpark's `DataFrame.writeStream`: how a query runs on Spark, and where its results go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from pyspark.sql import DataFrame

from watersmeet.config import one_folder
from watersmeet.errors import JobError, cause, did_you_mean
from watersmeet.model.quantities import microseconds, parse_duration
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.output_mode import APPEND, check_output_mode, refuse_gathering
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.run.ending import Ending
from watersmeet.runtime.events import Report, note_to, silent
from watersmeet.runtime.gathering import Gatherer
from watersmeet.runtime.looking_ahead import look_ahead
from watersmeet.runtime.made_by import refuse_made_locally
from watersmeet.runtime.opening import OpenRun, open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.runtime.spark.errors import SPARK_ERRORS, translate
from watersmeet.runtime.spark.executor import SparkExecutor, use_this_python
from watersmeet.runtime.spark.log import SparkLog
from watersmeet.runtime.spark.replayable import replayable
from watersmeet.runtime.spark.run import BatchFunction, SparkRun
from watersmeet.runtime.spark.sources import unite
from watersmeet.secrets import keep_secret
from watersmeet.settings.every import Sections
from watersmeet.settings.options import option_name, read_options
from watersmeet.settings.run import WAIT, RunSettings, run_settings
from watersmeet.settings.sink import PARQUET, SINK_FORMATS
from watersmeet.start.promises import Promises
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.addresses import secret_parts
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.syncing import POWER_LOSS

_ASK_FOR_UPDATE = 'outputMode("update")'
_PLACES = ("path", "latePath", "checkpointLocation")


class StreamWriter:
    """How a query runs and where its results go. Each method returns the writer itself, as in PySpark."""

    def __init__(self, query: Query, frames: Mapping[str, DataFrame], statistics: Statistics | None = None) -> None:
        self._query = query
        self._frames = frames
        self._statistics = statistics
        self._format = "parquet"
        self._options: dict[str, Any] = {}
        self._given = Sections()
        self._function: BatchFunction | None = None
        self._trigger: dict[str, Any] = {}
        self._name: str | None = None
        self._report: Report = silent
        self._mode = APPEND
        self._ahead: StartPlan | None = None

    def format(self, source: str) -> StreamWriter:
        """`parquet` (exactly once) or `noop` (results are counted and let go). For anything else, `foreachBatch`."""
        if source not in SINK_FORMATS:
            raise JobError(
                f'unknown output format "{source}"',
                detail=f"Formats are {' and '.join(SINK_FORMATS)}.",
                hint=did_you_mean(source, SINK_FORMATS) or "Write other formats from foreachBatch.",
            )
        self._format = source
        return self

    def option(self, key: str, value: Any) -> StreamWriter:
        """One of `OPTIONS`, such as `path`, `checkpointLocation`, `memory` and `slots`, as text or as a value."""
        name = option_name(key)
        self._options[name] = value
        if name in _PLACES:
            for secret in secret_parts(str(value)):
                keep_secret(secret)
        return self

    def options(self, **options: Any) -> StreamWriter:
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, mode: str) -> StreamWriter:
        """`append`; or `update` for groups without windows, of which each batch emits those that it has changed."""
        check_output_mode(self._query, mode, _ASK_FOR_UPDATE)
        self._mode = mode
        return self

    def queryName(self, name: str) -> StreamWriter:
        self._name = name
        return self

    def trigger(self, **trigger: Any) -> StreamWriter:
        """`processingTime="1 second"`, `availableNow=True` or `once=True`, as in PySpark."""
        self._trigger = trigger
        self._given = replace(self._given, run=replace(self._given.run, trigger=None))
        return self

    def foreachBatch(self, function: BatchFunction) -> StreamWriter:
        """Call `function(df, batch_id)` with the results of each batch; again with the same, after a failure."""
        self._function = function
        return self

    def report(self, report: Report) -> StreamWriter:
        """Call `report(event)` after each batch and at the end, with what `watersmeet run --json` prints."""
        self._report = report
        return self

    def toTable(self, tableName: str, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: results go to parquet files, or where `foreachBatch` puts them."""
        raise JobError(
            "toTable is not supported",
            detail=f'Results cannot be written to the table "{tableName}" directly.',
            hint=f'Use foreachBatch: lambda df, id: df.write.mode("append").saveAsTable("{tableName}"), '
            "idempotent by id if it is to be exactly once.",
        )

    def partitionBy(self, *cols: Any) -> NoReturn:
        """Not supported: result files are not partitioned by columns."""
        raise JobError(
            "partitionBy is not supported",
            detail="Result files are written as they come, in one folder.",
            hint="Use foreachBatch, and partition in it: df.write.partitionBy(..).",
        )

    def foreach(self, f: Any) -> NoReturn:
        """Not supported: see `foreachBatch`."""
        raise JobError("foreach is not supported", hint="Use foreachBatch, which gets the results of a batch together.")

    def _configure(
        self,
        path: str | None,
        format: str | None,
        outputMode: str | None,
        partitionBy: Any,
        queryName: str | None,
        options: Mapping[str, Any],
    ) -> None:
        """Take the arguments of `start`."""
        self.options(**options)
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if queryName is not None:
            self.queryName(queryName)
        if path is not None:
            self.option("path", path)

    def look_ahead(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> StartPlan:
        """What `start` with the same arguments would begin with now. Changes nothing."""
        self._configure(path, format, outputMode, partitionBy, queryName, options)
        check_output_mode(self._query, self._mode, _ASK_FOR_UPDATE)
        sections = self.sections
        folders = None if sections.run.checkpoint is None else CheckpointFolders(sections.run.checkpoint)
        return look_ahead(self._query, self._settings(sections), folders, "spark", note_to(self._report))

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> SparkRun:
        """Start the query. Returns at once."""
        self._configure(path, format, outputMode, partitionBy, queryName, options)
        sections = self.sections
        run, sink = sections.run, sections.sink
        check_output_mode(self._query, self._mode, _ASK_FOR_UPDATE)
        if sink.deliver_every is not None:
            refuse_gathering(self._mode, "deliverEvery")
        if run.checkpoint is None:
            raise JobError("the query has no checkpoint", hint='Set .option("checkpointLocation", "some/folder").')
        if self._function is None and self._format == PARQUET and sink.path is None:
            raise JobError("the query has no output path", hint='Set .option("path", "out"), or use foreachBatch.')
        folders = CheckpointFolders(run.checkpoint, run.cache, run.durability == POWER_LOSS)
        if self._function is not None and sink.deliver_every is not None:
            raise JobError(
                "deliverEvery does not go together with foreachBatch",
                detail="A function is given the results of each batch as they come.",
                hint="Leave deliverEvery out, or gather in the function.",
            )
        if self._function is not None:
            outputs = Outputs.waiting_only(folders.results, sink.late, sink.existing)
        else:
            outputs = Outputs.of(
                self._format, sink.path, sink.late, folders.durable, sink.existing, sink.max_rows_per_file
            )
        opened = open_run(
            self._query,
            self._settings(sections),
            folders,
            outputs,
            refuse_made_locally,
            note_to(self._report),
            start=self._ahead,
        )
        try:
            return self._start(opened, folders, sections)
        except SPARK_ERRORS as error:
            opened.close()
            raise translate(error) from cause(error)
        except BaseException:
            opened.close()
            raise

    def settings(self, sections: Sections) -> StreamWriter:
        """Settings that were read already, as those of a job file. Options go before them."""
        every = sections.run.trigger
        # Spark knows nothing shorter than a millisecond.
        interval = {} if every is None else {"processingTime": f"{microseconds(every) // 1000} milliseconds"}
        self._trigger = interval or {"availableNow": True}
        self._given = sections
        return self.format(sections.sink.format).outputMode(sections.sink.mode)

    @property
    def sections(self) -> Sections:
        """What the options and the trigger say, over the settings that were read already."""
        _check_folders(self._options)
        sections = self._given.having(read_options(self._options))
        interval = self._trigger.get("processingTime")
        if sections.run.trigger is not None or interval is None:
            return sections
        return sections.having({"trigger": parse_duration(str(interval), "processingTime")})

    def _settings(self, sections: Sections) -> RunSettings:
        return run_settings(sections.run, sections.adapt, self._statistics)

    def _start(self, opened: OpenRun, folders: CheckpointFolders, sections: Sections) -> SparkRun:
        outputs = opened.outputs
        plan = opened.start.plan  # of the query as it is now: it says what is read
        union, layout = unite(plan, self._frames, self._wanted(plan, sections.sink.late))
        session = union.sparkSession
        use_this_python(session)
        run = SparkRun(
            opened,
            SparkExecutor(
                session,
                layout,
                folders.segments,
                outputs,
                SparkLog(folders.spark),
                opened.checkpoint.sync_first,
            ),
            outputs,
            self._function,
            session,
            finite=bool({"availableNow", "once"} & self._trigger.keys()),
            report=self._report,
            at_end=Ending.PAUSED if sections.run.at_end == WAIT else Ending.CLOSED,
            gatherer=None if (every := sections.sink.deliver_every) is None else Gatherer(outputs, every),
        )
        writer = union.writeStream.foreachBatch(run.on_batch).option("checkpointLocation", folders.spark.spark_path())
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        if self._name:
            writer = writer.queryName(self._name)
        opened.report_start(self._promises(), self._report)  # before Spark begins with the first batch
        run.attach(writer.start())
        return run

    def _promises(self) -> Promises:
        """A function may do anything with a delivery that comes again; files are where they were moved to."""
        sources = {entry.stream.name: replayable(self._frames[entry.stream.name]) for entry in self._query.inputs}
        return Promises(sources, True if self._function is None else None)

    def begin_with(self, start: StartPlan) -> StreamWriter:
        """A start that `look_ahead` found with the same query and settings, before there was a session."""
        self._ahead = start
        return self

    def _wanted(self, plan: PhysicalPlan, late: str | None) -> dict[str, tuple[str, ...]]:
        """The columns to read of each stream: those that the query needs, or all if late rows are kept."""
        if late is None:
            return {name: plan.stream_columns(name) for name in plan.streams}
        return {entry.stream.name: tuple(entry.stream.schema.names) for entry in self._query.inputs}


def _check_folders(options: Mapping[str, Any]) -> None:
    """Refuse one folder for two things, as a job file does."""
    taken: dict[str, str] = {}
    for name in _PLACES:
        place = str(options.get(name, ""))
        if place.strip() and (other := taken.setdefault(one_folder(place), name)) != name:
            raise JobError(
                f'folder "{place}" is for {other} and for {name}', detail="Each of them needs a folder of its own."
            )
