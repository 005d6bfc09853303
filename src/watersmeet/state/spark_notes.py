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
from typing import Any

from watersmeet import faults
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


# --- going back ------------------------------------------------------------------------------------------------------

COMPACT = ".compact"
COMPACT_EVERY = 10  # notes of a file source, unless spark.sql.streaming.fileSource.log.compactInterval says otherwise


def go_back(spark: Folder, batch: int, midway: str = "") -> list[Folder]:
    """Let Spark's notes end with this batch (-1: before the first), so that it goes on after it; the folders of notes,
    which are to be on disk then, whoever has changed them: one that was cut short may have.

    Notes of file sources go back too: Spark would hand out again what later ones name, even files that were removed
    since. Spark must not be running. May be repeated, and must be, if it was cut short. `midway` names a fault point.
    """
    paths = list_notes(spark)
    ends = _source_ends(spark, batch)
    for folder in sorted({path.rpartition("/")[0] for path in paths if path.startswith(f"{SOURCES}/")}):
        names = [path.rpartition("/")[2] for path in paths if path.startswith(f"{folder}/")]
        notes = spark.sub(folder)
        place = int(folder.rpartition("/")[2]) if folder.rpartition("/")[2].isdigit() else -1
        end = ends.get(place, -1)
        if end is not None and _is_of_files(notes, names):
            _rebuild(notes, names, end)
            _cut(notes, names, end, midway)
    for folder in (COMMITS, OFFSETS):
        names = [path.rpartition("/")[2] for path in paths if path.startswith(f"{folder}/")]
        _cut(spark.sub(folder), names, batch, midway)
    sources = [f"{SOURCES}/{name}" for name in spark.sub(SOURCES).names()]
    return [spark.sub(folder) for folder in (COMMITS, OFFSETS, *sources) if spark.exists(folder)]


def _source_ends(spark: Folder, batch: int) -> dict[int, int | None]:
    """The last note of each file source that belongs to a batch; None for a source that goes by something else."""
    if batch < 0:
        return {}
    ends: dict[int, int | None] = {}
    for place, line in enumerate(spark.sub(OFFSETS).read(str(batch)).decode().split("\n")[2:]):
        offset = None if line == _NO_OFFSET else json.loads(line)
        ends[place] = -1 if offset is None else offset.get("logOffset") if isinstance(offset, dict) else None
    return ends


def _is_of_files(notes: Folder, names: Sequence[str]) -> bool:
    """Whether these are notes of a file source: others keep things of their own there, which they need."""
    return all(
        "path" in entry and "batchId" in entry for name in names if name[0] != "." for entry in _entries(notes, name)
    )


def _entries(notes: Folder, name: str) -> list[dict[str, Any]]:
    """The files that a note names; what is none of a file source gives entries that are empty."""
    found = []
    with suppress(FileNotFoundError):
        for line in notes.read(name).decode(errors="replace").split("\n")[1:]:
            entry: Any = None
            with suppress(ValueError):
                entry = json.loads(line) if line else None
            if line:
                found.append(entry if isinstance(entry, dict) else {})
    return found


def _rebuild(notes: Folder, names: Sequence[str], end: int) -> None:
    """Have the notes that are read if `end` is the last one: the last compact one before it, and those since.

    Spark may have deleted them after a later compact one, which holds all of them.
    """
    compact = sorted(number_of(name) for name in names if name[0] != "." and name.endswith(COMPACT))
    later = [number for number in compact if number > end]
    if not later:
        return
    every = compact[1] - compact[0] if len(compact) > 1 else compact[0] + 1
    if len(compact) == 1 and every % COMPACT_EVERY == 0:
        every = COMPACT_EVERY
    first = (end + 1) // every * every - 1
    entries = _entries(notes, f"{later[0]}{COMPACT}")
    for number in range(max(first, 0), end + 1):
        name = f"{number}{COMPACT}" if number == first else str(number)
        if name not in names:
            held = [e for e in entries if e["batchId"] == number or (number == first and e["batchId"] <= number)]
            lines = ["v1", *(json.dumps(entry, separators=(",", ":")) for entry in held)]
            notes.put_if_absent(name, "\n".join(lines).encode())


def _cut(notes: Folder, names: Sequence[str], end: int, midway: str) -> None:
    """Delete the notes after `end`, the last ones first, each with its checksum."""
    gone = sorted((name for name in names if number_of(name) > end), key=number_of, reverse=True)
    for name in gone:
        notes.delete(name)
        faults.reach(midway)
