"""Opening a checkpoint: the lock, the table and the segments of one run, new or gone on with.

Layout under the checkpoint folder: `lock`, `state/` (ours, see `state/table.py`) and `spark/` (Spark's own).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from watersmeet.errors import CheckpointError
from watersmeet.model.quantities import microseconds
from watersmeet.model.routing import Routing
from watersmeet.plan.query import Query
from watersmeet.state.files import Folder
from watersmeet.state.gc import collect_garbage
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.manifest import Manifest, QueryIdentity
from watersmeet.state.segment_files import FileSegments, MemorySegments, Segments
from watersmeet.state.table import AtVersion, FileTable, Table, refuse_other_query
from watersmeet.state.updates import SetRouting

# How many commits pass between two collections. A collection lists one folder.
COLLECT_EVERY = 5


def identify(query: Query) -> QueryIdentity:
    """What tells this query's checkpoint from another's: its text but for white space, and its streams."""
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
    content = json.dumps([" ".join(query.text.split()), sorted(streams.items())])
    return QueryIdentity(query.text, streams, hashlib.sha256(content.encode()).hexdigest())


@dataclass(frozen=True)
class Layout:
    """The folders of a checkpoint."""

    address: str
    cache: str | None = None

    @property
    def home(self) -> Folder:
        return Folder(self.address)

    @property
    def state(self) -> Folder:
        return Folder(self.home.path("state"))

    @property
    def segments(self) -> Folder:
        return Folder(self.home.path("state/segments"), self.cache)

    @property
    def results(self) -> Folder:
        return Folder(self.home.path("state/results"))

    @property
    def spark(self) -> str:
        return self.home.path("spark")


class Checkpoint:
    """One run's hold on its state. Close it to let another run have it."""

    def __init__(
        self, table: Table, segments: Segments, waiting: tuple[Folder, ...] = (), lock: CheckpointLock | None = None
    ) -> None:
        self.table = table
        self.segments = segments
        self._waiting = waiting
        self._lock = lock
        self._collected = table.manifest.version  # the version of the last collection

    @property
    def manifest(self) -> Manifest:
        return self.table.manifest

    def tidy(self, force: bool = False) -> None:
        """Snapshot and collect garbage when it is time to. Between batches only."""
        if isinstance(self.table, FileTable):
            self.table.snapshot_if_due()
            if not force and self.manifest.version - self._collected < COLLECT_EVERY:
                return
        self._collected = self.manifest.version
        collect_garbage(self.table, self.segments, self._waiting)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()


def in_memory(
    query: Query, plan: str, routing: Routing, traced: bool = False, spill: Folder | None = None
) -> Checkpoint:
    """A run that leaves nothing behind. Its state is in memory, or, with a memory budget, in the folder `spill`."""
    manifest = Manifest(0, identify(query), plan, routing, traced=traced)
    return Checkpoint(Table(manifest), MemorySegments() if spill is None else FileSegments(spill))


def open_checkpoint(
    layout: Layout,
    query: Query,
    plan: str,
    routing: Routing,
    waiting: tuple[Folder, ...],
    why: str = "",
    traced: bool = False,
) -> Checkpoint:
    """Take hold of the checkpoint, made new if there is none; then `why` is recorded as the reason for the plan.

    An existing one must be of this query, plan and number of groups; another number of slots only changes routing.
    """
    lock = CheckpointLock(layout.home)
    lock.acquire()
    try:
        identity = identify(query)
        table = FileTable.open(layout.state)
        if table is None:
            decision = {"decision": "plan", "plan": plan, "reason": why, "version": 0}
            first = Manifest(0, identity, plan, routing, decisions=(decision,), traced=traced)
            table = FileTable.create(layout.state, first)
        _refuse_unfit(table.manifest, identity, plan, routing)
        for folder in (layout.segments, *waiting):
            folder.make()
        if table.manifest.routing.slots != routing.slots:
            table.commit([AtVersion(table.manifest.version)], [SetRouting(routing.slots, routing.owners)])
        checkpoint = Checkpoint(table, FileSegments(layout.segments), waiting, lock)
        checkpoint.tidy(force=True)
        return checkpoint
    except BaseException:
        lock.release()
        raise


def refuse_made_on_spark(layout: Layout) -> None:
    """For the local runtime. What was read is in Spark's part of the checkpoint, so it would be read again."""
    if Folder(layout.spark).names():
        raise CheckpointError(
            "the checkpoint was made by the spark runtime",
            detail=f"{layout.spark} says how far its sources were read, which the local runtime cannot go by.",
            hint='Use runtime = "spark" in [run], or another checkpoint folder.',
        )


def refuse_made_locally(manifest: Manifest) -> None:
    """For Spark, which would read all of the files again."""
    if any(progress.files for progress in manifest.streams.values()):
        raise CheckpointError(
            "the checkpoint was made by the local runtime",
            detail="Its state says which files were read, which Spark cannot go by.",
            hint='Use runtime = "local" in [run], or another checkpoint folder.',
        )


def _refuse_unfit(manifest: Manifest, identity: QueryIdentity, plan: str, routing: Routing) -> None:
    refuse_other_query(manifest, identity)
    if manifest.plan != plan:
        raise CheckpointError(
            "the checkpoint was made with another plan",
            detail=f"It was made with {manifest.plan}, and this run asks for {plan}.",
            hint="Go on with the former plan, or use another checkpoint folder.",
        )
    if manifest.routing.groups != routing.groups:
        raise CheckpointError(
            "the checkpoint was made with another number of groups",
            detail=f"It has {manifest.routing.groups} groups, and this run asks for {routing.groups}.",
            hint=f"Set groups = {manifest.routing.groups}, or use another checkpoint folder.",
        )
