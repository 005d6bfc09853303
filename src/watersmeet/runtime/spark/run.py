"""A running query on Spark: what Spark calls for each batch, and the handle that users hold, shaped like PySpark's.

One streaming query over the union of the sources runs `foreachBatch`; there the driver computes, commits and delivers
the batch, which lets Spark commit it in turn. Whatever dies, and wherever, a restart finds either no version for the
batch, and computes it, or the version, and delivers it again from its files.

One *attendant* thread goes with a run from its start to its end, whoever waits for it or does not: it delivers what an
earlier run left, merges while the sources are silent, notices the end of Spark's query, emits what is still owed, and
lets go of the checkpoint. It and the batches take turns; when it has ended, nobody commits any more.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from watersmeet.adapt.decisions.decision import for_people
from watersmeet.draw.explain import explain_text
from watersmeet.errors import CheckpointError, JobError, WatersmeetError, cause, user_function_error
from watersmeet.run.ending import Ending
from watersmeet.run.loop import Driver
from watersmeet.runtime.events import Event, Report, state_sizes
from watersmeet.runtime.gathering import Gatherer
from watersmeet.runtime.opening import OpenRun
from watersmeet.runtime.outputs import Outputs
from watersmeet.runtime.spark.backlog import backlogs
from watersmeet.runtime.spark.errors import BatchFailure, to_spark, translate
from watersmeet.runtime.spark.executor import SparkExecutor
from watersmeet.settings.forced_step import parse_groups
from watersmeet.settings.words import AUTO
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Delivery, Manifest

IDLE_SECONDS = 1.0  # without a batch, after which merges may use the time
MIGRATING_SECONDS = 0.1  # after which steps to another plan may: they are short, and fewer are left for before batches
PROGRESS_KEPT = 100

BatchFunction = Callable[[DataFrame, int], None]


class SparkRun:
    """A running query. Shaped like PySpark's `StreamingQuery`."""

    def __init__(
        self,
        opened: OpenRun,
        executor: SparkExecutor,
        outputs: Outputs,
        function: BatchFunction | None,
        session: SparkSession,
        finite: bool,
        report: Report,
        gatherer: Gatherer | None = None,
        at_end: Ending = Ending.CLOSED,
    ) -> None:
        self._opened = opened
        self._outputs = outputs
        self._function = function
        self._session = session
        self._finite = finite  # it ends by itself, when all that there was has been read
        self._report = report
        self._driver: Driver[DataFrame] = Driver(
            opened.plan,
            opened.checkpoint,
            opened.controller,
            executor,
            self._deliver,
            self._tell,
            gatherer=gatherer,
            make_spec=opened.make_spec,
            start=opened.start,
            at_end=at_end,
            find_backlogs=lambda: backlogs(self._progress_of_spark(), opened.plan.streams),
        )
        self._progress: deque[Event] = deque(maxlen=PROGRESS_KEPT)
        self._error: BaseException | None = None
        self._query: StreamingQuery | None = None
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._at_work: set[threading.Thread] = set()  # the threads that may be calling the user's function

    def attach(self, query: StreamingQuery) -> None:
        """Go with Spark's own query to its end."""
        self._query = query
        atexit.register(self.stop)  # a script may end, or be interrupted, while the query runs
        threading.Thread(target=self._attend, name="watersmeet-attendant", daemon=True).start()

    @property
    def _streaming(self) -> StreamingQuery:
        assert self._query is not None
        return self._query

    @property
    def _manifest(self) -> Manifest:
        return self._opened.checkpoint.manifest

    # --- one batch ---------------------------------------------------------------------------------------------------

    def on_batch(self, frame: DataFrame, batch_id: int) -> None:
        """What `foreachBatch` calls: compute, commit and deliver the batch, unless that has happened."""
        try:
            with self._working(), self._driver.turn:
                self._on_batch(frame, batch_id)
        except BaseException as error:
            self._note(error)
            raise to_spark(error, self._stopping.is_set()) from None

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        if self._is_over:  # and this batch had been waiting
            raise self._error or BatchFailure("the run was stopped")
        last = self._manifest.last_batch
        if batch_id not in (last, last + 1):
            raise CheckpointError(
                f"Spark is at batch {batch_id}, but the state is at batch {last}",
                detail="Spark's part of the checkpoint and ours do not belong together.",
                hint="Restore both from one backup, or start with a new checkpoint.",
            )
        if batch_id == last:
            self._driver.deliver_pending()  # committed before; Spark did not learn of it
        else:
            self._driver.run_batch(frame)

    def _deliver(self, delivery: Delivery) -> list[Folder]:
        folders = self._outputs.deliver(delivery)
        if self._function is not None:
            self._call_function(self._function, delivery)
        return folders

    def _call_function(self, function: BatchFunction, delivery: Delivery) -> None:
        schema = from_arrow_schema(self._driver.plan.query.output_schema)
        waiting = self._outputs.waiting
        assert waiting is not None, "foreachBatch is given what waits"
        paths = [waiting.spark_path(name) for name in delivery.results]
        rows = self._session.read.schema(schema).parquet(*paths) if paths else self._session.createDataFrame([], schema)
        try:
            function(rows, delivery.id)
        except WatersmeetError:
            raise
        except Exception as error:
            raise user_function_error(error, "the function of foreachBatch") from cause(error)

    def _tell(self, event: Event) -> None:
        if event["event"] in ("batch", "merge"):
            self._progress.append(event)
        self._report(event)

    def _progress_of_spark(self) -> Mapping[str, Any] | None:
        """What Spark has said of the batch before; nothing of the first, which may come before its query is known."""
        return None if self._query is None else self._query.lastProgress

    # --- from the start to the end -----------------------------------------------------------------------------------

    def _attend(self) -> None:
        try:
            with self._working():
                self._driver.begin()
                self._go_along()
                while self._finite and not self._is_over and self._driver.drain_step(self._driver.at_end):
                    pass
                if self._error is None:
                    self._driver.end()
        except BaseException as error:
            self._note(error)
            self._stop_streaming()
        finally:
            self._opened.close()
            self._ended.set()
            atexit.unregister(self.stop)

    @property
    def _is_over(self) -> bool:
        return self._error is not None or self._stopping.is_set()

    @contextmanager
    def _working(self) -> Iterator[None]:
        """This thread may call the user's function, and must not be waited for there."""
        thread = threading.current_thread()
        self._at_work.add(thread)
        try:
            yield
        finally:
            self._at_work.discard(thread)

    def _go_along(self) -> None:
        """Wait for the end of Spark's query; merge while it has nothing to do."""
        while True:
            wait = MIGRATING_SECONDS if self._driver.migrating else IDLE_SECONDS
            try:
                if self._streaming.awaitTermination(wait):  # type: ignore[arg-type]
                    return
            except StreamingQueryException as error:
                self._note(error)
                return
            idle = time.perf_counter() - self._driver.last_work >= wait
            if idle and self._driver.turn.acquire(blocking=False):
                try:
                    if self._opened.controller.watched or self._driver.migrating:
                        self._driver.run_idle()
                    else:
                        self._opened.checkpoint.check_held()
                        self._driver.deliver_pending()
                finally:
                    self._driver.turn.release()

    def _stop_streaming(self) -> None:
        """Stop Spark's query; a batch under way may be waiting for our turn."""
        try:
            self._streaming.stop()
        except Exception as error:
            self._note(error)

    def _note(self, error: BaseException) -> None:
        """What ended the run is the first error; what a batch under way makes of being stopped is none."""
        if not self._is_over:
            self._error = self._opened.checkpoint.reason(error)

    # --- the handle --------------------------------------------------------------------------------------------------

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait for the end; raises what ended it, if that was an error. With a timeout, whether it has ended."""
        if not self._ended.wait(timeout):
            return False
        error = self.exception()
        if error is not None:
            raise error
        return None if timeout is None else True

    def exception(self) -> WatersmeetError | None:
        """What ended the query, if that was an error; None while it runs."""
        if not self._ended.is_set() or self._error is None:
            return None
        return translate(self._error)

    def stop(self) -> None:
        """Stop after the batch under way, and let go of the checkpoint. What is owed stays owed; see `drain`."""
        self._refuse_inside_batch("stop")
        if not self._ended.is_set():
            self._stopping.set()
            self._stop_streaming()
        self._ended.wait()

    def end(self, drain: bool) -> None:
        """Stop between two batches; with `drain`, everything that is owed is emitted before."""
        self._refuse_inside_batch("end")
        with self._working(), self._driver.turn:
            if drain:
                self._driver.drain(Ending.OPEN)
            self._stopping.set()  # so that no batch comes in between
        self.stop()

    def drain(self) -> None:
        """Emit everything that is owed so far. Batches wait meanwhile."""
        self._refuse_inside_batch("drain")
        with self._working():
            self._driver.drain(Ending.OPEN)

    def migrate(self, plan: str, by: str = AUTO, groups: str | None = None) -> Mapping[str, Any]:
        """Change the plan, as in `migrate("((A B) C)", by="moving-state")`; the decision. Batches wait meanwhile.

        With `groups`, as in "0-99, 120", theirs alone.
        """
        self._refuse_inside_batch("migrate")
        within = None if groups is None else parse_groups(groups, "groups of migrate()")
        with self._working(), self._driver.turn:
            if self._is_over or self._ended.is_set():
                raise JobError("the run has ended", detail="Its plan cannot be changed any more.")
            return self._driver.migrate(plan, by, "asked for by hand", within)

    def rescale(self, slots: int) -> Mapping[str, Any]:
        """Have so many slots from the next batch on; the decision. It lasts through restarts with the same settings."""
        self._refuse_inside_batch("rescale")
        if isinstance(slots, bool) or not isinstance(slots, int):
            raise JobError(f"rescale() was given slots = {slots!r}", detail="It is a whole number, from 1.")
        with self._working(), self._driver.turn:
            if self._is_over or self._ended.is_set():
                raise JobError("the run has ended", detail="Its slots cannot be changed any more.")
            return self._driver.rescale(slots, "asked for by hand")

    def _refuse_inside_batch(self, what: str) -> None:
        if threading.current_thread() in self._at_work:
            raise JobError(
                f"{what}() was called from the function of foreachBatch",
                detail=f"A delivery is over only when its function returns, and {what} waits for that.",
                hint="Call it from the thread that started the query.",
            )

    def processAllAvailable(self) -> None:
        """Wait until all that the sources have now has been processed. For tests."""
        try:
            self._streaming.processAllAvailable()
        except StreamingQueryException:
            self._ended.wait()
        if (error := self.exception()) is not None:
            raise error

    @property
    def streamingQuery(self) -> StreamingQuery:
        """Spark's own handle of the query that feeds this one."""
        return self._streaming

    @property
    def id(self) -> str:
        """Of the query, the same after a restart from its checkpoint."""
        return str(self._streaming.id)

    @property
    def runId(self) -> str:
        """Of this run of it."""
        return str(self._streaming.runId)

    @property
    def name(self) -> str | None:
        """As `queryName` gave it."""
        return self._streaming.name

    @property
    def isActive(self) -> bool:
        """Whether it still runs, or emits what it owes at its end."""
        return not self._ended.is_set()

    @property
    def status(self) -> dict[str, Any]:
        """Spark's status of the query, and how much state there is against the budget."""
        manifest = self._manifest
        return {
            **self._streaming.status,
            "batch": manifest.last_batch,
            "version": manifest.version,
            "stateRows": manifest.state_rows,
            "activeBytes": manifest.active_bytes,
            "memoryBytes": self._opened.controller.settings.budget_bytes,
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
        """The shape of the plan, such as `((A B) C)`; with those of groups that have another."""
        return self._manifest.plan

    def explain(self, extended: bool = False) -> str:
        """The plan with what its states hold, and what was measured so far."""
        manifest, plan = self._manifest, self._driver.plan
        sizes = state_sizes(plan, manifest) if manifest.batch is not None else None
        chosen = self._opened.start.chosen
        changed = plan is not self._opened.start.plan  # and what was considered for that one says nothing of this one
        considered, reason = ((), manifest.answering.reason) if changed else (chosen.alternatives, chosen.reason)
        known = replace(chosen.statistics, measured=manifest.measured)
        return explain_text(plan, reason, sizes, considered, manifest.measured, manifest.placement, known)

    def decisions(self) -> list[Mapping[str, Any]]:
        """What was decided while the query ran, and why."""
        return [for_people(entry, self._driver.plan.label) for entry in self._manifest.decisions]
