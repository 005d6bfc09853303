"""The files of a stream: where they are, in which order they are read, and what the folders that they are in say.

A file is known by its whole address: an absolute path, or the address of the stream's path (without a password or a
query) and the names below it. Anything that is not on this machine is reached through `pyarrow.fs`.

As in Spark's file source, hidden files and those that begin with an underscore are passed over; folders named
`column=value` are partitions, whose values are columns of the files below them; files in other sub-folders are not
read, unless all are asked for. Spark stops at some mixtures of the two and reads others in part: all are refused here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from watersmeet.errors import InputError
from watersmeet.state.addresses import STORE_SCHEMES, is_local, local_path, parse_address, public_address

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # how the name of a folder says NULL

Partitions = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class SourceFile:
    """A file, the path by which its filesystem knows it, and the columns that its folders give, as text."""

    address: str
    path: str
    modified_us: int = 0
    partitions: Partitions = ()
    bytes: int = 0

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    def partition_columns(self, schema: pa.Schema) -> dict[str, str | None]:
        """The columns of `schema` that the folders name, in any case as on Spark, with their texts."""
        values = {name.lower(): text for name, text in self.partitions}
        return {name: values[name.lower()] for name in schema.names if name.lower() in values}


@dataclass(frozen=True)
class SourceRoot:
    """The path of a stream, on a filesystem."""

    stream: str
    address: str
    filesystem: Any  # a pyarrow.fs.FileSystem
    path: str

    @classmethod
    def of(cls, stream: str, path: str) -> SourceRoot:
        if is_local(path):
            return cls(stream, local_path(path), pafs.LocalFileSystem(), local_path(path))
        address = public_address(path)
        try:
            on_store = urlsplit(path).scheme in STORE_SCHEMES
            filesystem, place = pafs.FileSystem.from_uri(parse_address(path).arrow if on_store else path)
        except (OSError, ValueError, NotImplementedError) as error:
            raise InputError(
                f'cannot reach the path of stream "{stream}"',
                detail=f"{address}: {str(error).strip()}",
                hint='runtime = "local" reads local folders, and s3, gs, abfs and hdfs addresses as pyarrow has them.',
            ) from None
        return cls(stream, address, filesystem, place.rstrip("/"))

    def exists(self) -> bool:
        return bool(self._info().type != pafs.FileType.NotFound)

    def _info(self) -> Any:
        try:
            return self.filesystem.get_file_info(self.path)
        except OSError as error:
            raise self._unlistable(error) from None

    def _unlistable(self, error: OSError) -> InputError:
        return InputError(
            f'cannot list the files of stream "{self.stream}"', detail=f"{self.address}: {str(error).strip()}"
        )

    def all_files(self) -> list[SourceFile]:
        """Every file at or below the path that is not passed over; raises `InputError` if there is no such path."""
        itself = self._info()
        if itself.type == pafs.FileType.NotFound:
            raise missing_path(self.stream, self.address)
        if itself.type == pafs.FileType.File:
            return [SourceFile(self.address, self.path, (itself.mtime_ns or 0) // 1000, bytes=itself.size or 0)]
        try:
            entries = self.filesystem.get_file_info(pafs.FileSelector(self.path, recursive=True))
        except OSError as error:
            raise self._unlistable(error) from None
        begin = len(self.path) + 1
        found = []
        for entry in entries:
            if entry.type == pafs.FileType.File:
                below = entry.path[begin:]
                if not any(_passed_over(part) for part in below.split("/")):
                    address = f"{self.address}/{below}"
                    modified_us = (entry.mtime_ns or 0) // 1000
                    partitions = self._partitions(address, below)
                    found.append(SourceFile(address, entry.path, modified_us, partitions, entry.size or 0))
        return found

    def _partitions(self, address: str, below: str) -> Partitions:
        if "=" not in below:
            return ()
        pairs = [part.split("=", 1) for part in below.split("/")[:-1] if "=" in part]
        for name, text in pairs:
            if not (name and text):
                raise InputError(
                    f'a partition folder of stream "{self.stream}" lacks a name or a value',
                    detail=f"{address} is in a folder that should be called column=value.",
                )
        return tuple((unescape(name), None if text == NO_VALUE else unescape(text)) for name, text in pairs)

    def holds(self, address: str) -> bool:
        """Whether a file lies at the path, or below it."""
        return address == self.address or address.startswith(f"{self.address}/")

    def below(self, address: str) -> str:
        """The name of a file at or below the path, as checkpoints had it before they had whole addresses."""
        return os.path.basename(address) if address == self.address else address.removeprefix(f"{self.address}/")


@dataclass(frozen=True)
class Listing:
    """The files to read, oldest first (by time, then address), and those in sub-folders that are not."""

    files: list[SourceFile]
    astray: list[SourceFile]


def list_files(root: SourceRoot, recursive: bool = False) -> Listing:
    """The files of a stream now. With `recursive`, those in all folders, and the names of folders say nothing."""
    found = sorted(root.all_files(), key=lambda file: (file.modified_us, file.address))
    if recursive:
        return Listing([replace(file, partitions=()) for file in found], [])
    partitioned = next((file for file in found if file.partitions), None)
    if partitioned is None:
        in_folder = [("/" in root.below(file.address), file) for file in found]
        return Listing([file for deep, file in in_folder if not deep], [file for deep, file in in_folder if deep])
    names = [name for name, _ in partitioned.partitions]
    for file in found:
        if [name for name, _ in file.partitions] != names:
            raise InputError(
                f'the files of stream "{root.stream}" are not all in the same kind of partition',
                detail=f"{partitioned.address} is in one by {_names(partitioned)}, {file.address} by {_names(file)}.",
                hint="Give each kind a folder and a stream of its own, or move the files that do not belong.",
            )
    return Listing(found, [])


def refuse_if_astray(root: SourceRoot, listing: Listing) -> None:
    """Raise `InputError` if there are files, and none that would be read."""
    if listing.astray and not listing.files:
        raise InputError(
            f'the files of stream "{root.stream}" are in sub-folders, which are not read',
            detail=f"{root.address} holds no files itself; the first in a sub-folder is {listing.astray[0].address}.",
            hint="Set the stream's option recursiveFileLookup = true, or name partition folders column=value.",
        )


def known_before(address: str, root: SourceRoot, done: Container[str]) -> bool:
    """Whether `done` has the file: by its address, or by its name below the path, as in checkpoints made earlier.

    >>> root = SourceRoot.of("A", "/in/a")
    >>> [known_before(f"/in/a/{name}", root, {"/in/a/x", "y"}) for name in "xyz"]
    [True, True, False]
    """
    return address in done or root.below(address) in done


def missing_path(stream: str, address: str) -> InputError:
    relative = "Paths in a job file are relative to the folder that the command is run in."
    return InputError(
        f'the path of stream "{stream}" does not exist',
        detail=f"{address} is neither a folder nor a file.",
        hint=relative if is_local(address) else None,
    )


def unescape(text: str) -> str:
    """The name of a folder as it was before Spark escaped what a path cannot hold.

    >>> unescape("a%2Fb%3Dc 100%")
    'a/b=c 100%'
    """
    return re.sub("%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)


def _passed_over(part: str) -> bool:
    return part.startswith(".") or part.endswith("._COPYING_") or (part.startswith("_") and "=" not in part)


def _names(file: SourceFile) -> str:
    return ", ".join(name for name, _ in file.partitions) or "nothing"
