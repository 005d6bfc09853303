"""Names of files as a manifest has them: one component of a path, below a folder of ours, and nothing else.

Whatever a checkpoint says is the name of a file is checked here, where it enters, before it becomes part of a path: a
manifest that was forged or damaged must not lead to a file outside, to read, move or delete it.
"""

from __future__ import annotations

from typing import Annotated, Any

LONGEST = 255  # bytes, as filesystems have it


def checked_name(name: Any) -> str:
    """The name, or `ValueError` if it is not that of a file in a folder.

    >>> checked_name("part-00000001-0000.parquet")
    'part-00000001-0000.parquet'
    >>> checked_name("../../etc/passwd")
    Traceback (most recent call last):
    ...
    ValueError: '../../etc/passwd' is not the name of a file
    """
    if not isinstance(name, str) or not name or name in (".", "..") or any(c in "/\\" or ord(c) < 32 for c in name):
        raise ValueError(f"{str(name)[:80]!r} is not the name of a file")
    if len(name.encode(errors="surrogatepass")) > LONGEST:
        raise ValueError(f"'{name[:80]}..' is too long for the name of a file")
    return name


FileName = Annotated[str, checked_name]
