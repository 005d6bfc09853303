"""How much of its input a run has seen when it emits the results that it owes."""

from __future__ import annotations

from enum import Enum, auto

from watersmeet.adapt.outlook import Moment


class Ending(Enum):
    """What the end of the input seen so far means to results that are owed or wait."""

    OPEN = auto()  # more rows may come in this run
    PAUSED = auto()  # no more rows come in this run; a later run continues the streams
    CLOSED = auto()  # the streams end here: nothing waits for their watermarks any more

    @property
    def moment(self) -> Moment:
        """The moment at which policies are asked what is to be emitted."""
        return Moment.DRAIN if self is Ending.OPEN else Moment.END

    @property
    def closes_streams(self) -> bool:
        return self is Ending.CLOSED
