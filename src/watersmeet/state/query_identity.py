"""What a manifest says of the query that it belongs to, as data; `state/identity.py` makes it and compares it.

Of each stream it has the columns that the query reads, in the order of its schema, and no others: a column beside them
may be added, moved or dropped, and nothing here changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

from watersmeet.model.quantities import microseconds
from watersmeet.model.streams import Stream
from watersmeet.model.time_units import MICROSECONDS
from watersmeet.model.type_json import type_from_json, type_to_json


@dataclass(frozen=True)
class StreamIdentity:
    """A stream as far as a query reads it."""

    columns: tuple[tuple[str, pa.DataType], ...]
    time: str
    lateness_us: int
    time_unit: str = MICROSECONDS

    @classmethod
    def of(cls, stream: Stream, read: tuple[str, ...]) -> StreamIdentity:
        columns = tuple((name, stream.schema.field(name).type) for name in read)
        return cls(columns, stream.time, microseconds(stream.lateness), stream.time_column.unit)

    @property
    def types(self) -> dict[str, pa.DataType]:
        return dict(self.columns)

    @property
    def counts(self) -> bool:
        """Whether its event time is a number, and need not be a date."""
        return bool(pa.types.is_int64(self.types[self.time]))

    def stream(self, name: str) -> Stream:
        """The stream of this name, with the columns that are read alone."""
        lateness = timedelta(microseconds=self.lateness_us)
        unit = self.time_unit if self.counts else None
        return Stream(name, pa.schema(self.columns), self.time, lateness, time_unit=unit)

    def to_json(self) -> dict[str, Any]:
        columns = [{"name": name, "type": type_to_json(kind)} for name, kind in self.columns]
        unit = {} if self.time_unit == MICROSECONDS else {"time_unit": self.time_unit}
        return {"columns": columns, "time": self.time, **unit, "lateness_us": self.lateness_us}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StreamIdentity:
        columns = tuple((entry["name"], type_from_json(entry["type"])) for entry in data["columns"])
        return cls(columns, data["time"], data["lateness_us"], data.get("time_unit", MICROSECONDS))


@dataclass(frozen=True)
class QueryIdentity:
    """What a checkpoint belongs to: the query, and the streams that it reads."""

    text: str
    streams: Mapping[str, StreamIdentity]
    digest: str
    prepared: Mapping[str, str] = field(
        default_factory=dict
    )  # what functions of the user's prepare of rows -> its type
