"""The query of a checkpoint, bound again from its text; and whether its state can serve the query of another run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Served:
    """The query that a state was made by, and the one of a run that resumes from it.

    Both have the windows for pairs that the state can heed. Without `changes` they are the same object.
    """

    former: Query
    query: Query
    identity: QueryIdentity  # of `query`
    changes: tuple[str, ...] = ()  # how they differ, as sentences


def serve(manifest: Manifest, query: Query) -> Served:
    """Fit a query to the state of a checkpoint; raises if the state cannot serve it.

    A state keeps the windows for pairs that its plan was made with. The state of another query may lack the event times
    that new ones need: then rows stay for longer, and the answer is the same.
    """
    identity, pairs = identify(query), manifest.answering.spec.pairs
    if manifest.query.digest == identity.digest:
        same = query.heeding(pairs)
        return Served(same, same, identity)
    try:
        former = query_of(manifest.query).heeding(pairs)
    except CheckpointError:  # it has functions of the user's
        refuse_other_query(manifest.query, identity)
        raise
    if _streams(former) != _streams(query):
        refuse_other_query(manifest.query, identity)
    found = compare_queries(former, query, expression_text, window_text)
    if found.refused:
        raise CheckpointError(
            "the checkpoint belongs to another query",
            detail="\n".join(found.refused),
            hint="Use another checkpoint folder, or go back to the former query and settings of its streams.",
        )
    has_times = not query.pair_windows or not manifest.segments or former.reach_with(pairs).is_bounded
    fitted = query if has_times else query.heeding(())
    return Served(former, fitted, identity, found.told or ("The query text changed, but not its meaning.",))


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
