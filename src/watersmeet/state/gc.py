"""Collects files that no version kept points to: former segments, delivered results, and orphans of failed attempts.

Runs between batches in the process that commits, when no task is under way, so a file that nothing refers to is
nobody's. A task that outlives its driver may leave an orphan later; the next collection takes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet import faults
from watersmeet.state.files import Folder
from watersmeet.state.segment_files import Segments, referenced_name
from watersmeet.state.table import Table


def collect_garbage(table: Table, segments: Segments, waiting: Sequence[Folder]) -> int:
    """Delete what nothing refers to from the segments and the folders of waiting results; how many files that were."""
    faults.reach("before-collect-garbage")
    alive = {referenced_name(segment) for manifest in table.recent for segment in manifest.segments.values()}
    dead = [name for name in segments.names() if name not in alive]
    for name in dead:
        segments.delete(name)
    batch = table.manifest.batch
    undelivered = {*batch.results, *batch.late_files} if batch else set()
    waste = [(folder, name) for folder in waiting for name in folder.names() if name not in undelivered]
    waste += table.leftovers()
    for folder, name in waste:
        folder.delete(name)
    faults.reach("after-collect-garbage")
    return len(dead) + len(waste)
