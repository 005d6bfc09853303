"""Which version was committed last, beside the versions: so that the newest one cannot go missing unnoticed.

The file `head` is written after each commit and before anything follows from it, by renaming over the former one. It is
a witness, not an authority. It may be behind, by a process that died in between, a disk that was full, or a power loss,
as nobody waits for the disk: then the versions count. It may be missing or damaged: then nothing is known. It is never
ahead: a version that it names was there before it, so if there is no such version, one was lost. Each run names
versions alone that it committed itself: one that was paused in between, and taken over, sets the head back, which says
less and nothing wrong.

On object stores there is none.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass

from watersmeet.state.files import TEMPORARY, Folder
from watersmeet.state.sealed import seal, unseal

HEAD = "head"
HEAD_FORMAT = 4


@dataclass(frozen=True)
class Head:
    version: int
    digest: str


def write_head(root: Folder, version: int, digest: str) -> None:
    """Name a version that was committed. Where that cannot be written down, on a full disk, the head stays behind."""
    if not root.local:
        return
    temporary = root.path(f"{TEMPORARY}{uuid.uuid4().hex[:12]}")
    try:
        with open(temporary, "wb") as stream:
            stream.write(seal({"format": HEAD_FORMAT, "version": version, "digest": digest}))
        os.replace(temporary, root.path(HEAD))
    except OSError:  # a full disk; or a later run has taken the checkpoint, and tidied up: its head counts
        with suppress(OSError):
            os.unlink(temporary)


def read_head(root: Folder) -> Head | None:
    """What the file says; None where it says nothing that can be relied on."""
    if not root.local:
        return None
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        content, _ = unseal(root.read(HEAD))
        if content["format"] == HEAD_FORMAT:
            return Head(content["version"], content["digest"])
    return None
