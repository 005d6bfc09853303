"""The step of a node on little lists of rows, as tests write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.prepare import prepare, split_late
from watersmeet.kernel.step import join_step
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.model.time_units import TimeColumn
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.tree import choose_tree

Row = tuple[Any, ...]
SCHEMA = "k BIGINT, v BIGINT, ts BIGINT"


def plan_of(text: str, schema: str = SCHEMA) -> PhysicalPlan:
    query = bind(text, {name: Stream(name, parse_schema(schema)) for name in "ABC"})
    return lay_out(query, choose_tree(query, "mjoin"))


def rows_of(plan: PhysicalPlan, alias: str, rows: Sequence[Row], schema: str = SCHEMA) -> pa.RecordBatch:
    fields = parse_schema(schema)
    batch = pa.RecordBatch.from_pylist([dict(zip(fields.names, row, strict=True)) for row in rows], schema=fields)
    return prepare(split_late(batch, TimeColumn("ts"), None), next(leaf for leaf in plan.leaves if leaf.alias == alias))


def step(
    plan: PhysicalPlan,
    new: dict[str, list[Row]],
    kept: dict[str, list[list[Row]]] | None = None,
    schema: str = SCHEMA,
    **options: Any,
) -> list[pa.RecordBatch]:
    return list(step_by_step(plan, new, kept, schema, **options))


def step_by_step(
    plan: PhysicalPlan,
    new: dict[str, list[Row]],
    kept: dict[str, list[list[Row]]] | None = None,
    schema: str = SCHEMA,
    **options: Any,
) -> Iterator[pa.RecordBatch]:
    (stage,) = plan.stages
    (node,) = stage.nodes
    aliases = [str(entry.source) for entry in node.inputs]
    return join_step(
        node,
        [rows_of(plan, alias, new.get(alias, []), schema) for alias in aliases],
        [
            [Indexed.of(rows_of(plan, alias, segment, schema)) for segment in (kept or {}).get(alias, [])]
            for alias in aliases
        ],
        **options,
    )
