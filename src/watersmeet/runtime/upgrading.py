"""Opens the table of a checkpoint, brought up to date if an earlier version of watersmeet wrote it."""

from __future__ import annotations

from watersmeet.plan.query import Query
from watersmeet.runtime.clock import utc_us
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.format_2 import upgrade_from_2
from watersmeet.state.table import FileTable, OlderFormatError

# By the format that is found: what makes it one of ours.
UPGRADES = {2: upgrade_from_2}


def open_table(folders: CheckpointFolders, query: Query) -> FileTable | None:
    """The table at its newest version; None if there is none. The lock must be held."""
    try:
        return FileTable.open(folders.state, utc_us)
    except OlderFormatError as error:
        if error.found not in UPGRADES:
            raise
        UPGRADES[error.found](folders.state, query)
        return FileTable.open(folders.state, utc_us)
