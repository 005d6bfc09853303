"""What the sources and the sink of a run promise: what exactly-once delivery rests on beside the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Promises:
    """None: unknown, this cannot be determined."""

    replayable: Mapping[str, bool | None] = field(default_factory=dict)  # by stream: a batch can be read a second time
    idempotent: bool | None = None  # the sink: a delivery that comes again under its id changes nothing

    def to_json(self) -> dict[str, Any]:
        """
        >>> Promises({"A": True}, None).to_json()
        {'sources': {'A': {'replayable': True}}, 'sink': {'idempotent': None}}
        """
        sources = {stream: {"replayable": promise} for stream, promise in self.replayable.items()}
        return {"sources": sources, "sink": {"idempotent": self.idempotent}}
