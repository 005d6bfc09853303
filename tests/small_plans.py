"""Plans of two joins, one over the other, and manifests made by hand for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from watersmeet.lang.binder import bind
from watersmeet.model.routing import GroupRange, Routing, expand_ranges
from watersmeet.model.segments import Segment
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.tree import choose_tree
from watersmeet.runtime.checkpoint import identify
from watersmeet.state.manifest import BatchRecord, Manifest

SECOND = 1_000_000
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
STREAMS = {name: Stream(name, SCHEMA, "ts", timedelta(0)) for name in "ABC"}
CHAIN = """
SELECT A.v AS a, B.v AS b, C.k AS c
FROM A [RANGE 10 SECONDS], B [RANGE 20 SECONDS], C [RANGE 5 SECONDS]
WHERE A.k = B.k AND B.v = C.v
"""


def chain_plan(traced: bool = False) -> PhysicalPlan:
    """J1 joins A and B, and J2 its results with C, on another key."""
    query = bind(CHAIN, STREAMS)
    return lay_out(query, choose_tree(query, "((A B) C)"), traced=traced)


def state_of(plan: PhysicalPlan, inputs: str) -> str:
    """The name of the state of an input such as "A" or "A+B"."""
    return next(name for name in plan.states if name.startswith(f"{inputs}@"))


def piece(
    plan: PhysicalPlan,
    name: str,
    inputs: str,
    groups: tuple[GroupRange, ...],
    begin: float,
    end: float | None = None,
    rows: int = 2,
    cold: int | None = None,
) -> Segment:
    """A segment with `rows` rows in each group, whose oldest is of second `begin` and whose last expires at `end`.

    `cold` is the number of its generation where it is cold.
    """
    counts = (rows,) * len(expand_ranges(groups))
    entry = Segment(
        id=name,
        state=state_of(plan, inputs),
        rows=sum(counts),
        bytes=sum(counts) * 10,
        crc32=0,
        groups=groups,
        born=groups,
        min_expiry=0,
        max_expiry=int((begin + 10 if end is None else end) * SECOND),
        min_time=int(begin * SECOND),
        batch=0,
        group_rows=counts,
        group_keys=counts,
    )
    return entry if cold is None else replace(entry, tier="cold", generation=cold)


def manifest_of(
    plan: PhysicalPlan, *segments: Segment, groups: int = 8, closed: Mapping[str, Mapping[int, int]] | None = None
) -> Manifest:
    """After batch 0."""
    return Manifest(
        version=1,
        query=identify(plan.query),
        plan=plan.tree,
        routing=Routing.even(groups, 2),
        segments={entry.id: entry for entry in segments},
        batch=BatchRecord(0, 0, 0, 0),
        closed=closed or {},
        traced=plan.traced,
    )
