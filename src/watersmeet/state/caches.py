"""Where copies of remote files lie on this machine: in a folder of the user's own, which nobody else can write to.

The folder for temporary files is everybody's: a folder of a known name there may have been made by somebody else, with
files of theirs in it. So the default one is named after the user, is open to them alone, and is refused if it is not.
A folder that a user names is theirs to choose; new ones, and all folders and files in them, are open to them alone as
well, whatever the umask.

A driver drops its copies of what it deletes. Executors on other hosts hear nothing of that, and neither does anybody of
a checkpoint that was given up: so a copy that nobody has opened for `UNUSED_SECONDS` goes, whoever finds it. Who needs
it after all makes another.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import suppress
from functools import lru_cache

from watersmeet.errors import ResourceError

PRIVATE_FOLDER = 0o700
UNUSED_SECONDS = 3600.0
LOOK_SECONDS = 600.0  # between two looks for such copies
_LOOKED = ".looked"  # a file whose time is that of the last look
_PRIVATE_FILE = 0o600


@lru_cache(maxsize=100)
def cache_folder(named: str | None) -> str:
    """The folder for copies, made if it is not there: the one that a user has named, or their default one."""
    path = named or os.path.join(tempfile.gettempdir(), f"watersmeet-cache-{os.getuid()}")
    try:
        os.makedirs(path, PRIVATE_FOLDER, exist_ok=True)
        found = os.lstat(path)
    except OSError as error:
        raise _refusal(path, f"{error.strerror or error}") from error
    if named is None:
        if not stat.S_ISDIR(found.st_mode):
            raise _refusal(path, "it is a link")
        if found.st_uid != os.getuid():
            raise _refusal(path, f"it belongs to user {found.st_uid}")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise _refusal(path, "others may write to it")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):  # others may read it, which was meant by nobody
            os.chmod(path, PRIVATE_FOLDER)
    return path


def drop_unused(fresh: str) -> int:
    """Remove copies that nobody has opened for long, unless somebody has looked for such lately; how many.

    `fresh` is the path of a copy that was made just now: its time is the present one.
    """
    cache = os.path.dirname(os.path.dirname(fresh))
    looked = os.path.join(cache, _LOOKED)
    with suppress(OSError):
        now = os.stat(fresh).st_mtime
        with suppress(FileNotFoundError):
            if now - os.stat(looked).st_mtime < LOOK_SECONDS:
                return 0
        with open(looked, "wb", opener=private_opener):
            os.utime(looked)
        return sum(_drop_older(entry.path, now - UNUSED_SECONDS) for entry in os.scandir(cache) if _is_ours(entry))
    return 0


def _is_ours(entry: os.DirEntry[str]) -> bool:
    """A folder of copies is named after an address."""
    return re.fullmatch("[0-9a-f]{8}", entry.name) is not None and entry.is_dir(follow_symlinks=False)


def _drop_older(folder: str, oldest: float) -> int:
    dropped = 0
    for entry in list(os.scandir(folder)):
        with suppress(OSError):  # somebody else has
            if entry.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(entry.path)
                dropped += 1
    return dropped


def private_opener(path: str, flags: int) -> int:
    """For `open`: a new file is open to this user alone."""
    return os.open(path, flags, _PRIVATE_FILE)


def _refusal(path: str, why: str) -> ResourceError:
    return ResourceError(
        f'cannot keep copies of remote files in "{path}": {why}',
        hint='Name a folder of your own: cache in [run], or the option "cache".',
    )
