"""The folders of a checkpoint: what lies where under its address, and where results go that leave an output again."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from dataclasses import dataclass

from watersmeet.state.files import Folder

# In an output; readers of parquet files pass over what begins with an underscore.
ROLLED_BACK = "_rolled-back"  # and the version that went back
SET_ASIDE = "_set-aside"  # and the number of the backup that was restored

_ASIDE = re.compile(rf"({ROLLED_BACK}|{SET_ASIDE})-(\d+)(?:-\d+)?")


def kind_of_aside(name: str) -> tuple[str, int] | None:
    """What the name of a folder in an output says: who has put files aside there; None if nobody has.

    >>> kind_of_aside("_rolled-back-12"), kind_of_aside("_set-aside-00000003-2"), kind_of_aside("_temporary-0")
    (('_rolled-back', 12), ('_set-aside', 3), None)
    """
    found = _ASIDE.fullmatch(name)
    return None if found is None else (found[1], int(found[2]))


def asides_in(output: Folder) -> list[str]:
    """The folders in an output where files lie aside."""
    return [name for name in output.names() if kind_of_aside(name) and output.sub(name).names()]


def aside_for(output: Folder, kind: str, number: str, files: Collection[str]) -> Folder:
    """Where these files are put aside, and nothing else is: versions and backups may come to the same number again.

    Who was interrupted goes on in the same folder.
    """
    for again in itertools.count(1):
        folder = output.sub(f"{kind}-{number}" if again == 1 else f"{kind}-{number}-{again}")
        there = folder.names()
        if not there or not set(files).isdisjoint(there):
            return folder
    raise AssertionError("numbers do not come to an end")


@dataclass(frozen=True)
class CheckpointFolders:
    """The folders of a checkpoint."""

    address: str
    cache: str | None = None
    durable: bool = True

    @property
    def home(self) -> Folder:
        return Folder(self.address, durable=self.durable)

    @property
    def state(self) -> Folder:
        return self.home.sub("state")

    @property
    def segments(self) -> Folder:
        return self.home.sub("state/segments", self.cache)

    @property
    def results(self) -> Folder:
        return self.home.sub("state/results")

    @property
    def file_lists(self) -> Folder:
        return self.home.sub("state/files")

    @property
    def spark(self) -> Folder:
        """Spark's own, which says how far sources were read."""
        return self.home.sub("spark")
