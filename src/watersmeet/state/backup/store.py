"""A folder of backups: their indexes, the files that they share, and who may write and delete there.

    backups/00000003.begun    a backup was begun under this number, with put-if-absent, so that each has its own
    backups/00000003.json     its index, with put-if-absent and on disk after all that it names: it is whole
    files/00000003/..         the files that it copied; later backups refer to those that have not changed

A backup that was killed has no index, and the former ones are as they were. The next one writes a mark in place of its
index, *given up*, before it deletes what was copied: if that process is alive after all, it finds the name taken, and
says so. Nobody deletes a file that an index names which is kept; and of files that no index names, those of backups
with a later number are left alone. A backup takes up again only what whole ones hold. So two at once harm nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from watersmeet.errors import CheckpointError, ResourceError, StateConflictError
from watersmeet.state.backup.index import FORMAT, BackupIndex
from watersmeet.state.files import Folder
from watersmeet.state.lock import LOCK
from watersmeet.state.sealed import seal, unseal
from watersmeet.state.segment_files import newer_format

BEGUN, INDEX = ".begun", ".json"
TRIES = 20


class BackupStore:
    def __init__(self, address: str) -> None:
        self.home = Folder(address)
        self._indexes = self.home.sub("backups")

    def refuse_if_other(self) -> None:
        """Raise `CheckpointError` if the folder is for something else, such as a stream's files or results."""
        others = [name for name in self.home.names() if name not in ("backups", "files", LOCK)]
        if others:
            raise CheckpointError(
                f'the folder "{self.home.path()}" holds other things than backups',
                detail=f"Such as {min(others)}.",
                hint="Give an empty folder, or one that backups were made to.",
            )

    def files(self, number: int) -> Folder:
        """Where a backup has the files that it copied."""
        return self.home.sub(f"files/{_name(number)}")

    def numbers(self, ending: str = INDEX) -> list[int]:
        """The numbers with a file of this kind, ascending."""
        names = [name.removesuffix(ending) for name in self._indexes.names() if name.endswith(ending)]
        return sorted(int(name) for name in names if name.isdigit())

    def whole(self) -> list[BackupIndex]:
        """The backups that are whole, oldest first. Raises `ResourceError` if an index is damaged."""
        found = [self.read(number) for number in self.numbers()]
        return [index for index in found if index is not None]

    def read(self, number: int) -> BackupIndex | None:
        """A backup; None if it was given up, or has been deleted."""
        name = f"{_name(number)}{INDEX}"
        try:
            content, _ = unseal(self._indexes.read(name))
            if content["format"] > FORMAT:
                raise newer_format(f"backup {number}", content["format"], FORMAT)
            if content["number"] != number:
                raise ValueError(f"it is that of backup {content['number']}")
            return None if "given_up" in content else BackupIndex.from_json(content)
        except FileNotFoundError:
            return None
        except (ValueError, LookupError, TypeError) as error:
            raise ResourceError(
                f"the index of backup {number} is corrupt",
                detail=f"{self._indexes.path(name)}: {error}.",
                hint="Use another backup, or remove this file and make a new backup.",
            ) from None

    def begin(self, who: Mapping[str, Any]) -> int:
        """Begin a backup: its number. Those before it that are not whole are given up."""
        self._indexes.make()
        self.home.check_creates()
        for _ in range(TRIES):
            number = max([0, *self.numbers(BEGUN), *self.numbers()]) + 1
            with suppress(StateConflictError):
                self._indexes.put_if_absent(f"{_name(number)}{BEGUN}", json.dumps(who).encode())
                break
        else:
            raise StateConflictError("other backups begin all the time", detail=f"In {self.home.path()}.")
        whole = set(self.numbers())
        for earlier in self.numbers(BEGUN):
            if earlier < number and earlier not in whole:
                mark = {"format": FORMAT, "number": earlier, "given_up": number}
                with suppress(StateConflictError):  # it has become whole just now
                    self._indexes.put_if_absent(f"{_name(earlier)}{INDEX}", seal(mark))
        self.files(number).make()
        return number

    def finish(self, index: BackupIndex) -> None:
        """Make a backup whole. All of its files are on disk."""
        try:
            self._indexes.put_if_absent(f"{_name(index.number)}{INDEX}", seal(index.to_json()))
        except StateConflictError:
            raise CheckpointError(
                "another backup to the same folder has begun meanwhile",
                detail=f"{self.home.path()}: this one was taken for dead, and has left nothing.",
                hint="Let one backup at a time go to a folder.",
            ) from None

    def collect(self, number: int, keep: int) -> int:
        """After backup `number`: delete backups but the last `keep`, and files that none of those names; how many."""
        if any(later > number for later in self.numbers(BEGUN)):
            return 0  # it will see to that
        *dropped, own = self.whole()
        if own.number != number:
            return 0
        kept = [*dropped, own][-keep:]
        gone = [index.number for index in dropped if index not in kept]
        self._indexes.delete_all([f"{_name(n)}{ending}" for n in gone for ending in (INDEX, BEGUN)])
        return sum(self._delete_files(folder, kept) for folder in self._folders() if folder <= number)

    def _folders(self) -> list[int]:
        return [int(name) for name in self.home.sub("files").names() if name.isdigit()]

    def _delete_files(self, number: int, kept: Iterable[BackupIndex]) -> int:
        needed = {file.name for index in kept for file in index.files if file.number == number}
        folder = self.files(number)
        waste = [name for name in folder.names() if name not in needed]
        if needed:
            folder.delete_all(waste)
        else:
            folder.remove()
        return len(waste)


def _name(number: int) -> str:
    return f"{number:08d}"
