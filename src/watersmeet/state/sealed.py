"""JSON files that say whether they are whole: the last entry of each is the SHA-256 of all that stands before it.

`seal` makes the bytes of such a file, `unseal` gives back its content and its digest, by which another file may name
it.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

_SEAL = re.compile(rb',"sha256":"([0-9a-f]{64})"\}\Z')


def seal(content: dict[str, Any]) -> bytes:
    """The content, which is not empty, as the bytes of a file.

    >>> seal({"format": 4})[:26], unseal(seal({"format": 4}))[0]
    (b'{"format":4,"sha256":"366d', {'format': 4})
    """
    body = json.dumps(content, separators=(",", ":")).encode()[:-1]
    return body + f',"sha256":"{hashlib.sha256(body).hexdigest()}"}}'.encode()


def digest_of(sealed: bytes) -> str:
    """The digest that bytes made by `seal` end with.

    >>> digest_of(seal({"format": 4})) == unseal(seal({"format": 4}))[1]
    True
    """
    found = _SEAL.search(sealed[-100:])
    assert found is not None, "made by seal"
    return found[1].decode()


def unseal(data: bytes) -> tuple[Any, str]:
    """What a file holds, and its digest; `ValueError` if it is not as it was written, as far as can be told.

    >>> unseal(seal({"format": 4}).replace(b"4", b"5", 1))
    Traceback (most recent call last):
    ...
    ValueError: its content does not have the checksum that it should
    >>> unseal(b'{"format":4}')
    Traceback (most recent call last):
    ...
    ValueError: its checksum is missing
    """
    found = _SEAL.search(data[-100:])
    if found is None:
        raise ValueError("its checksum is missing")
    body, digest = data[: len(data) - len(found[0])], found[1].decode()
    if hashlib.sha256(body).hexdigest() != digest:
        raise ValueError("its content does not have the checksum that it should")
    return json.loads(body + b"}"), digest
