"""Runs the tasks of a batch on Spark: one job, in which rows are packed for the slots and each wave is a shuffle away.

`mapInArrow` runs the tasks, `repartitionById` sends their messages to the slots. A retried or speculative task leaves
orphans, nothing else. Where streams limit how far they may be ahead of each other, a small job before that one looks at
event times alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from watersmeet.model.stretches import Stretch
from watersmeet.runtime.ahead import TimesToFind
from watersmeet.runtime.context import BatchContext
from watersmeet.runtime.outputs import Outputs
from watersmeet.runtime.reports import StreamReport, TaskReport
from watersmeet.runtime.seeding import Seeding
from watersmeet.runtime.spark.blobs import CELL_SCHEMA, DRIVER, read_report
from watersmeet.runtime.spark.log import SparkLog
from watersmeet.runtime.spark.sources import UnionLayout
from watersmeet.runtime.spark.tasks import STRETCH_SCHEMA, FindStretches, Pack, PackSeeds, PackWaiting, RunWave
from watersmeet.runtime.written import Sync
from watersmeet.state.files import Folder

# In force for our own job of a batch only. One job a batch means no adaptive execution, which would run each shuffle as
# a job of its own. Batches of 64K rows: benchmarks/shuffles.py. Cells are rows too, of megabytes each: it is by their
# bytes that the JVM does not make one batch of all that a slot is sent.
JOB_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
}


class SparkExecutor:
    def __init__(
        self,
        session: SparkSession,
        layout: UnionLayout,
        segments: Folder,
        outputs: Outputs,
        log: SparkLog,
        sync: Sync,
    ) -> None:
        # Rounds without new rows have a session of their own: what is set there is nobody else's affair.
        self._own_session = session.newSession()
        self._layout = layout
        self._segments = segments
        self._outputs = outputs
        self._log = log
        self._sync = sync

    def run(self, context: BatchContext, source: DataFrame | None) -> tuple[list[StreamReport], list[TaskReport]]:
        session = self._own_session if source is None else source.sparkSession
        told = context.for_sources()
        parts: list[DataFrame] = []
        if source is not None:
            pack = Pack(told, self._layout, self._outputs.late_waiting, self._segments)
            parts.append(source.mapInArrow(pack, CELL_SCHEMA))
        if waiting := context.waiting_pieces:
            numbers = _numbers(session, len(waiting), told.placement.slots)
            parts.append(numbers.mapInArrow(PackWaiting(waiting, told, self._segments), CELL_SCHEMA))
        cells = reduce(DataFrame.union, parts) if parts else session.createDataFrame([], CELL_SCHEMA)
        reports = self._run_waves(session, cells, context)
        if source is not None:
            self._sync(self._log.pop_new())
        streams = [report for report in reports if isinstance(report, StreamReport)]
        return streams, [report for report in reports if isinstance(report, TaskReport)]

    def make_states(self, seeding: Seeding) -> list[TaskReport]:
        session = self._own_session
        spread = _numbers(session, len(seeding.pieces), seeding.placement.slots)
        work = PackSeeds(seeding.pieces, seeding.placement, seeding.plan.port_stage, self._segments)
        cells = spread.mapInArrow(work, CELL_SCHEMA)
        return [report for report in self._run_waves(session, cells, seeding) if isinstance(report, TaskReport)]

    def _run_waves(
        self, session: SparkSession, cells: DataFrame, context: BatchContext | Seeding
    ) -> list[StreamReport | TaskReport]:
        """Run all stages, each wave a shuffle away from the one before it, in one job."""
        for wave in context.plan.waves:
            contexts = {stage.index: context.for_stage(stage) for stage in wave}
            work = RunWave(contexts, self._segments, self._outputs.writer)
            cells = cells.repartitionById(context.placement.slots, "part").mapInArrow(work, CELL_SCHEMA)
        with _settings(session, JOB_SETTINGS):
            rows = cells.collect()
        assert all(row.stage == DRIVER for row in rows), "a cell did not reach its stage"
        return [read_report(bytes(row.data)) for row in rows]

    def find_stretches(self, look: TimesToFind, source: DataFrame) -> list[Stretch]:
        layout = self._layout.narrow({name: column.name for name, column in look.times.items()})
        found = source.select(*layout.fields).mapInArrow(FindStretches(look, layout), STRETCH_SCHEMA)
        with _settings(source.sparkSession, JOB_SETTINGS):
            return [Stretch(*row) for row in found.collect()]


def use_this_python(session: SparkSession) -> None:
    """On one machine, workers run the interpreter that this process runs, unless the environment names another.

    Spark's own default is the `python3` of the PATH, which need not have the packages of a virtual environment.
    """
    context = session.sparkContext
    if (context.master or "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def _numbers(session: SparkSession, count: int, slots: int) -> DataFrame:
    """The numbers below `count`, dealt out over as many partitions as there are slots, at most."""
    numbers = session.createDataFrame([(number,) for number in range(count)], "piece int")
    return numbers.repartition(max(1, min(count, slots)))


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
