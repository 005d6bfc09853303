"""Merges the cold group that pays most, where that beats memory: see `merge/state_manager.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.merge.state_manager import MergePace, choose_merge
from watersmeet.model.origin import ByPolicy, Origin

# Cold rows that a merge reads a second. Sources hand rows over when they are asked, so no buffer overruns.
PACE = MergePace(disk_rows=2_000_000.0)


@dataclass(frozen=True)
class MergeWorthwhile:
    pace: MergePace = PACE

    origin: ClassVar[Origin] = ByPolicy("merge-worthwhile")
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH, Moment.IDLE})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.MEMORY})

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        # While nothing else is to be done, it does not matter how often a row is read.
        pace = replace(self.pace, growth=0.0) if outlook.moment is Moment.IDLE else self.pace
        if outlook.has_mergeable and (found := choose_merge(outlook.memory, pace)) is not None:
            yield found
