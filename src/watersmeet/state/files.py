"""A folder of files, on this machine or on an object store, with the few operations that state needs.

A path is handled by the operating system: writes go to a temporary name and appear whole, `put_if_absent` is atomic (a
hard link), reads are memory-mapped. On an object store (`state/stores.py`) files are written on this machine first,
then sent, and reads go through a local cache folder. What addresses mean is in `state/addresses.py`.

What a `durable` folder on a local disk holds is to survive a power loss: `put_if_absent` and `make` have what they made
on disk when they return. `write` does not, nor `move_out`: whoever refers to their files has them on disk first, all of
a batch at once (`state/syncing.py`).

What others may do with a file follows the umask, as for all that a user writes. Copies in a cache are the user's alone,
and so is what is in a folder that was made `private`, as checkpoints are.

Never overwrites a file that exists under its final name. An error of the disk becomes a `ResourceError` that names the
file, and the half-written temporary file is removed.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from watersmeet import faults
from watersmeet.errors import AddressError, ResourceError, StateConflictError
from watersmeet.state.addresses import for_spark, is_local, local_path, parse_address, with_settings_of
from watersmeet.state.caches import PRIVATE_FOLDER, cache_folder, drop_unused, private_opener

if TYPE_CHECKING:
    from watersmeet.state.stores import StoreFolder

TEMPORARY = ".tmp-"
PIECE_BYTES = 1 << 20  # that a file is read in where all of it is not wanted at once

# What to say of the state when the disk fails: before a batch is committed, and in what is done for it afterwards.
BEFORE_COMMIT = "Nothing was committed; the state is as it was after the last batch."
AFTER_COMMIT = "What was committed stays committed, and the next run goes on from there."


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one that a write left behind when its process was killed."""
    return name.startswith(TEMPORARY)


@dataclass(frozen=True)
class Folder:
    """A folder at `address`. `cache` is a local folder for copies of remote files (or of local ones, if given).

    `durable`: what is in it is to survive a power loss, and not only the end of the process.
    """

    address: str = field(repr=False)  # as the user wrote it, which may be with a secret
    cache: str | None = None
    durable: bool = True

    def __post_init__(self) -> None:
        # Resolved once, where it is made: a task on another machine has another current folder.
        if self.local and not self.address.startswith("dbfs:"):
            object.__setattr__(self, "address", local_path(self.address))
        elif not self.local:
            parse_address(self.address)  # a mistake shows before anything is made

    @property
    def local(self) -> bool:
        return is_local(self.address)

    def path(self, name: str = "") -> str:
        """Where a file is, for people and for the system; without secrets."""
        return f"{self._root}/{name}" if name else self._root

    @cached_property
    def _root(self) -> str:
        return (local_path(self.address) if self.local else parse_address(self.address).public).rstrip("/")

    def spark_path(self, name: str = "") -> str:
        """The same, as Spark takes it."""
        root = for_spark(self.address).rstrip("/")
        return f"{root}/{name}" if name else root

    @property
    def parent(self) -> Folder:
        """The folder that this one is in."""
        base, question, options = self.address.partition("?") if not self.local else (self.address, "", "")
        return Folder(f"{base.rstrip('/').rpartition('/')[0]}{question}{options}", None, self.durable)

    def sub(self, name: str, cache: str | None = None) -> Folder:
        """A folder in this one, as durable."""
        base, question, options = self.address.partition("?") if not self.local else (self.address, "", "")
        return Folder(f"{base.rstrip('/')}/{name}{question}{options}", cache, self.durable)

    def elsewhere(self, public: str) -> Folder:
        """The folder at an address without secrets, reached as this one is, where it is on the same kind of store."""
        return Folder(with_settings_of(public, self.address), durable=self.durable)

    @cached_property
    def _store(self) -> StoreFolder:
        address = parse_address(self.address)
        try:
            from watersmeet.state.stores import StoreFolder
        except ModuleNotFoundError as error:
            raise AddressError(
                f"{address.kind} addresses need the package {error.name}",
                detail=f"{address.public} is on an object store.",
                hint="Install it with: pip install 'watersmeet[objectstore]'.",
            ) from None
        return StoreFolder(address)

    def __reduce__(self) -> tuple[object, ...]:
        return Folder, (self.address, self.cache, self.durable)  # without the client

    def make(self, private: bool = False) -> None:
        """Make the folder if it is not there; `private`: open to this user alone, unless it was there before."""
        if self.local:
            with disk_errors("create folder", self.path()):
                try:
                    os.makedirs(self.path(), PRIVATE_FOLDER if private else 0o777, exist_ok=True)
                except (FileExistsError, NotADirectoryError):
                    raise _not_a_folder(self.path()) from None
                if self.durable:
                    _sync_parents(self.path())

    def remove(self) -> None:
        """Remove the folder, and all that lies directly in it."""
        if self.local:
            shutil.rmtree(self.path(), ignore_errors=True)
        else:
            self._store.delete_all(self.names())

    @property
    def is_there(self) -> bool:
        """Whether there is such a folder on this machine."""
        return self.local and os.path.isdir(self.path())

    @property
    def is_link(self) -> bool:
        """Whether it is a link to a folder that lies elsewhere."""
        return self.local and os.path.islink(self.path())

    def remove_if_empty(self) -> None:
        """Remove a folder of this machine that nothing lies in."""
        if self.local:
            with suppress(OSError):
                os.rmdir(self.path())

    def write(self, name: str, fill: Callable[[Any], None], midway: str | None = None, keep_copy: bool = False) -> None:
        """Write the file `name`: `fill` gets a sink. It appears whole or not at all.

        `midway` names a fault point to pass between the bytes and the final name. With `keep_copy`, what is written to
        a store stays in the cache too, for who will open it.
        """
        if not self.local:
            self._send(name, fill, midway, keep_copy)
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
            if midway:
                faults.reach(midway)
            if not self._store.create(name, data):
                raise conflict
            return
        temporary = self.path(f"{TEMPORARY}{uuid.uuid4().hex[:12]}")
        try:
            with disk_errors("write", self.path(name)):
                with open(temporary, "wb") as stream:
                    stream.write(data)
                try:
                    if self.durable:
                        (sync or sync_file)(temporary)
                    if midway:
                        faults.reach(midway)
                    os.link(temporary, self.path(name))
                except FileExistsError:
                    raise conflict from None
                except (FileNotFoundError, ResourceError) as error:
                    if not _is_gone(temporary, error):
                        raise
                    # A run that was taken over without knowing it yet has tidied up.
                    self.put_if_absent(name, data, midway, sync)
                    return
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
        return self._store.read(name)

    @contextmanager
    def pieces(self, name: str) -> Iterator[Iterator[bytes]]:
        """The file in pieces of some size; `FileNotFoundError` if there is none. Stays whole if deleted meanwhile."""
        if not self.local:
            yield self._store.pieces(name)
            return
        with open(self.path(name), "rb") as stream:
            yield iter(lambda: stream.read(PIECE_BYTES), b"")

    def open(self, name: str) -> pa.NativeFile:
        """The file, memory-mapped: in place where it is local, else from a copy in the cache."""
        if self.local and self.cache is None:
            return pa.memory_map(self.path(name))
        with suppress(FileNotFoundError):
            return pa.memory_map(self._cached(name))
        return pa.memory_map(self._cached(name))  # somebody has dropped the copy in that moment

    def _copy(self, name: str) -> str:
        """Where the cache has, or would have, its copy of the file."""
        # The whole address is part of the copy's name: two checkpoints may share a cache.
        return os.path.join(cache_folder(self.cache), f"{zlib.crc32(self.path().encode()):08x}", name)

    def _cached(self, name: str) -> str:
        copy = self._copy(name)
        try:
            os.utime(copy)  # it is in use
        except FileNotFoundError:
            content = self.read(name)
            with self._scratch(copy) as temporary, disk_errors("write", copy):
                with open(temporary, "wb", opener=private_opener) as stream:
                    stream.write(content)
                os.rename(temporary, copy)
            drop_unused(copy)
        return copy

    def _send(self, name: str, fill: Callable[[Any], None], midway: str | None, keep_copy: bool) -> None:
        """Write a file for a store, and send it there."""
        copy = self._copy(name)
        with self._scratch(copy) as temporary:
            with disk_errors("write", copy), open(temporary, "wb", opener=private_opener) as stream:
                fill(stream)
            if midway:
                faults.reach(midway)
            self._store.put(name, Path(temporary))
            if keep_copy:
                os.rename(temporary, copy)
                drop_unused(copy)

    @contextmanager
    def _scratch(self, copy: str) -> Iterator[str]:
        """A name in the cache that nobody else has; if the file is there at the end it is removed."""
        temporary = f"{copy}{TEMPORARY}{uuid.uuid4().hex[:12]}"
        with disk_errors("write", copy):
            os.makedirs(os.path.dirname(copy), PRIVATE_FOLDER, exist_ok=True)
        try:
            yield temporary
        finally:
            with suppress(OSError):
                os.unlink(temporary)

    def forget(self, name: str) -> None:
        """Drop the copy in the cache, if there is one; the next `open` makes a new one."""
        if self.cache is not None or not self.local:
            with suppress(OSError):
                os.unlink(self._copy(name))

    def names(self) -> list[str]:
        """The files in the folder, temporary ones included, sorted; none if there is no folder."""
        if not self.local:
            return self._store.names()
        with disk_errors("list", self.path()):
            try:
                return sorted(os.listdir(self.path()))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def exists(self, name: str) -> bool:
        if self.local:
            return os.path.exists(self.path(name))
        return self._store.exists(name)

    def move_out(self, names: Iterable[str], target: Folder, midway: str | None = None) -> None:
        """Move those of the files that are still there to the folder `target`, on the same filesystem or store.

        `midway` names a fault point to pass after each. On a store they are copied first, then deleted together.
        """
        if self.local:
            for name in names:
                if self._moved(name, target):
                    faults.reach(midway or "")
            return
        copied = []
        for name in names:
            if self._store.copy_out(name, target._store):
                copied.append(name)
                faults.reach(midway or "")
        self._store.delete_all(copied)

    def _moved(self, name: str, target: Folder) -> bool:
        """Move a file on this machine; False if it is not there any more. Another run may be moving it too."""
        with disk_errors("move to", target.path(name), AFTER_COMMIT):
            try:
                os.replace(self.path(name), target.path(name))
            except FileNotFoundError:
                if os.path.exists(self.path(name)):
                    raise
                return False
        return True

    def delete(self, name: str) -> None:
        """Remove the file if it is there, and the copy of it in the cache."""
        self.delete_all([name])

    def delete_all(self, names: Sequence[str]) -> None:
        """Remove those of the files that are there, and the copies of them in the cache."""
        for name in names:
            self.forget(name)
            if self.local:
                with disk_errors("delete", self.path(name), AFTER_COMMIT), suppress(FileNotFoundError):
                    os.unlink(self.path(name))
        if not self.local:
            self._store.delete_all(names)

    def check_creates(self) -> None:
        """Raise `AddressError` where `put_if_absent` would not be what it says."""
        if not self.local:
            self._store.check_creates()


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


def _not_a_folder(path: str) -> AddressError:
    """What to say of a path where a folder cannot be made, as it is a file, or one above it is."""
    taken = path
    while not os.path.lexists(taken):
        taken = os.path.dirname(taken)
    return AddressError(f'"{taken}" is not a folder', detail=f"The folder {path} is needed.", hint="Name another one.")


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


def _is_gone(path: str, error: Exception) -> bool:
    """Whether `error` says that there is no file at `path`, and nothing else, and that is so."""
    cause = error.__cause__ if isinstance(error, ResourceError) else error
    return isinstance(cause, FileNotFoundError) and cause.filename == path and not os.path.exists(path)


@contextmanager
def disk_errors(doing: str, path: str, state: str = BEFORE_COMMIT) -> Iterator[None]:
    """An error of the disk becomes a `ResourceError` that names the file."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise ResourceError(
            f'cannot {doing} "{os.path.basename(path)}": {error.strerror or error}',
            detail=f"The file is {path}. {state}",
            hint="Free some space and start the run again: it goes on where it stopped." if full else None,
        ) from error
