"""How rows are placed: by the hash of columns, in slices of their time, or in the time slots of a master.

A state and an exchange have one each. All three lie on the same 64-bit line, so groups, owners and segments work alike.
The names are a part of the names of states, which checkpoints hold: a column has a dot, the others have none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ByHash:
    """Rows with equal values in these columns lie together."""

    columns: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return self.columns


@dataclass(frozen=True)
class BySlice:
    """Rows of one slice of event time lie together, in so many copies (`slices.py`, `coverage.py`)."""

    width_us: int
    copies: int = 1
    columns: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """
        >>> BySlice(1000).names, BySlice(1000, 2).names
        (('~1000',), ('~1000*2',))
        """
        return (f"~{self.width_us}" + (f"*{self.copies}" if self.copies > 1 else ""),)


@dataclass(frozen=True)
class ByTimeSlot:
    """Rows lie in time slots of a master; those that are not the master's, in all slots within its window `back_us`.

    See `aligned.py`.
    """

    width_us: int
    back_us: int | None = None  # None: rows of the master
    columns: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """
        >>> ByTimeSlot(1000).names, ByTimeSlot(1000, 500).names
        (('^1000',), ('^1000+500',))
        """
        return (f"^{self.width_us}" + ("" if self.back_us is None else f"+{self.back_us}"),)


Key = ByHash | BySlice | ByTimeSlot
