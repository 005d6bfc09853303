"""One run at a time on a checkpoint: an advisory lock that the system releases when the process ends, however it ends.

Holds for checkpoints on a local or network filesystem with locks, where it refuses a second run. On object stores, on
filesystems without locks, and between hosts that do not see each other's, the second run takes over, and the first one
stops: `state/epochs.py`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from contextlib import suppress
from typing import IO

from watersmeet.errors import CheckpointError
from watersmeet.state.files import Folder, disk_errors

LOCK = "lock"  # the file that is locked


class CheckpointLock:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._file: IO[str] | None = None

    @property
    def held(self) -> bool:
        """Whether no other run can have the checkpoint now, as far as the filesystem knows."""
        return self._file is not None

    def acquire(self) -> None:
        if not self._folder.local:
            return
        self._folder.make(private=True)  # the whole checkpoint lies in it, with rows of the streams
        path = self._folder.path(LOCK)
        with disk_errors("open", path):
            handle = open(path, "a+")  # noqa: SIM115 - stays open for as long as the lock is held
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):  # a filesystem without locks
                handle.close()
                return
            if not isinstance(error, BlockingIOError):
                raise
            handle.seek(0)
            holder = handle.read().strip() or "unknown"
            handle.close()
            raise CheckpointError(
                "another run is using the checkpoint",
                detail=f"{self._folder.path()} is held by {holder}.",
                hint="Stop that run first, or use another checkpoint folder.",
            ) from None
        self._file = handle
        # For whoever finds the lock held; without space on the disk it is held all the same.
        with suppress(OSError):
            handle.truncate(0)
            handle.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}))
            handle.flush()

    def release(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None
