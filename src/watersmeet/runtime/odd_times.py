"""What a run says of integer event times that are of no usual year: they may count something else than microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from watersmeet.model.quantities import time_text
from watersmeet.model.streams import Stream
from watersmeet.model.time_units import is_usual, likely_unit, unit_name
from watersmeet.plan.query import Query
from watersmeet.runtime.reports import StreamReport


@dataclass
class OddTimeNotes:
    """A sentence for each stream whose times are before 1980 or after 2099, unless its unit was named."""

    _told: set[str] = field(default_factory=set)

    def of_batch(self, query: Query, reports: Sequence[StreamReport]) -> list[str]:
        """The sentences that are due after a batch, each once in a run."""
        streams = {entry.stream.name: entry.stream for entry in query.inputs}
        return [note for report in reports if (note := self._note(streams[report.stream], report))]

    def _note(self, stream: Stream, report: StreamReport) -> str | None:
        newest = report.furthest_us if report.newest_us is None else report.newest_us
        if newest is None or is_usual(newest) or stream.name in self._told or not stream.unit_is_assumed:
            return None
        self._told.add(stream.name)
        unit = likely_unit(newest)
        advice = (
            'say time_unit = "us" if that is right'
            if unit is None
            else f'if they are {unit_name(unit)}, say time_unit = "{unit}", and "us" if they are not'
        )
        about = f'event times of stream "{stream.name}" are about {time_text(newest)}'
        return f'{about}: "{stream.time}" is an integer, which is read as microseconds since 1970; {advice} (told once)'
