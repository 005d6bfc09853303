"""The manifest: everything that is true of a run after some version. Frozen data, plain JSON.

Version n is the state after its last batch and every adaptation before it. A manifest never changes; `state/updates.py`
makes the next one from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from watersmeet.model.file_names import FileName
from watersmeet.model.file_sums import FileSums
from watersmeet.model.group_figures import GroupFigures
from watersmeet.model.ids import FIRST_DELIVERY, DeliveryId, OperatorName, StateName
from watersmeet.model.intake import UnfinishedIntake
from watersmeet.model.placement import Placement
from watersmeet.model.plain_json import plain_fields, read_fields
from watersmeet.model.routing import Groups, groups_text, renumber_ranges
from watersmeet.model.statistics import Measured
from watersmeet.plan.spec import PlanSpec
from watersmeet.state.epochs import NOBODY, Holder
from watersmeet.state.learned import Learned
from watersmeet.state.query_identity import QueryIdentity
from watersmeet.state.retention import Retention
from watersmeet.state.segment_table import SegmentTable
from watersmeet.state.taken import Taken

FORMAT = 6
ANSWERS = "answers"  # the role of tracks whose results are emitted
WARMS_UP = "warms up"  # the role of the track that is to take over


@dataclass(frozen=True)
class Warming:
    """How far a track that is to take over has come. Rows are told apart by the `delivery` of their segments.

    It has taken in all rows up to `done`, and goes on in rounds: one is over the rows after `done` and up to `start`,
    which were there when the round began. Of these it has those of groups that begin before `cursor` (of 2**16
    stretches of the hash), and all of them once `done` has come to `start`. A track that `skips` does without rows up
    to `start`, and has no rounds.
    """

    by: str
    start: int
    done: int = -1
    cursor: int = 0
    skips: bool = False
    rows: int = 0  # taken in so far
    seconds: float = 0.0  # that this has taken
    change: Mapping[str, Any] = field(default_factory=dict)  # the decision that it comes of

    @property
    def since(self) -> int:
        """Of rows up to here nothing is taken in."""
        return self.start if self.skips else -1

    @property
    def in_round(self) -> bool:
        return self.done < self.start

    @property
    def share(self) -> float:
        """Of the rows that were there when the track began, what is taken in: those of its first round."""
        return self.cursor / 2**16 if self.in_round and self.done < 0 else 1.0


@dataclass(frozen=True)
class Track:
    """One plan spec at work on the state: its role, why it was chosen, and the batch that it answers from.

    Where groups have shapes of their own, several tracks answer, each `within` its groups, and all groups have one.
    `asked` is the setting that it was chosen by, or, where the plan was changed since, that the run goes on with.
    """

    spec: PlanSpec
    reason: str = ""
    role: str = ANSWERS
    since_batch: int = 0
    asked: str = ""
    warming: Warming | None = None  # of one that warms up
    within: Groups | None = None  # None: all groups

    def cut(self, group: int) -> Track:
        """After a group has been cut in two. Where shapes differ, there is one partitioning, so it is one of its."""
        return self if self.within is None else replace(self, within=renumber_ranges(self.within, group))


@dataclass(frozen=True)
class StreamProgress:
    """How far a stream has come: the largest event time seen, and, for a local source, the files that were read.

    Of its rows, `late` were late and `ahead` were ahead; the times of those that are ahead do not count.
    The names of files, with the times that they were modified, are in `file_lists`, which lie beside the segments, and
    of the last ones in `files`. Files that were modified before `ignored_before_us` are passed over from now on. Of
    `intake`, a part was read, and its event times do not count yet.
    """

    newest_us: int | None = None
    rows: int = 0
    late: int = 0
    files: tuple[tuple[str, int], ...] = ()
    file_lists: tuple[tuple[FileName, int], ...] = ()  # the name of each list, and how many files it names
    ignored_before_us: int = 0
    ahead: int = 0
    intake: UnfinishedIntake | None = None

    def reach(self, newest_us: int | None, intake: UnfinishedIntake | None) -> StreamProgress:
        """With rows up to `newest_us` read, which `intake` is still to follow, or which are the last of theirs."""
        read = [self.intake.newest_us if self.intake is not None else None, newest_us]
        if intake is not None:
            return replace(self, intake=replace(intake, newest_us=_latest(read)))
        return replace(self, newest_us=_latest([self.newest_us, *read]), intake=None)

    @property
    def newest_read_us(self) -> int | None:
        """The largest event time seen, of an intake too that is not yet at its end."""
        return _latest([self.newest_us, None if self.intake is None else self.intake.newest_us])

    def watermark_us(self, lateness_us: int) -> int | None:
        return None if self.newest_us is None else self.newest_us - lateness_us

    @property
    def reads_files(self) -> bool:
        return bool(self.files or self.file_lists or self.intake)

    @property
    def file_count(self) -> int:
        return len(self.files) + sum(count for _, count in self.file_lists)


@dataclass(frozen=True)
class BatchRecord:
    """The last batch, or round of merges after it: what it read and made.

    Batches are numbered by the source, which numbers no merges; so merges that no new rows come with are rounds 1, 2,
    .. of the batch before them.
    """

    number: int
    rows_in: int
    rows_out: int
    rows_late: int
    joins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # rows in and out, by what people call them
    rows_merged: int = 0
    round: int = 0
    rows_ahead: int = 0


@dataclass(frozen=True)
class Delivery:
    """Results that are committed and whose delivery is not known: of which batch and round, and their files.

    `id` grows with every batch and round and never changes: it is what `foreachBatch` gets.
    """

    id: DeliveryId
    batch: int
    round: int
    results: tuple[FileName, ...] = ()
    late_files: tuple[FileName, ...] = ()
    sums: FileSums = field(default_factory=dict)  # of these files

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.results, *self.late_files)


@dataclass(frozen=True)
class Withdrawal:
    """What a rollback leaves to be done outside of the state: listed until it is known to be done, as deliveries are.

    Results that were delivered since leave the output, and Spark's own notes go back. It may be repeated until batches
    follow: no file ever gets the name of another.
    """

    version: int  # that went back
    batch: int  # the last one that stands
    how: str  # what becomes of the files: one of `WITHDRAWALS`
    files: tuple[FileName, ...] = ()  # results and late rows, wherever they are by now
    places: tuple[str, ...] = ()  # where runs since have had them wait, without secrets


ASIDE, REMOVE, KEEP = "aside", "remove", "keep"
WITHDRAWALS = (ASIDE, REMOVE, KEEP)


@dataclass(frozen=True)
class Counted:
    """How far the rows of a stream have been counted: so many, which is all of them before `before_us`.

    No row will enter the join that is before that. None: none has been counted.
    """

    before_us: int | None = None
    rows: int = 0


@dataclass(frozen=True)
class GateProgress:
    """Which rows have entered the join, of a query with windows of rows; see `runtime/gate.py`.

    All that were read and are before `admitted_us`, and no others; None: none has.
    """

    admitted_us: int | None = None
    counted: Mapping[str, Counted] = field(default_factory=dict)  # by stream that has such a window


@dataclass(frozen=True)
class Manifest:
    version: int
    query: QueryIdentity
    tracks: tuple[Track, ...]
    placement: Placement
    segments: SegmentTable
    streams: Mapping[str, StreamProgress] = field(default_factory=dict)
    batch: BatchRecord | None = None
    undelivered: tuple[Delivery, ...] = ()  # the oldest first
    next_delivery: DeliveryId = FIRST_DELIVERY
    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    decisions: tuple[Mapping[str, Any], ...] = ()  # for people; no code goes by what they say
    taken: tuple[Taken, ...] = ()  # before the batches to come
    measured: Measured = field(default_factory=Measured)
    figures: Mapping[OperatorName, GroupFigures] = field(default_factory=dict)
    learned: Learned = field(default_factory=Learned)
    holder: Holder = NOBODY
    claims: tuple[int, ...] = ()  # the versions with which the last runs have taken the checkpoint
    id: str = ""  # the name of the checkpoint, wherever it lies
    committed_us: int | None = None  # when, by the clock of who committed it; None for a run that leaves nothing behind
    retention: Retention = Retention()  # noqa: RUF009 - frozen
    kept_from: int = 0  # the oldest version that could still be gone back to
    rows_ahead: int = 0
    undone: tuple[tuple[int, int], ...] = ()  # the first and last of versions that a rollback went back behind
    withdrawals: tuple[Withdrawal, ...] = ()  # not known to be done, the oldest first
    library: tuple[Mapping[str, Any], ...] = ()  # plans that served well, and under which figures
    emitted: Mapping[StateName, int] = field(default_factory=dict)  # of groups: the last boundary, in microseconds
    gate: GateProgress | None = None  # of a query without windows of rows there is none

    @property
    def epoch(self) -> int:
        return self.holder.epoch

    @property
    def has_decided(self) -> bool:
        """Whether anything was decided since the run began: its plan and placement may not be the first ones."""
        return any(entry["version"] for entry in self.decisions)

    def can_go_back_to(self, version: int) -> bool:
        """Whether all that an earlier version refers to is still there, and its results have not been withdrawn."""
        undone = any(first <= version <= last for first, last in self.undone)
        return self.kept_from <= version < self.version and not undone

    @property
    def answering(self) -> Track:
        """The track whose results are emitted; the first of them, where groups have shapes of their own."""
        return self.shapes[0]

    @property
    def shapes(self) -> tuple[Track, ...]:
        """The tracks whose results are emitted, each for its groups."""
        return tuple(track for track in self.tracks if track.role == ANSWERS)

    @property
    def warming_up(self) -> Track | None:
        """The track that is to take over, if there is one."""
        return next((track for track in self.tracks if track.role == WARMS_UP), None)

    @property
    def apart(self) -> tuple[int, ...]:
        """Deliveries after which rows are not written into one file with those before: a track starts from there."""
        track = self.warming_up
        if track is None or track.warming is None:
            return ()
        return tuple(sorted({track.warming.start, track.warming.done} - {-1}))

    @property
    def plan(self) -> str:
        """The tree of the answering track, and those of groups that have another."""
        others = (f", and {track.spec.tree} in groups {groups_text(track.within or ())}" for track in self.shapes[1:])
        return f"{self.answering.spec.tree}{''.join(others)}"

    @property
    def last_batch(self) -> int:
        """The number of the last batch, -1 before the first."""
        return -1 if self.batch is None else self.batch.number

    @property
    def state_rows(self) -> int:
        return self.segments.rows

    @property
    def active_bytes(self) -> int:
        return self.segments.active_bytes

    @property
    def cold_bytes(self) -> int:
        return self.segments.cold_bytes

    def to_json(self) -> dict[str, Any]:
        """Its fields, and for people the plan, which the tracks say in full."""
        return {"format": FORMAT, "plan": self.plan, **plain_fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        return read_fields(cls, {entry.name: data[entry.name] for entry in fields(cls)})


def _latest(times: Iterable[int | None]) -> int | None:
    return max((time for time in times if time is not None), default=None)
