"""Which rows go to which slot: by the groups that a slot owns, or by the slices of time that rows visit there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from watersmeet.kernel.dealing import send_share
from watersmeet.kernel.rows import concat, hashes, rows_between
from watersmeet.kernel.visiting import cut_by_reach
from watersmeet.model.routing import Groups, Routing, subtract_ranges
from watersmeet.model.slices import SliceReach
from watersmeet.model.spread import Share

# Of a slot, that go as they are. Each is a run of its own to whoever merges them, and groups that were moved are
# scattered: with 100 of them a batch of a hundred rows took a third longer.
FEW_SLICES = 4


def to_slots(
    rows: pa.RecordBatch,
    routing: Routing,
    reach: SliceReach | None,
    shares: Sequence[Share] = (),
    aliases: Collection[str] = (),
    within: Groups | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield sorted rows for each slot: those of its groups, or with `reach` all that visit a slice there."""
    return cut(rows, routing, shares, aliases, within) if reach is None else cut_by_reach(rows, routing, reach)


def cut(
    batch: pa.RecordBatch,
    routing: Routing,
    shares: Sequence[Share] = (),
    aliases: Collection[str] = (),
    within: Groups | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a sorted batch that go to each slot, in order: as slices, or as one copy where these are many.

    Rows over these inputs that go to slots by `shares` come last. With `within`, the rows of these groups alone, and
    shares are of none other.
    """
    spread = tuple((share.group, share.group + 1) for share in shares)
    found: dict[int, list[pa.RecordBatch]] = {}
    values = hashes(batch)
    for slot, groups in routing.pieces if within is None else routing.pieces_within(within):
        for stretch in subtract_ranges((groups,), spread) if spread else (groups,):
            start, end = rows_between(values, *routing.hash_range(stretch))
            if start < end:
                found.setdefault(slot, []).append(batch.slice(start, end - start))
    for slot, pieces in found.items():
        gathered = pieces if len(pieces) <= FEW_SLICES else [concat(pieces, batch.schema)]
        yield from ((slot, piece) for piece in gathered)
    for share in shares:
        yield from send_share(batch, share, aliases)
