"""How the rows of a stream enter a plan: from a batch without late rows to rows by slot and port, for both executors."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from watersmeet.kernel.prepare import SplitRows, prepare
from watersmeet.kernel.tally import FilterTally
from watersmeet.runtime.context import SourceContext


def enter(
    split: SplitRows, stream: str, context: SourceContext, tally: FilterTally
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """The rows of a stream for each of its ports: slot, port and rows. `tally` is told what filters did."""
    for leaf in context.leaves:
        if leaf.stream == stream:
            for slot, piece in context.cut(prepare(split, leaf, tally), leaf):
                yield slot, leaf.port, piece
