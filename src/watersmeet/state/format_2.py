"""Brings a checkpoint of format 2 up to date: its newest version becomes a snapshot of the present format.

Format 2 kept the shape of a plan as text, without probe orders and routes; knew operators by their place (`J1`) and
named states by what rows carry for tracing too; numbered the generations of each group by themselves, and counted the
closed ones; had one routing table; and listed the last batch's results alone, whether delivered or not.

What the text leaves open is found by trying: of the routes that a routed join may have, those whose states are the ones
that the checkpoint holds. The last batch is taken as undelivered, and delivered again: a delivery may be repeated.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from watersmeet.errors import CheckpointError
from watersmeet.model.ids import LIVE, DeliveryId, Generation, OperatorName, SegmentId, StateName
from watersmeet.model.placement import Placement
from watersmeet.model.routing import GroupRange, expand_ranges, intersect_ranges, union_ranges
from watersmeet.model.segments import Segment, ranges_from_json
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.layout.walk import state_name
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import Orders, PlanSpec, joins_of, spec_of
from watersmeet.plan.tree import Join, parse_tree, shared_keys
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import corruption, drop_before, encode, snapshot_name, table_folders, table_numbers, unfit_query

MOST_ROUTES = 5_000  # ways to route a join that are tried


def upgrade_from_2(root: Folder, query: Query) -> None:
    """Add a snapshot of the present format after the newest version, and drop what came before it."""
    versions, snapshots = table_folders(root)
    old = _Replayed(versions, snapshots)
    unfit_query(old.data["query"], query)
    spec = _find_spec(query, old)
    plan = lay_out_spec(query, spec)
    manifest = Manifest.from_json(old.present(plan))
    snapshots.put_if_absent(snapshot_name(manifest.version), encode(manifest.to_json()))
    drop_before(manifest.version, versions, snapshots)
