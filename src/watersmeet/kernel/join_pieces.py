"""The step of a node over any number of new rows: one stretch of the hash after the other, each with what it meets.

Rows that meet have the same hash, so the stretches are joined apart from each other, and what is made for each new row
on the way (numbers, orders, benches) is made for one piece at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from watersmeet.kernel import pieces
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.pieces import Runs, merged, piece_ranges
from watersmeet.kernel.step import Sizes, join_step
from watersmeet.kernel.tally import Tally
from watersmeet.model.bounds import HASH_END
from watersmeet.plan.physical import Node


def join_pieces(
    node: Node,
    new: Sequence[Runs],
    kept: Sequence[Runs],
    tally: Tally,
    fresh: Sequence[Runs] = (),
    after_piece: Callable[[], None] = lambda: None,
) -> Iterator[pa.RecordBatch]:
    """What `join_step` makes of the rows `new`, in runs for each input, given the rows `kept`, in segments for each.

    `fresh` are rows, in runs for each input, that are met as kept ones are. `after_piece` is called whenever new
    rows that were looked at are not needed for now.
    """
    fresh = fresh or [()] * len(new)
    met = [sum(run.count for run in (*old, *young)) for old, young in zip(kept, fresh, strict=True)]
    among = Sizes(tuple(sum(run.count for run in runs) for runs in new), tuple(met))
    if not any(among.new):
        return
    schemas = [entry.state.schema for entry in node.inputs]
    ranges = piece_ranges([run for runs in (*new, *fresh) for run in runs], pieces.JOINED_BYTES)
    after_piece()
    for within in ranges:
        rows = [merged(runs, schema, within) for runs, schema in zip(new, schemas, strict=True)]
        if any(batch.num_rows for batch in rows):
            segments = [[*_clipped(runs, within)] for runs in kept]
            for place, runs in enumerate(fresh):
                if runs:
                    segments[place].append(Indexed.of(merged(runs, schemas[place], within)))
            yield from join_step(node, rows, segments, tally=tally, among=among)
        after_piece()


def _clipped(runs: Runs, within: tuple[int, int]) -> Runs:
    return runs if within == (0, HASH_END) else [run.clipped(*within) for run in runs if run.reaches(*within)]
