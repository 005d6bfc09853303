"""A fragment: a stage that is a maximal subtree whose joins share one key, or a ring that is aligned with a master."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.model.ids import Label, Partitioning
from watersmeet.model.routing import Groups, has_group
from watersmeet.plan.physical import Exchange, Feed, Node, State


@dataclass(frozen=True)
class FragmentStage:
    index: int
    wave: int
    keys: tuple[str, ...]  # none where rows lie in segments of a master
    nodes: tuple[Node, ...]  # children before parents; the last one is the root of the stage
    exchanges: tuple[Exchange, ...]
    within: Groups | None = None

    @property
    def root(self) -> Node:
        return self.nodes[-1]

    @property
    def title(self) -> Label:
        return self.root.label

    @property
    def partitioning(self) -> Partitioning:
        return self.root.partitioning

    def has_group(self, group: int) -> bool:
        """Whether it is for this group."""
        return self.within is None or has_group(self.within, group)

    @property
    def states(self) -> tuple[State, ...]:
        return tuple(entry.state for node in self.nodes for entry in node.inputs)

    @property
    def reads(self) -> tuple[State, ...]:
        return self.states

    @property
    def ports(self) -> dict[int, State]:
        return {entry.port: entry.state for node in self.nodes for entry in node.inputs if entry.port is not None}

    @property
    def operators(self) -> tuple[Node, ...]:
        return self.nodes

    @property
    def meetings(self) -> tuple[tuple[State, ...], ...]:
        return tuple(tuple(entry.state for entry in node.inputs) for node in self.nodes)

    @property
    def feeds(self) -> tuple[Feed, ...]:
        return tuple(Feed(e.source, (e.state,), node.name, True) for node in self.nodes for e in node.inputs)
