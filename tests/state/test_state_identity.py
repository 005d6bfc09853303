"""Whose a checkpoint is: the same query is let in, and another is told what differs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from watersmeet.errors import CheckpointError
from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.state.identity import identify, refuse_other_query
from watersmeet.state.manifest import QueryIdentity

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
TEXT = "SELECT A.v FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k"


def identity(text: str = TEXT, **changes: Any) -> QueryIdentity:
    """Of the same query, but for some settings of stream A."""
    usual: dict[str, Any] = {"schema": SCHEMA, "time": "ts", "lateness": timedelta(0)}
    streams = {"A": Stream("A", **usual | changes), "B": Stream("B", **usual)}
    return identify(bind(text, streams))


def test_the_same_query_is_not_refused() -> None:
    refuse_other_query(identity(), identity(TEXT.replace(" ", "\n")))


@pytest.mark.parametrize(
    "other, detail",
    [
        (
            identity(TEXT.replace("A.v", "B.v")),
            f"It was made by:\n  {TEXT}\nand this run is:\n  {TEXT.replace('A.v', 'B.v')}",
        ),
        (
            identity(lateness=timedelta(seconds=1)),
            'The lateness of stream "A" was 0 us, and this run has 1000000 us.',
        ),
        (identity(time="v"), 'The event-time column of stream "A" was ts, and this run has v.'),
        (
            identity(schema=SCHEMA.append(pa.field("x", pa.string()))),
            'The schema of stream "A" was k int64, v int64, ts int64, '
            "and this run has k int64, v int64, ts int64, x string.",
        ),
        (
            identity(time="k", lateness=timedelta(microseconds=2)),
            'The event-time column of stream "A" was ts, and this run has k.\n'
            'The lateness of stream "A" was 0 us, and this run has 2 us.',
        ),
    ],
    ids=["text", "lateness", "time", "schema", "two"],
)
def test_another_query_is_refused_with_what_differs(other: QueryIdentity, detail: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        refuse_other_query(identity(), other)
    assert caught.value.primary == "the checkpoint belongs to another query"
    assert caught.value.detail == detail


def test_white_space_counts_inside_of_literals() -> None:
    one, two = (identity(f"{TEXT} AND A.v = CAST('{text}' AS BIGINT)") for text in ("1 2", "1  2"))
    assert one.digest != two.digest
