"""Where copies of remote files lie on this machine: in a folder of the user's own, which nobody else can write to.

The folder for temporary files is everybody's: a folder of a known name there may have been made by somebody else, with
files of theirs in it. So the default one is named after the user, is open to them alone, and is refused if it is not.
A folder that a user names is theirs to choose; new ones, and all folders and files in them, are open to them alone as
well, whatever the umask.
"""

from __future__ import annotations

import os
import stat
import tempfile
from functools import lru_cache

from watersmeet.errors import ResourceError

PRIVATE_FOLDER = 0o700
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


def private_opener(path: str, flags: int) -> int:
    """For `open`: a new file is open to this user alone."""
    return os.open(path, flags, _PRIVATE_FILE)


def _refusal(path: str, why: str) -> ResourceError:
    return ResourceError(
        f'cannot keep copies of remote files in "{path}": {why}',
        hint='Name a folder of your own: cache in [run], or the option "cache".',
    )
