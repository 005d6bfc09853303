"""A folder of files on any filesystem that pyarrow reaches, with the few operations that state needs.

A plain path (or a `file:` address) is handled by the operating system: writes go to a temporary name and appear whole,
`put_if_absent` is atomic (a hard link), reads are memory-mapped. Any other address goes through `pyarrow.fs`; there,
reads go through a local cache folder, and `put_if_absent` looks before it writes, which is enough for a single writer.

Never overwrites a file that exists under its final name. An error of the disk becomes a `ResourceError` that names the
file, and the half-written temporary file is removed.
"""

from __future__ import annotations

import errno
import os
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.fs as pafs

from watersmeet import faults
from watersmeet.errors import ResourceError, StateConflictError

_TEMPORARY = ".tmp-"


def is_local(address: str) -> bool:
    """Whether `address` is a path of this machine.

    >>> is_local("/data/ck"), is_local("file:///data/ck"), is_local("s3://bucket/ck")
    (True, True, False)
    """
    scheme = urlparse(address).scheme
    return scheme in ("", "file") or len(scheme) == 1


def local_path(address: str) -> str:
    return os.path.abspath(urlparse(address).path if address.startswith("file:") else address)


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one that a write left behind when its process was killed."""
    return name.startswith(_TEMPORARY)


@dataclass(frozen=True)
class Folder:
    """A folder at `address`. `cache` is a local folder for copies of remote files (or of local ones, if given)."""

    address: str
    cache: str | None = None

    def __post_init__(self) -> None:
        # Resolved once, where it is made: a task on another machine has another current folder.
        if self.local:
            object.__setattr__(self, "address", local_path(self.address))

    @property
    def local(self) -> bool:
        return is_local(self.address)

    def path(self, name: str = "") -> str:
        root = self.address.rstrip("/")
        return f"{root}/{name}" if name else root

    def _remote(self, name: str = "") -> tuple[Any, str]:
        return pafs.FileSystem.from_uri(self.path(name))  # type: ignore[no-any-return]

    def make(self) -> None:
        if self.local:
            with disk_errors("create folder", self.path()):
                os.makedirs(self.path(), exist_ok=True)
        else:
            filesystem, path = self._remote()
            filesystem.create_dir(path, recursive=True)

    def write(self, name: str, fill: Callable[[Any], None], midway: str | None = None) -> None:
        """Write the file `name`: `fill` gets a sink. It appears whole or not at all.

        `midway` names a fault point to pass between the bytes and the final name.
        """
        if not self.local:
            filesystem, path = self._remote(name)
            with disk_errors("write", path), filesystem.open_output_stream(path) as stream:
                fill(stream)
            return
        temporary = self.path(f"{_TEMPORARY}{uuid.uuid4().hex[:12]}")
        try:
            with disk_errors("write", self.path(name)):
                with open(temporary, "wb") as stream:
                    fill(stream)
                if midway:
                    faults.reach(midway)
                os.rename(temporary, self.path(name))
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def put_if_absent(self, name: str, data: bytes, midway: str | None = None) -> None:
        """Write `data` as the file `name`, on disk before it shows, or raise `StateConflictError` if there is one."""
        conflict = StateConflictError(f'"{name}" exists already', detail=f"In {self.path()}.")
        if not self.local:
            filesystem, path = self._remote(name)
            if filesystem.get_file_info(path).type != pafs.FileType.NotFound:
                raise conflict
            with disk_errors("write", path), filesystem.open_output_stream(path) as stream:
                stream.write(data)
            return None
        temporary = self.path(f"{_TEMPORARY}{uuid.uuid4().hex[:12]}")
        try:
            with disk_errors("write", self.path(name)):
                with open(temporary, "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                if midway:
                    faults.reach(midway)
                try:
                    os.link(temporary, self.path(name))
                except FileExistsError:
                    raise conflict from None
                except FileNotFoundError:
                    if os.path.exists(temporary):
                        raise
                    # A run that was taken over without knowing it yet has tidied up.
                    return self.put_if_absent(name, data, midway)
                _sync_folder(self.path())
        finally:
            with suppress(OSError):
                os.unlink(temporary)

    def read(self, name: str) -> bytes:
        if self.local:
            with open(self.path(name), "rb") as stream:
                return stream.read()
        filesystem, path = self._remote(name)
        with filesystem.open_input_file(path) as stream:
            return stream.read()  # type: ignore[no-any-return]

    def open(self, name: str) -> pa.NativeFile:
        """The file, memory-mapped: in place where it is local, else from a copy in the cache."""
        if self.local and self.cache is None:
            return pa.memory_map(self.path(name))
        return pa.memory_map(self._cached(name))

    def _copy(self, name: str) -> str:
        """Where the cache has, or would have, its copy of the file."""
        cache = self.cache or os.path.join(tempfile.gettempdir(), "watersmeet-cache")
        # The whole address is part of the copy's name: two checkpoints may share a cache.
        return os.path.join(cache, f"{zlib.crc32(self.address.encode()):08x}", name)

    def _cached(self, name: str) -> str:
        copy = self._copy(name)
        if not os.path.exists(copy):
            content = self.read(name)
            temporary = f"{copy}{_TEMPORARY}{uuid.uuid4().hex[:12]}"
            try:
                with disk_errors("write", copy):
                    os.makedirs(os.path.dirname(copy), exist_ok=True)
                    with open(temporary, "wb") as stream:
                        stream.write(content)
                    os.rename(temporary, copy)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
        return copy

    def forget(self, name: str) -> None:
        """Drop the copy in the cache, if there is one; the next `open` makes a new one."""
        if self.cache is not None or not self.local:
            with suppress(OSError):
                os.unlink(self._copy(name))

    def names(self) -> list[str]:
        """The files in the folder, temporary ones included, sorted; none if there is no folder."""
        if self.local:
            return sorted(os.listdir(self.path())) if os.path.isdir(self.path()) else []
        filesystem, path = self._remote()
        infos = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        return sorted(info.base_name for info in infos)

    def exists(self, name: str) -> bool:
        if self.local:
            return os.path.exists(self.path(name))
        filesystem, path = self._remote(name)
        return bool(filesystem.get_file_info(path).type != pafs.FileType.NotFound)

    def move_out(self, name: str, target: str) -> None:
        """Move the file to the path `target`, on the same filesystem."""
        if self.local:
            with disk_errors("move to", target):
                os.replace(self.path(name), local_path(target))
        else:
            filesystem, path = self._remote(name)
            _, to = pafs.FileSystem.from_uri(target)
            filesystem.move(path, to)

    def delete(self, name: str) -> None:
        """Remove the file if it is there, and the copy of it in the cache."""
        self.forget(name)
        with suppress(FileNotFoundError):
            if self.local:
                os.unlink(self.path(name))
            else:
                filesystem, path = self._remote(name)
                filesystem.delete_file(path)

    def delete_all(self, names: Sequence[str]) -> None:
        """Remove those of the files that are there."""
        for name in names:
            self.delete(name)


def _sync_folder(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def disk_errors(doing: str, path: str) -> Iterator[None]:
    """An error of the disk becomes a `ResourceError` that names the file."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise ResourceError(
            f'cannot {doing} "{os.path.basename(path)}": {error.strerror or error}',
            detail=f"The file is {path}. Nothing was committed; the state is as it was after the last batch.",
            hint="Free some space and start the run again: it goes on where it stopped." if full else None,
        ) from error
