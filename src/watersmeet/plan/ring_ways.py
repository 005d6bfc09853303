"""How a ring, a join that no hash serves, is spread over slots: by slices of time, or as one of its rivals.

- `psp`: every row is kept once, in a slice of event time, and rows visit all slices in reach (`model/slices.py`).
- `atr`, aligned tuple routing: one input is the *master*, whose rows are cut into segments of time; rows of the others
  are copied to every segment with rows of the master that they may join (`model/aligned.py`). A result has one row of
  the master, so it is made in one segment, and a segment is joined as a key is.
- `ctr`, coordinated tuple routing: the ring with each row kept several times, in different slots, of which a visit goes
  to as few as have a copy of everything in reach (`model/coverage.py`).

After [Wang09, section 7], which compares them. `RingWay` is what a user says of it, `Aligned` and `Coordinated` what a
plan spec has of a join; a join without either is a ring as it is, or none.

Departure: in the paper copies of `ctr` follow from where rows happen to go; here their number is set, as in its
experiments, and where they lie follows from the row's time, as sender and receiver have to agree on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from watersmeet.errors import JobError, RingError, did_you_mean
from watersmeet.model.quantities import microseconds
from watersmeet.model.streams import Range
from watersmeet.plan.query import Query

AUTO = "auto"  # psp where a run begins, and what the checkpoint has where it goes on
PSP, ATR, CTR = "psp", "atr", "ctr"
WAYS = (AUTO, PSP, ATR, CTR)

COPIES = 2  # of a row, by ctr, as in the experiments of the paper
# Of a row, by atr: a batch is as many times as large when it is sent.
MOST_COPIES = 50
MOST_SEGMENT_US = 2**63 - 1  # event times are 64-bit numbers; a window may be wider


@dataclass(frozen=True)
class Aligned:
    """A join by atr: the number of the input that is the master, and the length of its segments."""

    master: int
    segment_us: int


@dataclass(frozen=True)
class Coordinated:
    """A join by ctr: how often each row is kept."""

    copies: int


Way = Aligned | Coordinated


@dataclass(frozen=True)
class RingWay:
    """What a user says: which way, how long segments are (atr), how many copies there are (ctr). None: the default."""

    name: str = AUTO
    segment: timedelta | None = None
    copies: int | None = None

    def __post_init__(self) -> None:
        if self.name not in WAYS:
            raise JobError(
                f'unknown ring "{self.name}"',
                detail=f"It is one of {', '.join(WAYS)}.",
                hint=did_you_mean(self.name, WAYS),
            )
        for key, way, value in (("ring_segment", ATR, self.segment), ("ring_copies", CTR, self.copies)):
            if value is not None and self.name != way:
                raise JobError(
                    f'"{key}" is set, and ring is "{self.name}"',
                    detail=f'It is about ring = "{way}" alone.',
                    hint=f'Leave it out, or set ring = "{way}".',
                )
        if self.segment is not None and self.segment <= timedelta(0):
            raise JobError(
                f'"ring_segment" is {self.segment.total_seconds():g} seconds', detail="It is a time above 0."
            )
        if self.copies is not None and self.copies < 2:
            raise JobError(
                f'"ring_copies" is {self.copies}',
                detail="It is how often each row is kept: a whole number from 2.",
                hint='Rows are kept once by ring = "psp".',
            )

    def __str__(self) -> str:
        """
        >>> print(RingWay(ATR, segment=timedelta(seconds=10)), RingWay(CTR, copies=2), RingWay(PSP), sep=", ")
        atr in segments of 10 s, ctr with 2 copies, psp
        """
        segments = "" if self.segment is None else f" in segments of {self.segment.total_seconds():g} s"
        return self.name + segments + ("" if self.copies is None else f" with {self.copies} copies")

    def check_slots(self, slots: int) -> None:
        """Refuse more copies than there are slots for them to lie in."""
        if self.copies is not None and self.copies > slots:
            raise JobError(
                f'"ring_copies" is {self.copies}, and a ring lies over {slots} slot{"" if slots == 1 else "s"}',
                detail="Copies of a row lie in different slots.",
                hint=f'Use as many slots as copies, or ring = "{PSP}".',
            )

    def of_join(self, query: Query, parts: Sequence[frozenset[str]], rates: Mapping[str, float]) -> Way | None:
        """The way of a ring over these parts, whose inputs have so many rows a second, as far as that is known."""
        if self.name == ATR:
            return self._aligned(query, parts, rates)
        return Coordinated(self.copies or COPIES) if self.name == CTR else None

    def _aligned(self, query: Query, parts: Sequence[frozenset[str]], rates: Mapping[str, float]) -> Aligned:
        """With the part of most rows as the master: these alone are kept once."""
        widths = [_least_width(query, part) for part in parts]
        # What a part of several inputs makes nobody knows; the rows that come to it say something of it.
        master = max(range(len(parts)), key=lambda place: sum(rates.get(alias, 0.0) for alias in parts[place]))
        segment_us = min(query.widest_us if self.segment is None else microseconds(self.segment), MOST_SEGMENT_US)
        for place, width in enumerate(widths):
            copies = 1 + (width + widths[master]) / segment_us
            if place != master and copies > MOST_COPIES:
                shortest = timedelta(microseconds=-(-(width + widths[master]) // (MOST_COPIES - 1)))
                raise RingError(
                    f'segments of {segment_us / 1e6:g} seconds are too short for ring = "{ATR}"',
                    detail=f"Rows of {_names(query, parts[place])} would be kept {copies:,.0f} times each; "
                    f"{MOST_COPIES} are allowed.",
                    hint=f"Set ring_segment to {shortest.total_seconds():g} seconds or more.",
                )
        return Aligned(master, segment_us)


UNSAID = RingWay()


def _least_width(query: Query, part: frozenset[str]) -> int:
    """The least window of rows over these inputs; refused where there is none."""
    windows = [entry.window for entry in query.inputs if entry.alias in part]
    widths = [microseconds(window.width) for window in windows if isinstance(window, Range)]
    if not widths:
        raise RingError(
            f'ring = "{ATR}" needs a window for {_names(query, part)}',
            detail="Its rows may join rows of any time, so there is no end of segments that they would be copied to.",
            hint=f'Give it one, such as [RANGE 10 MINUTES], or use ring = "{PSP}".',
        )
    return min(widths)


def _names(query: Query, part: frozenset[str]) -> str:
    return ", ".join(alias for alias in query.aliases if alias in part)


def way_to_json(way: Way) -> dict[str, Any]:
    """
    >>> way_to_json(Aligned(0, 10_000_000)), way_to_json(Coordinated(2))
    ({'way': 'atr', 'master': 0, 'segment_us': 10000000}, {'way': 'ctr', 'copies': 2})
    """
    if isinstance(way, Aligned):
        return {"way": ATR, "master": way.master, "segment_us": way.segment_us}
    return {"way": CTR, "copies": way.copies}


def way_from_json(data: Mapping[str, Any]) -> Way:
    return Aligned(data["master"], data["segment_us"]) if data["way"] == ATR else Coordinated(data["copies"])
