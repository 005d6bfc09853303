"""The files that a version of a checkpoint refers to: the one list that verify, backup, rollback and restarts go by.

Files of the version log, the head and Spark's notes are not in it: no version refers to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from watersmeet.model.file_sums import FileSum
from watersmeet.model.segments import Segment
from watersmeet.state.files import Folder
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_files import file_name


@dataclass(frozen=True)
class WaitingFile:
    """Results or late rows whose delivery is not known: they wait, or have been delivered."""

    name: str
    is_late: bool
    sum: FileSum | None


@dataclass(frozen=True)
class VersionFiles:
    """The files of one version, by kind and name, with what the version says of each."""

    segments: Mapping[str, tuple[Segment, ...]]  # the entries of each file: its parts may be of several tiers
    lists: Mapping[str, int]  # of files that were read, and how many each names
    waiting: tuple[WaitingFile, ...]  # in the order of their deliveries
    places: tuple[str, ...]  # where those may wait that do not wait in the checkpoint

    @classmethod
    def of(cls, manifest: Manifest) -> VersionFiles:
        segments: dict[str, tuple[Segment, ...]] = {}
        for segment in manifest.segments.values():
            name = file_name(segment.file)
            segments[name] = (*segments.get(name, ()), segment)
        lists = dict(entry for stream in manifest.streams.values() for entry in stream.file_lists)
        waiting = tuple(
            WaitingFile(name, is_late, entry.sums.get(name))
            for entry in manifest.undelivered
            for is_late, names in ((False, entry.results), (True, entry.late_files))
            for name in names
        )
        return cls(segments, lists, waiting, manifest.holder.waiting)

    def in_state(self, folders: CheckpointFolders) -> dict[Folder, set[str]]:
        """The files that lie in the checkpoint itself, by their folder."""
        return {folders.segments: set(self.segments), folders.file_lists: set(self.lists)}


def waiting_folders(folders: CheckpointFolders, places: Iterable[str]) -> list[Folder]:
    """Where files may wait for their delivery: in the checkpoint, and at the places that its run has named."""
    return [folders.home.elsewhere(place) for place in dict.fromkeys((folders.results.path(), *places))]
