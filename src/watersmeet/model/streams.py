"""What the query is about: streams, and windows over them. Frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.quantities import parse_duration
from watersmeet.model.time_units import MICROSECONDS, TIME_UNITS, TimeColumn

CLOCK, STREAMS = "clock", "streams"
AHEAD_OF = (CLOCK, STREAMS)
OFF = "off"


@dataclass(frozen=True)
class Stream:
    """A stream: rows of `schema`, with event time in column `time`, and rows at most `lateness` out of order.

    The event time is a timestamp, or an integer in `time_unit` since 1970 (None: microseconds). A row older than the
    largest time seen in earlier batches minus `lateness` is late: counted, and never joined.

    A row is ahead, counted and never joined either, if it is later than `max_ahead` allows (None: anything goes): more
    than that after what the clock says, or, where that is not what it is compared with (`ahead_of`), beyond a gap of
    more than that after all that was read before it, of any stream. See `runtime/ahead.py`.
    """

    name: str
    schema: pa.Schema
    time: str = "ts"
    lateness: timedelta = timedelta(0)
    max_ahead: timedelta | None = None
    ahead_of: str | None = None  # None: the clock if times are dates; an integer may count from anywhere
    time_unit: str | None = None

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
                detail="Event time is a TIMESTAMP, or a BIGINT.",
            )
        if self.time_unit is not None:
            self._check_unit(self.time_unit)
        if self.lateness < timedelta(0):
            raise JobError(f'lateness of stream "{self.name}" is negative', detail=f"It is {self.lateness}.")
        if self.max_ahead is not None and self.max_ahead <= timedelta(0):
            raise JobError(
                f'max_ahead of stream "{self.name}" is not above zero',
                detail=f"It is {self.max_ahead}.",
                hint='Leave it out, or say "off", to let rows be ahead as far as they like.',
            )
        if self.ahead_of is not None and self.ahead_of not in AHEAD_OF:
            raise JobError(
                f'unknown ahead_of "{self.ahead_of}" of stream "{self.name}"',
                detail=f"It is one of {', '.join(AHEAD_OF)}.",
                hint=did_you_mean(self.ahead_of, AHEAD_OF),
            )

    def _check_unit(self, unit: str) -> None:
        if unit not in TIME_UNITS:
            raise JobError(
                f'unknown time_unit "{unit}" of stream "{self.name}"',
                detail=f"It is one of {', '.join(TIME_UNITS)}.",
                hint=did_you_mean(unit, TIME_UNITS),
            )
        if not self.counts_time:
            raise JobError(
                f'time_unit of stream "{self.name}" does not apply',
                detail=f'Its event-time column "{self.time}" is a TIMESTAMP, which has its unit.',
                hint="Leave time_unit out for this stream.",
            )

    @property
    def counts_time(self) -> bool:
        """Whether the event time is an integer."""
        return not pa.types.is_timestamp(self.schema.field(self.time).type)

    @property
    def time_column(self) -> TimeColumn:
        return TimeColumn(self.time, self.time_unit or MICROSECONDS)

    @property
    def unit_is_assumed(self) -> bool:
        """Whether nobody has said what an integer event time counts."""
        return self.counts_time and self.time_unit is None

    @property
    def compared_with(self) -> str:
        """What `max_ahead` is measured from: one of `AHEAD_OF`."""
        if self.ahead_of is not None:
            return self.ahead_of
        return STREAMS if self.counts_time else CLOCK


def parse_max_ahead(value: str | timedelta | None, stream: str) -> timedelta | None:
    """How far a row of `stream` may be ahead, as users write it.

    >>> parse_max_ahead("1 hour", "bids"), parse_max_ahead("off", "bids")
    (datetime.timedelta(seconds=3600), None)
    """
    if value is None or value == OFF:
        return None
    return value if isinstance(value, timedelta) else parse_duration(value, f'max_ahead of stream "{stream}"')


@dataclass(frozen=True)
class Range:
    """`[RANGE w]`: a row joins while the newest row of the combination is less than `width` younger."""

    width: timedelta


@dataclass(frozen=True)
class Rows:
    """`[ROWS n]`: a row joins while it is among the last `count` rows of its stream, by event time and arrival.

    Of rows that are no later than the newest of the combination, and whatever else the query asks of them.
    """

    count: int


@dataclass(frozen=True)
class Unbounded:
    """`[UNBOUNDED]`, or no window: a row joins for ever."""


Window = Range | Rows | Unbounded
