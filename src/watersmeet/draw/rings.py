"""What is worth saying about joins that no hash serves: what they are, what they cost, and what makes them grow."""

from __future__ import annotations

from watersmeet.draw.words import segments_text, slices_text
from watersmeet.model.quantities import count_text
from watersmeet.optimize.comparisons import comparisons, rings_of
from watersmeet.optimize.query_graph import Statistics, graph_of
from watersmeet.plan.fragment import FragmentStage
from watersmeet.plan.hop import RoutedNode
from watersmeet.plan.physical import Node, NodeInput, PhysicalPlan


def ring_notes(plan: PhysicalPlan, statistics: Statistics | None = None) -> tuple[str, ...]:
    """A sentence or two for each ring of a plan."""
    return (*_notes_on_slices(plan, statistics), *map(_note_on_segments, aligned_nodes(plan)))


def aligned_nodes(plan: PhysicalPlan) -> list[Node]:
    """The rings of a plan that are aligned with a master."""
    stages = (stage for stage in plan.stages if isinstance(stage, FragmentStage) and not stage.keys)
    return [node for stage in stages for node in stage.nodes]


def master_of(node: Node) -> NodeInput:
    """The input that a ring is aligned with: the one whose rows are kept once."""
    return next(entry for entry in node.inputs if entry.state.copied is None)


def _note_on_segments(node: Node) -> str:
    master = master_of(node)
    inputs = ", ".join(str(entry.source) for entry in node.inputs)
    copied = [(str(entry.source), entry.state) for entry in node.inputs if entry is not master]
    (segment_us,) = {state.copied.slice_us for _, state in copied if state.copied is not None}
    copies = ", ".join(f"{name} {state.copies:.3g} times" for name, state in copied)
    return (
        f"{node.label} is a ring over {inputs}, as no equality connects them, by atr: rows of {master.source} lie in "
        f"{segments_text(segment_us)}, and others are copied to each with rows that they may join. On the average each "
        f"row is kept so often: {master.source} once, {copies}."
    )


def _notes_on_slices(plan: PhysicalPlan, statistics: Statistics | None) -> tuple[str, ...]:
    rings = rings_of(plan)
    if not rings:
        return ()
    known = statistics or Statistics()
    costs = comparisons(plan, graph_of(plan.query, known))
    notes = []
    for node in rings:
        inputs = ", ".join(str(entry.source) for entry in node.inputs)
        notes.append(
            f"{node.label} is a ring over {inputs}, as no equality connects them: rows lie in "
            f"{slices_text(plan.query.slice_us)}, and are compared with all that are in time for them. That is about "
            f"{count_text(costs[node.name])} comparisons a second, estimated from {known.source}."
        )
        notes += _copied(node) + _growing(plan, node)
    return tuple(notes)


def _copied(node: RoutedNode) -> list[str]:
    copies = max(state.copies for entry in node.inputs for state in entry.states)
    if copies == 1:
        return []
    visits = "rows visit as few slots as have a copy of all that is in reach"
    return [f"{node.label} keeps each row {copies:g} times (ctr), and {visits}."]


def _growing(plan: PhysicalPlan, node: RoutedNode) -> list[str]:
    aliases = [alias for entry in node.inputs for alias in entry.states[0].aliases]
    unbounded = [alias for alias in aliases if plan.query.reach.kept_for_us(alias) is None]
    notes = []
    if unbounded:
        notes.append(
            f"warning: {', '.join(unbounded)} in {node.label} has no window, so that each row is compared with more "
            "and more rows. A window such as [RANGE 10 MINUTES] would limit them."
        )
    if not node.predicates and not plan.query.predicates:
        notes.append(f"warning: {node.label} checks nothing: all combinations in time are results.")
    return notes
