"""How far a query on Spark is behind its sources, as Spark's own progress has it.

Spark reports after a batch where each source has come to, and the newest that there is. For Kafka both are offsets by
topic and partition, whose differences are rows. Other sources, files among them, do not say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from watersmeet.runtime.reports import Backlog


def backlogs(progress: Mapping[str, Any] | None, streams: Sequence[str]) -> dict[str, Backlog]:
    """What the sources of a query had left after the batch that Spark reports of, by stream, where that is known.

    A stream that is read from several sources, or that Spark reads together with another, cannot be told apart.

    >>> source = {"endOffset": {"t": {"0": 5, "1": 7}}, "latestOffset": {"t": {"0": 9, "1": 7}}}
    >>> backlogs({"sources": [source, {"endOffset": {"logOffset": 1}, "latestOffset": None}]}, ["A", "B"])
    {'A': {'rows': 4}}
    """
    sources = [] if progress is None else progress["sources"]
    if len(sources) != len(streams):
        return {}
    behind = {name: _rows_behind(source) for name, source in zip(streams, sources, strict=True)}
    return {name: {"rows": rows} for name, rows in behind.items() if rows is not None}


def _rows_behind(source: Mapping[str, Any]) -> int | None:
    end, latest = (_by_partition(source.get(name)) for name in ("endOffset", "latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(0, offset - end.get(place, 0)) for place, offset in latest.items())


def _by_partition(offsets: Any) -> dict[tuple[str, str], int] | None:
    """Offsets by topic and partition; None if they are of another kind."""
    try:
        found = json.loads(offsets) if isinstance(offsets, str) else offsets
        return {(topic, number): int(at) for topic, parts in found.items() for number, at in parts.items()}
    except (AttributeError, TypeError, ValueError):
        return None
