"""The job file: TOML text to frozen settings, every mistake told with what was expected.

`load_job(path, overrides)` reads a file, `parse_job(text, origin, overrides)` a text. An override is `"run.slots=4"`:
it replaces one value before anything is checked. Then `${NAME}` in a text gives way to an environment variable
(`references.py`). Paths in a job are left as written: a relative one is relative to the current folder, never to the
job file. Nothing is opened but the job file itself; the query is not parsed here. The `repr` of a job shows no value
that may be secret.

To add a setting: a field in its dataclass, its key in `SECTIONS` (`sections.py`), its line in the function that reads
the section, and a row in `docs/job-file.md`.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet.adapt_section import AdaptConfig, read_adapt
from watersmeet.errors import JobError, WatersmeetError, did_you_mean
from watersmeet.lang.types import parse_schema, sql_type
from watersmeet.model.intake import BatchSettings, parse_limits
from watersmeet.model.placement import DEFAULT_GROUPS, DEFAULT_SLOTS, check_slots
from watersmeet.model.quantities import microseconds, parse_bytes, parse_cores, parse_duration
from watersmeet.model.streams import Stream, parse_max_ahead
from watersmeet.optimize.cost import Limits
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.output_mode import OUTPUT_MODES, refuse_gathering
from watersmeet.references import refuse_secret_on_command_line, resolve
from watersmeet.sections import OptionValue, Section, flatten, kind_of, wrong_type
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.state.retention import VERSIONS_KEPT, Retention
from watersmeet.state.syncing import DURABILITIES

RUNTIMES = ("spark", "local")
FILE_FORMATS = ("parquet", "csv", "json")  # all that the local runtime reads; on Spark they need a path
GENERATED_FORMATS = ("synthetic", "nexmark")  # written to files by `watersmeet generate`; not yet read live
SINK_FORMATS = ("parquet", "noop")
REFUSE, APPEND = "refuse", "append"
EXISTING = (REFUSE, APPEND)  # what to do about results of another checkpoint in the output; the first is the default
# Adaptations of the design that this version does not have.
AVAILABLE_NOW = "available-now"
CLOSE, WAIT = "close", "wait"
AT_END = (CLOSE, WAIT)  # what the end of a finite input means to results that wait for watermarks


@dataclass(frozen=True)
class SourceConfig:
    """`[streams.NAME]`: where a stream's rows come from."""

    name: str
    format: str
    schema: pa.Schema
    path: str | None = field(default=None, repr=False)  # which may be with a secret, as options may be
    time: str = "ts"
    lateness: timedelta = timedelta(0)
    max_ahead: timedelta | None = None
    ahead_of: str | None = None
    batch: BatchSettings = BatchSettings()  # noqa: RUF009 - frozen
    moved: bool | None = None  # whether files that lie elsewhere now are those that were read; None: by names and times
    options: Mapping[str, OptionValue] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class SinkConfig:
    """`[sink]`: where results go, and late rows if a folder is given for them."""

    format: str = "parquet"
    path: str | None = field(default=None, repr=False)
    late: str | None = field(default=None, repr=False)
    existing: str = EXISTING[0]
    max_rows_per_file: int | None = None
    deliver_every: timedelta | None = None  # None: each batch at once
    mode: str = APPEND  # or update, for running totals


@dataclass(frozen=True)
class RunConfig:
    """`[run]`. `memory` is in bytes and `cores` for planning, None = unlimited; `trigger` None = all, then end."""

    runtime: str = "spark"
    checkpoint: str | None = field(default=None, repr=False)
    slots: int = DEFAULT_SLOTS
    groups: int = DEFAULT_GROUPS
    memory: int | None = None
    slot_memory: int | None = None
    slot_weights: tuple[float, ...] = ()
    cores: float | None = None
    trigger: timedelta | None = None
    cache: str | None = None
    at_end: str = CLOSE
    durability: str = DURABILITIES[0]
    retention: Retention = Retention()  # noqa: RUF009 - frozen
    batch: BatchSettings = BatchSettings()  # noqa: RUF009 - frozen

    @property
    def limits(self) -> Limits:
        """What a plan may cost."""
        return Limits(self.cores or math.inf, self.memory or math.inf)


@dataclass(frozen=True)
class SparkConfig:
    """`[spark]`: the master, and Spark settings by their full names."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Job:
    """A whole job, checked as far as it can be without reading the query or a source."""

    path: str  # of the job file
    query: str
    sources: Mapping[str, SourceConfig]
    sink: SinkConfig
    run: RunConfig
    adapt: AdaptConfig
    spark: SparkConfig
    stats: Statistics = field(default_factory=Statistics)

    def streams(self) -> dict[str, Stream]:
        """The streams that the query may read, by name."""
        return {
            s.name: Stream(s.name, s.schema, s.time, s.lateness, s.max_ahead, s.ahead_of) for s in self.sources.values()
        }

    @property
    def memory(self) -> AdaptSettings:
        threads = self.run.runtime == "local"
        settings = self.adapt.memory(self.run.memory, self.run.slot_memory, self.run.slot_weights, by_cpu=threads)
        pace = self.run.trigger, self.run.slots
        return replace(settings, scale=settings.scale.following(*pace), ring=settings.ring.following(*pace))


def load_job(path: str | Path, overrides: Sequence[str] = ()) -> Job:
    """The job in the file at `path`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise JobError(
            f'job file "{path}" does not exist',
            detail=f"Looked for {Path(path).absolute()}.",
            hint="Give the path of a TOML job file.",
        ) from None
    except UnicodeDecodeError as error:
        raise JobError(f'job file "{path}" is not UTF-8 text', detail=f"{error}.") from None
    except OSError as error:
        raise JobError(f'job file "{path}" cannot be read', detail=f"{error.strerror}.") from None
    return parse_job(text, str(path), overrides)


def parse_job(text: str, origin: str, overrides: Sequence[str] = ()) -> Job:
    """The job that `text` describes; `origin` names it in errors, `overrides` are `section.key=value`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f'job file "{origin}" is not valid TOML', detail=_point_at(text, str(error))) from None
    for override in overrides:
        change = _parse_override(override)
        refuse_secret_on_command_line("", change)
        _merge(data, change, override)
    resolved = resolve(data, os.environ)
    try:
        return _read_job(resolved.data, origin)
    except WatersmeetError as error:
        for value, reference in resolved.shown.items():
            error.replace(value, reference)
        raise


def _point_at(text: str, message: str) -> str:
    place = re.search(r"at line (\d+), column (\d+)", message)
    if place is None:
        return f"{message}."
    line, column = int(place[1]), int(place[2])
    label = f"line {line}: "
    written = text.split("\n")[line - 1] if line <= text.count("\n") + 1 else ""
    return f"{message}.\n  {label}{written}\n  {' ' * (len(label) + column - 1)}^"


def _parse_override(override: str) -> dict[str, Any]:
    """The override as a nested table. A value that is not TOML is taken as text.

    >>> _parse_override("run.slots=4"), _parse_override("adapt.plan=((A B) C)")
    ({'run': {'slots': 4}}, {'adapt': {'plan': '((A B) C)'}})
    """
    try:
        return tomllib.loads(override)
    except tomllib.TOMLDecodeError:
        key, equals, value = override.partition("=")
    try:
        if equals:
            return tomllib.loads(f"{key} = {json.dumps(value.strip(), ensure_ascii=False)}")
    except tomllib.TOMLDecodeError:
        pass
    raise JobError(
        f'setting "{override}" cannot be read',
        detail="A setting is a section, a dot, a key, an equals sign and a value.",
        hint="For example --set run.slots=4.",
    )


def _merge(data: dict[str, Any], change: Mapping[str, Any], override: str) -> None:
    for key, value in change.items():
        if not isinstance(value, dict) or key not in data:
            data[key] = value
        elif isinstance(data[key], dict):
            _merge(data[key], value, override)
        else:
            raise JobError(
                f'setting "{override}" goes inside a value', detail=f'"{key}" is {kind_of(data[key])}, not a section.'
            )


def _read_job(data: dict[str, Any], origin: str) -> Job:
    top = Section("", data)
    query = top.text("query")
    if query is None or not query.strip():
        raise JobError(
            f'job file "{origin}" has no query',
            detail='The top of the file, before the first section, holds query = "SELECT ..".'
            if query is None
            else "The text is empty.",
        )
    streams = top.table("streams")
    if not streams:
        raise JobError(
            f'job file "{origin}" has no streams',
            detail="Each stream that the query reads has a section [streams.NAME].",
        )
    run = _read_run(Section("run", top.table("run")))
    job = Job(
        path=origin,
        query=query,
        sources={name: _read_source(name, streams, run.runtime, run.batch) for name in streams},
        sink=_read_sink(Section("sink", top.table("sink"))),
        run=run,
        adapt=read_adapt(top.table("adapt")),
        spark=_read_spark(top.table("spark")),
        stats=_read_stats(Section("stats", top.table("stats"))),
    )
    _check_folders(job)
    job.streams()  # a stream checks its event-time column when it is made
    return job


def _check_folders(job: Job) -> None:
    """Refuse one folder for two things: results among the files of a stream would be read as its rows."""
    taken = {one_folder(s.path): f'stream "{name}"' for name, s in job.sources.items() if s.path is not None}
    written = {
        "the results": job.sink.path if job.sink.format == "parquet" else None,
        "late rows": job.sink.late,
        "the checkpoint": job.run.checkpoint,
    }
    for what, path in written.items():
        if path is None:
            continue
        other = taken.setdefault(one_folder(path), what)
        if other != what:
            raise JobError(
                f'folder "{path}" is for {other} and for {what}',
                detail="Each of them needs a folder of its own.",
            )


def one_folder(path: str) -> str:
    """One text for all ways to write the same folder.

    >>> one_folder("/in/./A/") == one_folder("/in/A"), one_folder("s3://bucket/in/")
    (True, 's3://bucket/in')
    """
    return path.rstrip("/") if "://" in path else os.path.realpath(path)


def _read_source(name: str, streams: Mapping[str, Any], runtime: str, of_all: BatchSettings) -> SourceConfig:
    if not isinstance(streams[name], dict):
        raise JobError(
            f'"{name}" in [streams] is {kind_of(streams[name])}, not a section',
            hint=f"Each stream has a section of its own: [streams.{name}].",
        )
    section = Section(f"streams.{name}", streams[name])
    format_ = section.text("format")
    if format_ is None:
        raise section.lacks("format", "It says where the rows come from: parquet, csv, json, or a Spark source.")
    if format_ in GENERATED_FORMATS:
        raise JobError(
            f'format "{format_}" of stream "{name}" is not supported yet',
            detail="Generated streams are read from files in this version.",
            hint=f"Write them with: watersmeet generate {format_} --out DIR, and read DIR/{name} as parquet.",
        )
    if runtime == "local" and format_ not in FILE_FORMATS:
        raise JobError(
            f'format "{format_}" of stream "{name}" is not for the local runtime',
            detail=f"The local runtime reads {', '.join(FILE_FORMATS)}.",
            hint=did_you_mean(format_, FILE_FORMATS) or 'Use runtime = "spark" in [run].',
        )
    path = section.place("path")
    if path is None and format_ in FILE_FORMATS:
        raise section.lacks("path", f"It is the file or folder that holds the {format_} files.")
    schema_text = section.text("schema")
    if schema_text is not None:
        schema = parse_schema(schema_text, what=f'schema of stream "{name}"')
        _refuse_lists_in_text(name, format_, schema)
    else:
        raise section.lacks("schema", 'It lists the columns, as in "k BIGINT, v BIGINT, ts TIMESTAMP".')
    lateness = section.text("lateness")
    return SourceConfig(
        name=name,
        format=format_,
        schema=schema,
        path=path,
        time=section.text_or("time", SourceConfig.time),
        lateness=timedelta(0) if lateness is None else parse_duration(lateness, f'lateness of stream "{name}"'),
        max_ahead=parse_max_ahead(section.text("max_ahead"), name),
        ahead_of=section.text("ahead_of"),
        batch=_read_limits(section).over(of_all),
        moved=section.get("moved", (bool,)),
        options=flatten(section.table("options"), f"options of [streams.{name}]"),
    )


def _refuse_lists_in_text(name: str, format_: str, schema: pa.Schema) -> None:
    for column in schema:
        if format_ in ("csv", "json") and pa.types.is_nested(column.type):
            raise JobError(
                f'column "{column.name}" of stream "{name}" is of type {sql_type(column.type)}, which {format_} lacks',
                detail="Lists are read from parquet, and on Spark from other formats that have them.",
            )


def _read_limits(section: Section) -> BatchSettings:
    rows, size = section.get("max_batch_rows", (int, str)), section.get("max_batch_bytes", (int, str))
    return parse_limits(rows, size, f" in {section.where}")


def _read_stats(section: Section) -> Statistics:
    """Rates by input and selectivities by pair of inputs; the names are checked against the query later."""
    return Statistics(
        {name: _number(value, f'rate of "{name}" in [stats]') for name, value in section.table("rates").items()},
        {
            name: _number(value, f'selectivity of "{name}" in [stats]')
            for name, value in section.table("selectivity").items()
        },
        repeats={
            name: _number(value, f'repeats of "{name}" in [stats]') for name, value in section.table("repeats").items()
        },
    )


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= sys.float_info.max:
        raise JobError(f"{what} is {kind_of(value)} {value!r}", detail="It is a finite number from 0 up.")
    return float(value)


def _read_sink(section: Section) -> SinkConfig:
    every = section.text("deliver_every")
    sink = SinkConfig(
        format=section.choice("format", SINK_FORMATS, SinkConfig.format),
        path=section.place("path"),
        late=section.place("late"),
        existing=section.choice("existing", EXISTING, SinkConfig.existing),
        max_rows_per_file=section.positive("max_rows_per_file", 0) or None,
        deliver_every=None if every is None else parse_duration(every, "deliver_every"),
        mode=section.choice("mode", OUTPUT_MODES, SinkConfig.mode),
    )
    if sink.deliver_every is not None:
        refuse_gathering(sink.mode, "deliver_every")
    if sink.format == "parquet" and sink.path is None:
        raise section.lacks("path", "It is the folder that the results go to.", 'To discard them: format = "noop".')
    return sink


def _read_run(section: Section) -> RunConfig:
    memory, slot_memory = section.get("memory", (str, int)), section.get("slot_memory", (str, int))
    trigger = section.text_or("trigger", AVAILABLE_NOW)
    run = RunConfig(
        runtime=section.choice("runtime", RUNTIMES, RunConfig.runtime),
        checkpoint=section.place("checkpoint"),
        slots=section.positive("slots", RunConfig.slots),
        groups=section.positive("groups", RunConfig.groups),
        memory=None if memory is None else parse_bytes(memory, "memory"),
        slot_memory=None if slot_memory is None else parse_bytes(slot_memory, "slot_memory"),
        slot_weights=tuple(map(float, _read_weights(section))),
        cores=parse_cores(section.get("cores", (int, float))),
        trigger=None if trigger == AVAILABLE_NOW else _read_trigger(trigger),
        cache=section.place("cache"),
        at_end=section.choice("at_end", AT_END, RunConfig.at_end),
        durability=section.choice("durability", DURABILITIES, RunConfig.durability),
        retention=read_retention(section.positive("keep_versions", VERSIONS_KEPT), section.text("keep_for")),
        batch=_read_limits(section),
    )
    check_slots(run.slots, run.groups)
    if run.runtime == "spark" and run.checkpoint is None:
        raise section.lacks(
            "checkpoint",
            "The spark runtime keeps its state and its progress in that folder.",
            'For example checkpoint = "ck". The local runtime can do without.',
        )
    if run.at_end == WAIT and run.checkpoint is None:
        raise section.lacks(
            "checkpoint",
            'With at_end = "wait", results wait there for the next run; without one they would be lost.',
            'For example checkpoint = "ck".',
        )
    return run


def _read_weights(section: Section) -> list[float]:
    weights = section.get("slot_weights", (list,))
    if weights is None:
        return []
    check_weights(weights, section.positive("slots", RunConfig.slots))
    return list(weights)


def check_weights(weights: Sequence[Any], slots: int) -> None:
    """Refuse weights that are no numbers, or not one for each slot. That they are above 0 `BalanceSettings` sees to."""
    if not all(isinstance(weight, int | float) and not isinstance(weight, bool) for weight in weights):
        raise JobError(f'"slot_weights" is {list(weights)!r}', detail="It is a list of numbers such as [1, 0.5].")
    if len(weights) != slots:
        raise JobError(
            f'"slot_weights" has {len(weights)} numbers, and there are {slots} slots',
            detail="There is one for each slot, in their order.",
        )


def read_retention(versions: int, keep_for: str | None) -> Retention:
    """How many versions are kept, and for how long, as users write it."""
    kept_for = None if keep_for is None else parse_duration(keep_for, "keep_for")
    return Retention(versions, None if kept_for is None else microseconds(kept_for))


def _read_trigger(text: str) -> timedelta:
    try:
        return parse_duration(text, "trigger")
    except JobError as error:
        hint = did_you_mean(text, [AVAILABLE_NOW])
        raise JobError(
            f'trigger "{text}" is neither "{AVAILABLE_NOW}" nor a duration',
            detail=error.detail,
            hint=hint or error.hint,
        ) from None


def _read_spark(data: Mapping[str, Any]) -> SparkConfig:
    master = data.get("master", SparkConfig.master)
    if not isinstance(master, str):
        raise wrong_type("master", "[spark]", "a string", master)
    conf = flatten({key: value for key, value in data.items() if key != "master"}, "[spark]")
    for key in conf:
        if not key.startswith("spark."):
            raise JobError(
                f'"{key}" in [spark] is not a Spark setting',
                detail='Beside "master", the keys of [spark] are names of Spark settings, which begin with "spark.".',
                hint=did_you_mean(key, ["master"]) or f'For example "spark.{key}" = ..',
            )
    return SparkConfig(master, {key: _spark_text(value) for key, value in conf.items()})


def _spark_text(value: OptionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
