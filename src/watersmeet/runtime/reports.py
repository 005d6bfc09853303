"""What tasks report to the driver: what they read, wrote and saw. Each report has its JSON beside its fields.

On Spark reports travel as JSON; the local executor hands them over as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from watersmeet.model.file_names import FileName
from watersmeet.model.file_sums import FileSums
from watersmeet.model.group_figures import GroupObservation
from watersmeet.model.ids import OperatorName, SegmentId
from watersmeet.model.intake import UnfinishedIntake
from watersmeet.model.routing import GroupRange
from watersmeet.model.segments import Segment
from watersmeet.model.slot_figures import SlotFigures
from watersmeet.model.statistics import AlikeCounts, FilterCounts, PairCounts, PredicateCounts, add_counts

Backlog = Mapping[str, int]  # by what is counted: files, bytes, rows


@dataclass(frozen=True)
class StreamReport:
    """What was read of one stream, or of a part of it."""

    stream: str
    rows: int = 0
    late: int = 0
    newest_us: int | None = None
    oldest_us: int | None = None
    late_files: tuple[FileName, ...] = ()
    files: tuple[tuple[str, int], ...] = ()  # with the time that each was modified
    ignored_before_us: int = 0  # from now on, files that are older are passed over
    sums: FileSums = field(default_factory=dict)  # of the files with late rows, and those ahead
    ahead: int = 0
    furthest_us: int | None = None  # the largest event time of rows that are ahead
    intake: UnfinishedIntake | None = None  # what these rows are a part of, if more of it is to come
    backlog: Backlog | None = None  # what the source has found and not given yet, if it can tell
    filters: tuple[FilterCounts, ...] = ()  # what filters at the input did
    waiting: tuple[Segment, ...] = ()  # rows that were written down to enter later

    def plus(self, other: StreamReport) -> StreamReport:
        """Both parts together."""
        newest = [time for time in (self.newest_us, other.newest_us) if time is not None]
        oldest = [time for time in (self.oldest_us, other.oldest_us) if time is not None]
        furthest = [time for time in (self.furthest_us, other.furthest_us) if time is not None]
        return StreamReport(
            stream=self.stream,
            rows=self.rows + other.rows,
            late=self.late + other.late,
            newest_us=max(newest, default=None),
            oldest_us=min(oldest, default=None),
            late_files=self.late_files + other.late_files,
            files=self.files + other.files,
            ignored_before_us=max(self.ignored_before_us, other.ignored_before_us),
            sums={**self.sums, **other.sums},
            ahead=self.ahead + other.ahead,
            furthest_us=max(furthest, default=None),
            intake=self.intake or other.intake,
            backlog=self.backlog or other.backlog,
            filters=add_counts([*self.filters, *other.filters]),
            waiting=self.waiting + other.waiting,
        )


@dataclass(frozen=True)
class TaskReport:
    """What one task of one stage wrote."""

    added: tuple[Segment, ...] = ()
    released: tuple[tuple[SegmentId, tuple[GroupRange, ...]], ...] = ()
    scratch: tuple[SegmentId, ...] = ()  # segments that were for this batch alone
    results: tuple[FileName, ...] = ()
    sums: FileSums = field(default_factory=dict)  # of the results
    rows_out: int = 0
    joins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # rows in and out, by what people call them
    rows: Mapping[str, int] = field(default_factory=dict)  # that entered, by query input
    pairs: tuple[PairCounts, ...] = ()  # what the probes saw
    rows_merged: int = 0  # results of merges, among those of all joins
    groups: Mapping[OperatorName, GroupObservation] = field(default_factory=dict)  # where statistics of groups are kept
    sync_seconds: float = 0.0  # that the task has waited for the disk
    filters: tuple[FilterCounts, ...] = ()  # what filters above joins did
    predicates: tuple[PredicateCounts, ...] = ()  # what predicates over several inputs did
    slot: int = 0
    figures: SlotFigures = SlotFigures()  # noqa: RUF009 - frozen
    own_pairs: tuple[PairCounts, ...] = ()  # as `pairs`, of the rows in this slot alone
    alike: Mapping[str, AlikeCounts] = field(default_factory=dict)  # of some of `rows`


def with_waiting(report: StreamReport, segment: Segment | None) -> StreamReport:
    """The report with rows that were written down to enter later, if there are any."""
    return report if segment is None else replace(report, waiting=(*report.waiting, segment))


def merge_stream_reports(reports: Iterable[StreamReport]) -> list[StreamReport]:
    """One report for each stream."""
    merged: dict[str, StreamReport] = {}
    for report in reports:
        merged[report.stream] = merged[report.stream].plus(report) if report.stream in merged else report
    return list(merged.values())
