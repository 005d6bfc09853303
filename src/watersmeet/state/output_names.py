"""Names of the files that a run delivers: made here, and recognised here. Pure functions.

A name says what the file holds, of which delivery, checkpoint and epoch it is, and ends in a number of its own:

    part-00000012-0003-d57-9f86d081884c-e1-0123456789abcdef.parquet     results of batch 12, slot 3
    late-orders-00000012-d57-9f86d081884c-e1-0123456789abcdef.parquet   late rows of the stream orders

The number behind the `d` is the one that deliveries had come to when the file was written, and grows with every commit
that names results: so a version of the checkpoint knows a file, if it was ever committed, exactly if the number is
below the version's `next_delivery`. Batches do not tell: merges after a batch have its number too.

A stream may be called anything: what is not a letter of ASCII, a digit or one of `_.~` is written as `%` and two digits
for each byte, as in addresses, and of a long name the end is replaced by a number made from all of it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import quote

from watersmeet.state.epochs import epoch_of, name_of_epoch

LONGEST_STREAM = 120  # of a filesystem's 255 bytes for a name; the rest of ours takes some 80

_OURS = re.compile(
    r"(?:part-(?P<batch>\d{8,})-\d{4,}|late-.*?-(?P<late>\d{8,}))-d(?P<delivery>\d+)"
    r"-(?P<owner>[0-9a-f]{12})-e\d+-[0-9a-f]{16}\.parquet",
    re.DOTALL,
)


@dataclass(frozen=True)
class Stamp:
    """What the name of a file says of when it was written, and by whom."""

    batch: int
    delivery: int
    owner: str  # the checkpoint, by its name
    epoch: int

    def on(self, beginning: str) -> str:
        return name_of_epoch(f"{beginning}-d{self.delivery}-{self.owner}", self.epoch, ".parquet")


def result_name(slot: int, stamp: Stamp) -> str:
    """A name for a file of results.

    >>> stamp_of(result_name(3, Stamp(12, 57, "9f86d081884c", 1)))
    Stamp(batch=12, delivery=57, owner='9f86d081884c', epoch=1)
    """
    return stamp.on(f"part-{stamp.batch:08d}-{slot:04d}")


def late_name(stream: str, stamp: Stamp) -> str:
    """A name for a file of late rows.

    >>> late_name("a/b", Stamp(7, 9, "9f86d081884c", 1))[:36]
    'late-a%2Fb-00000007-d9-9f86d081884c-'
    """
    return late_name_after(f"late-{escaped(stream)}", stamp)


def late_name_after(beginning: str, stamp: Stamp) -> str:
    """Another name that begins as those of the same stream do."""
    return stamp.on(f"{beginning}-{stamp.batch:08d}")


def late_beginning(name: str) -> str:
    """What all names of late rows of one stream begin with.

    >>> late_beginning(late_name("a b", Stamp(7, 9, "9f86d081884c", 1)))
    'late-a%20b'
    """
    return re.sub(r"-\d{8,}-d\d+-[0-9a-f]{12}-e\d+-[0-9a-f]+\.parquet$", "", name)


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


def is_marked(name: str, owner: str) -> bool:
    """Whether a name, if it is one of ours, is of this checkpoint. Takes a hundredth of the time of `stamp_of`.

    No other part of a name has a dash on both sides and twelve digits in between: the names of streams have none.

    >>> name = late_name("-9f86d081884c-e1-", Stamp(7, 9, "0123456789ab", 1))
    >>> is_marked(name, "0123456789ab"), is_marked(name, "9f86d081884c")
    (True, False)
    """
    return f"-{owner}-e" in name


def delivery_of(name: str, owner: str) -> int:
    """The number of the delivery in a name of this checkpoint's; -1 if there is none, or it is of another. As quick.

    >>> delivery_of(late_name("a-d5", Stamp(7, 9, "0123456789ab", 1)), "0123456789ab")
    9
    """
    before, mark, _ = name.partition(f"-{owner}-e")
    number = before.rpartition("-d")[2]
    return int(number) if mark and number.isdecimal() else -1


def stamp_of(name: str) -> Stamp | None:
    """What the name of a delivered file says of it; None if it is none of ours.

    >>> stamp_of("part-00000-0c2f-c000.snappy.parquet")
    >>> stamp_of("late-A-00000007-d9-774424281007-e1-0123456789abcdef.parquet")
    Stamp(batch=7, delivery=9, owner='774424281007', epoch=1)
    """
    found = _OURS.fullmatch(name)
    if found is None:
        return None
    return Stamp(int(found["batch"] or found["late"]), int(found["delivery"]), found["owner"], epoch_of(name))
