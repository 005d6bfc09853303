"""Version 0 of a checkpoint, and names for checkpoints."""

from __future__ import annotations

import uuid

from watersmeet.model.placement import Placement
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec
from watersmeet.state.identity import identify
from watersmeet.state.manifest import Manifest, Track
from watersmeet.state.retention import Retention
from watersmeet.state.segment_table import SegmentTable


def new_name() -> str:
    """A name for a checkpoint that no other one has."""
    return uuid.uuid4().hex[:12]


def first_manifest(
    query: Query,
    spec: PlanSpec,
    placement: Placement,
    why: str = "",
    name: str | None = None,
    retention: Retention = Retention(),  # noqa: B008 - frozen
    asked: str = "",
) -> Manifest:
    """Version 0 of a run, of a checkpoint of this name, or of a new one."""
    decision = {"decision": "plan", "plan": str(spec.tree), "reason": why, "version": 0}
    return Manifest(
        0,
        identify(query),
        (Track(spec, why, asked=asked),),
        placement,
        SegmentTable.of(),
        decisions=(decision,) if why else (),
        id=new_name() if name is None else name,
        retention=retention,
    )
