"""A small plan and manifests to test state with."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from watersmeet.lang.binder import bind
from watersmeet.model.placement import Placement
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.tree import choose_tree
from watersmeet.state.identity import identify
from watersmeet.state.manifest import Manifest, Track
from watersmeet.state.segment_table import SegmentTable

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
TEXT = "SELECT A.v FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k"


@pytest.fixture
def plan() -> PhysicalPlan:
    streams = {name: Stream(name, SCHEMA, "ts", timedelta(0)) for name in "AB"}
    query = bind(TEXT, streams)
    return lay_out(query, choose_tree(query, "mjoin"))


@pytest.fixture
def first_manifest(plan: PhysicalPlan) -> Manifest:
    return Manifest(0, identify(plan.query), (Track(plan.spec),), Placement(2, 6), SegmentTable.of())
