"""The segments of a manifest, in buckets: the active ones of each state, and the cold ones of each generation of it.

Rows of streams that have not entered the join yet are in buckets of their own, one for each stream.

A `SegmentTable` never changes. A `SegmentDraft` is made from one, changed, and turned into the next; buckets that were
not touched are shared by both, with all that was worked out for them. So a commit costs in proportion to the buckets
that it changes, and what is asked of a bucket (rows, bytes, times by group) is worked out once for each version of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.errors import InternalError
from watersmeet.kernel.window import NEVER
from watersmeet.model.distinct import KeyCounts
from watersmeet.model.ids import Generation, SegmentId, StateName
from watersmeet.model.routing import GroupRange, Groups, intersect_ranges, union_ranges
from watersmeet.model.segments import COLD, WAITING, Counts, Segment

Floats = npt.NDArray[np.float64]
LONG_AGO = -NEVER  # before any time of a row


@dataclass(frozen=True, eq=False)
class ByGroup:
    """What segments of one state and generation hold in each of so many groups."""

    segments: Collection[Segment]
    groups: int

    @cached_property
    def last_expiry_us(self) -> Counts:
        """When all rows have expired; `LONG_AGO` where there are none."""
        total = np.full(self.groups, LONG_AGO, dtype=np.int64)
        for segment in self.segments:
            held = segment.held_groups
            total[held] = np.maximum(total[held], segment.max_expiry_us)
        return total

    @cached_property
    def rows(self) -> Counts:
        total = np.zeros(self.groups, dtype=np.int64)
        for segment in self.segments:
            segment.add_rows(total)
        return total

    @cached_property
    def bytes(self) -> Floats:
        total = np.zeros(self.groups)
        for segment in self.segments:
            total[segment.held_groups] += segment.held_rows * (segment.bytes / max(1, segment.rows))
        return total

    @cached_property
    def keys(self) -> KeyCounts:
        return KeyCounts.of(self.segments, self.groups)

    @cached_property
    def times_us(self) -> Counts:
        """A time that no result with one of the rows is older than; `NEVER` where there are none."""
        total = np.full(self.groups, NEVER, dtype=np.int64)
        for segment in self.segments:
            held = segment.held_groups
            total[held] = np.minimum(total[held], segment.min_time_us)
        return total


@dataclass(frozen=True, eq=False)
class Bucket:
    """Segments of one state and generation, by id.

    How many groups there are, only the partitioning of its state says, so whoever asks for figures by group says it. A
    cut changes every entry of a state, so that all who ask for one bucket say the same.
    """

    entries: Mapping[SegmentId, Segment]
    _figures: dict[tuple[int, Groups | None], ByGroup] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def rows(self) -> int:
        return sum(segment.live_rows for segment in self.entries.values())

    @cached_property
    def bytes(self) -> int:
        return sum(segment.live_bytes for segment in self.entries.values())

    @cached_property
    def first_expiry_us(self) -> int:
        """The soonest that all rows of one of the segments have expired."""
        return min((segment.max_expiry_us for segment in self.entries.values()), default=NEVER)

    @cached_property
    def unresolved(self) -> tuple[Segment, ...]:
        """Those with ends whose times are not known yet."""
        return tuple(segment for segment in self.entries.values() if segment.rank_ends)

    def by_group(self, groups: int, within: Groups | None = None) -> ByGroup:
        """Figures for each of so many groups, worked out once; nothing of groups that are not `within`."""
        if (groups, within) not in self._figures:
            held = self.entries.values()
            found = held if within is None else [part for entry in held if (part := entry.only(within)).groups]
            self._figures[groups, within] = ByGroup(found, groups)
        return self._figures[groups, within]


EMPTY = Bucket({})
NOTHING: Mapping[Generation, Bucket] = {}


class SegmentTable(Mapping[SegmentId, Segment]):
    """All segments by id, and by bucket."""

    def __init__(
        self,
        active: Mapping[StateName, Bucket],
        cold: Mapping[StateName, Mapping[Generation, Bucket]],
        waiting: Mapping[StateName, Bucket] = MappingProxyType({}),
    ) -> None:
        self._active = active
        self._cold = cold
        self._waiting = waiting

    @classmethod
    def of(cls, segments: Iterable[Segment] = ()) -> SegmentTable:
        draft = SegmentDraft(cls({}, {}))
        for segment in segments:
            draft.add(segment)
        return draft.finish()

    def to_json(self) -> list[dict[str, Any]]:
        return [segment.to_json() for segment in self.values()]

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]]) -> SegmentTable:
        return cls.of(map(Segment.from_json, data))

    def active(self, state: StateName) -> Bucket:
        """The segments of a state that every batch probes."""
        return self._active.get(state, EMPTY)

    def cold(self, state: StateName) -> Mapping[Generation, Bucket]:
        """The cold segments of a state, by generation; `LIVE` for expired rows of the one that new rows still enter."""
        return self._cold.get(state, NOTHING)

    def of_state(self, state: StateName) -> Iterator[Segment]:
        """All segments of a state, active and cold."""
        yield from self.active(state).entries.values()
        for bucket in self.cold(state).values():
            yield from bucket.entries.values()

    def waiting(self, stream: StateName) -> Bucket:
        """The rows of a stream that have not entered the join yet, and those that are kept for their times."""
        return self._waiting.get(stream, EMPTY)

    @property
    def all_waiting(self) -> Iterator[Segment]:
        """The same of all streams."""
        for bucket in self._waiting.values():
            yield from bucket.entries.values()

    @property
    def unresolved(self) -> Iterator[Segment]:
        """Segments with ends of windows of rows whose times are not known yet."""
        for bucket in self._active.values():
            yield from bucket.unresolved
        for generations in self._cold.values():
            for bucket in generations.values():
                yield from bucket.unresolved

    @property
    def active_states(self) -> Iterable[StateName]:
        return self._active

    @property
    def cold_states(self) -> Iterable[StateName]:
        return self._cold

    def _buckets(self) -> Iterator[Mapping[SegmentId, Segment]]:
        for bucket in self._active.values():
            yield bucket.entries
        for generations in self._cold.values():
            for bucket in generations.values():
                yield bucket.entries
        for bucket in self._waiting.values():
            yield bucket.entries

    def __getitem__(self, name: SegmentId) -> Segment:
        for entries in self._buckets():
            if name in entries:
                return entries[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[SegmentId]:
        for entries in self._buckets():
            yield from entries

    def __len__(self) -> int:
        return sum(map(len, self._buckets()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def active_bytes(self) -> int:
        return sum(bucket.bytes for bucket in self._active.values())

    @cached_property
    def cold_bytes(self) -> int:
        return sum(bucket.bytes for generations in self._cold.values() for bucket in generations.values())

    @cached_property
    def rows(self) -> int:
        cold = sum(bucket.rows for generations in self._cold.values() for bucket in generations.values())
        return cold + sum(bucket.rows for bucket in (*self._active.values(), *self._waiting.values()))


class SegmentDraft:
    """A table while a commit changes it."""

    def __init__(self, table: SegmentTable) -> None:
        self._table = table
        # Buckets that were touched, as plain dictionaries.
        self._active: dict[StateName, dict[SegmentId, Segment]] = {}
        self._cold: dict[tuple[StateName, Generation], dict[SegmentId, Segment]] = {}
        self._waiting: dict[StateName, dict[SegmentId, Segment]] = {}
        self._places: dict[SegmentId, tuple[StateName, Generation]] | None = None  # of the cold ones, once asked for
        self._emptied: set[SegmentId] = set()  # entries that went while they still stood for groups, without rows
        self.files: Counter[SegmentId] = Counter()  # how many entries more, or fewer, each file has

    def finish(self) -> SegmentTable:
        """The next table. The draft can be changed further, and finished again."""
        active = dict(self._table._active)
        for state, entries in self._active.items():
            active[state] = Bucket(dict(entries))
            if not entries:
                del active[state]
        cold = dict(self._table._cold)
        for state in {state for state, _ in self._cold}:
            cold[state] = dict(cold.get(state, NOTHING))
        for (state, generation), entries in self._cold.items():
            generations = cold[state]
            assert isinstance(generations, dict)
            generations[generation] = Bucket(dict(entries))
            if not entries:
                del generations[generation]
        waiting = dict(self._table._waiting)
        for stream, entries in self._waiting.items():
            waiting[stream] = Bucket(dict(entries))
            if not entries:
                del waiting[stream]
        return SegmentTable(active, {state: found for state, found in cold.items() if found}, waiting)

    def active(self, state: StateName) -> dict[SegmentId, Segment]:
        if state not in self._active:
            self._active[state] = dict(self._table.active(state).entries)
        return self._active[state]

    def waiting(self, stream: StateName) -> dict[SegmentId, Segment]:
        if stream not in self._waiting:
            self._waiting[stream] = dict(self._table.waiting(stream).entries)
        return self._waiting[stream]

    def cold(self, state: StateName, generation: Generation) -> dict[SegmentId, Segment]:
        key = (state, generation)
        if key not in self._cold:
            before = self._table.cold(state).get(generation)
            self._cold[key] = {} if before is None else dict(before.entries)
        return self._cold[key]

    def generations(self, state: StateName) -> set[Generation]:
        """The generations of cold segments of a state."""
        touched = {generation for (name, generation), entries in self._cold.items() if name == state and entries}
        return touched | (self._table.cold(state).keys() - {g for name, g in self._cold if name == state})

    def of_state(self, state: StateName) -> list[Segment]:
        """All segments of a state, active and cold."""
        cold = (segment for number in self.generations(state) for segment in self.cold_entries(state, number).values())
        return [*self.active(state).values(), *cold]

    def add(self, segment: Segment) -> None:
        bucket = self._bucket(segment)
        if segment.id in bucket:
            raise InternalError(f'two entries "{segment.id}" for one part of a file')
        bucket[segment.id] = segment
        self.files[segment.file] += 1
        if self._places is not None and segment.tier == COLD:
            self._places[segment.id] = (segment.state, segment.generation)

    def release(self, name: SegmentId, groups: tuple[GroupRange, ...]) -> None:
        """These groups leave a segment, and it leaves the table with the last of them that has rows."""
        if name in self._emptied:
            return
        segment = self._find(name)
        self._keep(segment, segment.without(groups))

    def change(self, name: SegmentId, changed: Callable[[Segment], Segment]) -> None:
        """Describe a segment anew, in the bucket that it is in."""
        segment = self._find(name)
        self._bucket(segment)[name] = changed(segment)

    def replace_all(self, table: SegmentTable) -> None:
        """Have what another table has."""
        self.files.subtract(segment.file for segment in self.finish().values())
        self.files.update(segment.file for segment in table.values())
        self._table, self._places = table, None
        self._active.clear()
        self._cold.clear()
        self._waiting.clear()
        self._emptied.clear()

    def turn_cold(self, segment: Segment, groups: tuple[GroupRange, ...], generation: Generation) -> None:
        """Move `groups` from an entry to one of their own, of a cold generation."""
        if intersect_ranges(segment.groups, groups):
            self._keep(segment, segment.without(groups))
            cold = segment.cold(groups, generation)
            if cold.live_rows:
                self.add(cold)

    def drop(self, state: StateName, within: Groups | None = None) -> None:
        """These groups leave a state."""
        for segment in self.of_state(state):
            groups = segment.groups if within is None else intersect_ranges(segment.groups, within)
            if groups:
                self.release(segment.id, groups)

    def reopen(self, state: StateName, within: Groups | None = None) -> None:
        """All rows of a state in these groups are active, and of the live generations: a file has one entry for them.

        That entry has too what was active of the file before.
        """
        parts: dict[SegmentId, list[Segment]] = {}
        for segment in self.of_state(state):
            parts.setdefault(segment.file, []).append(segment)
        for entries in parts.values():
            taken = {
                part.id: part.groups if part.active or within is None else intersect_ranges(part.groups, within)
                for part in entries
            }
            groups = union_ranges(group for ranges in taken.values() for group in ranges)
            for part in (part for part in entries if taken[part.id]):
                self.release(part.id, part.groups)
                rest = part.without(taken[part.id])
                if rest.groups and rest.live_rows:
                    self.add(part.cold(rest.groups, part.generation))  # called by its first group, which may have left
            if groups:
                self.add(entries[0].reopened(groups))

    def cut(self, state: StateName, group: int, first: Mapping[SegmentId, tuple[int, int]]) -> None:
        """A group of a state becomes two; `first` has what the first of them has of each file with rows in it."""
        for bucket in (self.active(state), *(self.cold(state, number) for number in self.generations(state))):
            for segment in bucket.values():
                if any(segment.count_of(group) or ()) and segment.file not in first:
                    raise InternalError(f'nobody has counted what a cut leaves of segment "{segment.id}"')
            entries = [segment.cut(group, first.get(segment.file, (0, 0))) for segment in bucket.values()]
            bucket.clear()
            bucket.update((segment.id, segment) for segment in entries)
        self._places = None  # parts may have other names now

    def _keep(self, segment: Segment, rest: Segment) -> None:
        bucket = self._bucket(segment)
        if rest.groups and rest.live_rows:  # groups without rows would keep a file among those that every batch opens
            bucket[segment.id] = rest
        else:
            del bucket[segment.id]
            self.files[segment.file] -= 1
            if self._places is not None:
                self._places.pop(segment.id, None)
            if rest.groups:
                self._emptied.add(segment.id)

    def _bucket(self, segment: Segment) -> dict[SegmentId, Segment]:
        if segment.tier == WAITING:
            return self.waiting(segment.state)
        return self.active(segment.state) if segment.active else self.cold(segment.state, segment.generation)

    def _find(self, name: SegmentId) -> Segment:
        for state in (*self._active, *self._table.active_states):
            entries = self._active[state] if state in self._active else self._table.active(state).entries
            if name in entries:
                return entries[name]
        for stream in (*self._waiting, *self._table._waiting):
            entries = self._waiting[stream] if stream in self._waiting else self._table.waiting(stream).entries
            if name in entries:
                return entries[name]
        if self._places is None:
            self._places = {
                found: (state, generation)
                for state in {*self._table.cold_states, *(state for state, _ in self._cold)}
                for generation in self.generations(state)
                for found in self.cold_entries(state, generation)
            }
        if name not in self._places:
            raise InternalError(f'no segment "{name}"')
        return self.cold_entries(*self._places[name])[name]

    def cold_entries(self, state: StateName, generation: Generation) -> Mapping[SegmentId, Segment]:
        """As `cold`, to look at only."""
        if (state, generation) in self._cold:
            return self._cold[state, generation]
        before = self._table.cold(state).get(generation)
        return {} if before is None else before.entries


def next_generation(table: SegmentTable, states: Iterable[StateName]) -> Generation:
    """A number that no generation of these states has: for the one that is closed next."""
    return Generation(max(0, *(generation for state in states for generation in table.cold(state)), 0) + 1)
