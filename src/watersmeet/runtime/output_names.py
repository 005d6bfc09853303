"""Names of the files that a run delivers: made here, and recognised here. Pure functions.

A name says what the file holds, of which checkpoint and epoch it is, and ends in a number of its own:

    part-00000012-0003-9f86d081884c-e1-0123456789abcdef.parquet     results of batch 12, slot 3
    late-orders-00000012-9f86d081884c-e1-0123456789abcdef.parquet   late rows of the stream orders

Files of releases before checkpoints had names are without the part in the middle. A stream may be called anything: what
is not a letter of ASCII, a digit or one of `_.~` is written as `%` and two digits for each byte, as in addresses, and
of a long name the end is replaced by a number made from all of it.
"""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

from watersmeet.state.epochs import name_of_epoch

LONGEST_STREAM = 120  # of a filesystem's 255 bytes for a name; the rest of ours takes some 60

_OURS = re.compile(
    r"(?:part-\d{8,}-\d{4,}|late-.*?-\d{8,})(?:-(?P<owner>[0-9a-f]{12})(?=-e))?(?:-e\d+)?-[0-9a-f]{12,16}\.parquet",
    re.DOTALL,
)


def result_name(batch: int, slot: int, owner: str, epoch: int) -> str:
    """A name for a file of results of the checkpoint `owner`.

    >>> owner_of(result_name(12, 3, "9f86d081884c", 1))
    '9f86d081884c'
    """
    return name_of_epoch(f"part-{batch:08d}-{slot:04d}{_middle(owner)}", epoch, ".parquet")


def late_name(stream: str, batch: int, owner: str, epoch: int) -> str:
    """A name for a file of late rows.

    >>> late_name("a/b", 7, "9f86d081884c", 1)[:33]
    'late-a%2Fb-00000007-9f86d081884c-'
    """
    return late_name_after(f"late-{escaped(stream)}", batch, owner, epoch)


def late_name_after(beginning: str, batch: int, owner: str, epoch: int) -> str:
    """Another name that begins as those of the same stream do."""
    return name_of_epoch(f"{beginning}-{batch:08d}{_middle(owner)}", epoch, ".parquet")


def late_beginning(name: str) -> str:
    """What all names of late rows of one stream begin with.

    >>> late_beginning(late_name("a b", 7, "9f86d081884c", 1))
    'late-a%20b'
    """
    return re.sub(r"-\d{8,}(-[0-9a-f]{12})?-e\d+-[0-9a-f]+\.parquet$", "", name)


def escaped(stream: str) -> str:
    """The name of a stream as part of the name of a file.

    >>> escaped("orders"), escaped("../Aufträge 100%"), escaped("")
    ('orders', '..%2FAuftr%C3%A4ge%20100%25', '')
    >>> len(escaped("x" * 1000))
    120
    """
    text = quote(stream, safe="", errors="surrogatepass").replace("-", "%2D")
    if len(text) <= LONGEST_STREAM:
        return text
    digest = hashlib.sha256(stream.encode(errors="surrogatepass")).hexdigest()[:16]
    return re.sub("%.?$", "", text[: LONGEST_STREAM - 17]).ljust(LONGEST_STREAM - 17, "~") + f"~{digest}"


def owner_of(name: str) -> str | None:
    """The checkpoint that a delivered file is of; empty if its name does not say, None if it is none of ours.

    >>> owner_of("part-00000000-0001-b1792a8243e1.parquet"), owner_of("part-00000-0c2f-c000.snappy.parquet")
    ('', None)
    >>> owner_of(late_name("A", 7, "774424281007", 1)), owner_of(result_name(7, 0, "774424281007", 1))  # digits alone
    ('774424281007', '774424281007')
    """
    found = _OURS.fullmatch(name)
    return None if found is None else found["owner"] or ""


def _middle(owner: str) -> str:
    return f"-{owner}" if owner else ""
