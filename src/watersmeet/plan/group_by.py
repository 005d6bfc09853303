"""A group-by: the stage that stands above all joins of a query which groups their results, or above its one stream.

It is partitioned by the hash of the group columns, with groups and a placement of its own. What arrives is partial rows
(`kernel/aggregate.py`), made by whoever sends them, and what it keeps is partial rows, too: by group and run of
boundaries, not by joined row. Its state is named by what is grouped and how, never by the joins below: these may be
changed while it stays.

It emits a boundary once no row that counts there can come any more, from streams or from joins below that owe results
(`state/boundaries.py`). It has no generations: what it keeps meets nothing, so nothing is owed where it is spilled.
Rows for boundaries go cold and are read again when one is due; running totals are asked for by every batch, and stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.model.aggregates import Partials
from watersmeet.model.ids import Label, OperatorName, Partitioning
from watersmeet.plan.physical import Exchange, Feed, Node, Source, State

GROUPS = Partitioning("group")
LABEL = Label("G1")


@dataclass(frozen=True)
class GroupByStage:
    index: int
    wave: int
    name: OperatorName
    source: Source
    port: int
    state: State

    @property
    def partials(self) -> Partials:
        assert self.state.partials is not None
        return self.state.partials

    @property
    def title(self) -> Label:
        return LABEL

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        return ()

    @property
    def within(self) -> None:
        return None  # its groups are other than those of the joins below

    @property
    def states(self) -> tuple[State, ...]:
        return (self.state,)

    reads = states

    @property
    def ports(self) -> dict[int, State]:
        return {self.port: self.state}

    @property
    def operators(self) -> tuple[Node, ...]:
        return ()  # it has no generations, and owes nothing

    @property
    def meetings(self) -> tuple[tuple[State, ...], ...]:
        return ()  # new rows are added to what is kept, and meet nothing

    @property
    def feeds(self) -> tuple[Feed, ...]:
        return ()  # what it keeps is never made from rows of before
