"""What `import watersmeet` shows: `sql`, and the query that it returns.

    q = wm.sql(TEXT, orders=.., customers=.., time={"orders": "created"}, lateness="10 seconds")

With Spark's streaming DataFrames the query runs on Spark (`q.writeStream`). With Arrow tables, anything that exports an
Arrow stream (pandas, polars, DuckDB), or iterables of record batches, it runs in this process, without a JVM:
`q.run()` returns a table, `q.stream()` yields record batches as they come out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from watersmeet.errors import JobError, did_you_mean
from watersmeet.kernel.rows import concat
from watersmeet.lang.binder import bind
from watersmeet.lang.registered import predicate as predicate
from watersmeet.model.predicates import Predicate as Predicate
from watersmeet.model.quantities import parse_duration
from watersmeet.model.schema import normal_schema
from watersmeet.model.streams import Stream, parse_max_ahead
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.output_mode import check_output_mode
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.runtime.clock import Clock
from watersmeet.runtime.events import Report, silent
from watersmeet.runtime.looking_ahead import look_ahead
from watersmeet.runtime.planning import stored_costs
from watersmeet.settings.argument_types import Settings, SettingsBesidePlan
from watersmeet.settings.arguments import read_arguments, takes_settings
from watersmeet.settings.every import Sections
from watersmeet.settings.run import LOCAL, RunSection, run_settings
from watersmeet.settings.words import AUTO
from watersmeet.start.promises import Promises
from watersmeet.start.showing import start_picture, start_text
from watersmeet.start.start_plan import StartPlan

if TYPE_CHECKING:
    from watersmeet.runtime.spark.writer import StreamWriter

# What DataFrame.explain takes for a mode, or in the place of `extended`. No plan has such a name.
SPARK_MODES = ("simple", "extended", "codegen", "cost", "formatted")


def sql(
    text: str,
    *,
    streams: Mapping[str, Any] | None = None,
    time: str | Mapping[str, str] | None = None,
    lateness: str | timedelta | Mapping[str, str | timedelta] | None = None,
    max_ahead: str | timedelta | Mapping[str, str | timedelta | None] | None = None,
    ahead_of: str | Mapping[str, str] | None = None,
    time_unit: str | Mapping[str, str] | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    rates: Mapping[str, float] | None = None,
    selectivity: Mapping[str, float] | None = None,
    repeats: Mapping[str, float] | None = None,
    **named: Any,
) -> SparkQuery | LocalQuery:
    """The query `text` over the given streams: each as an argument of its name, or in `streams`, where any name can be.

    `time` names the event-time column of each stream, or one for all of them, and `lateness` says how far out of order
    rows may come. Their defaults are what `withWatermark` says of a streaming DataFrame; else `ts`, and not at all.
    `max_ahead` says how far a row may be ahead of what `ahead_of` names, the "clock" or all the "streams"; one that is
    further ahead is set aside as late rows are. Without it none is. `time_unit` says what event times count that are
    integers: "s", "ms", "us" (the default) or "ns", since 1970; given for all streams, it is of those with integers.
    `functions` registers vectorised Python predicates: Arrow arrays in, a boolean array out; `predicate` declares more
    of one. What is known of the streams may help to choose a plan: `rates` in rows a second by input, `selectivity` by
    pair of inputs, as in {"A B": 0.01}, and `repeats`: how many rows of an input, of those that come together, agree in
    all that matters to the groups of the query.
    """
    _refuse_streams_as_settings(
        streams=streams,
        time=time,
        lateness=lateness,
        max_ahead=max_ahead,
        ahead_of=ahead_of,
        time_unit=time_unit,
        functions=functions,
        rates=rates,
        selectivity=selectivity,
        repeats=repeats,
    )
    for name in functions or {}:
        if not isinstance(name, str):
            raise JobError(f"functions has the name {name!r}, which is no text", hint="Names are what the query calls.")
    given = _all_streams(streams or {}, named)
    statistics = Statistics(rates or {}, selectivity or {}, repeats=repeats or {})
    times = _of_each("time", time, given)
    delays = {name: _duration(value, name) for name, value in _of_each("lateness", lateness, given).items()}
    ahead = {name: parse_max_ahead(value, name) for name, value in _of_each("max_ahead", max_ahead, given).items()}
    compared = _of_each("ahead_of", ahead_of, given)
    units = _of_each("time_unit", time_unit, given)

    def unit_of(name: str, schema: pa.Schema, time: str) -> str | None:
        """The unit of a stream; one for all streams is not of timestamps."""
        if isinstance(time_unit, str) and time in schema.names and pa.types.is_timestamp(schema.field(time).type):
            return None
        return units.get(name)

    def declare(schemas: Mapping[str, pa.Schema]) -> dict[str, Stream]:
        return {
            name: Stream(
                name,
                schema,
                times.get(name, "ts"),
                delays.get(name, timedelta(0)),
                ahead.get(name),
                compared.get(name),
                unit_of(name, schema, times.get(name, "ts")),
            )
            for name, schema in schemas.items()
        }

    if all(_is_dataframe(stream) for stream in given.values()):
        from watersmeet.runtime.spark.carried_types import refuse_collations, refuse_types
        from watersmeet.runtime.spark.sources import arrow_schema, event_time

        for name, frame in given.items():
            refuse_types(name, frame)

        schemas = {name: arrow_schema(frame) for name, frame in given.items()}
        for name, frame in given.items():
            if (found := event_time(name, frame, times.get(name), name in delays)) is not None:
                times.setdefault(name, found.column)
                delays.setdefault(name, found.delay)
        query = bind(text, declare(schemas), functions or {})
        refuse_collations(query, given)
        return SparkQuery(query, given, statistics)
    if any(_is_dataframe(stream) for stream in given.values()):
        raise JobError("some streams are Spark DataFrames and some are not", hint="Use one kind for all of them.")
    inputs = {name: _LocalInput.of(name, data) for name, data in given.items()}
    schemas = {name: entry.schema for name, entry in inputs.items()}
    return LocalQuery(bind(text, declare(schemas), functions or {}), inputs, statistics)


# The types of settings that may be one value for all streams.
_ONE_FOR_ALL: Mapping[str, tuple[type, ...]] = {
    "time": (str,),
    "lateness": (str, timedelta),
    "max_ahead": (str, timedelta),
    "ahead_of": (str,),
    "time_unit": (str,),
}


def _refuse_streams_as_settings(**settings: Any) -> None:
    """Tell a stream whose name is that of a setting how to come in."""
    for setting, value in settings.items():
        one_for_all = _ONE_FOR_ALL.get(setting, ())
        if value is not None and not isinstance(value, (Mapping, *one_for_all)):
            raise JobError(
                f"{setting} is a {type(value).__name__}",
                detail=f"{setting} is a setting of the query, and takes a dict by name.",
                hint=f'A stream of that name goes into streams: wm.sql(text, streams={{"{setting}": ..}}).',
            )


def _all_streams(listed: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    for name in named:
        if name in listed:
            raise JobError(f'stream "{name}" is given twice', detail="It is an argument, and in streams.")
    if not listed and not named:
        raise JobError("the query has no streams", hint="Pass each one by name: wm.sql(text, orders=orders_df).")
    return {**listed, **named}


def _of_each(setting: str, value: Any, streams: Mapping[str, Any]) -> dict[str, Any]:
    """A setting by stream, where it was given, from one that is by stream or for all of them."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return dict.fromkeys(streams, value)
    for name in value:
        if name not in streams:
            raise JobError(f'{setting} names unknown stream "{name}"', detail=f"Streams: {', '.join(streams)}.")
    return dict(value)


def _duration(value: str | timedelta, stream: str) -> timedelta:
    return value if isinstance(value, timedelta) else parse_duration(value, f'lateness of stream "{stream}"')


def _is_dataframe(value: Any) -> bool:
    return type(value).__module__.startswith("pyspark.")


class _Explained:
    """What both kinds of query can say about themselves."""

    def __init__(self, query: Query, statistics: Statistics) -> None:
        self.query = query
        self.statistics = statistics

    @property
    def schema(self) -> pa.Schema:
        """The schema of the results."""
        return self.query.output_schema

    def _look_ahead(self, plan: str, settings: Mapping[str, Any]) -> StartPlan:
        """What a run with these settings would begin with."""
        raise NotImplementedError

    def _explain(
        self, plan: str | bool | None, extended: bool | str | None, mode: str | None, settings: Mapping[str, Any]
    ) -> str:
        for asked in (extended, mode):
            if isinstance(asked, str) and asked not in SPARK_MODES:
                raise JobError(
                    f'unknown mode "{asked}" of explain',
                    detail=f"Modes are those of DataFrame.explain: {', '.join(SPARK_MODES)}.",
                    hint=did_you_mean(asked, SPARK_MODES),
                )
        return start_text(
            self._look_ahead(plan if isinstance(plan, str) and plan not in SPARK_MODES else AUTO, settings)
        )


class SparkQuery(_Explained):
    """A query over streaming DataFrames."""

    def __init__(self, query: Query, frames: Mapping[str, Any], statistics: Statistics) -> None:
        super().__init__(query, statistics)
        self._frames = frames

    @property
    def writeStream(self) -> StreamWriter:
        """Where the results go, and how the query runs: as `DataFrame.writeStream`."""
        from watersmeet.runtime.spark.writer import StreamWriter

        return StreamWriter(self.query, self._frames, self.statistics)

    def explain(
        self,
        plan: str | bool | None = AUTO,
        *,
        extended: bool | str | None = None,
        mode: str | None = None,
        **options: Any,
    ) -> str:
        """How the query would run with these options, as text: those that `start` of a `writeStream` takes.

        What they would refuse is refused. What `DataFrame.explain` takes is accepted too, as in `explain(True)` and
        `explain(mode="formatted")`; there is one text for all of it. Nothing is printed.
        """
        return self._explain(plan, extended, mode, options)

    def picture(self, plan: str = AUTO, **options: Any) -> str:
        """The same as an SVG picture, with estimated rates and sizes."""
        return start_picture(self._look_ahead(plan, options))

    def physical(self, plan: str = AUTO, **options: Any) -> PhysicalPlan:
        """The plan that a run with these options would have by its first batch."""
        return self._look_ahead(plan, options).plan

    def _look_ahead(self, plan: str, settings: Mapping[str, Any]) -> StartPlan:
        return self.writeStream.option("plan", plan).look_ahead(**settings)


class LocalQuery(_Explained):
    """A query over Arrow data, run in this process."""

    def __init__(self, query: Query, inputs: Mapping[str, _LocalInput], statistics: Statistics) -> None:
        super().__init__(query, statistics)
        self._inputs = inputs

    @takes_settings
    def run(
        self,
        *,
        batch_rows: int | None = None,
        report: Report = silent,
        clock: Clock | None = None,
        **settings: Unpack[Settings],
    ) -> pa.Table:
        """The whole answer as a table. For `batch_rows`, `report` and `clock` see `stream`."""
        batches = self.stream(batch_rows=batch_rows, report=report, clock=clock, **settings)
        return pa.Table.from_batches(batches, schema=self.schema)

    @takes_settings
    def stream(
        self,
        *,
        batch_rows: int | None = None,
        report: Report = silent,
        clock: Clock | None = None,
        **settings: Unpack[Settings],
    ) -> Iterator[pa.RecordBatch]:
        """The answer, a record batch at a time, as the input is read.

        A batch takes the next record batch of every stream; tables are cut into pieces of `batch_rows` rows (default:
        one piece). One that has more than `max_batch_rows` rows or `max_batch_bytes` bytes (default: 32 MB; "off": no
        limit) is joined in several batches, which changes no result: its watermark waits for the last of them.
        Under a budget (`memory`, `slot_memory`), state is spilled to a temporary folder, and all results come out at
        the end at the latest. Groups without windows need `output_mode="update"`: each batch yields those that it has
        changed.

        `report` is called with an event for each batch, as `watersmeet run --json` prints them. Time comes from
        `clock`; a `VirtualClock` makes runs repeat exactly.
        """
        sections = self._sections(settings)
        asked = run_settings(sections.run, sections.adapt, self.statistics)
        inputs = {name: data.batches(batch_rows) for name, data in self._inputs.items()}
        promises = Promises({name: data.replayable for name, data in self._inputs.items()}, idempotent=False)
        # Imported here: it takes longer than all that stands above, and to explain a query takes none of it.
        from watersmeet.runtime.local.in_memory import results_in_memory

        yield from results_in_memory(self.query, asked, inputs, sections.run.batch.limits, promises, report, clock)

    @takes_settings
    def explain(
        self,
        plan: str | bool | None = AUTO,
        *,
        extended: bool | str | None = None,
        mode: str | None = None,
        batch_rows: int | None = None,
        report: Report = silent,
        clock: Clock | None = None,
        **settings: Unpack[SettingsBesidePlan],
    ) -> str:
        """How the query would run with these settings, as text: those that `run` takes.

        What they would refuse is refused. What `DataFrame.explain` takes is accepted too, as in `explain(True)` and
        `explain(mode="formatted")`; there is one text for all of it. Nothing is printed. `batch_rows`, `report` and
        `clock` are accepted as in `run`; no plan depends on them.
        """
        return self._explain(plan, extended, mode, settings)

    @takes_settings
    def picture(self, plan: str = AUTO, **settings: Unpack[SettingsBesidePlan]) -> str:
        """The same as an SVG picture, with estimated rates and sizes."""
        return start_picture(self._look_ahead(plan, settings))

    @takes_settings
    def physical(self, plan: str = AUTO, **settings: Unpack[SettingsBesidePlan]) -> PhysicalPlan:
        """The plan that a run with these settings would have by its first batch."""
        return self._look_ahead(plan, settings).plan

    def _look_ahead(self, plan: str, settings: Mapping[str, Any]) -> StartPlan:
        sections = self._sections({**settings, "plan": plan})
        asked = run_settings(sections.run, sections.adapt, self.statistics)
        return look_ahead(self.query, asked, None, LOCAL, costs=stored_costs)

    def _sections(self, settings: Mapping[str, Any]) -> Sections:
        sections = Sections(RunSection(runtime=LOCAL)).having(read_arguments(settings))
        check_output_mode(self.query, sections.sink.mode, 'output_mode="update"')
        return sections


class _LocalInput:
    """A stream given as Arrow data: its schema, and its record batches in order."""

    def __init__(self, schema: pa.Schema, table: pa.Table | None, batches: Iterable[pa.RecordBatch]) -> None:
        self.schema = normal_schema(schema)
        self._table = table
        self._batches = batches

    @property
    def replayable(self) -> bool:
        """Whether each run can read it: a table or a list, and not what is gone once it was read."""
        return self._table is not None or isinstance(self._batches, Sequence)

    @classmethod
    def of(cls, name: str, data: Any) -> _LocalInput:
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        elif not isinstance(data, (pa.Table, pa.RecordBatchReader)) and hasattr(data, "__arrow_c_stream__"):
            data = pa.table(data)
        if isinstance(data, pa.Table):
            return cls(data.schema, data, ())
        if isinstance(data, pa.RecordBatchReader):
            return cls(data.schema, None, data)
        if isinstance(data, Iterable):
            rest = iter(data)
            first = next(rest, None)
            if isinstance(first, pa.RecordBatch):
                again = isinstance(data, Sequence)  # a list can be read by each run, an iterator by one
                return cls(first.schema, None, data if again else itertools.chain([first], rest))
            if first is None:
                raise JobError(
                    f'stream "{name}" has no record batches',
                    hint="An empty stream still needs a schema: pass an empty Arrow table.",
                )
        raise JobError(
            f'stream "{name}" is a {type(data).__name__}',
            detail="A stream is a Spark streaming DataFrame, an Arrow table, anything that exports an Arrow stream, "
            "or an iterable of record batches.",
        )

    def batches(self, batch_rows: int | None) -> Iterable[pa.RecordBatch]:
        if self._table is None:
            return self._batches
        step = batch_rows or max(1, self._table.num_rows)
        pieces = (self._table.slice(start, step) for start in range(0, self._table.num_rows, step))
        return (concat(piece.to_batches(), piece.schema) for piece in pieces)
