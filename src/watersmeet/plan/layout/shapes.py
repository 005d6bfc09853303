"""Lays out several specs as one plan, each for some groups: the shapes of a plan that differ by group.

Where all inputs of a query share a key, a tree is one fragment, hashed on that key, whatever its shape: a group has all
rows that can ever join with each other. So each group can run a tree of its own. The plan has a stage for each shape,
and they run side by side; an input has a port in each, which gets the rows of the groups of that shape.

States and operators are named by content, so those of several shapes that hold or join the same have one name; each
group of them is of one shape. A label stands for one operator, in however many shapes it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from watersmeet.errors import InternalError, JobError
from watersmeet.model.ids import Label, OperatorName, Partitioning
from watersmeet.model.placement import Placement
from watersmeet.model.routing import Groups, groups_text
from watersmeet.plan.fragment import FragmentStage
from watersmeet.plan.physical import FromOperator, LeafPort, Node, NodeInput, PhysicalPlan, Source, Stage


def common_key(plans: Iterable[PhysicalPlan]) -> Partitioning | None:
    """What all joins of plans of one query are hashed on; None if there is no such key, and they have other groups."""
    stages = [stage for plan in plans for stage in plan.stages]
    keys = {stage.partitioning for stage in stages if isinstance(stage, FragmentStage) and not stage.exchanges}
    # Segments of a master are no key: another shape has other segments.
    keyed = (isinstance(stage, FragmentStage) and bool(stage.keys) and not stage.exchanges for stage in stages)
    alike = len(keys) == 1 and all(keyed)
    return keys.pop() if alike else None


def check_groups(within: Groups, plans: Sequence[PhysicalPlan], placement: Placement) -> None:
    """Refuse to have some groups run one of these plans, of one query, while others run others of them."""
    key = common_key(plans)
    if key is None:
        other = next((plan for plan in plans if common_key([plan]) is None), plans[-1])
        raise JobError(
            "groups of this query cannot have a plan of their own",
            detail=f"Not all joins of {other.tree} are on one and the same key, which all inputs would have to share.",
            hint="Change the plan of all groups.",
        )
    there = placement.of(key).groups
    if not within or within[-1][1] > there:
        raise JobError(
            f"there are no groups {groups_text(within)}" if within else "no groups are named",
            detail=f"The groups are 0 to {there - 1}.",
        )


def unite_shapes(shapes: Sequence[tuple[PhysicalPlan, Groups]]) -> PhysicalPlan:
    """One plan of several, each for its groups; the first is the one that the whole is called by."""
    if common_key(plan for plan, _ in shapes) is None:
        raise InternalError("shapes that are not fragments on one key cannot be one plan")
    labels: dict[OperatorName, Label] = {}
    stages: list[Stage] = []
    leaves: list[LeafPort] = []
    ports: list[int] = []
    for index, (plan, within) in enumerate(shapes):
        (stage,), first = plan.stages, len(ports)
        assert isinstance(stage, FragmentStage)
        for node in stage.nodes:
            labels.setdefault(node.name, Label(f"J{len(labels) + 1}"))
        nodes = tuple(_moved(node, first, labels) for node in stage.nodes)
        stages.append(replace(stage, index=index, nodes=nodes, within=within))
        leaves += [replace(leaf, port=leaf.port + first, within=within) for leaf in plan.leaves]
        ports += [index] * len(plan.port_stage)
    main = shapes[0][0]
    return PhysicalPlan(main.query, main.spec, tuple(stages), tuple(leaves), tuple(ports))


def _moved(node: Node, by: int, labels: dict[OperatorName, Label]) -> Node:
    """A join with its ports further on, and the labels of the whole."""

    def renamed(source: Source) -> Source:
        return replace(source, label=labels[source.name]) if isinstance(source, FromOperator) else source

    def moved(entry: NodeInput) -> NodeInput:
        port = None if entry.port is None else entry.port + by
        return replace(entry, source=renamed(entry.source), port=port)

    return replace(node, label=labels[node.name], inputs=tuple(map(moved, node.inputs)))
