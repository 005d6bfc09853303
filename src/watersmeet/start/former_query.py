"""The query of a checkpoint, bound again from its text; and whether its state can serve the query of another run."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.draw.words import expression_text, window_text
from watersmeet.errors import CheckpointError, QueryError
from watersmeet.lang.binder import bind
from watersmeet.plan.changed_query import compare_queries
from watersmeet.plan.query import Query
from watersmeet.state.identity import identify, refuse_other_query, stream_differences
from watersmeet.state.manifest import Manifest
from watersmeet.state.query_identity import QueryIdentity


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
    streams = {entry.alias: entry.stream.name for entry in former.inputs}
    moved = any(streams.get(entry.alias, entry.stream.name) != entry.stream.name for entry in query.inputs)
    if moved or stream_differences(manifest.query, identity, lateness=False):
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


def query_of(identity: QueryIdentity) -> Query:
    """The query that a checkpoint belongs to, bound anew."""
    try:
        query = bind(identity.text, {name: kept.stream(name) for name, kept in identity.streams.items()})
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
