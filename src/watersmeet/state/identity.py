"""What a checkpoint belongs to: the query, and the streams that it reads. The state of one never serves another.

The identity covers the text of the query, the names of its results, and of each stream the columns that it reads, their
types, its event time with its unit, and its lateness. Where columns stand, and what there is beside them, is no part
of it.

What functions of the user's prepare of rows is kept with them, and is part of it, by the names of the functions: they
have nothing else to be known by. A function that gives something else under its old name is not seen.
"""

from __future__ import annotations

import hashlib
import json

from watersmeet.errors import CheckpointError
from watersmeet.lang.identity import normal_text
from watersmeet.lang.registered import described
from watersmeet.model.sql_names import sql_type
from watersmeet.model.time_units import unit_name
from watersmeet.plan.query import Query
from watersmeet.state.query_identity import QueryIdentity, StreamIdentity


def identify(query: Query) -> QueryIdentity:
    """What tells this query's checkpoint from another's: its text but for white space and comments, and its streams."""
    streams = {entry.stream.name: StreamIdentity.of(entry.stream, entry.columns) for entry in query.inputs}
    prepared = dict(described(query.prepared))
    parts = {
        "text": normal_text(query.text),
        "results": query.output_schema.names,  # the text does not say what a star stands for
        "streams": {name: _unordered(stream) for name, stream in streams.items()},
        "prepared": prepared,
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return QueryIdentity(query.text, streams, digest, prepared)


def _unordered(stream: StreamIdentity) -> object:
    told = stream.to_json()
    return {**told, "columns": {entry["name"]: entry["type"] for entry in told["columns"]}}


def refuse_other_query(kept: QueryIdentity, query: QueryIdentity) -> None:
    """Raise if a checkpoint, made by the query `kept`, is not one of `query`, and say what differs."""
    if kept.digest == query.digest:
        return
    differences = stream_differences(kept, query)
    if kept.prepared != query.prepared:
        was, now = (_prepared_text(each) for each in (kept, query))
        differences.append(f"It keeps {was} of rows, and this run needs {now}.")
    if normal_text(kept.text) != normal_text(query.text) or not differences:
        differences.insert(0, f"It was made by:\n  {kept.text.strip()}\nand this run is:\n  {query.text.strip()}")
    raise CheckpointError(
        "the checkpoint belongs to another query",
        detail="\n".join(differences),
        hint="Use another checkpoint folder, or go back to the former query and settings of its streams.",
    )


def _prepared_text(identity: QueryIdentity) -> str:
    prepared = sorted(identity.prepared.items())
    return " and ".join(f"{what} as {kind}" for what, kind in prepared) or "nothing that was prepared"


def stream_differences(kept: QueryIdentity, asked: QueryIdentity, lateness: bool = True) -> list[str]:
    """A sentence for each thing that differs between the streams of two queries, as far as both read it."""
    found = []
    for name in sorted(kept.streams.keys() & asked.streams.keys()):
        was, now = kept.streams[name], asked.streams[name]
        types = now.types
        changed = [(column, kind, types[column]) for column, kind in was.columns if types.get(column, kind) != kind]
        for column, *kinds in changed:
            one, other = map(str if len(set(map(sql_type, kinds))) == 1 else sql_type, kinds)
            found.append(f'Column "{column}" of stream "{name}" was {one}, and this run has {other}.')
        if was.time != now.time:
            found.append(f'The event-time column of stream "{name}" was {was.time}, and this run has {now.time}.')
        if was.time_unit != now.time_unit:
            before, after = unit_name(was.time_unit), unit_name(now.time_unit)
            found.append(f'Event times of stream "{name}" were in {before}, and this run has {after}.')
        if lateness and was.lateness_us != now.lateness_us:
            found.append(
                f'The lateness of stream "{name}" was {was.lateness_us} us, and this run has {now.lateness_us} us.'
            )
    if kept.streams.keys() != asked.streams.keys():
        were, are = (", ".join(sorted(each.streams)) for each in (kept, asked))
        found.append(f"It reads the streams {were}, and this run {are}.")
    return found
