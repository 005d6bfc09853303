"""Spark's own part of a checkpoint, as files: which notes there are, which belong to a batch, and whether they fit.

Spark writes, for each batch, `offsets/N` before it runs and `commits/N` after, and for a file source `sources/I/N`: the
files that it has found, all of them so far in `N.compact` now and then. It deletes old ones. On a local disk each has a
checksum beside it, `.N.crc`. A note never changes once it is there.

Where state is after batch b, Spark goes on from it if its last offsets are of b or of b + 1, and its last commit not
beyond b. Notes of sources may go further: Spark hands out what they name with the next batch.
"""

from __future__ import annotations

import itertools
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from watersmeet.state.files import Folder

METADATA, OFFSETS, COMMITS, SOURCES = "metadata", "offsets", "commits", "sources"
_NO_OFFSET = "-"  # of a source that has none yet


def list_notes(spark: Folder) -> list[str]:
    """Every note, by its path under Spark's folder; those that it is just writing are left out."""
    folders = [OFFSETS, COMMITS, *(f"{SOURCES}/{name}" for name in spark.sub(SOURCES).names())]
    there = set(spark.names())
    found = [METADATA] if METADATA in there else []
    found += [f".{METADATA}.crc"] if f".{METADATA}.crc" in there else []
    for folder in folders:
        if folder.partition("/")[0] in there:
            found += [f"{folder}/{name}" for name in spark.sub(folder).names() if ".tmp" not in name]
    return found


def number_of(path: str) -> int:
    """The number of a note, or of the checksum of one; -1 if it has none.

    >>> number_of("offsets/12"), number_of("sources/0/.9.compact.crc"), number_of("metadata")
    (12, 9, -1)
    """
    text = path.rpartition("/")[2].lstrip(".").partition(".")[0]
    return int(text) if text.isdigit() else -1


def numbers_in(paths: Iterable[str], folder: str) -> list[int]:
    """The numbers of the notes directly in a folder, ascending."""
    names = [path.removeprefix(f"{folder}/") for path in paths if path.startswith(f"{folder}/")]
    return sorted(number_of(name) for name in names if "/" not in name and name[0] != "." and number_of(name) >= 0)


def of_batch(paths: Iterable[str], batch: int) -> list[str]:
    """The notes from which Spark goes on after this batch."""
    last = {OFFSETS: batch + 1, COMMITS: batch}
    return [path for path in paths if number_of(path) <= last.get(path.partition("/")[0], number_of(path))]


def wrong_note(path: str, data: bytes, checksums: bytes | None) -> str | None:
    """What is wrong with a note; None if nothing is. `checksums` is the file beside it, if there is one."""
    if checksums is not None and (wrong := _wrong_sums(data, checksums)) is not None:
        return wrong
    try:
        text = data.decode()
        if path == METADATA:
            return None if isinstance(json.loads(text)["id"], str) else "it has no id"
        if path.partition("/")[0] == SOURCES:  # each kind of source has its own form
            return None if data else "it is empty"
        version, *lines = text.split("\n")
        if not (version[:1] == "v" and version[1:].isdigit() and lines):
            return f'it begins with "{version[:20]}"'
        for line in lines:
            if line != _NO_OFFSET:
                json.loads(line)
    except (ValueError, LookupError, TypeError) as error:
        return str(error)
    return None


def _wrong_sums(data: bytes, checksums: bytes) -> str | None:
    """Against a file of checksums as Hadoop writes it: a CRC-32 for so many bytes each."""
    if len(checksums) < 8 or checksums[:4] != b"crc\0":
        return "the checksums beside it are damaged"
    (length,) = struct.unpack(">i", checksums[4:8])
    if length <= 0:
        return "the checksums beside it are damaged"
    sums = b"".join(struct.pack(">I", zlib.crc32(data[i : i + length])) for i in range(0, len(data), length))
    return None if sums == checksums[8:] else "it does not have the checksum that stands beside it"


def wrong_sequence(paths: Sequence[str], batch: int) -> Iterator[tuple[str, str]]:
    """Notes that are missing for Spark to go on after this batch, each with what is wrong."""
    offsets, commits = numbers_in(paths, OFFSETS), numbers_in(paths, COMMITS)
    if METADATA not in paths and (offsets or commits):
        yield METADATA, "it is missing"
    for folder, numbers in ((OFFSETS, offsets), (COMMITS, commits)):
        yield from ((f"{folder}/{number}", "it is missing, and there are later ones") for number in gaps(numbers))
    if batch >= 0 and batch not in offsets:
        yield f"{OFFSETS}/{batch}", f"it is missing, and the state is after batch {batch}"
    # Where one is missing at the end, Spark would run a batch again that ours knows nothing of, or skip one.
    if commits and commits[-1] < batch - 1:
        yield f"{COMMITS}/{batch - 1}", f"it is missing, and the state is after batch {batch}"
    for folder in sorted({path.rpartition("/")[0] for path in paths if path.startswith(f"{SOURCES}/")}):
        numbers = numbers_in(paths, folder)
        whole = [number_of(path) for path in paths if path.startswith(f"{folder}/") and path.endswith(".compact")]
        first = max(whole, default=0)
        missing = gaps([first, *(number for number in numbers if number > first)])
        yield from ((f"{folder}/{number}", "it is missing, and there are later ones") for number in missing)
        if not whole and numbers and numbers[0] > 0:
            yield f"{folder}/0", "it is missing, and there are later ones"


def wrong_ahead(paths: Sequence[str], batch: int) -> Iterator[tuple[str, str]]:
    """Notes that are of a batch beyond the one after this."""
    for folder, last in ((OFFSETS, batch + 1), (COMMITS, batch)):
        numbers = numbers_in(paths, folder)
        if numbers and numbers[-1] > last:
            yield f"{folder}/{numbers[-1]}", f"the state is after batch {batch}, and knows nothing of it"


def unnoted(offsets: bytes, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Notes of file sources that these offsets go by, and that are not there."""
    for place, line in enumerate(offsets.decode().split("\n")[2:]):
        with suppress(ValueError, LookupError, TypeError):
            wanted = json.loads(line)["logOffset"]
            numbers = numbers_in(paths, f"{SOURCES}/{place}")
            if wanted >= 0 and (not numbers or numbers[-1] < wanted):
                yield f"{SOURCES}/{place}/{wanted}", "it is missing, and the offsets go by it"


def gaps(numbers: Sequence[int]) -> list[int]:
    """
    >>> gaps([3, 4, 7])
    [5, 6]
    """
    return [n for a, b in itertools.pairwise(numbers) for n in range(a + 1, b)]


def read_notes(spark: Folder, paths: Iterable[str]) -> Mapping[str, bytes]:
    """The contents of those that are still there."""
    found: dict[str, bytes] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        with suppress(FileNotFoundError):
            found[path] = (spark.sub(folder) if folder else spark).read(name)
    return found


def checksums_of(path: str) -> str:
    """
    >>> checksums_of("offsets/12"), checksums_of("metadata")
    ('offsets/.12.crc', '.metadata.crc')
    """
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"
