"""The query of a checkpoint, bound anew from what the checkpoint says of it; and whether another can go on with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa

from watersmeet.draw.words import expression_text, window_text
from watersmeet.errors import CheckpointError, QueryError
from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.plan.changed_query import compare_queries
from watersmeet.plan.query import Query
from watersmeet.state.identity import identify, refuse_other_query
from watersmeet.state.manifest import Manifest, QueryIdentity


def former_of(manifest: Manifest, query: Query) -> tuple[Query, tuple[str, ...]]:
    """The query that the state was made by, and what is other in `query`; raises if the state cannot serve it."""
    if manifest.query.digest == identify(query).digest:
        return query, ()
    try:
        former = query_of(manifest.query).heeding(manifest.answering.spec.pairs)
    except CheckpointError:  # it has functions of the user's
        refuse_other_query(manifest.query, identify(query))
        raise
    if _streams(former) != _streams(query):
        refuse_other_query(manifest.query, identify(query))
    found = compare_queries(former, query, expression_text, window_text)
    if found.refused:
        raise CheckpointError(
            "the checkpoint belongs to another query",
            detail="\n".join(found.refused),
            hint="Use another checkpoint folder, or go back to the former query and settings of its streams.",
        )
    return former, found.told or ("The text of the query is other, and means the same.",)


def fitted(query: Query, manifest: Manifest) -> Query:
    """The query with windows for pairs as far as the state can heed them; the answer is the same.

    A state goes on with those that its plan was made with. That of another query may have no event times to go by.
    """
    spec = manifest.answering.spec
    if manifest.query.digest == identify(query).digest:
        return query.heeding(spec.pairs)
    if query.pair_windows and manifest.segments and not query_of(manifest.query).reach_with(spec.pairs).is_bounded:
        return query.heeding(())
    return query


def _streams(query: Query) -> dict[str, tuple[object, ...]]:
    """The stream of each input; lateness may be another."""
    return {e.alias: (e.stream.name, e.stream.schema, e.stream.time) for e in query.inputs}


def query_of(identity: QueryIdentity) -> Query:
    """The query that a checkpoint belongs to, bound anew."""
    try:
        query = bind(identity.text, {name: _stream(name, text) for name, text in identity.streams.items()})
    except (QueryError, ValueError, LookupError) as error:
        raise _unbound(str(error)) from None
    if identify(query).digest != identity.digest:
        raise _unbound("what it says of its streams is not all that there is to them")
    return query


def _unbound(why: str) -> CheckpointError:
    return CheckpointError(
        "the query of the checkpoint cannot be bound from what the checkpoint says of it",
        detail=f"{why}. A query with functions of yours cannot be compacted from outside.",
        hint="A run compacts its state by itself, as it goes.",
    )


def _stream(name: str, text: str) -> Stream:
    """A stream as `state/identity.py` wrote it down."""
    columns, time, lateness = text.rsplit("; ", 2)
    fields = [entry.rpartition(" ") for entry in re.split(r", (?![^\[(]*[\])])", columns)]
    schema = pa.schema([pa.field(column, _type(kind)) for column, _, kind in _joined(fields)])
    return Stream(name, schema, time.removeprefix("time "), timedelta(microseconds=int(lateness.split()[1])))


def _joined(fields: list[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """Types with spaces in them, as `timestamp[us, tz=UTC]` and `list<item: float>`, belong together."""
    for column, space, kind in fields:
        while sum(map(kind.count, ")]>")) > sum(map(kind.count, "([<")) and " " in column:
            column, _, more = column.rpartition(" ")
            kind = f"{more} {kind}"
        yield column, space, kind


def _type(text: str) -> pa.DataType:
    """
    >>> _type("decimal128(10, 2)"), _type("timestamp[us, tz=UTC]"), _type("string")
    (Decimal128Type(decimal128(10, 2)), TimestampType(timestamp[us, tz=UTC]), DataType(string))
    >>> _type("fixed_size_list<item: float>[64]"), _type("list<item: int16>")
    (FixedSizeListType(fixed_size_list<item: float>[64]), ListType(list<item: int16>))
    """
    if found := re.fullmatch(r"decimal128\((\d+), (-?\d+)\)", text):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := re.fullmatch(r"(?:fixed_size_)?list<item: (.+)>(?:\[(\d+)\])?", text):
        return pa.list_(_type(found[1]), *([int(found[2])] if found[2] else []))
    if found := re.fullmatch(r"timestamp\[(\w+), tz=(.+)\]", text):
        return pa.timestamp(found[1], found[2])
    return pa.type_for_alias(text)
