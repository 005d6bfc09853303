"""Opens the table of a checkpoint, brought up to date if an earlier release of watersmeet wrote it.

A release that changes what files of the table hold (`state/table.py`) gives them the next format number, and adds an
upgrade for the number before: a function that writes a snapshot of the present format after the newest version, and
then deletes what came before it. It may be killed at any moment, and is then called again, or finds its work done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from watersmeet.errors import CheckpointError
from watersmeet.plan.query import Query
from watersmeet.runtime.clock import utc_us
from watersmeet.state.files import Folder
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.table import FileTable, OlderFormatError

# By the format that is found. None yet: no release has written another format than the present one.
UPGRADES: Mapping[int, Callable[[Folder, Query], None]] = {}


def open_table(folders: CheckpointFolders, query: Query) -> FileTable | None:
    """The table at its newest version; None if there is none. The lock must be held."""
    try:
        return FileTable.open(folders.state, utc_us)
    except OlderFormatError as error:
        refuse_unreleased(error)
        UPGRADES[error.found](folders.state, query)
        return FileTable.open(folders.state, utc_us)


def refuse_unreleased(error: OlderFormatError) -> None:
    """Refuse a format that there is no upgrade for."""
    if error.found not in UPGRADES:
        raise CheckpointError(
            error.primary,
            detail=f"{error.detail} There is no way from that format to this one: it was never released.",
            hint="Use another checkpoint folder, or run the job with the version that made this one.",
        ) from None
