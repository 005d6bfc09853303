"""Deletes files that no version kept points to: former segments, delivered results, and orphans of failed attempts.

Runs between batches in the process that commits, when no task is under way, so a file that nothing refers to is
nobody's. `collect_files` deletes what is known to have been let go, in proportion to that. `collect_everything` looks
through the folders for the rest: a task that failed or ran twice leaves orphans that nobody knows of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watersmeet import faults
from watersmeet.model.ids import SegmentId
from watersmeet.state.files import Folder
from watersmeet.state.segment_files import Segments, file_name
from watersmeet.state.table import Table


def collect_files(
    table: Table,
    segments: Segments,
    scratch: Iterable[SegmentId],
    waiting: Sequence[Folder],
    delivered: Iterable[str],
) -> None:
    """Delete the files of segments that the last versions dropped, and those that were for one batch."""
    faults.reach("before-collect-garbage")
    for segment in (*table.pop_dropped(), *scratch):
        segments.delete(file_name(segment))
    for name in delivered:
        for folder in waiting:
            folder.delete(name)
    faults.reach("after-collect-garbage")


def collect_everything(
    table: Table, segments: Segments, waiting: Sequence[Folder], file_lists: Folder | None = None
) -> int:
    """Delete what nothing refers to from the folders; how many files that were."""
    alive = {file_name(segment.file) for manifest in table.recent for segment in manifest.segments.values()}
    dead = [name for name in segments.names() if name not in alive]
    for name in dead:
        segments.delete(name)
    undelivered = {
        name for entry in table.manifest.undelivered for names in (entry.results, entry.late_files) for name in names
    }
    waste = [(folder, name) for folder in waiting for name in folder.names() if name not in undelivered]
    if file_lists is not None:
        listed = {name for m in table.recent for p in m.streams.values() for name, _ in p.file_lists}
        waste += [(file_lists, name) for name in file_lists.names() if name not in listed]
    waste += table.leftovers()
    for folder, name in waste:
        folder.delete(name)
    return len(dead) + len(waste)
