"""A hop: a stage of a routed join, a multi-way join whose inputs do not share a key.

The partial results of all origins meet the states that they probe next, and hop on to the following stage. A routed
join keeps no intermediate results, and each input once for each key that it is probed on.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.model.expressions import Expr
from watersmeet.model.ids import Label, OperatorName
from watersmeet.plan.physical import Exchange, Feed, Node, Source, State


@dataclass(frozen=True)
class Insert:
    """New rows that become part of a routed join's state. `read_again_in`: the later stages that need them too."""

    port: int
    state: State
    read_again_in: tuple[int, ...]


@dataclass(frozen=True)
class Probe:
    """One hop of one origin: the partial results at `port` meet a state.

    `node` is a join of two inputs, the partial result and the state; only the first one ever has new rows. The rows
    that the state gets in this batch are seen if `sees_new`. With `scans` there is no key: the state lies in slices of
    time, and what has come meets all rows of it in time.
    """

    port: int
    node: Node
    sees_new: bool
    exchanges: tuple[Exchange, ...]  # none where results are emitted
    scans: bool = False

    @property
    def state(self) -> State:
        return self.node.inputs[1].state


@dataclass(frozen=True)
class RoutedInput:
    """An input of a routed join: the states that keep it, one for each key that it is probed on, and its route."""

    source: Source
    states: tuple[State, ...]
    route: tuple[tuple[int, tuple[str, ...]], ...]  # inputs in the order they are probed, with the key classes


@dataclass(frozen=True)
class RoutedNode:
    name: OperatorName
    label: Label
    tree: str
    inputs: tuple[RoutedInput, ...]
    predicates: tuple[Expr, ...]
    filters: tuple[Expr, ...] = ()  # of its inputs, that results must pass before they go on


@dataclass(frozen=True)
class HopStage:
    """Hop number `hop` of a routed join, for all origins together."""

    index: int
    wave: int
    node: RoutedNode
    hop: int
    inserts: tuple[Insert, ...]  # in the first hop only
    probes: tuple[Probe, ...]

    @property
    def is_last(self) -> bool:
        return self.hop == len(self.node.inputs) - 2

    @property
    def title(self) -> Label:
        return self.node.label

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        return tuple(exchange for probe in self.probes for exchange in probe.exchanges)

    @property
    def within(self) -> None:
        return None  # groups of a join whose inputs share no key have one shape

    @property
    def states(self) -> tuple[State, ...]:
        return tuple(insert.state for insert in self.inserts)

    @property
    def reads(self) -> tuple[State, ...]:
        met = (exchange.meets for exchange in self.exchanges if exchange.meets is not None)
        return (*self.states, *(probe.state for probe in self.probes), *met)

    @property
    def ports(self) -> dict[int, State]:
        return {
            **{probe.port: probe.node.inputs[0].state for probe in self.probes},
            **{insert.port: insert.state for insert in self.inserts},
        }

    @property
    def operators(self) -> tuple[Node, ...]:
        return ()  # a group of a routed join has rows of one input only

    @property
    def meetings(self) -> tuple[tuple[State, ...], ...]:
        states = tuple(state for entry in self.node.inputs for state in entry.states)
        return (states,) if self.hop == 0 else ()

    @property
    def feeds(self) -> tuple[Feed, ...]:
        inputs = self.node.inputs if self.hop == 0 else ()
        return tuple(Feed(entry.source, entry.states, self.node.name, False) for entry in inputs)
