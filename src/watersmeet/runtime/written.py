"""The files that tasks wrote for a version to refer to, which must be on disk before that version is.

On Spark a task has its own on disk before it reports. In one process those of a whole batch go with its commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from watersmeet.runtime.reports import StreamReport, TaskReport
from watersmeet.runtime.results import ParquetResults
from watersmeet.runtime.stages.task import ResultWriter
from watersmeet.state.files import Folder
from watersmeet.state.segment_files import FileSegments, Segments, file_name

Sync = Callable[[Mapping[Folder, Iterable[str]]], None]


def files_of_tasks(tasks: Sequence[TaskReport], segments: Segments, results: ResultWriter) -> dict[Folder, list[str]]:
    """The segments and results of tasks. What is for one batch alone no version refers to."""
    found: dict[Folder, list[str]] = {}
    if isinstance(segments, FileSegments):
        found[segments.folder] = [file_name(segment.file) for task in tasks for segment in task.added]
    if isinstance(results, ParquetResults):
        found[results.folder] = [name for task in tasks for name in task.results]
    return {folder: names for folder, names in found.items() if names}


def waiting_files_of(streams: Sequence[StreamReport], segments: Segments) -> dict[Folder, list[str]]:
    """The rows of streams that are to enter later."""
    names = [file_name(segment.file) for report in streams for segment in report.waiting]
    return {segments.folder: names} if isinstance(segments, FileSegments) and names else {}


def late_files_of(streams: Sequence[StreamReport], late: Folder | None) -> dict[Folder, list[str]]:
    """The late rows of streams."""
    names = [name for report in streams for name in report.late_files]
    return {late: names} if late is not None and names else {}
