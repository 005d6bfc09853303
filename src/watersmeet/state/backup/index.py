"""What a backup holds, as data: the version it is of, and where each file of that checkpoint is stored. Plain JSON.

Files are stored under the number of the backup that copied them, so that those of one backup are never touched by
another that is at work at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

FORMAT = 1


@dataclass(frozen=True)
class Stored:
    """A file: where it belongs in a checkpoint, and where the backup has it."""

    path: str  # in the checkpoint, such as "state/segments/x.arrow"
    number: int  # of the backup that copied it
    name: str  # there
    bytes: int
    crc32: int

    @property
    def place(self) -> tuple[int, str]:
        return self.number, self.name


@dataclass(frozen=True)
class BackupIndex:
    """A whole backup of a version, of which `batch` is the last one.

    `next_delivery` is the id that `foreachBatch` gets next; files with that in their names, or more, came after it.
    """

    number: int
    version: int
    batch: int
    next_delivery: int
    made: str  # a time in UTC, for people
    owner: str  # the name of the checkpoint, which its results carry too
    source: str  # the checkpoint that it is of, without secrets
    outputs: tuple[str, ...]  # where its results, then its late rows, wait
    digest: str
    files: tuple[Stored, ...]
    asides: tuple[tuple[str, ...], ...] = ()  # in each of the outputs, folders where files lay aside when it was made

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        files = [[file.path, file.number, file.name, file.bytes, file.crc32] for file in self.files]
        return {"format": FORMAT, **asdict(self), "files": files}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BackupIndex:
        rest = {name: value for name, value in data.items() if name != "format"}
        files = tuple(Stored(*entry) for entry in data["files"])
        asides = tuple(map(tuple, data["asides"]))
        return cls(**{**rest, "files": files, "outputs": tuple(data["outputs"]), "asides": asides})
