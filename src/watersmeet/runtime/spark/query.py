"""A query on Spark: a writer shaped like `DataFrame.writeStream`, and the handle of the running query.

One streaming query over the union of the sources runs `foreachBatch`; there, one Spark job a batch packs the rows for
the slots, runs the stages, and collects their reports. Then the driver commits the version, delivers the results, and
returns, which lets Spark commit the batch. Whatever dies, and wherever, a restart finds either no version for the
batch, and computes it, or the version, and delivers it again from its files.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.adapt.settings import MemorySettings
from watersmeet.adapt.view import GroupKey
from watersmeet.config import AdaptConfig
from watersmeet.draw.explain import explain_text
from watersmeet.errors import CheckpointError, JobError, WatersmeetError, did_you_mean
from watersmeet.model.quantities import parse_bytes, parse_cores
from watersmeet.model.routing import Routing
from watersmeet.optimize.choose import ChosenPlan
from watersmeet.optimize.cost import Limits
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.runtime.batch import BatchContext, StreamReport, TaskReport, commit_batch, context_of
from watersmeet.runtime.checkpoint import Checkpoint, Layout, open_checkpoint, refuse_made_locally
from watersmeet.runtime.events import Event, Report, batch_event, end_event, silent
from watersmeet.runtime.memory import MemoryKeeper
from watersmeet.runtime.outputs import FORMATS, Outputs
from watersmeet.runtime.planning import lay_out_run, plan_run
from watersmeet.runtime.spark.blobs import CELL_SCHEMA, DRIVER, read_report
from watersmeet.runtime.spark.errors import SPARK_ERRORS, translate
from watersmeet.runtime.spark.sources import UnionLayout, unite
from watersmeet.runtime.spark.tasks import Pack, RunStage
from watersmeet.state.manifest import BatchRecord, Manifest

OPTIONS = (
    "path",
    "checkpointLocation",
    "memory",
    "spill",
    "merge",
    "cores",
    "slots",
    "groups",
    "plan",
    "cache",
    "latePath",
)

# In force for our own job of a batch only. One job a batch means no adaptive execution, which would run each shuffle as
# a job of its own. Batches of 64K rows: benchmarks/shuffles.py.
JOB_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}

IDLE_SECONDS = 1.0  # without a batch, after which merges may use the time
ROUNDS = 1_000_000  # more than a batch has rounds of merges after it

BatchFunction = Callable[[DataFrame, int], None]


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

    def format(self, source: str) -> StreamWriter:
        """`parquet` (exactly once) or `noop` (results are counted and let go). For anything else, `foreachBatch`."""
        if source not in FORMATS:
            raise JobError(
                f'unknown output format "{source}"',
                detail=f"Formats are {' and '.join(FORMATS)}.",
                hint=did_you_mean(source, FORMATS) or "Write other formats from foreachBatch.",
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
        return self

    def options(self, **options: Any) -> StreamWriter:
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, mode: str) -> StreamWriter:
        """Joins only ever add results: `append`."""
        if mode != "append":
            raise JobError(
                f'output mode "{mode}" is not supported', detail='A join emits its results in mode "append".'
            )
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

    def start(self, path: str | None = None) -> SparkRun:
        """Start the query. Returns at once."""
        if path is not None:
            self.option("path", path)
        where = self._options.get("checkpointLocation")
        if not where:
            raise JobError("the query has no checkpoint", hint='Set .option("checkpointLocation", "some/folder").')
        target = self._options.get("path")
        if self._function is None and self._format == "parquet" and not target:
            raise JobError("the query has no output path", hint='Set .option("path", "out"), or use foreachBatch.')
        slots, groups = self._whole("slots", 2), self._whole("groups", 300)
        if groups < slots:
            raise JobError(f"{slots} slots cannot share {groups} groups", detail="Each slot needs at least one group.")
        memory = self._options.get("memory")
        asked = self._options.get("plan", self._adapt.plan)
        memory_bytes = None if memory is None else parse_bytes(memory, "memory")
        layout = Layout(where, self._options.get("cache"))
        limits = Limits(parse_cores(self._options.get("cores")) or math.inf, memory_bytes or math.inf)
        chosen = plan_run(self._query, asked, self._statistics, limits, layout)
        settings = self._memory(memory_bytes)
        physical = lay_out_run(self._query, chosen, settings.watched, layout)
        late = self._options.get("latePath")
        if self._function is not None:
            outputs = Outputs.waiting_only(layout.results, late, layout.home.path())
        else:
            outputs = Outputs.of(self._format, target, late, layout.home.path())
        union, columns = unite(physical, self._frames, self._wanted(physical, late))
        _use_this_python(union.sparkSession)
        routing = Routing.even(groups, slots)
        checkpoint = open_checkpoint(
            layout, self._query, physical.tree, routing, outputs.waiting_folders, chosen.reason, physical.traced
        )
        try:
            refuse_made_locally(checkpoint.manifest)
            run = SparkRun(
                plan=physical,
                chosen=chosen,
                checkpoint=checkpoint,
                layout=layout,
                union_layout=columns,
                outputs=outputs,
                function=self._function,
                memory=settings,
                session=union.sparkSession,
                finite=bool({"availableNow", "once"} & self._trigger.keys()),
                report=self._report,
            )
        except WatersmeetError:
            checkpoint.close()
            raise
        writer = union.writeStream.foreachBatch(run.on_batch).option("checkpointLocation", layout.spark)
        if self._trigger:
            writer = writer.trigger(**self._trigger)
        if self._name:
            writer = writer.queryName(self._name)
        try:
            run.deliver_again()
            run.attach(writer.start())
        except SPARK_ERRORS as error:
            checkpoint.close()
            raise translate(error) from error
        except BaseException:
            checkpoint.close()
            raise
        return run

    def adapt(self, adapt: AdaptConfig) -> StreamWriter:
        """All of `[adapt]` of a job file. The options `plan`, `spill` and `merge` go before it."""
        self._adapt = adapt
        return self

    def _memory(self, budget_bytes: int | None) -> MemorySettings:
        settings = self._adapt.memory(budget_bytes)
        spill = self._options.get("spill", settings.spill)
        return replace(settings, spill=spill, merge=self._options.get("merge", settings.merge))

    def _wanted(self, plan: PhysicalPlan, late: str | None) -> dict[str, tuple[str, ...]]:
        """The columns to read of each stream: those that the query needs, or all if late rows are kept."""
        if late is None:
            return {name: plan.stream_columns(name) for name in plan.streams}
        return {entry.stream.name: tuple(entry.stream.schema.names) for entry in self._query.inputs}

    def _whole(self, name: str, default: int) -> int:
        text = self._options.get(name, str(default))
        if not text.isdigit() or int(text) < 1:
            raise JobError(f'{name} "{text}" is not a whole number above zero')
        return int(text)


class SparkRun:
    """A running query. Shaped like PySpark's `StreamingQuery`."""

    def __init__(
        self,
        plan: PhysicalPlan,
        chosen: ChosenPlan,
        checkpoint: Checkpoint,
        layout: Layout,
        union_layout: UnionLayout,
        outputs: Outputs,
        function: BatchFunction | None,
        memory: MemorySettings,
        session: SparkSession,
        finite: bool,
        report: Report,
    ) -> None:
        self._session = session
        self._finite = finite  # it ends by itself, when all that there was has been read
        self._plan = plan
        self._keeper = MemoryKeeper(plan, checkpoint, memory)
        self._chosen = chosen
        self._checkpoint = checkpoint
        self._layout = layout
        self._union_layout = union_layout
        self._outputs = outputs
        self._function = function
        self._memory_bytes = memory.budget_bytes
        self._report = report
        self._before = checkpoint.manifest
        self._progress: deque[Event] = deque(maxlen=100)
        self._error: BaseException | None = None
        self._query: StreamingQuery | None = None
        self._started = time.perf_counter()
        self._ended = False
        self._stopped = False
        self._ending = threading.Lock()
        self._working = threading.Lock()  # held by whoever commits: a batch, or merges while the sources are silent
        self._batch_thread: int | None = None
        self._rested = threading.Event()
        self._last_work = time.perf_counter()

    def attach(self, query: StreamingQuery) -> None:
        self._query = query
        if self._keeper.upkeep is not None:
            threading.Thread(target=self._merge_while_idle, name="merge-while-idle", daemon=True).start()

    @property
    def _streaming(self) -> StreamingQuery:
        assert self._query is not None
        return self._query

    # --- one batch ---------------------------------------------------------------------------------------------------

    def on_batch(self, frame: DataFrame, batch_id: int) -> None:
        """What `foreachBatch` calls: compute and commit the batch unless that has happened, then deliver it."""
        try:
            with self._working:
                self._batch_thread = threading.get_ident()
                self._on_batch(frame, batch_id)
        except BaseException as error:
            self._error = error
            raise

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        started = time.perf_counter()
        manifest = self._checkpoint.manifest
        if batch_id not in (manifest.last_batch, manifest.last_batch + 1):
            raise CheckpointError(
                f"Spark is at batch {batch_id}, but the state is at batch {manifest.last_batch}",
                detail=f"Under {self._layout.home.path()}, Spark's checkpoint and ours do not belong together.",
                hint="Restore both from one backup, or start with a new checkpoint.",
            )
        session = frame.sparkSession
        if batch_id == manifest.last_batch + 1:
            manifest = self._compute(session, frame)
        self._finish(session, manifest, started)

    def _finish(self, session: SparkSession, manifest: Manifest, started: float) -> None:
        """What follows every commit of results."""
        assert manifest.batch is not None
        self._deliver(session, manifest.batch)
        seconds = time.perf_counter() - started
        self._keeper.after_batch(seconds)
        event = batch_event(self._plan, self._checkpoint.manifest, seconds, self._keeper.taken())
        self._progress.append(event)
        self._report(event)
        self._checkpoint.tidy()
        self._last_work = time.perf_counter()

    def _deliver(self, session: SparkSession, batch: BatchRecord) -> None:
        self._outputs.deliver(batch)
        if self._function is not None:
            schema = from_arrow_schema(self._plan.query.output_schema)
            paths = [self._layout.results.path(name) for name in batch.results]
            rows = session.read.schema(schema).parquet(*paths) if paths else session.createDataFrame([], schema)
            # Spark numbers no merges between batches; their own ids are negative, and the same in every delivery.
            self._function(rows, -(batch.number * ROUNDS + batch.round) if batch.round else batch.number)

    def deliver_again(self) -> None:
        """Deliver the merges that the last run may have died with. Spark repeats batches, but knows of no merges."""
        batch = self._checkpoint.manifest.batch
        if batch is not None and batch.round:
            self._deliver(self._session, batch)

    def _compute(self, session: SparkSession, frame: DataFrame) -> Manifest:
        merges = self._keeper.before_batch()
        context = context_of(self._plan, self._checkpoint.manifest, merges, upkeep=self._keeper.upkeep)
        cells = frame.mapInArrow(Pack(context, self._union_layout, self._outputs.late_waiting), CELL_SCHEMA)
        return self._run_stages(session, context, cells)

    def _merge_round(self, merges: Sequence[GroupKey]) -> None:
        """Merge groups without a batch."""
        started = time.perf_counter()
        session = self._session
        context = context_of(self._plan, self._checkpoint.manifest, merges, new_rows=False)
        manifest = self._run_stages(session, context, session.createDataFrame([], CELL_SCHEMA))
        self._finish(session, manifest, started)

    def _run_stages(self, session: SparkSession, context: BatchContext, cells: DataFrame) -> Manifest:
        for stage in self._plan.stages:
            work = RunStage(context, stage.index, self._layout.segments, self._outputs.writer)
            cells = cells.repartitionById(context.routing.slots, "part").mapInArrow(work, CELL_SCHEMA)
        with _settings(session, JOB_SETTINGS):
            rows = cells.collect()
        assert all(row.stage == DRIVER for row in rows), "a cell did not reach its stage"
        reports = [read_report(bytes(row.data)) for row in rows]
        streams = [report for report in reports if isinstance(report, StreamReport)]
        tasks = [report for report in reports if isinstance(report, TaskReport)]
        return commit_batch(self._checkpoint.table, context, streams, tasks)

    # --- merges between batches --------------------------------------------------------------------------------------

    def _merge_while_idle(self) -> None:
        """Merge what pays while the sources are silent."""
        while not self._rested.wait(IDLE_SECONDS):
            if time.perf_counter() - self._last_work < IDLE_SECONDS or not self._working.acquire(blocking=False):
                continue
            try:
                if self._checkpoint.manifest.batch is not None and (merges := self._keeper.while_idle()):
                    self._merge_round(merges)
            except SPARK_ERRORS as error:
                self._error = self._error or translate(error)
            except BaseException as error:
                self._error = self._error or error
            finally:
                self._working.release()
            if self._error is not None:
                self._streaming.stop()  # waits for a batch, which may have waited for us
                return

    def drain(self) -> None:
        """Pay everything that is owed so far. Batches wait meanwhile."""
        if self._working.locked() and self._batch_thread == threading.get_ident():
            raise JobError(
                "drain() was called from the function of foreachBatch",
                detail="A batch is over only when its function returns, and drain waits for that.",
                hint="Call it from the thread that started the query.",
            )
        self._drain(ended=False)

    def _drain(self, ended: bool) -> None:
        with self._working:
            while merges := self._keeper.clean_up(ended):
                self._merge_round(merges)

    # --- the handle --------------------------------------------------------------------------------------------------

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait for the end; raises what ended it, if that was an error."""
        try:
            done = self._streaming.awaitTermination(timeout)
        except StreamingQueryException as error:
            self._end()
            raise self._cause(error) from None
        if done is not False:
            self._rest()
            try:
                if self._error is None and self._finite and not (self._ended or self._stopped):
                    self._drain(ended=True)
            except SPARK_ERRORS as error:
                self._error = translate(error)
            except BaseException as error:
                self._error = error
            self._end()
            if self._error is not None and not self._stopped:
                raise self._error
        return done

    def _rest(self) -> None:
        """No more merges between batches; one that is under way is waited for."""
        self._rested.set()
        with self._working:
            pass

    def _cause(self, error: StreamingQueryException) -> BaseException:
        if isinstance(self._error, WatersmeetError):
            return self._error
        return translate(self._error if self._error is not None else error)

    def stop(self) -> None:
        """Stop after the batch under way, and let go of the checkpoint. What is owed stays owed; see `drain`."""
        self._stopped = True  # what the batch under way makes of that is no error
        self._streaming.stop()
        self._rest()
        self._end()

    def _end(self) -> None:
        with self._ending:
            if self._ended:
                return
            self._ended = True
        self._checkpoint.close()
        if self._error is None:
            manifest = self._checkpoint.manifest
            batches = manifest.last_batch - self._before.last_batch
            self._report(end_event(self._before, manifest, batches, time.perf_counter() - self._started))

    @property
    def streamingQuery(self) -> StreamingQuery:
        """Spark's own handle of the query that feeds this one."""
        return self._streaming

    @property
    def isActive(self) -> bool:
        return bool(self._streaming.isActive)

    @property
    def status(self) -> dict[str, Any]:
        """Spark's status of the query, and how much state there is against the budget."""
        manifest = self._checkpoint.manifest
        return {
            **self._streaming.status,
            "batch": manifest.last_batch,
            "version": manifest.version,
            "stateRows": manifest.state_rows,
            "activeBytes": manifest.active_bytes,
            "memoryBytes": self._memory_bytes,
        }

    @property
    def lastProgress(self) -> Event | None:
        """The event of the last batch."""
        return self._progress[-1] if self._progress else None

    @property
    def recentProgress(self) -> list[Event]:
        return list(self._progress)

    @property
    def plan(self) -> str:
        """The shape of the plan, such as `((A B) C)`."""
        return self._checkpoint.manifest.plan

    def explain(self) -> str:
        """The plan with what its states hold, and what was measured so far."""
        manifest = self._checkpoint.manifest
        sizes = batch_event(self._plan, manifest, 0.0)["states"] if manifest.batch is not None else None
        considered = self._chosen.alternatives
        return explain_text(self._plan, self._chosen.reason, sizes, considered, manifest.measured)

    def decisions(self) -> list[Mapping[str, Any]]:
        """What was decided while the query ran, and why."""
        return list(self._checkpoint.manifest.decisions)


def _use_this_python(session: SparkSession) -> None:
    """On one machine, workers run the interpreter that this process runs, unless the environment names another.

    Spark's own default is the `python3` of the PATH, which need not have the packages of a virtual environment.
    """
    context = session.sparkContext
    if (context.master or "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


@contextmanager
def _settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for the time being."""
    before = {name: session.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)
