"""What policies see of a query: one consistent picture, taken between two batches. Frozen data.

A group is the rows that one operator keeps of one range of its key's hash, over all its inputs. A view has
- for each group that has or lately had rows in memory a `GroupView`: its live generation, and what that has earned;
- for each group with closed generations a `ColdView`: what a merge would read.
A group may have both. There is at most one of each kind for an operator and a group; their order says nothing.

Two kinds of figures are kept apart, because the papers do:
- *totals* count from the moment that the live generation was opened ([Liu06]'s P_output and P_inter, [Liu05]'s P_o),
  scaled to the rows that are still there: with windows rows go, and what they earned must not speak for the others;
- *recent* figures are observations by batch, as a smoothing method (`smoothing.py`) makes one figure of them
  ([Levandoski11]'s prtInput, obsLoc and obsGlo). All recent figures of a view are for one batch of `seconds`.

Counts of rows, bytes and results; time in batches, but for `seconds`. Figures are finite and not negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from watersmeet.model.ids import GroupKey, OperatorName

__all__ = ["ColdView", "GroupKey", "GroupView", "MemoryView", "OperatorView"]


@dataclass(frozen=True)
class OperatorView:
    """A join of the plan, and where in the plan it stands."""

    id: OperatorName
    depth: int  # hops to the root, which is at 0
    level: int  # 0: fed by streams only; else one more than the highest of the operators that feed it
    inputs: tuple[str, ...]  # aliases of streams, or ids of operators
    row_bytes: tuple[float, ...]  # of a row in memory, by input
    spillable: bool
    label: str = ""  # what people call it

    def __post_init__(self) -> None:
        assert len(self.row_bytes) == len(self.inputs) >= 2, self


@dataclass(frozen=True)
class GroupView:
    """The live generation of a group."""

    operator: OperatorName
    group: int
    slot: int
    rows: tuple[int, ...]  # in memory, by input
    bytes: tuple[int, ...]  # in memory, by input
    unique: float  # distinct keys, of all generations
    last_use: float  # the batch in which the last row came
    local_output: float  # total: results of the operator
    global_output: float  # total: results of the query, traced to this group
    inter_bytes: float  # total: bytes of intermediate results of this group that operators above store
    arrivals: tuple[float, ...]  # recent: rows that came, by input
    recent_local: float  # recent: results of the operator
    recent_global: float  # recent: results of the query

    def __post_init__(self) -> None:
        assert len(self.rows) == len(self.bytes) == len(self.arrivals), self

    @property
    def key(self) -> GroupKey:
        return self.operator, self.group

    @cached_property
    def size_bytes(self) -> int:
        return sum(self.bytes)


@dataclass(frozen=True)
class ColdView:
    """The closed generations of a group, which owe each other results."""

    operator: OperatorName
    group: int
    generations: int
    rows_by_input: tuple[int, ...]  # of all generations
    within: float  # combinations of one row from each input that are within a generation, and emitted
    bytes: int
    unique: float  # distinct keys, of all generations
    largest_rows: int = 0  # of the generation that has most
    passed: bool = False  # one of them has outlived its windows, so that no new row will join with it
    overdue: bool = False  # and that for as long as its windows are wide
    owed_since_us: int = 0  # a time that no result which is owed is older than
    cooled: tuple[int, ...] = ()  # rows by input of the live generation that have expired and gone cold
    cooled_bytes: int = 0

    def and_live(self, live: GroupView | None) -> ColdView:
        """With the live generation as one more, if it has any rows: those in memory, and those that have gone cold."""
        nothing = (0,) * len(self.rows_by_input)
        rows = tuple(map(sum, zip(self.cooled or nothing, nothing if live is None else live.rows, strict=True)))
        bytes = self.cooled_bytes + (0 if live is None else live.size_bytes)
        if not (any(rows) or bytes):
            return self
        return replace(
            self,
            generations=self.generations + 1,
            rows_by_input=tuple(a + b for a, b in zip(self.rows_by_input, rows, strict=True)),
            within=self.within + math.prod(rows),
            bytes=self.bytes + bytes,
        )

    @property
    def key(self) -> GroupKey:
        return self.operator, self.group

    @property
    def rows(self) -> int:
        return sum(self.rows_by_input)


@dataclass(frozen=True)
class MemoryView:
    """All operators and groups after a batch."""

    batch: int  # the last one that was finished; the first is 0
    budget_bytes: int | None  # None: no limit
    active_bytes: int
    seconds: float  # that one batch takes, for recent figures
    arrivals_total: float  # recent: rows that came at any input of any operator
    operators: tuple[OperatorView, ...]
    groups: tuple[GroupView, ...]
    cold: tuple[ColdView, ...] = ()

    def __post_init__(self) -> None:
        assert self.seconds > 0, self.seconds

    def operator(self, id: OperatorName) -> OperatorView:
        return self._operators[id]

    def label(self, id: OperatorName) -> str:
        """What people call an operator."""
        return self.operator(id).label or id

    def live(self, operator: OperatorName, group: int) -> GroupView | None:
        return self._live.get((operator, group))

    @cached_property
    def spillable(self) -> tuple[GroupView, ...]:
        """The groups that a spill would free memory of, by operator and number."""
        found = (group for group in self.groups if group.size_bytes > 0 and self.operator(group.operator).spillable)
        return tuple(sorted(found, key=lambda group: group.key))

    @cached_property
    def recent_outputs(self) -> dict[OperatorName, tuple[float, float]]:
        """For each operator, the recent local and global output of all its groups."""
        by_operator: dict[OperatorName, list[GroupView]] = {operator.id: [] for operator in self.operators}
        for group in self.groups:
            by_operator[group.operator].append(group)
        # fsum rounds once, so that the order of the groups does not show.
        return {
            id: (math.fsum(group.recent_local for group in groups), math.fsum(group.recent_global for group in groups))
            for id, groups in by_operator.items()
        }

    def below(self, id: OperatorName) -> tuple[OperatorName, ...]:
        """The operators that feed this one, directly or not."""
        top = self.operator(id)
        # The level tells an operator from a stream whose alias is spelled like an operator's name.
        found = (OperatorName(source) for source in top.inputs if source in self._operators)
        feeding = [source for source in found if self.operator(source).level < top.level]
        return tuple(found for source in feeding for found in (source, *self.below(source)))

    @cached_property
    def _operators(self) -> dict[OperatorName, OperatorView]:
        return {operator.id: operator for operator in self.operators}

    @cached_property
    def _live(self) -> dict[GroupKey, GroupView]:
        return {group.key: group for group in self.groups}
