"""Where the results of a run go: who writes them, where they wait for the commit, and how a batch is delivered.

Result files wait in a folder beside their place, under a name that readers pass over, and are moved by delivery. A
delivery may be repeated: what was moved already stays moved. Whoever notes down that it is done has the folders that it
names on disk first.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from watersmeet import faults
from watersmeet.runtime.results import CountedResults, ParquetResults
from watersmeet.runtime.stages.task import ResultWriter
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Delivery

# Readers of a folder of parquet files pass over names that begin with an underscore.
WAITING = "_watersmeet"


@dataclass(frozen=True)
class Outputs:
    """The result files of a run, and the folders that they are delivered to (None: left to somebody else, or none)."""

    writer: ResultWriter
    waiting: Folder | None
    target: str | None
    late_waiting: Folder | None
    late_target: str | None

    @classmethod
    def of(cls, format: str, target: str | None, late: str | None, owner: str, durable: bool = True) -> Outputs:
        """Results to `target` as `format`, late rows to `late`. `owner` tells runs that share a folder apart.

        It must be the same whenever a run is started again, however its checkpoint is spelled. `durable`: what is
        delivered is to survive a power loss.
        """
        late_waiting = None if late is None else _waiting_folder(late, owner, durable)
        if format == "noop" or target is None:
            return cls(CountedResults(), None, None, late_waiting, late)
        waiting = _waiting_folder(target, owner, durable)
        return cls(ParquetResults(waiting), waiting, target, late_waiting, late)

    @classmethod
    def waiting_only(cls, waiting: Folder, late: str | None, owner: str) -> Outputs:
        """Results stay in `waiting`, for somebody else to deliver from."""
        late_waiting = None if late is None else _waiting_folder(late, owner, waiting.durable)
        return cls(ParquetResults(waiting), waiting, None, late_waiting, late)

    def in_epoch(self, epoch: int) -> Outputs:
        """The same, with files named after the epoch of a run that has taken its checkpoint."""
        writer = self.writer
        if not isinstance(writer, ParquetResults):
            return self
        return replace(self, writer=ParquetResults(writer.folder, epoch))

    @property
    def waiting_folders(self) -> tuple[Folder, ...]:
        return tuple(folder for folder in (self.waiting, self.late_waiting) if folder is not None)

    def deliver(self, delivery: Delivery) -> list[Folder]:
        """Move the files of a committed batch to where readers find them; the folders that they have come to."""
        faults.reach("before-delivery")
        folders = []
        if self.waiting is not None and self.target is not None:
            folders += _publish(self.waiting, delivery.results, self.target)
        if self.late_waiting is not None and self.late_target is not None:
            folders += _publish(self.late_waiting, delivery.late_files, self.late_target)
        faults.reach("after-delivery")
        return folders


def _waiting_folder(target: str, owner: str, durable: bool) -> Folder:
    return Folder(target, durable=durable).sub(f"{WAITING}-{zlib.crc32(owner.encode()):08x}")


def _publish(waiting: Folder, names: Sequence[str], target: str) -> list[Folder]:
    """Move files that still wait. One that does not has been moved before: nothing else takes it from there, and where
    it is by now is its readers' affair."""
    folder = Folder(target, durable=waiting.durable)
    waiting.move_out(names, folder, midway="in-delivery")
    # One that was moved before may have been moved by a process that was killed, and not be on disk either.
    return [folder] if names else []
