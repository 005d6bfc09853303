"""How the rows of a stream enter a plan: rows that are not late, by slot and port. For both executors."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from watersmeet.kernel.prepare import SplitRows, entering, of_port
from watersmeet.kernel.tally import FilterTally
from watersmeet.model.expressions import describe
from watersmeet.model.ids import StateName
from watersmeet.runtime.context import SourceContext


def enter(
    split: SplitRows, stream: str, context: SourceContext, tally: FilterTally
) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    """The rows of a stream for each of its ports: slot, port and rows. `tally` is told what filters did."""
    computed: dict[tuple[object, ...], pa.RecordBatch] = {}
    prepared: dict[tuple[str, StateName], pa.RecordBatch] = {}
    for leaf in context.leaves:
        if leaf.stream == stream:
            # Shapes that differ mostly keep the same of an input, and each gets the rows of its groups.
            alike = (leaf.alias, leaf.state.name)
            if alike not in prepared:
                # An input that is kept on several keys is filtered and computed once.
                made = (leaf.alias, *map(describe, leaf.filters), *(name for name, _ in leaf.computed))
                if made not in computed:
                    computed[made] = entering(split, leaf, tally)
                prepared[alike] = of_port(computed[made], leaf)
            for slot, piece in context.cut(prepared[alike], leaf):
                yield slot, leaf.port, piece
