"""What a source gives at once, and how much of it a batch takes.

An *intake* is what a source has found when it is asked: a table, or files, of which `maxFilesPerTrigger` is the most.
The watermark of a stream moves between intakes. A batch takes no more of an intake than `BatchLimits` allow, so a large
one is read in several batches, and a file of it in parts. Since the watermark waits for its end, no row is late that
would not be late if all of it were one batch: how an intake is cut changes memory, and no result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from watersmeet.errors import JobError

# What a batch takes of a stream, unless it is told. It is in memory while it is read, and once more on its way to the
# tasks (benchmarks/large_batches.py). Ordinary batches are far smaller.
DEFAULT_BATCH_BYTES = 32 << 20


@dataclass(frozen=True)
class BatchLimits:
    """The most that a batch takes of a stream, in rows and in bytes of Arrow memory; None is no limit."""

    rows: int | None = None
    bytes: int | None = DEFAULT_BATCH_BYTES


NO_LIMITS = BatchLimits(None, None)
OFF = "off"


@dataclass(frozen=True)
class BatchSettings:
    """What users say about limits: a number, `off`, or nothing."""

    rows: int | str | None = None
    bytes: int | str | None = None

    def over(self, other: BatchSettings) -> BatchSettings:
        """These, and those of `other` where they are silent."""
        return BatchSettings(
            other.rows if self.rows is None else self.rows, other.bytes if self.bytes is None else self.bytes
        )

    @property
    def limits(self) -> BatchLimits:
        """What holds where the runtime itself cuts batches."""
        return BatchLimits(
            self.rows if isinstance(self.rows, int) else None,
            DEFAULT_BATCH_BYTES if self.bytes is None else self.bytes if isinstance(self.bytes, int) else None,
        )


def parse_row_limit(rows: Any, what: str) -> int | str:
    """`max_batch_rows` as users write it; `what` names it in errors.

    >>> parse_row_limit(1000, "max_batch_rows"), parse_row_limit("off", "max_batch_rows")
    (1000, 'off')
    """
    if rows != OFF and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise JobError(f"{what} is {rows!r}", detail=f'It is a whole number above zero, or "{OFF}" for no limit.')
    limit: int | str = rows
    return limit


@dataclass(frozen=True)
class FilePosition:
    """How far a file was read: so many rows. In text, also a byte that a row begins at, with what stands before it."""

    rows: int = 0
    offset: int = 0
    offset_rows: int = 0
    offset_lines: int = 0

    def after(self, rows: int) -> FilePosition:
        """So many rows further on."""
        return replace(self, rows=self.rows + rows)


@dataclass(frozen=True)
class UnfinishedIntake:
    """An intake that batches have taken a part of.

    It ends with `last_file`, in order of modification time and address. `file`, if any, was read up to `position`. The
    largest event time so far is `newest_us`, which the watermark does not know of yet.
    """

    last_modified_us: int = 0
    last_file: str = ""
    file: str | None = None
    modified_us: int = 0
    position: FilePosition = FilePosition()
    newest_us: int | None = None

    def holds(self, modified_us: int, address: str) -> bool:
        """Whether a file is of this intake."""
        return (modified_us, address) <= (self.last_modified_us, self.last_file)
