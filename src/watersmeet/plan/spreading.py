"""Where the groups that a placement spreads are spread: in fragments on their key that have the input which is dealt.

In a fragment whose joins are on the way of that input, from its port to the root, one input of each is dealt and all
others are copied, so that each combination is made by one slot. A join beside that way has copies of everything in each
slot, and makes the same results in all of them; they enter a join on the way as copies do. A stage of another kind, or
one without that input, leaves a group to its owner.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from watersmeet.model.ids import OperatorName, Partitioning
from watersmeet.model.placement import Placement
from watersmeet.model.spread import Share
from watersmeet.plan.fragment import FragmentStage
from watersmeet.plan.physical import FromOperator, PhysicalPlan

Shares = Mapping[int, tuple[Share, ...]]  # by stage, where there are any


def spread_stages(plan: PhysicalPlan, placement: Placement, without: Mapping[Partitioning, Collection[int]]) -> Shares:
    """The groups that are spread in each stage, but for those of `without`."""
    found: dict[int, tuple[Share, ...]] = {}
    for stage in plan.stages if placement.spreads else ():
        if isinstance(stage, FragmentStage):
            name, left_out = stage.root.partitioning, without.get(stage.root.partitioning, ())
            here = [share for share in placement.shares(name) if stage.has_group(share.group)]
            shares = [share for share in here if share.group not in left_out]
            if mine := tuple(share for share in shares if share.deals(stage.root.aliases)):
                found[stage.index] = mine
    return found


def dealt_inputs(plan: PhysicalPlan, partitioning: Partitioning) -> tuple[str, ...]:
    """The inputs of the query that groups of a partitioning can be spread by."""
    return tuple(sorted({alias for stage in _fragments(plan, partitioning) for alias in stage.root.aliases}))


def heaviest_input(
    plan: PhysicalPlan, partitioning: Partitioning, arrivals: Mapping[OperatorName, Sequence[float]]
) -> str:
    """The input that it is best to deal, given the rows that come to each join by each of its inputs.

    From the root of the fragment with most of them down to a port, always where most come.
    """
    nodes = {node.name: node for stage in _fragments(plan, partitioning) for node in stage.nodes}
    roots = [stage.root for stage in _fragments(plan, partitioning)]
    node = max(roots, key=lambda root: sum(arrivals.get(root.name, ())))
    while True:
        came = arrivals.get(node.name, (0.0,) * len(node.inputs))
        entry = node.inputs[max(range(len(came)), key=lambda place: came[place])]
        if entry.port is not None:
            return entry.state.aliases[0]
        assert isinstance(entry.source, FromOperator)
        node = nodes[entry.source.name]


def _fragments(plan: PhysicalPlan, partitioning: Partitioning) -> list[FragmentStage]:
    fragments = [stage for stage in plan.stages if isinstance(stage, FragmentStage)]
    return [stage for stage in fragments if stage.root.partitioning == partitioning]
