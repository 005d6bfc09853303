"""Deletes files that no version kept points to: former segments, delivered results, and orphans of failed attempts.

Runs between batches in the process that commits, when no task is under way, so a file that nothing refers to is
nobody's. `collect_files` deletes what is known to have been let go, in proportion to that. `collect_everything` looks
through the folders for the rest: a task that failed or ran twice leaves orphans that nobody knows of.

A run whose checkpoint was taken over deletes nothing that its successor needs, whenever it wakes up: what no version
that was kept when it last committed refers to none takes up again, not by going back either (`state/retention.py`), and
of files that nothing refers to a run takes those alone that are named after its own epoch or an earlier one, which can
commit nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watersmeet import faults
from watersmeet.model.ids import SegmentId
from watersmeet.state.epochs import epoch_of
from watersmeet.state.files import Folder
from watersmeet.state.segment_files import FileSegments, Segments, file_name
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
    segments.delete_all([file_name(segment) for segment in (*table.pop_dropped(), *scratch)])
    names = list(delivered)
    for folder in waiting:
        folder.delete_all(names)
    faults.reach("after-collect-garbage")


def collect_everything(
    table: Table, segments: Segments, waiting: Sequence[Folder], file_lists: Folder | None = None
) -> int:
    """Delete what nothing refers to from the folders; how many files that were.

    A temporary file does not say of which epoch it is. So all are listed first, and then it is made sure that no later
    run has come: what was there by then is not from it. A folder that is a link leads to where other files may lie:
    there nothing is deleted that no version has named.
    """
    epoch = table.manifest.epoch
    alive = {*map(file_name, table.segments_kept()), *table.lists_kept()}
    alive |= {name for entry in table.manifest.undelivered for name in entry.files}

    def dead(names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in alive and epoch_of(name) <= epoch]

    linked = isinstance(segments, FileSegments) and segments.folder.is_link
    orphans = [] if linked else dead(segments.names())
    folders = (*waiting, *(() if file_lists is None else (file_lists,)))
    waste = [(folder, dead(folder.names())) for folder in folders if not folder.is_link] + table.leftovers()
    table.check_held()
    segments.delete_all(orphans)
    for folder, names in waste:
        folder.delete_all(names)
    table.sync_no_more({*orphans, *(name for _, names in waste for name in names)})
    return len(orphans) + sum(len(names) for _, names in waste)
