"""What a checkpoint belongs to: the query, and the streams that it reads. The state of one never serves another.

What functions of the user's prepare of rows is kept with them, and is part of it, by the names of the functions: they
have nothing else to be known by. A function that gives something else under its old name is not seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.errors import CheckpointError
from watersmeet.lang.identity import normal_text
from watersmeet.lang.registered import described
from watersmeet.model.quantities import microseconds
from watersmeet.plan.query import Query
from watersmeet.state.manifest import QueryIdentity

# The parts of a stream's text in a query's identity, in order, and what each begins with.
_STREAM_ASPECTS = (("schema", ""), ("event-time column", "time "), ("lateness", "lateness "))


def identify(query: Query) -> QueryIdentity:
    """What tells this query's checkpoint from another's: its text but for white space and comments, and its streams."""
    streams = {
        entry.stream.name: "; ".join(
            [
                ", ".join(f"{field.name} {field.type}" for field in entry.stream.schema),
                f"time {entry.stream.time}",
                f"lateness {microseconds(entry.stream.lateness)} us",
            ]
        )
        for entry in query.inputs
    }
    prepared = dict(described(query.prepared))
    return QueryIdentity(query.text, streams, _digest(normal_text(query.text), streams, prepared), prepared)


@dataclass(frozen=True)
class Declared:
    """What a checkpoint says of one of its streams, for those who have no query at hand."""

    counts: bool  # whether its event time is a number, and need not be a date
    lateness_us: int


def declared(text: str) -> Declared:
    """What the text of a stream in a `QueryIdentity` says.

    >>> declared("k int64, at int64; time at; lateness 5000 us")
    Declared(counts=True, lateness_us=5000)
    >>> declared("at int64, ts timestamp[us, tz=UTC]; time ts; lateness 0 us")
    Declared(counts=False, lateness_us=0)
    """
    schema, time, lateness = text.rsplit("; ", 2)
    column = f", {time.removeprefix('time ')} {pa.int64()}"
    return Declared(f", {schema},".find(f"{column},") >= 0, int(lateness.removeprefix("lateness ").removesuffix(" us")))


def _digest(text: str, streams: Mapping[str, str], prepared: Mapping[str, str] | None = None) -> str:
    parts = [text, sorted(streams.items()), *([sorted(prepared.items())] if prepared else [])]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def refuse_other_query(kept: QueryIdentity, query: QueryIdentity) -> None:
    """Raise if a checkpoint, made by the query `kept`, is not one of `query`, and say what differs."""
    if kept.digest == query.digest:
        return
    differences = _stream_differences(kept.streams, query.streams)
    if kept.prepared != query.prepared:
        was, now = (_prepared_text(each.prepared) for each in (kept, query))
        differences.append(f"It keeps {was} of rows, and this run needs {now}.")
    if normal_text(kept.text) != normal_text(query.text) or not differences:
        differences.insert(0, f"It was made by:\n  {kept.text.strip()}\nand this run is:\n  {query.text.strip()}")
    raise CheckpointError(
        "the checkpoint belongs to another query",
        detail="\n".join(differences),
        hint="Use another checkpoint folder, or go back to the former query and settings of its streams.",
    )


def _prepared_text(prepared: Mapping[str, str]) -> str:
    return " and ".join(f"{what} as {kind}" for what, kind in sorted(prepared.items())) or "nothing that was prepared"


def _stream_differences(kept: Mapping[str, str], asked: Mapping[str, str]) -> list[str]:
    """A sentence for each thing that differs between the streams of two identities."""
    found = []
    for name in sorted(kept.keys() & asked.keys()):
        aspects = zip(_STREAM_ASPECTS, kept[name].rsplit("; ", 2), asked[name].rsplit("; ", 2), strict=False)
        for (aspect, prefix), old, new in aspects:
            if old != new:
                was, now = old.removeprefix(prefix), new.removeprefix(prefix)
                found.append(f'The {aspect} of stream "{name}" was {was}, and this run has {now}.')
    if kept.keys() != asked.keys():
        found.append(f"It reads the streams {', '.join(sorted(kept))}, and this run {', '.join(sorted(asked))}.")
    return found
