"""A writer shaped like PySpark's `DataFrame.writeStream`: how a query runs on Spark, and where its results go."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

from pyspark.sql import DataFrame

from watersmeet.adapt_section import AdaptConfig, check_scale_slots
from watersmeet.config import (
    AT_END,
    EXISTING,
    SINK_FORMATS,
    WAIT,
    check_weights,
    one_folder,
    read_retention,
)
from watersmeet.errors import JobError, cause, did_you_mean
from watersmeet.model.placement import DEFAULT_GROUPS, DEFAULT_SLOTS, check_slots
from watersmeet.model.quantities import parse_bytes, parse_cores, parse_duration
from watersmeet.optimize.cost import Limits
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.output_mode import APPEND, check_output_mode, refuse_gathering
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.ring_ways import RingWay
from watersmeet.runtime.checkpoint import refuse_made_locally
from watersmeet.runtime.events import Report, note_to, silent
from watersmeet.runtime.gathering import Gatherer
from watersmeet.runtime.opening import OpenRun, look_ahead, open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.runtime.spark.errors import SPARK_ERRORS, translate
from watersmeet.runtime.spark.executor import SparkExecutor, use_this_python
from watersmeet.runtime.spark.log import SparkLog
from watersmeet.runtime.spark.run import BatchFunction, SparkRun
from watersmeet.runtime.spark.sources import unite
from watersmeet.secrets import keep_secret
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.plan import PlanSettings
from watersmeet.settings.replan import ReplanSettings
from watersmeet.settings.ring import RingSettings, read_ring_slots
from watersmeet.settings.run import RunSettings
from watersmeet.settings.scale import ScaleSettings
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.addresses import secret_parts
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.retention import VERSIONS_KEPT
from watersmeet.state.syncing import DURABILITIES, POWER_LOSS

OPTIONS = (
    "path",
    "checkpointLocation",
    "memory",
    "slotMemory",
    "slotWeights",
    "balance",
    "balanceEvery",
    "balanceThreshold",
    "balanceSpan",
    "balanceLeast",
    "balanceRates",
    "allocate",
    "scale",
    "scaleSlots",
    "scaleSeconds",
    "ringSlots",
    "ringAdapt",
    "ringRelocate",
    "ringSeconds",
    "balanceBy",
    "ring",
    "ringSegment",
    "ringCopies",
    "maxCandidates",
    "spill",
    "merge",
    "replan",
    "replanEvery",
    "replanThreshold",
    "replanQuota",
    "replanScope",
    "migrate",
    "cores",
    "slots",
    "groups",
    "plan",
    "cache",
    "latePath",
    "atEnd",
    "durability",
    "existing",
    "maxRowsPerFile",
    "deliverEvery",
    "keepVersions",
    "keepFor",
)
_ASK_FOR_UPDATE = 'outputMode("update")'
_PLACES = ("path", "checkpointLocation", "latePath")


class StreamWriter:
    """How a query runs and where its results go. Each method returns the writer itself, as in PySpark."""

    def __init__(self, query: Query, frames: Mapping[str, DataFrame], statistics: Statistics | None = None) -> None:
        self._query = query
        self._frames = frames
        self._statistics = statistics
        self._format = "parquet"
        self._options: dict[str, str] = {}
        self._function: BatchFunction | None = None
        self._trigger: dict[str, Any] = {}
        self._name: str | None = None
        self._report: Report = silent
        self._adapt = AdaptConfig()
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
        """One of `OPTIONS`, such as `path`, `checkpointLocation`, `memory` and `slots`."""
        known = {name.lower(): name for name in OPTIONS}
        if key.lower() not in known:
            raise JobError(
                f'unknown option "{key}"', detail=f"Options are {', '.join(OPTIONS)}.", hint=did_you_mean(key, OPTIONS)
            )
        self._options[known[key.lower()]] = str(value)
        if known[key.lower()] in _PLACES:
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
        where = self._options.get("checkpointLocation")
        folders = None if where is None else CheckpointFolders(where)
        return look_ahead(self._query, self._settings(), folders, "spark", note_to(self._report))

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
        self._check_folders()
        check_output_mode(self._query, self._mode, _ASK_FOR_UPDATE)
        if "deliverEvery" in self._options:
            refuse_gathering(self._mode, "deliverEvery")
        where = self._options.get("checkpointLocation")
        if not where:
            raise JobError("the query has no checkpoint", hint='Set .option("checkpointLocation", "some/folder").')
        target = self._options.get("path")
        if self._function is None and self._format == "parquet" and not target:
            raise JobError("the query has no output path", hint='Set .option("path", "out"), or use foreachBatch.')
        folders = CheckpointFolders(where, self._options.get("cache"), self._durable)
        late = self._options.get("latePath")
        if self._function is not None and "deliverEvery" in self._options:
            raise JobError(
                "deliverEvery does not go together with foreachBatch",
                detail="A function is given the results of each batch as they come.",
                hint="Leave deliverEvery out, or gather in the function.",
            )
        if self._function is not None:
            outputs = Outputs.waiting_only(folders.results, late, self._existing)
        else:
            max_rows = self._whole("maxRowsPerFile", 0) or None
            outputs = Outputs.of(self._format, target, late, folders.durable, self._existing, max_rows)
        opened = open_run(
            self._query,
            self._settings(),
            folders,
            outputs,
            refuse_made_locally,
            note_to(self._report),
            start=self._ahead,
        )
        try:
            return self._start(opened, folders, late)
        except SPARK_ERRORS as error:
            opened.close()
            raise translate(error) from cause(error)
        except BaseException:
            opened.close()
            raise

    def _check_folders(self) -> None:
        """Refuse options that name no folder, and one folder for two things, as a job file does."""
        taken: dict[str, str] = {}
        for name in ("path", "latePath", "checkpointLocation"):
            place = self._options.get(name)
            if place is None:
                continue
            if not place.strip():
                raise JobError(f'option "{name}" is empty', detail="It names a folder.", hint='Write "." for this one.')
            if (other := taken.setdefault(one_folder(place), name)) != name:
                raise JobError(
                    f'folder "{place}" is for {other} and for {name}', detail="Each of them needs a folder of its own."
                )

    def _start(self, opened: OpenRun, folders: CheckpointFolders, late: str | None) -> SparkRun:
        outputs = opened.outputs
        plan = opened.start.plan  # of the query as it is now: it says what is read
        union, layout = unite(plan, self._frames, self._wanted(plan, late))
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
            waits=self._choice("atEnd", AT_END) == WAIT,
            gatherer=self._gatherer(outputs),
        )
        writer = union.writeStream.foreachBatch(run.on_batch).option("checkpointLocation", folders.spark.spark_path())
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        if self._name:
            writer = writer.queryName(self._name)
        run.attach(writer.start())
        return run

    def adapt(self, adapt: AdaptConfig) -> StreamWriter:
        """All of `[adapt]` of a job file. The options `plan`, `spill` and `merge` go before it."""
        self._adapt = adapt
        return self

    def begin_with(self, start: StartPlan) -> StreamWriter:
        """A start that `look_ahead` found with the same query and settings, before there was a session."""
        self._ahead = start
        return self

    def _settings(self) -> RunSettings:
        slots, groups = self._whole("slots", DEFAULT_SLOTS), self._whole("groups", DEFAULT_GROUPS)
        check_slots(slots, groups)
        memory = self._options.get("memory")
        memory_bytes = None if memory is None else parse_bytes(memory, "memory")
        limits = Limits(parse_cores(self._options.get("cores")) or math.inf, memory_bytes or math.inf)
        plan = PlanSettings(self._options.get("plan", self._adapt.plan), self._statistics, limits, self._ring_way())
        kept = read_retention(self._whole("keepVersions", VERSIONS_KEPT), self._options.get("keepFor"))
        return RunSettings(plan, self._memory(memory_bytes), slots, groups, kept)

    def _memory(self, budget_bytes: int | None) -> AdaptSettings:
        slot_memory = self._options.get("slotMemory")
        slot_bytes = None if slot_memory is None else parse_bytes(slot_memory, "slotMemory")
        settings = self._adapt.memory(budget_bytes, slot_bytes)
        return replace(
            settings,
            spill=self._options.get("spill", settings.spill),
            merge=self._options.get("merge", settings.merge),
            replan=self._replan(),
            balance=self._balance(),
            scale=self._scale(),
            ring=self._ring(),
        )

    def _balance(self) -> BalanceSettings:
        """The options that say what goes where, before what a job file says."""
        given, options = self._adapt.balance, self._options
        span, least = options.get("balanceSpan"), options.get("balanceLeast")
        return BalanceSettings(
            options.get("balance", given.policy),
            self._share("balanceThreshold", given.threshold),
            self._whole("balanceEvery", given.every),
            self._weights(),
            options.get("allocate", given.allocate),
            span=given.span if span is None else parse_duration(span, "balanceSpan"),
            least_bytes=given.least_bytes if least is None else parse_bytes(least, "balanceLeast"),
            rates=self._number(
                "balanceRates", given.rates, "It is how many times the results of another slot's groups."
            ),
            by=options.get("balanceBy", given.by),
        )

    def _ring_way(self) -> RingWay:
        """The options that say how rings are spread, before what a job file says."""
        given, segment = self._adapt.ring_way, self._options.get("ringSegment")
        return RingWay(
            self._options.get("ring", given.name),
            given.segment if segment is None else parse_duration(segment, "ringSegment"),
            self._whole("ringCopies", 1) if "ringCopies" in self._options else given.copies,
        )

    def _scale(self) -> ScaleSettings:
        """The options that say how many slots there are, before what a job file says."""
        given, options = self._adapt.scale, self._options
        words = options.get("scaleSlots", f"{given.least}, {given.most}").split(",")
        bounds = check_scale_slots([int(word) if word.strip().isdigit() else word.strip() for word in words])
        seconds = given.seconds
        if "scaleSeconds" in options:
            seconds = self._number("scaleSeconds", 0.0, "It is the time that a batch may take, in seconds.")
        settings = ScaleSettings(options.get("scale", given.policy), *bounds, seconds)
        return settings.following(self._interval, self._whole("slots", DEFAULT_SLOTS))

    def _ring(self) -> RingSettings:
        """The options that say how a ring lies over slots, before what a job file says."""
        given, options, seconds = self._adapt.ring, self._options, self._adapt.ring.seconds
        if "ringSeconds" in options:
            seconds = self._number("ringSeconds", 0.0, "It is the time that a batch may take, in seconds.")
        settings = RingSettings(
            read_ring_slots(options["ringSlots"]) if "ringSlots" in options else given.slots,
            options.get("ringAdapt", given.policy),
            options.get("ringRelocate", given.relocate),
            seconds,
            self._whole("maxCandidates", 0) if "maxCandidates" in options else given.max_candidates,
        )
        return settings.following(self._interval, self._whole("slots", DEFAULT_SLOTS))

    @property
    def _interval(self) -> timedelta | None:
        """Of the trigger."""
        interval = self._trigger.get("processingTime")
        return None if interval is None else parse_duration(str(interval), "processingTime")

    def _weights(self) -> tuple[float, ...]:
        text = self._options.get("slotWeights")
        if text is None:
            return ()
        try:
            weights = tuple(float(word) for word in text.split(",") if word.strip())
        except ValueError:
            raise JobError(
                f'slotWeights "{text}" are not numbers', detail='They are separated by commas, as in "1, 0.5".'
            ) from None
        check_weights(weights, self._whole("slots", DEFAULT_SLOTS))
        return weights

    def _replan(self) -> ReplanSettings:
        """The options that say when the plan is looked at again, before what a job file says."""
        given, options = self._adapt.replan, self._options
        settings = ReplanSettings(
            options.get("replan", given.trigger),
            self._whole("replanEvery", given.every),
            self._share("replanThreshold", given.threshold),
            options.get("migrate", given.by),
            self._share("replanQuota", given.quota),
            options.get("replanScope", given.scope),
        )
        return settings.for_plan(options.get("plan", self._adapt.plan))

    def _share(self, name: str, default: float) -> float:
        return self._number(name, default, "It is a share: from 0 to 1.")

    def _number(self, name: str, default: float, detail: str) -> float:
        text = self._options.get(name, str(default))
        try:
            return float(text)
        except ValueError:
            raise JobError(f'{name} "{text}" is not a number', detail=detail) from None

    def _wanted(self, plan: PhysicalPlan, late: str | None) -> dict[str, tuple[str, ...]]:
        """The columns to read of each stream: those that the query needs, or all if late rows are kept."""
        if late is None:
            return {name: plan.stream_columns(name) for name in plan.streams}
        return {entry.stream.name: tuple(entry.stream.schema.names) for entry in self._query.inputs}

    @property
    def _durable(self) -> bool:
        return self._choice("durability", DURABILITIES) == POWER_LOSS

    def _gatherer(self, outputs: Outputs) -> Gatherer | None:
        every = self._options.get("deliverEvery")
        return None if every is None else Gatherer(outputs, parse_duration(every, "deliverEvery"))

    @property
    def _existing(self) -> str:
        return self._choice("existing", EXISTING)

    def _choice(self, name: str, known: Sequence[str]) -> str:
        """An option that is one of several words; the first is the default."""
        value = self._options.get(name, known[0])
        if value not in known:
            raise JobError(
                f'unknown {name} "{value}"',
                detail=f"It is one of {', '.join(known)}.",
                hint=did_you_mean(value, known),
            )
        return value

    def _whole(self, name: str, default: int) -> int:
        text = self._options.get(name, str(default))
        if name in self._options and (not text.isdigit() or int(text) < 1):
            raise JobError(f'{name} "{text}" is not a whole number above zero')
        return int(text)
