"""The one door for every change: a log of versions, each added whole or not at all.

Under a checkpoint lie

    state/versions/00000000000000000007.json    the updates that lead from version 6 to version 7
    state/snapshots/00000000000000000000.json   a whole manifest: version 0, and every `SNAPSHOT_EVERY`th
    state/segments/..                           what the manifests point to
    state/results/..                            result files that wait for delivery

`commit(requirements, updates)` adds the next version with put-if-absent, so two writers cannot both win; the loser gets
`StateConflictError`. Opening reads the newest snapshot and the versions after it. Every file carries a format number,
and a newer one than ours is refused. A run without a checkpoint uses the same table with nothing written down.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from watersmeet import faults
from watersmeet.errors import CheckpointError, ResourceError, StateConflictError
from watersmeet.state.files import Folder, is_temporary
from watersmeet.state.manifest import FORMAT, Manifest, QueryIdentity
from watersmeet.state.segment_files import newer_format
from watersmeet.state.updates import Update, apply_all, update_from_json, update_to_json

SNAPSHOT_EVERY = 20
# Versions that stay readable behind the newest one: for inspection, and for a reader that is a little behind.
VERSIONS_KEPT = 5
# The parts of a stream's text in a query's identity, in order, and what each begins with.
_STREAM_ASPECTS = (("schema", ""), ("event-time column", "time "), ("lateness", "lateness "))


@dataclass(frozen=True)
class AtVersion:
    """The table is still at this version."""

    version: int

    def check(self, manifest: Manifest) -> None:
        if manifest.version != self.version:
            raise StateConflictError(
                f"state is at version {manifest.version}, not {self.version}",
                detail="Another commit came first.",
            )


@dataclass(frozen=True)
class AfterBatch:
    """The last batch is still this one."""

    batch: int

    def check(self, manifest: Manifest) -> None:
        if manifest.last_batch != self.batch:
            raise StateConflictError(f"the last batch is {manifest.last_batch}, not {self.batch}")


Requirement = AtVersion | AfterBatch


class Table:
    """The manifests of one run, in memory. `FileTable` also writes them down."""

    versions_kept: ClassVar[int] = 1

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.recent: deque[Manifest] = deque([manifest], maxlen=self.versions_kept)

    def commit(self, requirements: Sequence[Requirement], updates: Sequence[Update]) -> Manifest:
        """The next version, made by `updates`, if all `requirements` hold."""
        for requirement in requirements:
            requirement.check(self.manifest)
        following = apply_all(updates, self.manifest)
        self._store(following, updates)
        self.manifest = following
        self.recent.append(following)
        return following

    def leftovers(self) -> list[tuple[Folder, str]]:
        """Files of commits that were cut short."""
        return []

    def _store(self, manifest: Manifest, updates: Sequence[Update]) -> None:
        """Nothing to write down."""


class FileTable(Table):
    """A table whose versions are files."""

    versions_kept = VERSIONS_KEPT

    def __init__(self, root: Folder, manifest: Manifest) -> None:
        super().__init__(manifest)
        self.versions, self.snapshots = _folders(root)
        self._last_snapshot = max(_numbers(self.snapshots), default=manifest.version)

    @classmethod
    def create(cls, root: Folder, manifest: Manifest) -> FileTable:
        for folder in _folders(root):
            folder.make()
        table = cls(root, manifest)
        table.snapshots.put_if_absent(_name(manifest.version), _encode(manifest.to_json()))
        return table

    @classmethod
    def open(cls, root: Folder) -> FileTable | None:
        """The table at `root` at its newest version; None if there is none."""
        recent = deque(read_versions(root), maxlen=cls.versions_kept)
        if not recent:
            return None
        table = cls(root, recent[-1])
        table.recent = recent
        return table

    def leftovers(self) -> list[tuple[Folder, str]]:
        folders = (self.versions, self.snapshots)
        return [(folder, name) for folder in folders for name in folder.names() if is_temporary(name)]

    def _store(self, manifest: Manifest, updates: Sequence[Update]) -> None:
        content = {
            "format": FORMAT,
            "version": manifest.version,
            "batch": manifest.last_batch,
            "updates": [update_to_json(update) for update in updates],
        }
        faults.reach("before-commit")
        self.versions.put_if_absent(_name(manifest.version), _encode(content), midway="in-commit")
        faults.reach("after-commit")

    def snapshot_if_due(self) -> None:
        """Write a snapshot every `SNAPSHOT_EVERY` versions or more, and drop log files that nothing needs any more.

        Several versions may pass between two calls, so that none of them is a certain multiple.
        """
        version = self.manifest.version
        if version - self._last_snapshot < SNAPSHOT_EVERY:
            return
        faults.reach("before-snapshot")
        self.snapshots.put_if_absent(_name(version), _encode(self.manifest.to_json()))
        self._last_snapshot = version
        faults.reach("after-snapshot")
        floor = max([n for n in _numbers(self.snapshots) if n <= version - VERSIONS_KEPT], default=0)
        for folder in (self.versions, self.snapshots):
            for number in _numbers(folder):
                if number < floor:
                    folder.delete(_name(number))


def _folders(root: Folder) -> tuple[Folder, Folder]:
    return Folder(root.path("versions")), Folder(root.path("snapshots"))


def _name(version: int) -> str:
    return f"{version:020d}.json"


def _numbers(folder: Folder) -> list[int]:
    return [int(name[:20]) for name in folder.names() if name.endswith(".json") and name[:20].isdigit()]


def _encode(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _decode(folder: Folder, name: str, known_format: int) -> dict[str, Any]:
    with _corruption(folder, name):
        content: dict[str, Any] = json.loads(folder.read(name))
        found = content["format"]
    if not isinstance(found, int) or found > known_format:
        raise newer_format("the checkpoint", found, known_format)
    if found < known_format:
        raise CheckpointError(
            "the checkpoint was written by an earlier version of watersmeet",
            detail=f"It has format {found}; this version reads and writes format {known_format}.",
            hint="Finish the run with the version that began it, or start with a new checkpoint.",
        )
    return content


@contextmanager
def _corruption(folder: Folder, name: str) -> Iterator[None]:
    """What cannot be made sense of in the file is its own fault."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResourceError(
            f'manifest file "{name}" is corrupt',
            detail=f"{folder.path(name)}: {f'no {error}' if isinstance(error, KeyError) else error}.",
            hint="Restore the file from a backup, or start again with a new checkpoint.",
        ) from None


def refuse_other_query(manifest: Manifest, query: QueryIdentity) -> None:
    """Raise if the checkpoint was made by another query than `query`, and say what differs."""
    kept = manifest.query
    if kept.digest == query.digest:
        return
    differences = _stream_differences(kept.streams, query.streams)
    if " ".join(kept.text.split()) != " ".join(query.text.split()) or not differences:
        differences.insert(0, f"It was made by:\n  {kept.text.strip()}\nand this run is:\n  {query.text.strip()}")
    raise CheckpointError(
        "the checkpoint belongs to another query",
        detail="\n".join(differences),
        hint="Use another checkpoint folder, or go back to the former query and settings of its streams.",
    )


def _stream_differences(kept: Mapping[str, str], asked: Mapping[str, str]) -> list[str]:
    """A sentence for each thing that differs between the streams of two identities."""
    found = []
    for name in sorted(kept.keys() & asked.keys()):
        aspects = zip(_STREAM_ASPECTS, kept[name].rsplit("; ", 2), asked[name].rsplit("; ", 2), strict=False)
        for (aspect, prefix), old, new in aspects:
            if old != new:
                was, now = old.removeprefix(prefix), new.removeprefix(prefix)
                found.append(f'The {aspect} of stream "{name}" was {was}, and this run has {now}.')
    if kept.keys() != asked.keys():
        found.append(f"It reads the streams {', '.join(sorted(kept))}, and this run {', '.join(sorted(asked))}.")
    return found


def read_versions(root: Folder) -> Iterator[Manifest]:
    """Every version that can still be read at `root`, oldest first; none if there is no table."""
    versions, snapshots = _folders(root)
    taken = _numbers(snapshots)
    if not taken:
        return
    try:
        numbers = sorted(_numbers(versions))
        # Old files go one by one, so a snapshot may have outlived the versions that followed it.
        whole = [n for n in taken if len([v for v in numbers if v > n]) == max([n, *numbers]) - n]
        first = _name(min(whole, default=max(taken)))
        content = _decode(snapshots, first, FORMAT)
        with _corruption(snapshots, first):
            manifest = Manifest.from_json(content)
        yield manifest
        for number in [n for n in numbers if n > manifest.version]:
            if number != manifest.version + 1:
                raise ResourceError(
                    f"version {manifest.version + 1} of the state is missing",
                    detail=f"There is a later version {number} in {versions.path()}.",
                    hint="Restore the file from a backup, or start again with a new checkpoint.",
                )
            data = _decode(versions, _name(number), FORMAT)
            with _corruption(versions, _name(number)):
                manifest = apply_all([update_from_json(entry) for entry in data["updates"]], manifest)
            yield manifest
    except FileNotFoundError as error:
        # A live run drops old versions between our listing and our reading.
        raise StateConflictError(
            "the checkpoint changed while it was read", detail=f"{error.filename} has gone.", hint="Try again."
        ) from None
