"""Which segments of a state to merge, so that a batch probes few of them and rows are rewritten rarely.

Segments are grouped by tier: by size (a tier is `FANOUT` times the one below) and, where rows expire, by the stretch of
time in which they do: a quarter of the shortest time that rows stay for, or more where they wait for watermarks much
longer than that (`a.ts >= b.ts` has them stay for a microsecond). `FANOUT` segments of one tier become one of the next.
A stretch whose end the watermark has passed gets no more rows worth waiting for, and its segments become one. So rows
that expire together lie together, and expiry drops whole files.

With n rows in batches of b a state has at most (FANOUT - 1) * log_FANOUT(n / b) segments, and each row is rewritten at
most log_FANOUT(n / b) times. A pure function of sizes and times; the runtime does the merging.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.kernel.window import NEVER
from watersmeet.plan.physical import State

# With 2, 3, 4, 6 and 8 the local benchmark took the same CPU within its noise (1.3M to 1.5M rows a second of CPU with
# 100 batches); 4 keeps both the rewriting and the number of files moderate.
FANOUT = 4
# Stretches of time in which rows of one state are going to expire: four, and some for rows that wait for a watermark.
MOST_STRETCHES = 16
# Offsets of string columns are 32-bit; a segment stays well under what they can address.
MAX_SEGMENT_BYTES = 1 << 30


@dataclass(frozen=True)
class Candidate:
    """A segment, or the rows of this batch that are about to become one."""

    name: str
    rows: int
    bytes: int
    max_expiry: int


def choose_merges(candidates: Sequence[Candidate], state: State, watermark: int | None) -> list[tuple[str, ...]]:
    """Sets of candidates, by name, each to be merged into one segment.

    `watermark`: no future row will need a row of this state that expires by then.
    """
    least, stretch = _stretches(candidates, state, watermark)
    piles: list[tuple[Candidate, ...]] = [(candidate,) for candidate in candidates]
    merged = True
    while merged:
        merged = False
        tiers: dict[tuple[int, int], list[tuple[Candidate, ...]]] = {}
        for pile in piles:
            tiers.setdefault(_tier(pile, stretch), []).append(pile)
        for members in tiers.values():
            if len(members) >= FANOUT and sum(map(_bytes, members)) <= MAX_SEGMENT_BYTES:
                piles = [pile for pile in piles if pile not in members]
                piles.append(tuple(candidate for pile in members for candidate in pile))
                merged = True
                break
    return [
        tuple(candidate.name for candidate in pile)
        for pile in _close(piles, stretch, least, watermark)
        if len(pile) > 1
    ]


def choose_all(candidates: Sequence[Candidate], state: State, watermark: int | None) -> list[tuple[str, ...]]:
    """As `choose_merges`, as far as it can be: all candidates of a stretch of time, as many as one segment may hold.

    For when nothing else is to be done; what is rewritten does not count.
    """
    _, stretch = _stretches(candidates, state, watermark)
    piles: dict[int, list[list[Candidate]]] = {}
    for candidate in sorted(candidates, key=lambda entry: entry.bytes):
        found = piles.setdefault(_time((candidate,), stretch), [[]])
        if _bytes((*found[-1], candidate)) > MAX_SEGMENT_BYTES:
            found.append([])
        found[-1].append(candidate)
    return [tuple(entry.name for entry in pile) for found in piles.values() for pile in found if len(pile) > 1]


def _stretches(candidates: Sequence[Candidate], state: State, watermark: int | None) -> tuple[int, int | None]:
    """A quarter of the shortest time that rows stay for; and a stretch, which is that doubled until few are enough.

    None for a state whose rows stay for ever. Doubled, so that a stretch of yesterday lies within one of today.
    """
    width = min((w for _, w in state.stays), default=None)
    if width is None:
        return 1, None
    least = stretch = max(1, width // 4)
    times = [candidate.max_expiry for candidate in candidates if candidate.max_expiry < NEVER]
    if times:
        span = max(times) - (min(times) if watermark is None else max(watermark, min(times)))
        while span > MOST_STRETCHES * stretch:
            stretch *= 2
    return least, stretch


def _close(
    piles: list[tuple[Candidate, ...]], stretch: int | None, least: int, watermark: int | None
) -> list[tuple[Candidate, ...]]:
    """Join the piles of each stretch of time that has ended: its newest rows expire within the window."""
    if stretch is None or watermark is None:
        return piles
    result: list[tuple[Candidate, ...]] = []
    ended: dict[int, list[tuple[Candidate, ...]]] = {}
    for pile in piles:
        time = _time(pile, stretch)
        if (time + 1) * stretch <= watermark + 3 * least:
            ended.setdefault(time, []).append(pile)
        else:
            result.append(pile)
    for members in ended.values():
        largest = max(members, key=_rows)
        rest = [pile for pile in members if pile is not largest]
        # A trickle of late rows must not rewrite the stretch with every batch.
        joined = members if sum(map(_rows, rest)) * FANOUT >= _rows(largest) else rest
        if sum(map(_bytes, joined)) > MAX_SEGMENT_BYTES or (joined is rest and len(rest) < FANOUT):
            joined = []
        result.extend(pile for pile in members if pile not in joined)
        if joined:
            result.append(tuple(candidate for pile in joined for candidate in pile))
    return result


def _rows(pile: tuple[Candidate, ...]) -> int:
    return sum(candidate.rows for candidate in pile)


def _bytes(pile: tuple[Candidate, ...]) -> int:
    return sum(candidate.bytes for candidate in pile)


def _time(pile: tuple[Candidate, ...], stretch: int | None) -> int:
    newest = max(candidate.max_expiry for candidate in pile)
    return 0 if stretch is None or newest >= NEVER else newest // stretch


def _tier(pile: tuple[Candidate, ...], stretch: int | None) -> tuple[int, int]:
    size = _rows(pile)
    level = 0
    while size >= FANOUT:
        size //= FANOUT
        level += 1
    return level, _time(pile, stretch)
