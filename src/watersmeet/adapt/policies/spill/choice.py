"""What all spill policies have in common: take groups in the policy's order until enough is freed, and say why.

A choice has no group twice, none that is empty or of an operator that cannot spill, and without its last group it would
free too little. Where all groups together are too little it is all of them; where nothing is asked it is empty.

Ties: of groups with equal scores the larger one goes first, so that fewer go; then the operator's id and the number of
the group decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from watersmeet.adapt.decisions.spill import SpillGroups
from watersmeet.adapt.view import GroupView, MemoryView
from watersmeet.model.ids import GroupKey

Score = Callable[[GroupView], float]
SHARE = 0.3  # of the active state, as most of the papers have it


@dataclass(frozen=True)
class SpillPolicy:
    """A way to choose groups, and the share of the active state that one spill takes unless a setting says another."""

    choose: Callable[[MemoryView, int], SpillGroups]  # with the bytes to free
    share: float = SHARE

    def __call__(self, view: MemoryView, bytes_to_free: int) -> SpillGroups:
        return self.choose(view, bytes_to_free)


def lowest_first(view: MemoryView, bytes_to_free: int, score: Score, what: str) -> SpillGroups:
    """Spill the groups with the lowest scores; `what` names the score."""
    return _by_score(view, bytes_to_free, score, 1, f"least {what}")


def highest_first(view: MemoryView, bytes_to_free: int, score: Score, what: str) -> SpillGroups:
    """Spill the groups with the highest scores."""
    return _by_score(view, bytes_to_free, score, -1, f"most {what}")


def in_order(view: MemoryView, bytes_to_free: int, ordered: Iterable[GroupView], why: str) -> SpillGroups:
    """Spill the first of `ordered`, which is read no further than needed."""
    chosen = _take(ordered, bytes_to_free)
    return _spill(chosen, _reason(view, bytes_to_free, chosen, why))


def _spill(chosen: Sequence[GroupView], reason: str) -> SpillGroups:
    """A spill, with what it frees and puts off."""
    bytes, results = sum(group.size_bytes for group in chosen), sum(group.recent_global for group in chosen)
    return SpillGroups(tuple(group.key for group in chosen), reason, bytes, results)


def draw(view: MemoryView, group: GroupView) -> bytes:
    """To sort groups by at random: pure, equal chances, and another order in each batch."""
    return blake2b(f"{view.batch}/{group.operator}/{group.group}".encode(), digest_size=8).digest()


def _by_score(view: MemoryView, bytes_to_free: int, score: Score, sign: int, why: str) -> SpillGroups:
    scores = {group.key: score(group) for group in view.spillable}
    ordered = sorted(view.spillable, key=lambda group: (sign * scores[group.key], -group.size_bytes, group.key))
    chosen = _take(ordered, bytes_to_free)
    if chosen:
        why += f", {_scored(view, chosen[0], scores)}"
        why += f" to {_scored(view, chosen[-1], scores)}" if chosen[1:] else ""
    return _spill(chosen, _reason(view, bytes_to_free, chosen, why))


def _take(ordered: Iterable[GroupView], bytes_to_free: int) -> list[GroupView]:
    chosen: list[GroupView] = []
    left = bytes_to_free
    if left > 0:
        for group in ordered:
            chosen.append(group)
            left -= group.size_bytes
            if left <= 0:
                break
    return chosen


def _scored(view: MemoryView, group: GroupView, scores: dict[GroupKey, float]) -> str:
    return f"{scores[group.key]:.4g} ({view.label(group.operator)}:{group.group})"


def _reason(view: MemoryView, bytes_to_free: int, chosen: list[GroupView], why: str) -> str:
    if bytes_to_free <= 0:
        return "nothing to free"
    if not chosen:
        return f"no group can be spilled, with {bytes_to_free} bytes to free"
    freed = sum(group.size_bytes for group in chosen)
    short = "" if freed >= bytes_to_free else ", all that can be spilled"
    count = f"{len(chosen)} of {len(view.spillable)} groups"
    return f"{count} with {freed} bytes, of {bytes_to_free} to free{short}: {why}"
