"""Whether Spark can read a batch of a stream again after a failure, by the sources that its plan reads."""

from __future__ import annotations

from pyspark.sql import DataFrame

# What Spark's documentation says of its sources; all that read files can.
KNOWN = {"kafka": True, "rate": True, "rate-micro-batch": True, "socket": False}


def replayable(frame: DataFrame) -> bool | None:
    """Whether all sources of a stream can be read again; None: unknown, as of sources that others wrote."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    found = [
        True if (name := leaf.sourceName()).startswith("FileSource[") else KNOWN.get(name)
        for leaf in (leaves.apply(place) for place in range(leaves.size()))
        if leaf.getClass().getSimpleName().startswith("StreamingRelation")
    ]
    if False in found:
        return False
    return None if None in found or not found else True
