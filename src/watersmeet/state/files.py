"""A folder of files on any filesystem that pyarrow reaches, with the few operations that state needs.

A plain path (or a `file:` address) is handled by the operating system: writes go to a temporary name and appear whole,
`put_if_absent` is atomic (a hard link), reads are memory-mapped. Any other address goes through `pyarrow.fs`; there,
reads go through a local cache folder, and `put_if_absent` looks before it writes, which is enough for a single writer.

What a `durable` folder on a local disk holds is to survive a power loss: `put_if_absent` and `make` have what they made
on disk when they return. `write` does not, nor `move_out`: whoever refers to their files has them on disk first, all of
a batch at once (`state/syncing.py`).

Never overwrites a file that exists under its final name. An error of the disk becomes a `ResourceError` that names the
file, and the half-written temporary file is removed.
"""

from __future__ import annotations

import errno
import os
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.fs as pafs

from watersmeet import faults
from watersmeet.errors import ResourceError, StateConflictError

TEMPORARY = ".tmp-"


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
    return name.startswith(TEMPORARY)


@dataclass(frozen=True)
class Folder:
    """A folder at `address`. `cache` is a local folder for copies of remote files (or of local ones, if given).

    `durable`: what is in it is to survive a power loss, and not only the end of the process.
    """

    address: str
    cache: str | None = None
    durable: bool = True

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
                if self.durable:
                    _sync_parents(self.path())
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
        temporary = self.path(f"{TEMPORARY}{uuid.uuid4().hex[:12]}")
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

    def put_if_absent(
        self, name: str, data: bytes, midway: str | None = None, sync: Callable[[str], None] | None = None
    ) -> None:
        """Write `data` as the file `name`, on disk before it shows, or raise `StateConflictError` if there is one.

        `sync` gets the path of a file to have on disk; it may do the same for others, all at once.
        """
        conflict = StateConflictError(f'"{name}" exists already', detail=f"In {self.path()}.")
        if not self.local:
            filesystem, path = self._remote(name)
            if filesystem.get_file_info(path).type != pafs.FileType.NotFound:
                raise conflict
            with disk_errors("write", path), filesystem.open_output_stream(path) as stream:
                stream.write(data)
            return
        temporary = self.path(f"{TEMPORARY}{uuid.uuid4().hex[:12]}")
        try:
            with disk_errors("write", self.path(name)):
                with open(temporary, "wb") as stream:
                    stream.write(data)
                if self.durable:
                    (sync or sync_file)(temporary)
                if midway:
                    faults.reach(midway)
                try:
                    os.link(temporary, self.path(name))
                except FileExistsError:
                    raise conflict from None
                if self.durable:
                    self._sync_new(name)
        finally:
            with suppress(OSError):
                os.unlink(temporary)

    def _sync_new(self, name: str) -> None:
        """Have the name on disk, or take it back: what may be gone after a power loss must not be seen before one."""
        try:
            sync_folder(self.path())
        except OSError:
            with suppress(OSError):
                os.unlink(self.path(name))
            raise

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
            temporary = f"{copy}{TEMPORARY}{uuid.uuid4().hex[:12]}"
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


def sync_file(path: str) -> None:
    """Have the contents of a file on disk, whoever wrote them."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: str) -> None:
    """Have the names in a folder on disk, as far as its filesystem can be asked for that."""
    try:
        sync_file(path)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _sync_parents(path: str) -> None:
    """Have a folder on disk, and those above it: any of them may be new, of this run or of one that was killed."""
    device = os.stat(path).st_dev
    while True:
        with suppress(PermissionError):  # one that we cannot read is none that we made
            sync_folder(path)
        parent = os.path.dirname(path)
        if parent == path or os.stat(parent).st_dev != device:
            return
        path = parent


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
