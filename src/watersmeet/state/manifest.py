"""The manifest: everything that is true of a run after some version. Frozen data, plain JSON.

Version n is the state after its last batch and every adaptation before it. A manifest never changes; `state/updates.py`
makes the next one from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from watersmeet.model.group_figures import GroupFigures
from watersmeet.model.routing import Routing
from watersmeet.model.segments import Segment
from watersmeet.model.statistics import Measured

FORMAT = 2


@dataclass(frozen=True)
class QueryIdentity:
    """What a checkpoint belongs to: the query, and the streams that it reads."""

    text: str
    streams: dict[str, str]  # name -> schema, event-time column and lateness as text
    digest: str


@dataclass(frozen=True)
class StreamProgress:
    """How far a stream has come: the largest event time seen, and, for a local source, the files that were read."""

    newest: int | None = None
    rows: int = 0
    late: int = 0
    files: tuple[str, ...] = ()

    def watermark(self, lateness_us: int) -> int | None:
        return None if self.newest is None else self.newest - lateness_us


@dataclass(frozen=True)
class BatchRecord:
    """The last batch, or round of merges after it: what it read and made, and the files to deliver it from.

    Batches are numbered by the source, which numbers no merges; so merges that no new rows come with are rounds 1, 2,
    .. of the batch before them.
    """

    number: int
    rows_in: int
    rows_out: int
    rows_late: int
    results: tuple[str, ...] = ()
    late_files: tuple[str, ...] = ()
    nodes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rows_merged: int = 0
    round: int = 0


@dataclass(frozen=True)
class Manifest:
    version: int
    query: QueryIdentity
    plan: str
    routing: Routing
    segments: Mapping[str, Segment] = field(default_factory=dict)
    streams: Mapping[str, StreamProgress] = field(default_factory=dict)
    batch: BatchRecord | None = None
    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    decisions: tuple[Mapping[str, Any], ...] = ()
    closed: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # generations closed, by operator and group
    measured: Measured = field(default_factory=Measured)
    figures: Mapping[str, GroupFigures] = field(default_factory=dict)  # by operator
    traced: bool = False  # whether rows carry the hashes that results are traced by

    @property
    def last_batch(self) -> int:
        """The number of the last batch, -1 before the first."""
        return -1 if self.batch is None else self.batch.number

    @property
    def state_rows(self) -> int:
        return sum(segment.live_rows for segment in self.segments.values())

    @property
    def active_bytes(self) -> int:
        return sum(segment.live_bytes for segment in self.segments.values() if segment.tier == "active")

    @property
    def cold_bytes(self) -> int:
        return sum(segment.live_bytes for segment in self.segments.values() if segment.tier == "cold")

    def live_generation(self, operator: str, group: int) -> int:
        """The number of the generation that new rows of the group enter: how many were closed before it."""
        return self.closed.get(operator, {}).get(group, 0)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": self.version,
            "query": asdict(self.query),
            "plan": self.plan,
            "routing": {"slots": self.routing.slots, "owners": list(self.routing.owners)},
            "segments": [segment.to_json() for segment in self.segments.values()],
            "streams": {name: asdict(progress) for name, progress in self.streams.items()},
            "batch": None if self.batch is None else asdict(self.batch),
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "rows_late": self.rows_late,
            "decisions": list(self.decisions),
            "closed": {operator: dict(groups) for operator, groups in self.closed.items()},
            "measured": self.measured.to_json(),
            "figures": {operator: figures.to_json() for operator, figures in self.figures.items()},
            "traced": self.traced,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Manifest:
        segments = [Segment.from_json(entry) for entry in data["segments"]]
        return cls(
            version=data["version"],
            query=QueryIdentity(**data["query"]),
            plan=data["plan"],
            routing=Routing(data["routing"]["slots"], tuple(data["routing"]["owners"])),
            segments={segment.id: segment for segment in segments},
            streams={
                name: StreamProgress(**{**progress, "files": tuple(progress["files"])})
                for name, progress in data["streams"].items()
            },
            batch=None if data["batch"] is None else batch_from_json(data["batch"]),
            rows_in=data["rows_in"],
            rows_out=data["rows_out"],
            rows_late=data["rows_late"],
            decisions=tuple(data["decisions"]),
            closed={
                operator: {int(group): count for group, count in groups.items()}
                for operator, groups in data["closed"].items()
            },
            measured=Measured.from_json(data["measured"]),
            figures={operator: GroupFigures.from_json(entry) for operator, entry in data["figures"].items()},
            traced=data["traced"],
        )


def batch_from_json(data: dict[str, Any]) -> BatchRecord:
    return BatchRecord(**{**data, "results": tuple(data["results"]), "late_files": tuple(data["late_files"])})
