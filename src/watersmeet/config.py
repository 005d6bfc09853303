"""The job file: TOML text to frozen settings, every mistake told with what was expected.

`load_job(path, overrides)` reads a file, `parse_job(text, origin, overrides)` a text. An override is `"run.slots=4"`,
or `"slots=4"`: it replaces one value before anything is checked. Then `${NAME}` in a text gives way to an environment
variable (`references.py`). Paths in a job are left as written: a relative one is relative to the current folder, never
to the job file. Nothing is opened but the job file itself; the query is not parsed here. The `repr` of a job shows no
value that may be secret.

Keys, types, ranges and defaults are declared in `settings/`. Here is what is more than that: checks that concern
several keys, schemas, sources, and the names of Spark settings.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet.errors import JobError, WatersmeetError, did_you_mean
from watersmeet.lang.types import parse_schema
from watersmeet.model.intake import BatchSettings
from watersmeet.model.sql_names import sql_type
from watersmeet.model.streams import Stream, parse_max_ahead
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.output_mode import refuse_gathering
from watersmeet.references import refuse_secret_on_command_line, resolve
from watersmeet.settings.adapt import AdaptSection
from watersmeet.settings.declaration import with_values
from watersmeet.settings.every import ADAPT, OF_A_RUN, RUN, SINK, STATS, TOP, Sections
from watersmeet.settings.kinds import Place, kind_of, wrong_type
from watersmeet.settings.run import LOCAL, SPARK, WAIT, RunSection, RunSettings, run_settings
from watersmeet.settings.section import KEYS_OF_TOP, Section
from watersmeet.settings.sink import PARQUET, SinkSection
from watersmeet.settings.stream import StatsSection, StreamSection

FILE_FORMATS = ("parquet", "csv", "json")  # all that the local runtime reads; on Spark they need a path
GENERATED_FORMATS = ("synthetic", "nexmark")  # written to files by `watersmeet generate`; not yet read live

OptionValue = str | int | float | bool


@dataclass(frozen=True)
class SourceConfig:
    """`[streams.NAME]`: where a stream's rows come from."""

    name: str
    format: str
    schema: pa.Schema
    path: str | None = field(default=None, repr=False)  # which may be with a secret, as options may be
    time: str = StreamSection.time
    lateness: timedelta = StreamSection.lateness
    max_ahead: timedelta | None = None
    ahead_of: str | None = None
    time_unit: str | None = None
    batch: BatchSettings = BatchSettings()  # noqa: RUF009 - frozen
    moved: bool | None = None  # whether files that lie elsewhere now are those that were read; None: by names and times
    options: Mapping[str, OptionValue] = field(default_factory=dict, repr=False)


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
    sections: Sections
    spark: SparkConfig
    stats: Statistics = field(default_factory=Statistics)

    @property
    def run(self) -> RunSection:
        return self.sections.run

    @property
    def sink(self) -> SinkSection:
        return self.sections.sink

    @property
    def adapt(self) -> AdaptSection:
        return self.sections.adapt

    @property
    def settings(self) -> RunSettings:
        """What the runtime is told."""
        return run_settings(self.run, self.adapt, self.stats)

    def streams(self) -> dict[str, Stream]:
        """The streams that the query may read, by name."""
        return {
            s.name: Stream(s.name, s.schema, s.time, s.lateness, s.max_ahead, s.ahead_of, s.time_unit)
            for s in self.sources.values()
        }


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

    >>> _parse_override("run.slots=4"), _parse_override("plan=((A B) C)")
    ({'run': {'slots': 4}}, {'adapt': {'plan': '((A B) C)'}})
    """
    try:
        return _in_sections(tomllib.loads(override))
    except tomllib.TOMLDecodeError:
        key, equals, value = override.partition("=")
    try:
        if equals:
            return _in_sections(tomllib.loads(f"{key} = {json.dumps(value.strip(), ensure_ascii=False)}"))
    except tomllib.TOMLDecodeError:
        pass
    raise JobError(
        f'setting "{override}" cannot be read',
        detail="It is a section, a dot, a key, an equals sign and a value. The settings of a run need no section.",
        hint="For example --set run.slots=4, or --set slots=4.",
    )


def _in_sections(change: dict[str, Any]) -> dict[str, Any]:
    """With the section of each setting that was named without it."""
    found: dict[str, Any] = {}
    for name, value in change.items():
        if name in KEYS_OF_TOP or name not in OF_A_RUN:
            found[name] = value
        else:
            found.setdefault(OF_A_RUN[name][0], {})[name] = value
    return found


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
    top = Section(TOP, data)
    query = top.get("query", str)
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
    run = _read_run(Section(RUN, top.table(RUN)))
    job = Job(
        path=origin,
        query=query,
        sources={name: _read_source(name, streams, run) for name in streams},
        sections=Sections(
            run,
            _read_sink(Section(SINK, top.table(SINK))),
            with_values(AdaptSection(), Section(ADAPT, top.table(ADAPT)).values()),
        ),
        spark=_read_spark(top.table("spark")),
        stats=_read_stats(Section(STATS, top.table(STATS))),
    )
    _check_folders(job)
    job.streams()  # a stream checks its event-time column when it is made
    _ = job.adapt.ring_way  # which checks itself
    return job


def _check_folders(job: Job) -> None:
    """Refuse one folder for two things: results among the files of a stream would be read as its rows."""
    taken = {one_folder(s.path): f'stream "{name}"' for name, s in job.sources.items() if s.path is not None}
    written = {
        "the results": job.sink.path if job.sink.format == PARQUET else None,
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


def _read_source(name: str, streams: Mapping[str, Any], run: RunSection) -> SourceConfig:
    if not isinstance(streams[name], dict):
        raise JobError(
            f'"{name}" in [streams] is {kind_of(streams[name])}, not a section',
            hint=f"Each stream has a section of its own: [streams.{name}].",
        )
    section = Section(f"streams.{name}", streams[name])
    given = with_values(StreamSection(), section.values(f' of stream "{name}"'))
    if given.format is None:
        raise section.lacks("format", "It says where the rows come from: parquet, csv, json, or a Spark source.")
    if given.format in GENERATED_FORMATS:
        raise JobError(
            f'format "{given.format}" of stream "{name}" is not supported yet',
            detail="Generated streams are read from files in this version.",
            hint=f"Write them with: watersmeet generate {given.format} --out DIR, and read DIR/{name} as parquet.",
        )
    if run.runtime == LOCAL and given.format not in FILE_FORMATS:
        raise JobError(
            f'format "{given.format}" of stream "{name}" is not for the local runtime',
            detail=f"The local runtime reads {', '.join(FILE_FORMATS)}.",
            hint=did_you_mean(given.format, FILE_FORMATS) or 'Use runtime = "spark" in [run].',
        )
    if given.path is None and given.format in FILE_FORMATS:
        raise section.lacks("path", f"It is the file or folder that holds the {given.format} files.")
    if given.schema is None:
        raise section.lacks("schema", 'It lists the columns, as in "k BIGINT, v BIGINT, ts TIMESTAMP".')
    schema = parse_schema(given.schema, what=f'schema of stream "{name}"')
    _refuse_lists_in_text(name, given.format, schema)
    return SourceConfig(
        name=name,
        format=given.format,
        schema=schema,
        path=given.path,
        time=given.time,
        lateness=given.lateness,
        max_ahead=parse_max_ahead(given.max_ahead, name),
        time_unit=given.time_unit,
        ahead_of=given.ahead_of,
        batch=BatchSettings(given.max_batch_rows, given.max_batch_bytes).over(run.batch),
        moved=given.moved,
        options=flatten(given.options or {}, f"options of [streams.{name}]"),
    )


def _refuse_lists_in_text(name: str, format_: str, schema: pa.Schema) -> None:
    for column in schema:
        if format_ in ("csv", "json") and pa.types.is_nested(column.type):
            raise JobError(
                f'column "{column.name}" of stream "{name}" is of type {sql_type(column.type)}, which {format_} lacks',
                detail="Lists are read from parquet, and on Spark from other formats that have them.",
            )


def _read_stats(section: Section) -> Statistics:
    """Rates by input and selectivities by pair of inputs; the names are checked against the query later."""
    given = with_values(StatsSection(), section.values())
    return Statistics(
        {name: _number(value, f'rate of "{name}" in [stats]') for name, value in (given.rates or {}).items()},
        {
            name: _number(value, f'selectivity of "{name}" in [stats]')
            for name, value in (given.selectivity or {}).items()
        },
        repeats={
            name: _number(value, f'repeats of "{name}" in [stats]') for name, value in (given.repeats or {}).items()
        },
    )


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= sys.float_info.max:
        raise JobError(f"{what} is {kind_of(value)} {value!r}", detail="It is a finite number from 0 up.")
    return float(value)


def _read_sink(section: Section) -> SinkSection:
    sink = with_values(SinkSection(), section.values())
    if sink.deliver_every is not None:
        refuse_gathering(sink.mode, "deliver_every")
    if sink.format == PARQUET and sink.path is None:
        raise section.lacks("path", "It is the folder that the results go to.", 'To discard them: format = "noop".')
    return sink


def _read_run(section: Section) -> RunSection:
    run = with_values(RunSection(), section.values())
    if run.runtime == SPARK and run.checkpoint is None:
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


def _read_spark(data: Mapping[str, Any]) -> SparkConfig:
    master = data.get("master", SparkConfig.master)
    if not isinstance(master, str):
        raise wrong_type(Place("master", " in [spark]"), "a string", master)
    conf = flatten({key: value for key, value in data.items() if key != "master"}, "[spark]")
    for key in conf:
        if not key.startswith("spark."):
            raise JobError(
                f'"{key}" in [spark] is not a Spark setting',
                detail='Beside "master", the keys of [spark] are names of Spark settings, which begin with "spark.".',
                hint=did_you_mean(key, ["master"]) or f'For example "spark.{key}" = ..',
            )
    return SparkConfig(master, {key: _spark_text(value) for key, value in conf.items()})


def flatten(data: Mapping[str, Any], where: str, prefix: str = "") -> dict[str, OptionValue]:
    """Dotted keys that were not quoted make nested tables in TOML; join them again.

    >>> flatten({"spark": {"sql": {"ansi": True}}, "spark.ui.enabled": False}, "[spark]")
    {'spark.sql.ansi': True, 'spark.ui.enabled': False}
    """
    result: dict[str, OptionValue] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            result |= flatten(value, where, f"{prefix}{key}.")
        elif isinstance(value, str | int | float | bool):
            result[prefix + key] = value
        else:
            raise wrong_type(Place(prefix + key, f" in {where}"), "a string, a number or true or false", value)
    return result


def _spark_text(value: OptionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
