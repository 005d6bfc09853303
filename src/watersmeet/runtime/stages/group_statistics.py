"""What a task sees of its groups: rows that come, results that go, and which groups below made them.

A result carries its lineage: 16 bits of the hash that its row had in each join below (`plan/physical.py`), which says
in which group it was made but for rows at the very edge of one. What merges emit has none: it was not earned by what is
in memory. Large batches are sampled: these are estimates to rank groups by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.kernel.pieces import Runs
from watersmeet.kernel.rows import hashes
from watersmeet.model.bounds import Bounds
from watersmeet.model.group_figures import Floats, GroupObservation
from watersmeet.model.ids import OperatorName
from watersmeet.plan.physical import Node

# Rows of a batch that are looked at, evenly spaced; enough to tell hundreds of groups apart over a few batches.
SAMPLE = 4096


Cells = np.ndarray[tuple[int], np.dtype[np.unsignedinteger[Any]]]


class GroupStatistics:
    """Collects, for one task, observations of operators and their groups; `lineage` says whose hash a field is."""

    def __init__(self, lineage: Mapping[str, OperatorName], bounds: Mapping[OperatorName, Bounds]) -> None:
        self.lineage = lineage
        self.bounds = bounds
        self.seen: dict[OperatorName, GroupObservation] = {}

    def come(self, node: Node, new: Iterable[Runs]) -> None:
        """New rows of the inputs of a join."""
        for place, batch in ((place, run.part) for place, runs in enumerate(new) for run in runs):
            if batch.num_rows:
                self._of(node.name, len(node.inputs)).arrivals[place][:] += self._count(node.name, hashes(batch))
                row_bytes = batch.nbytes / batch.num_rows
                for operator, counts in self._below(batch):
                    self._of(operator).inter_bytes[:] += counts * row_bytes

    def made(
        self, node: Node, chunks: Iterable[pa.RecordBatch], elsewhere: Sequence[int] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The results of a join, counted as they go by, but for groups whose results count in another slot."""
        for chunk in chunks:
            if chunk.num_rows:
                counts = self._count(node.name, hashes(chunk))
                counts[list(elsewhere)] = 0.0
                self._of(node.name, len(node.inputs)).local[:] += counts
            yield chunk

    def emitted(self, root: Node | None, chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results of the query, traced to the groups that they came through; `root` is the join that emits them."""
        for chunk in chunks:
            if chunk.num_rows:
                if root is not None:
                    self._of(root.name, len(root.inputs)).traced[:] += self._count(root.name, hashes(chunk))
                for operator, counts in self._below(chunk):
                    self._of(operator).traced[:] += counts
            yield chunk

    def _of(self, operator: OperatorName, inputs: int = 0) -> GroupObservation:
        """What was seen of an operator. One that works in another stage has no arrivals here."""
        if operator not in self.seen:
            self.seen[operator] = GroupObservation.nothing(inputs, len(self.bounds[operator]))
        return self.seen[operator]

    def _below(self, batch: pa.RecordBatch) -> Iterator[tuple[OperatorName, Floats]]:
        """For each join below that the rows came through, how many did through each of its groups."""
        for name in batch.schema.names:
            if name in self.lineage:
                column, operator = batch.column(name), self.lineage[name]
                cells = (column.drop_null() if column.null_count else column).to_numpy()
                yield operator, self._count(operator, cells)

    def _count(self, operator: OperatorName, cells: Cells) -> Floats:
        """Hashes, or their upper 16 bits, by group of an operator."""
        bounds = self.bounds[operator]
        if not len(cells):
            return np.zeros(len(bounds))
        step = max(1, len(cells) // SAMPLE)
        sample = cells[::step]
        upper = (sample >> np.uint64(48) if sample.dtype == np.uint64 else sample).astype(np.int64)
        counts = np.bincount(bounds.groups_of_upper(upper), minlength=len(bounds))
        return np.asarray(counts * (len(cells) / len(sample)), dtype=np.float64)
