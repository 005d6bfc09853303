"""Whose a checkpoint is: the same query is let in, and another is told what differs."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import CheckpointError
from watersmeet.lang.binder import bind
from watersmeet.model.plain_json import plain, read
from watersmeet.model.streams import Stream
from watersmeet.optimize.choose import choose_plan
from watersmeet.optimize.query_graph import Statistics
from watersmeet.plan.layout import lay_out
from watersmeet.plan.query import Query
from watersmeet.start.former_query import query_of
from watersmeet.state.identity import identify, refuse_other_query
from watersmeet.state.query_identity import QueryIdentity

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
            identity(schema=SCHEMA.set(1, pa.field("v", pa.string()))),
            'Column "v" of stream "A" was BIGINT, and this run has STRING.',
        ),
        (
            identity(schema=SCHEMA.set(2, pa.field("ts", pa.timestamp("us", "UTC")))),
            'Column "ts" of stream "A" was BIGINT, and this run has TIMESTAMP.',
        ),
        (
            identity(time="k", lateness=timedelta(microseconds=2)),
            'The event-time column of stream "A" was ts, and this run has k.\n'
            'The lateness of stream "A" was 0 us, and this run has 2 us.',
        ),
    ],
    ids=["text", "lateness", "time", "type", "type of the time", "two"],
)
def test_another_query_is_refused_with_what_differs(other: QueryIdentity, detail: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        refuse_other_query(identity(), other)
    assert caught.value.primary == "the checkpoint belongs to another query"
    assert caught.value.detail == detail


def test_white_space_counts_inside_of_literals() -> None:
    one, two = (identity(f"{TEXT} AND A.v = CAST('{text}' AS BIGINT)") for text in ("1 2", "1  2"))
    assert one.digest != two.digest


# --- columns beside those that are read ------------------------------------------------------------------------------

STAR = "SELECT A.*, B.k AS bk FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k"
GROUPED = "SELECT A.v AS g, COUNT(*) AS n FROM A, B WHERE A.k = B.k GROUP BY g"
FOLDED = "SELECT A.k FROM A [RANGE 10 SECONDS], B WHERE A.k = B.k AND (TRUE OR A.v > 3)"
OTHERS = [
    pa.string(),
    pa.list_(pa.float32(), 3),
    pa.map_(pa.string(), pa.int8()),
    pa.dictionary(pa.int8(), pa.string()),
]


@st.composite
def schemas_beside(draw: st.DrawFn) -> pa.Schema:
    """The columns of `SCHEMA` in any order, without `w`, which no query reads, and with others between them."""
    # In GROUP BY a column comes before a result of the same name: a column `g` is another query.
    taken = ("k", "v", "ts", "g")
    names = draw(st.lists(st.text(max_size=4).filter(lambda name: name.lower() not in taken), unique=True))
    others = [pa.field(name, draw(st.sampled_from(OTHERS))) for name in [*names, *draw(st.sampled_from([[], ["#k0"]]))]]
    return pa.schema(draw(st.permutations([*SCHEMA, *{field.name: field for field in others}.values()])))


@pytest.mark.parametrize("text", [TEXT, GROUPED, FOLDED])
@given(schema=schemas_beside())
def test_columns_beside_those_that_are_read_say_nothing(text: str, schema: pa.Schema) -> None:
    """Neither in the identity, nor in any name of what the state holds."""
    usual, other = (bound(text, schema) for schema in (SCHEMA, schema))
    assert identify(other).digest == identify(usual).digest
    assert {name: s.types for name, s in identify(other).streams.items()} == {
        name: s.types for name, s in identify(usual).streams.items()
    }
    former = query_of(read(QueryIdentity, json.loads(json.dumps(plain(identify(other))))))
    plans = [lay_out(query, choose_plan(query, "mjoin", Statistics()).tree) for query in (usual, other, former)]
    assert len({tuple((state.name, state.fields) for state in plan.states.values()) for plan in plans}) == 1
    assert len({tuple(plan.operators) for plan in plans}) == 1


def bound(text: str, schema: pa.Schema) -> Query:
    return bind(text, {"A": Stream("A", schema), "B": Stream("B", SCHEMA)})


def test_a_star_reads_all_that_it_stands_for() -> None:
    added = SCHEMA.append(pa.field("x", pa.string()))
    moved = pa.schema([SCHEMA.field(name) for name in ("v", "k", "ts")])
    usual = identify(bound(STAR, SCHEMA))
    assert usual.streams["A"].stream("A").schema == SCHEMA
    assert usual.streams["B"].types == {"k": pa.int64(), "ts": pa.int64()}
    for schema in (added, moved, SCHEMA.remove(1)):
        assert identify(bound(STAR, schema)).digest != usual.digest


def test_two_aliases_of_a_stream_read_it_together() -> None:
    query = bind("SELECT a.k FROM A a [RANGE 1 SECOND], A b WHERE a.k = b.v", {"A": Stream("A", SCHEMA)})
    assert {entry.columns for entry in query.inputs} == {("k", "v", "ts")}


def test_a_query_is_bound_again_from_what_its_identity_says() -> None:
    for text in (TEXT, STAR, GROUPED, FOLDED):
        kept = identify(bound(text, SCHEMA))
        again = query_of(read(QueryIdentity, json.loads(json.dumps(plain(kept)))))
        assert identify(again) == kept
