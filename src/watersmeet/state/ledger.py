"""What the groups of an operator hold and owe, by generation: read off the manifest, and kept up as that changes.

A group of an operator is a list of generations, each complete in itself. With rows in more than one of them it owes
what they make together, until a merge emits that and unites them. The closed generations are in cold buckets; the live
one is what is active, and what has expired and gone cold (`LIVE`).

A `Ledger` belongs to one version. `Ledgers` makes the next one from the last: only generations whose buckets changed
are looked at again. Nothing here is written down, so a restart works it all out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.kernel.window import NEVER
from watersmeet.model.distinct import KeyCounts
from watersmeet.model.ids import LIVE, Generation, OperatorName
from watersmeet.model.routing import GroupRange, Groups, expand_ranges, union_ranges
from watersmeet.model.segments import Counts
from watersmeet.plan.physical import Node, PhysicalPlan
from watersmeet.state.manifest import Manifest
from watersmeet.state.segment_table import Bucket, ByGroup, SegmentTable

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GenerationRows:
    """The rows of one generation of an operator. Arrays have a figure for each group, `rows` one for each input too."""

    buckets: tuple[tuple[Bucket, ...], ...]  # of each input: none where it has no rows, two where some have gone cold
    groups: int
    within: Groups | None = None  # of these alone; None: of all

    @cached_property
    def rows(self) -> Counts:
        nothing = np.zeros(self.groups, dtype=np.int64)
        return np.stack(
            [sum((bucket.by_group(self.groups, self.within).rows for bucket in held), nothing) for held in self.buckets]
        )

    @cached_property
    def products(self) -> Floats:
        """Combinations of one row from each input."""
        return np.asarray(np.prod(self.rows.astype(np.float64), axis=0))

    @cached_property
    def there(self) -> Flags:
        """Where it has any row."""
        return np.asarray(self.rows.any(axis=0))

    @property
    def _all(self) -> list[ByGroup]:
        return [bucket.by_group(self.groups, self.within) for held in self.buckets for bucket in held]

    @cached_property
    def bytes(self) -> Floats:
        return sum((figures.bytes for figures in self._all), np.zeros(self.groups))

    @cached_property
    def times_us(self) -> Counts:
        """A time that none of its results is older than; `NEVER` where it has no rows."""
        return np.asarray(np.stack([figures.times_us for figures in self._all]).min(axis=0))

    @cached_property
    def last_expiry_us(self) -> Counts:
        """When all its rows have expired; long ago where it has none."""
        return np.asarray(np.stack([figures.last_expiry_us for figures in self._all]).max(axis=0))

    @cached_property
    def keys(self) -> KeyCounts:
        return KeyCounts.sum([figures.keys for figures in self._all], self.groups)


@dataclass(frozen=True, eq=False)
class Ledger:
    """All generations of one operator, in the groups that it has: where shapes differ, not all of them."""

    groups: int
    live: GenerationRows | None  # None where it has no rows
    closed: Mapping[Generation, GenerationRows]
    # Sums over the closed generations, by group.
    rows: Counts  # by input too
    products: Floats
    count: Counts  # generations with rows
    bytes: Floats
    cold: tuple[Mapping[Generation, Bucket], ...]  # of each input: what all this was worked out from
    within: Groups | None = None  # the groups that it has; None: all

    @property
    def closed_groups(self) -> Flags:
        """Where there is a closed generation: whatever comes later is owed results with it."""
        return self.count > 0

    @cached_property
    def closed_ranges(self) -> tuple[GroupRange, ...]:
        return as_ranges(self.closed_groups)

    @cached_property
    def owing(self) -> Flags:
        """The groups that owe results: with rows in two generations or more."""
        live = np.zeros(self.groups, dtype=bool) if self.live is None else self.live.there
        return self.count + live > 1

    def owes(self, within: Groups | None = None) -> bool:
        """Whether any of these groups does; of all, with None."""
        owing = self.owing if within is None else self.owing[expand_ranges(within)]
        return bool(owing.any())

    @cached_property
    def cooled(self) -> Flags:
        """Where rows of the live generation have expired and gone cold, being owed results."""
        found = np.zeros(self.groups, dtype=bool)
        for generations in self.cold:
            if LIVE in generations:
                found |= generations[LIVE].by_group(self.groups, self.within).rows > 0
        return found

    def passed(self, until_us: int) -> Flags:
        """Where a closed generation has outlived its windows: no row that comes after this time joins with it."""
        found = np.zeros(self.groups, dtype=bool)
        for generation in self.closed.values():
            found |= generation.there & (generation.last_expiry_us <= until_us)
        return found

    @cached_property
    def _times_us(self) -> tuple[Counts, Counts, Counts]:
        """For each group the two oldest times of its generations, and the number of the one that has the first."""
        known = [*self.closed.items(), *([] if self.live is None else [(LIVE, self.live)])]
        if not known:
            never = np.full(self.groups, NEVER, dtype=np.int64)
            return never, never, np.full(self.groups, LIVE, dtype=np.int64)
        times = np.stack([generation.times_us for _, generation in known])
        place = np.argmin(times, axis=0)
        first = times.min(axis=0)
        times[place, np.arange(self.groups)] = NEVER
        return first, times.min(axis=0), np.array([number for number, _ in known])[place]

    @cached_property
    def hold_us(self) -> int | None:
        """A time that no result owed is older than; None where nothing is owed.

        Such a result has rows of two generations or more, so it is no older than the second oldest of these begins.
        """
        if not self.owing.any():
            return None
        return int(self._times_us[1][self.owing].min())

    @property
    def owed_since_us(self) -> Counts:
        """The same for each group; `NEVER` where it owes nothing."""
        return self._times_us[1]

    def partner_times_us(self, generation: Generation) -> Counts:
        """For each group, the oldest time among the rows of its other generations."""
        first, second, holder = self._times_us
        return np.where(holder == generation, second, first)

    def others_since_us(self, generations: Collection[Generation]) -> Counts:
        """For each group, the oldest time in the generations that are not these, the live one among them."""
        others = [held.times_us for number, held in self.closed.items() if number not in generations]
        others += [] if self.live is None else [self.live.times_us]
        return np.asarray(np.min([np.full(self.groups, NEVER, dtype=np.int64), *others], axis=0))

    @cached_property
    def keys(self) -> KeyCounts:
        """Of all generations, the live one among them."""
        generations = [*self.closed.values(), *([] if self.live is None else [self.live])]
        return KeyCounts.sum([generation.keys for generation in generations], self.groups)


class Ledgers:
    """The ledgers of a plan's operators, for one version after the other."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self.plan = plan
        self._manifest: Manifest | None = None
        self._ledgers: dict[OperatorName, Ledger] = {}

    def at(self, manifest: Manifest) -> Mapping[OperatorName, Ledger]:
        """Those of a version; cheap for the one asked for last, and for what follows it."""
        if self._manifest is not manifest:
            self._ledgers = {
                name: _ledger(node, manifest, self._ledgers.get(name), self.plan.within[name])
                for name, node in self.plan.operators.items()
            }
            self._manifest = manifest
        return self._ledgers

    def holds_us(self, manifest: Manifest) -> dict[OperatorName, int]:
        """For each operator that owes results, a time that none of them is older than."""
        found = {operator: ledger.hold_us for operator, ledger in self.at(manifest).items()}
        return {operator: time for operator, time in found.items() if time is not None}


def _ledger(node: Node, manifest: Manifest, before: Ledger | None, within: Groups | None) -> Ledger:
    segments, groups = manifest.segments, manifest.placement.of(node.partitioning).groups
    cold = tuple(segments.cold(state) for state in node.states)
    live = _live(node, segments, groups, within)
    if before is None or before.groups != groups:  # where a group was cut, all are looked at again
        empty = np.zeros((len(node.inputs), groups), dtype=np.int64)
        before = Ledger(groups, None, {}, empty, np.zeros(groups), empty[0].copy(), np.zeros(groups), (), within)
    if len(before.cold) == len(cold) and all(new is old for new, old in zip(cold, before.cold, strict=True)):
        return replace(before, live=live)
    numbers = {number for generations in cold for number in generations if number != LIVE}
    found = {n: tuple((held[n],) if n in held else () for held in cold) for n in numbers}
    same = {n: g for n, g in before.closed.items() if n in found and _are_same(g.buckets, found[n])}
    new = {number: GenerationRows(buckets, groups, within) for number, buckets in found.items() if number not in same}
    if within is not None:  # other groups may have generations that these have none of
        new = {number: generation for number, generation in new.items() if generation.there.any()}
    gone = [generation for number, generation in before.closed.items() if number not in same]
    closed = {**same, **new}

    def changed(total: np.ndarray[Any, Any], figure: Callable[[GenerationRows], np.ndarray[Any, Any]]) -> Any:
        if not closed:
            return np.zeros_like(total)  # differences of floats leave traces
        return total + sum(map(figure, new.values())) - sum(map(figure, gone))

    return Ledger(
        groups=groups,
        live=live,
        closed=closed,
        rows=changed(before.rows, lambda generation: generation.rows),
        products=changed(before.products, lambda generation: generation.products),
        count=changed(before.count, lambda generation: generation.there.astype(np.int64)),
        bytes=changed(before.bytes, lambda generation: generation.bytes),
        cold=cold,
        within=within,
    )


def _are_same(first: tuple[tuple[Bucket, ...], ...], second: tuple[tuple[Bucket, ...], ...]) -> bool:
    """Buckets are compared by identity."""
    return first == second


def _live(node: Node, segments: SegmentTable, groups: int, within: Groups | None) -> GenerationRows | None:
    buckets = []
    for state in node.states:
        held = (segments.active(state), segments.cold(state).get(LIVE))
        buckets.append(tuple(bucket for bucket in held if bucket is not None and bucket.entries))
    return GenerationRows(tuple(buckets), groups, within) if any(buckets) else None


def as_ranges(flags: Flags) -> tuple[GroupRange, ...]:
    """
    >>> as_ranges(np.array([True, True, False, True]))
    ((0, 2), (3, 4))
    """
    return union_ranges((group, group + 1) for group in np.flatnonzero(flags).tolist())
