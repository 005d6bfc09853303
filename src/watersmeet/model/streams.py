"""What the query is about: streams, and windows over them. Frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from watersmeet.errors import JobError, did_you_mean


@dataclass(frozen=True)
class Stream:
    """A stream: rows of `schema`, with event time in column `time`, and rows at most `lateness` out of order.

    The event time is a timestamp, or an integer in microseconds. A row older than the largest time seen in earlier
    batches minus `lateness` is late: counted, and never joined.
    """

    name: str
    schema: pa.Schema
    time: str = "ts"
    lateness: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if self.time not in self.schema.names:
            raise JobError(
                f'stream "{self.name}" has no event-time column "{self.time}"',
                detail=f"Its columns are {', '.join(self.schema.names)}.",
                hint=did_you_mean(self.time, self.schema.names) or 'Name the column with "time".',
            )
        kind = self.schema.field(self.time).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_int64(kind)):
            raise JobError(
                f'event-time column "{self.time}" of stream "{self.name}" has type {kind}',
                detail="Event time is a TIMESTAMP, or a BIGINT in microseconds.",
            )
        if self.lateness < timedelta(0):
            raise JobError(f'lateness of stream "{self.name}" is negative', detail=f"It is {self.lateness}.")


@dataclass(frozen=True)
class Range:
    """`[RANGE w]`: a row joins while the newest row of the combination is less than `width` younger."""

    width: timedelta


@dataclass(frozen=True)
class Unbounded:
    """`[UNBOUNDED]`, or no window: a row joins for ever."""


Window = Range | Unbounded
