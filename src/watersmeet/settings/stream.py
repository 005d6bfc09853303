"""The sections `[streams.NAME]` and `[stats]`: where the rows of a stream come from, and what is known of streams.

In Python the data of a stream is given to `wm.sql`, which has an argument for each of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from watersmeet.model.time_units import TIME_UNITS
from watersmeet.settings.declaration import Surface, setting
from watersmeet.settings.kinds import Duration, Flag, Folder, OneOf, RowLimit, SizeLimit, Table, Text

_DATA = {
    Surface.SPARK: "A stream is a streaming DataFrame, which is given to wm.sql.",
    Surface.PYTHON: "A stream is Arrow data, which is given to wm.sql.",
}
_FIGURE = {"type": "number", "minimum": 0}


@dataclass(frozen=True)
class StreamSection:
    """`[streams.NAME]`, as it is written."""

    format: str | None = setting(
        Text(),
        None,
        "The form of the rows, or the name of a Spark source.",
        more="`parquet`, `csv`, `json`; on Spark also the name of any Spark source. (`synthetic` and `nexmark` are "
        "written to files by `watersmeet generate` and read from there.)",
        required=True,
        elsewhere=_DATA,
    )
    path: str | None = setting(
        Folder(),
        None,
        "The folder or file to read: a path, or an address such as `s3://bucket/in`.",
        unset="required for `parquet`, `csv`, `json`",
        elsewhere=_DATA,
    )
    schema: str | None = setting(
        Text(),
        None,
        'The columns, as in `"k BIGINT, price DECIMAL(10, 2), ts TIMESTAMP"`.',
        more="[Types](query-language.md#types) may be lists, `ARRAY<FLOAT>` and `FLOAT[64]`, but not in CSV and JSON.",
        required=True,
        elsewhere=_DATA,
    )
    time: str = setting(Text(), "ts", "The event-time column: a TIMESTAMP, or a BIGINT in `time_unit`.")
    time_unit: str | None = setting(
        OneOf(TIME_UNITS),
        None,
        "What a BIGINT event time counts, since 1970: `s`, `ms`, `us` or `ns`.",
        more="If it is not set and times are before 1980 or after 2099, the run says so once. See "
        "[below](#event-times-that-are-integers).",
        unset='`"us"`',
    )
    lateness: timedelta = setting(
        Duration(),
        timedelta(0),
        "How far out of order a row may come.",
        more="A row that is older is late: counted, never joined.",
        unset='`"0 seconds"`',
    )
    max_ahead: str | None = setting(
        Text(),
        None,
        "How far ahead of `ahead_of` a row may be.",
        more="A row that is further ahead, such as one dated in the year 2100 by mistake, is counted and never joined, "
        "and "
        'does not move the watermark. Example: `"1 hour"`. See [below](#rows-that-are-ahead).',
        unset='`"off"`',
    )
    ahead_of: str | None = setting(
        Text(),
        None,
        "What `max_ahead` is measured from: the `clock`, or the progress of all `streams`.",
        unset='`"clock"` for a TIMESTAMP, `"streams"` for a BIGINT',
    )
    moved: bool | None = setting(
        Flag(),
        None,
        "Whether files that lie elsewhere than when they were read are the same files.",
        more="`true`: those of the same names are the same, and are not read again; `false`: they are others. See "
        "[below](#files-that-move). Local runtime.",
        unset="by names and times",
        elsewhere=_DATA,
    )
    max_batch_rows: int | str | None = setting(
        RowLimit(),
        None,
        "The most rows that a batch takes of this stream.",
        more="See [below](#large-batches).",
        unset="that of `[run]`",
        elsewhere=_DATA,
    )
    max_batch_bytes: int | str | None = setting(
        SizeLimit(),
        None,
        "The most bytes that a batch takes of this stream.",
        unset="that of `[run]`",
        elsewhere=_DATA,
    )
    options: Mapping[str, Any] | None = setting(
        Table({"type": ["string", "number", "boolean", "object"]}),
        None,
        "Options of the source: strings, numbers, true or false.",
        more="Example: `{ maxFilesPerTrigger = 1 }`. See below.",
        unset="`{}`",
        elsewhere=_DATA,
    )


@dataclass(frozen=True)
class StatsSection:
    """`[stats]`, as it is written."""

    rates: Mapping[str, Any] | None = setting(
        Table(_FIGURE),
        None,
        "Rows a second, by input.",
        more="Example: `{ A = 100, B = 20 }`.",
        unset="1000 for each input",
    )
    selectivity: Mapping[str, Any] | None = setting(
        Table(_FIGURE),
        None,
        "Outputs over possible outputs of a pair of inputs, all predicates between them together.",
        more='Example: `{ "A B" = 0.01 }`.',
        unset="one partner in the larger window for an equality, 1/3 for another predicate",
    )
    repeats: Mapping[str, Any] | None = setting(
        Table(_FIGURE),
        None,
        "Where results are grouped: how many rows of an input, of those that come in one batch, agree in all that "
        "matters to the groups.",
        more="They can be [combined](#groups-below-joins). Example: `{ A = 20 }`.",
        unset="what was measured; before that, none agree",
    )
