"""When batches come and how long they take, as far as a run has seen it: what work between them goes by.

Only for pace: what is lost with the run is learned anew by the next one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

KNOWN = 9  # batches that count: enough for one that took long to be told from the usual ones


@dataclass
class Rhythm:
    """Seconds by the run's clock."""

    last: float | None = None  # when the last batch was done
    _between: deque[float] = field(default_factory=lambda: deque(maxlen=KNOWN))
    _took: deque[float] = field(default_factory=lambda: deque(maxlen=KNOWN))

    def note(self, now: float, took: float) -> None:
        """A batch is done, which took so long by itself."""
        if self.last is not None:
            self._between.append(now - self.last)
        self._took.append(took)
        self.last = now

    @property
    def usual(self) -> float | None:
        """From the results of one batch to those of the next; None before there were two of them.

        >>> rhythm = Rhythm()
        >>> for now in (1.0, 3.0, 5.0, 11.0):
        ...     rhythm.note(now, 0.5)
        >>> rhythm.usual
        2.0
        """
        return median(self._between) if self._between else None

    @property
    def long(self) -> float | None:
        """What batches take by themselves that take long: three in four take less. The first of a run is no measure.

        >>> rhythm = Rhythm()
        >>> for took in (9.0, 1.0, 1.0, 1.2, 1.1):
        ...     rhythm.note(0.0, took)
        >>> rhythm.long
        1.2
        """
        return sorted(self._took)[-1 - len(self._took) // 4] if self._took else None
