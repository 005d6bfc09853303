"""Plans of two joins, one over the other, and manifests made by hand for them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from watersmeet.lang.binder import bind
from watersmeet.model.ids import Generation, Label, OperatorName, SegmentId, StateName
from watersmeet.model.placement import Placement
from watersmeet.model.routing import GroupRange, expand_ranges
from watersmeet.model.segments import Segment
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.tree import choose_tree
from watersmeet.state.identity import identify
from watersmeet.state.manifest import BatchRecord, Manifest, Track
from watersmeet.state.segment_table import SegmentTable

SECOND = 1_000_000
GROUPS = 8
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
STREAMS = {name: Stream(name, SCHEMA, "ts", timedelta(0), time_unit="us") for name in "ABC"}
CHAIN = """
SELECT A.v AS a, B.v AS b, C.k AS c
FROM A [RANGE 10 SECONDS], B [RANGE 20 SECONDS], C [RANGE 5 SECONDS]
WHERE A.k = B.k AND B.v = C.v
"""


def chain_plan(lineage: bool = False, tree: str = "((A B) C)") -> PhysicalPlan:
    """J1 joins A and B, and J2 its results with C, on another key."""
    query = bind(CHAIN, STREAMS)
    return lay_out(query, choose_tree(query, tree), lineage=lineage)


def named(plan: PhysicalPlan, label: str) -> OperatorName:
    """The operator that people call J1 or J2."""
    return plan.labels[Label(label)]


def state_of(plan: PhysicalPlan, inputs: str) -> StateName:
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
        id=SegmentId(name),
        state=state_of(plan, inputs),
        rows=sum(counts),
        bytes=sum(counts) * 10,
        crc32=0,
        groups=groups,
        written=groups,
        min_expiry_us=0,
        max_expiry_us=int((begin + 10 if end is None else end) * SECOND),
        min_time_us=int(begin * SECOND),
        batch=0,
        group_rows=counts,
        group_keys=counts,
    )
    return entry if cold is None else replace(entry, tier="cold", generation=Generation(cold))


def manifest_of(plan: PhysicalPlan, *segments: Segment, groups: int = GROUPS) -> Manifest:
    """After batch 0."""
    return Manifest(
        version=1,
        query=identify(plan.query),
        tracks=(Track(plan.spec),),
        placement=Placement(2, groups),
        segments=SegmentTable.of(segments),
        batch=BatchRecord(0, 0, 0, 0),
    )
