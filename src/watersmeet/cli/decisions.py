"""Decisions as sentences, for a run that tells of them and for a checkpoint that is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from watersmeet.cli.terminal import size_text
from watersmeet.model.routing import groups_text

# Told wherever there is room for a line.
OF_THE_PLAN = (
    "BeginMigration",
    "ChangePlan",
    "ReviewPlan",
    "MigrationAbandoned",
    "Regroup",
    "Rescale",
    "ReviewRescale",
    "ResizeRing",
    "ReviewRing",
)


def decision_text(decision: Mapping[str, Any]) -> str:
    """A decision for a reader.

    >>> decision_text({"decision": "MergeGroup", "operator": "J1", "group": 3, "reason": "it pays"})
    'merge J1:3: it pays'
    """
    reason = decision.get("reason", "")
    match decision["decision"]:
        case "SpillGroups":
            return f"spill of {len(decision['groups'])} groups: {reason}"
        case "SpillAggregates":
            return f"spill of {size_text(decision['bytes'])} of groups kept for boundaries: {reason}"
        case "MergeGroup":
            return f"merge {decision['operator']}:{decision['group']}: {reason}"
        case "MergeGenerations":
            return f"merge {len(decision['generations'])} generations of {decision['operator']}: {reason}"
        case "CutGroup":
            return f"cut {decision['operator']}:{decision['group']} in two: {reason}"
        case "MoveGroups":
            return f"move {_moves(decision['moves'])}: {reason}"
        case "SpreadGroup":
            slots = ", ".join(map(str, decision["slots"]))
            return f"spread {decision['operator']}:{decision['group']}->{slots} dealing {decision['alias']}: {reason}"
        case "DrawTogether":
            return f"draw {decision['operator']}:{decision['group']} together: {reason}"
        case "ReviewMoves":
            return f"moves as they turned out: {reason}"
        case "Rescale":
            return f"{decision['slots']} slots in the place of {decision['from_slots']}: {reason}"
        case "ReviewRescale":
            return f"slots as they turned out: {reason}"
        case "ResizeRing":
            moved = f", {_moves(decision['moves'])}" if decision["moves"] else ""
            length = "1 slot" if decision["slots"] == 1 else f"{decision['slots']} slots"
            return f"a ring of {length} in the place of {decision['from_slots']}{moved}: {reason}"
        case "ReviewRing":
            return f"ring as it turned out: {reason}"
        case "Regroup":
            return f"{decision['to_groups']:,} groups in the place of {decision['from_groups']:,}: {reason}"
        case "CannotSpill":
            return f"over the budget: {reason}"
        case "CannotForce":
            return f"cannot be forced: {reason}"
        case "BeginMigration":
            return f"plan{_groups(decision)} is being changed to {decision['plan']} by {decision['by']}: {reason}"
        case "ChangePlan":
            changed = f"plan{_groups(decision)} changed to {decision['plan']} by {decision['by']}"
            return f"{changed}: {reason}{_figures(decision)}"
        case "ReviewPlan":
            return f"plan {decision['plan']} as it turned out: {reason}"
        case "MigrationAbandoned":
            return f"plan{_groups(decision)} not changed to {decision['plan']} by {decision['by']}: {reason}"
        case "plan":
            return f"plan {decision['plan']}: {reason}"
    return f"{decision['decision']}: {reason}"


def _groups(change: Mapping[str, Any]) -> str:
    """The groups that a change of the plan is for, if not for all.

    >>> _groups({"within": [[0, 10]]}), _groups({"within": None})
    (' of groups 0-9', '')
    """
    return f" of groups {groups_text(change['within'])}" if change.get("within") else ""


def _moves(moves: Sequence[tuple[str, int, int]]) -> str:
    """Groups by where they go; their number, where they are many.

    >>> _moves([("J1", 3, 1), ("J1", 7, 1)]), _moves([("J1", group, group % 2) for group in range(9)])
    ('J1:3->1, J1:7->1', '9 groups to slots 0 and 1')
    """
    if len(moves) <= 4:
        return ", ".join(f"{label}:{group}->{slot}" for label, group, slot in moves)
    to = sorted({slot for _, _, slot in moves})
    slots = f"slot {to[0]}" if len(to) == 1 else f"slots {', '.join(map(str, to[:-1]))} and {to[-1]}"
    return f"{len(moves):,} groups to {slots}"


def _figures(change: Mapping[str, Any]) -> str:
    """What a change of the plan took, as far as it says.

    >>> _figures({"from": "(A B C)", "states_kept": 3, "states_made": 1, "rows": 1200, "seconds": 0.3})
    '; it was (A B C), 3 states were kept and 1 made from 1,200 rows, in 0.30 seconds'
    """
    if "states_kept" not in change:
        return ""
    rows = f" from {change['rows']:,} rows" if change["states_made"] else ""
    made = f"{change['states_kept']} states were kept and {change['states_made']} made{rows}"
    return f"; it was {change['from']}, {made}, in {change['seconds']:.2f} seconds"
