"""How far ahead the rows of a batch may be, where streams set `max_ahead`, and what users are told of those beyond it.

One row that is dated years from now would move the watermark of its stream for good, and make everything after it late.
So rows that are *ahead* are set aside like late ones, and do not count for the watermark. A row is ahead if it is later
than the limit of its stream, which the driver takes once for a batch and hands down: all tasks and all retries of a
batch agree. A batch that is computed again after a death may get another limit; nothing of it had been committed. There
are two ways to measure, for each stream:

- the *clock*: now and `max_ahead`. What else is read plays no part.
- the *streams*: from the furthest that any stream had come to with the batch before, one goes on along the rows of this
  batch, of all streams, as long as no step takes longer than `max_ahead`. Where that ends is the limit: what is beyond
  the gap is ahead. In the first batch one begins where most rows lie. It depends on the rows, and on how they were cut
  into batches as lateness does, and on nothing else. It takes a look at the times of a batch before the batch is run.

Limits: if all streams are silent for longer than `max_ahead`, all that comes after is ahead of the streams; nobody can
tell the next morning from a year that was mistyped. It is counted, and told again and again. A stream that has no
`max_ahead` counts for how far the others may go, whatever it holds. A first batch of wrong times alone is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernel.event_times import event_times
from watersmeet.model.quantities import microseconds, time_text
from watersmeet.model.streams import CLOCK, Stream
from watersmeet.model.stretches import Stretch, find_stretches, reach_us, unite_stretches
from watersmeet.model.time_units import TimeColumn
from watersmeet.plan.query import Query
from watersmeet.runtime.clock import Clock
from watersmeet.runtime.reports import StreamReport
from watersmeet.state.manifest import Manifest


@dataclass(frozen=True)
class TimesToFind:
    """What is to be found out about a batch: the stretches of its times, as far as they are not ahead of the clock."""

    times: Mapping[str, TimeColumn]  # of each stream
    gap_us: int
    limits_us: Mapping[str, int]  # by stream, where it is the clock that limits it


def stretches_of(rows: pa.RecordBatch, stream: str, look: TimesToFind) -> list[Stretch]:
    """The stretches of some rows of a stream."""
    column = look.times[stream]
    times = event_times(pc.drop_null(rows.column(column.name)), column)
    limit = look.limits_us.get(stream)
    return find_stretches(times if limit is None else times[times <= limit], look.gap_us)


def take_limits(
    query: Query, manifest: Manifest, clock: Clock, find: Callable[[TimesToFind], Iterable[Stretch]]
) -> dict[str, int]:
    """By stream, where it has one: the time after which its rows in this batch are ahead. `find` looks at the batch."""
    streams = {entry.stream.name: entry.stream for entry in query.inputs}
    most = {name: microseconds(s.max_ahead) for name, s in streams.items() if s.max_ahead is not None}
    if not most:
        return {}
    now = clock.utc_us()
    limits = {name: now + ahead for name, ahead in most.items() if streams[name].compared_with == CLOCK}
    others = {name: ahead for name, ahead in most.items() if name not in limits}
    if not others:
        return limits
    gap = min(others.values())
    look = TimesToFind({name: stream.time_column for name, stream in streams.items()}, gap, limits)
    stretches = unite_stretches(find(look), gap)
    come_to = [time for progress in manifest.streams.values() if (time := progress.newest_read_us) is not None]
    for name, ahead in others.items():
        reach = reach_us(stretches, ahead, max(come_to, default=None))
        if reach is not None:
            limits[name] = reach
    return limits


@dataclass
class AheadNotes:
    """What a run says about rows that are ahead: once for each stream, and on if all of its rows are ahead.

    Of such batches in a row it tells with the 1st, 2nd, 4th, 8th .. of them: nobody misses it, and no log fills.
    """

    _told: set[str] = field(default_factory=set)
    _all_ahead: dict[str, int] = field(default_factory=dict)  # batches in a row with no other rows

    def of_batch(self, query: Query, reports: Sequence[StreamReport]) -> list[str]:
        """The sentences that are due after a batch; one report for each stream."""
        streams = {entry.stream.name: entry.stream for entry in query.inputs}
        return [note for report in reports if (note := self._note(streams[report.stream], report))]

    def _note(self, stream: Stream, report: StreamReport) -> str | None:
        if report.rows and report.ahead == report.rows:
            count = self._all_ahead[stream.name] = self._all_ahead.get(stream.name, 0) + 1
            self._told.add(stream.name)
            return None if count & (count - 1) else _all_ahead(stream, report, count)
        if report.rows:
            self._all_ahead.pop(stream.name, None)
        if not report.ahead or stream.name in self._told:
            return None
        self._told.add(stream.name)
        return _some_ahead(stream, report)


def _some_ahead(stream: Stream, report: StreamReport) -> str:
    rows = "1 row is" if report.ahead == 1 else f"{report.ahead:,} rows are"
    return (
        f'{rows} ahead in stream "{stream.name}", up to {time_text(report.furthest_us)}: later than '
        f"{_beyond(stream)}; they are counted and not joined (told once)"
    )


def _all_ahead(stream: Stream, report: StreamReport, batches: int) -> str:
    since = "this batch" if batches == 1 else f"the last {batches:,} batches"
    return (
        f'every row of stream "{stream.name}" in {since} is ahead, now up to {time_text(report.furthest_us)}: '
        f"later than {_beyond(stream)}; none of them is joined. If their times are right, start again with a longer "
        f"max_ahead, or with another ahead_of than {stream.compared_with}"
    )


def _beyond(stream: Stream) -> str:
    assert stream.max_ahead is not None
    if stream.compared_with == CLOCK:
        return f"the clock and max_ahead ({stream.max_ahead})"
    return f"what all streams had come to and max_ahead ({stream.max_ahead})"
