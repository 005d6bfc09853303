"""Fewer and larger files: results of several batches wait together, and are written down as one before their delivery.

A batch is committed when it is done, whatever becomes of its results; they are listed as undelivered, and wait. When
the oldest have waited for `every`, or the run ends, their rows are copied into new files, still where files wait, and
one commit puts those in the place of the ones that they were copied from. Only then are they delivered, as any
others are. So whatever dies, either the commit is there, and the gathered files are delivered, or it is not, and those
of each batch are: no row is seen twice, and none is lost.

Only what this run has committed, and nobody has begun to deliver, is gathered. What an earlier run left may have been
delivered in part, and is delivered as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.model.file_sums import FileSum
from watersmeet.model.ids import DeliveryId
from watersmeet.runtime.outputs import Outputs
from watersmeet.runtime.results import ROW_GROUP_ROWS, write_files
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Delivery, Manifest
from watersmeet.state.output_names import Stamp, late_beginning, late_name_after, result_name
from watersmeet.state.updates import GatherDeliveries

READ_ROWS = 1 << 16  # at once, so that to gather takes little memory


@dataclass(frozen=True)
class Gatherer:
    """Gathers what waits in `outputs`, so that the oldest waits no longer than `every`."""

    outputs: Outputs
    every: timedelta

    def gather(self, deliveries: Sequence[Delivery], manifest: Manifest) -> GatherDeliveries | None:
        """Write the rows of these deliveries, the oldest first, as few files; None if they are few already."""
        sums = {name: found for entry in deliveries for name, found in entry.sums.items()}
        results = [name for entry in deliveries for name in entry.results]
        late = [name for entry in deliveries for name in entry.late_files]
        limit = self.outputs.max_rows or ROW_GROUP_ROWS
        stamp = Stamp(deliveries[-1].batch, manifest.next_delivery, self.outputs.owner, manifest.epoch)
        written: dict[str, FileSum] = {}
        if self.outputs.waiting is not None:
            names: Iterator[str] = (result_name(number, stamp) for number in itertools.count())
            results = _gathered(self.outputs.waiting, results, names, limit, written)
        if self.outputs.late_waiting is not None:
            by_stream: dict[str, list[str]] = {}
            for name in late:
                by_stream.setdefault(late_beginning(name), []).append(name)
            late = []
            for beginning, parts in by_stream.items():
                names = map(late_name_after, itertools.repeat(beginning), itertools.repeat(stamp))
                late += _gathered(self.outputs.late_waiting, parts, names, limit, written)
        if not written:
            return None
        kept = {name: {**sums, **written}[name] for name in (*results, *late) if name in sums or name in written}
        ids = tuple(entry.id for entry in deliveries)
        return GatherDeliveries(ids, tuple(results), tuple(late), kept, DeliveryId(manifest.next_delivery + 1))

    def discard(self, deliveries: Sequence[Delivery], gathered: GatherDeliveries) -> None:
        """Delete the files whose rows are in others now, once that is committed."""
        kept = {*gathered.results, *gathered.late_files}
        results = [name for entry in deliveries for name in entry.results]
        late = [name for entry in deliveries for name in entry.late_files]
        for folder, names in ((self.outputs.waiting, results), (self.outputs.late_waiting, late)):
            if folder is not None:
                folder.delete_all([name for name in names if name not in kept])

    def files_of(self, gathered: GatherDeliveries) -> dict[Folder, tuple[str, ...]]:
        """What must be on disk before it is committed."""
        places = ((self.outputs.waiting, gathered.results), (self.outputs.late_waiting, gathered.late_files))
        return {folder: names for folder, names in places if folder is not None}


def _gathered(
    folder: Folder, names: Sequence[str], new: Iterator[str], limit: int, written: dict[str, FileSum]
) -> list[str]:
    """The files that have the rows of `names`: those that are long enough, or of another schema, and new ones."""
    seen = {name: _look(folder, name) for name in names}
    rows = {name: count for name, (count, _) in seen.items()}
    full = [name for name in names if rows[name]] or list(names[:1])  # an empty one is there for its schema
    small = [name for name in full if 0 < rows[name] < limit and seen[name][1].equals(seen[full[0]][1])]
    if len(small) < 2:
        return full
    found, _ = write_files(folder, new, _read(folder, small), seen[small[0]][1], limit)
    written.update(found)
    return [*(name for name in full if name not in small), *found]


def _look(folder: Folder, name: str) -> tuple[int, pa.Schema]:
    """The number of rows of a file, and its schema."""
    with _open(folder, name) as file:
        return int(file.metadata.num_rows), file.schema_arrow


def _read(folder: Folder, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for name in names:
        with _open(folder, name) as file:
            yield from file.iter_batches(READ_ROWS)


def _open(folder: Folder, name: str) -> pq.ParquetFile:
    """A file on this machine is mapped, so that its end alone is read for the number of its rows."""
    return pq.ParquetFile(pa.memory_map(folder.path(name)) if folder.local else pa.BufferReader(folder.read(name)))
