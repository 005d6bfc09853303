"""Unites the parts of a cold generation as they grow many, so that files, entries of the manifest and merges stay few.

A spill leaves one part for each file that it made cold, and rows that expire in groups that owe results go cold a few
at a time. Parts of like size become one, as in compaction, so each row is rewritten few times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.merge import UniteParts
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.model.ids import SegmentId
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.state.compaction import Candidate, choose_merges

PARTS = 8  # of one generation of a state, more than which are united
AT_ONCE = 4  # generations in one batch: the work is spread


@dataclass(frozen=True)
class UniteColdParts:
    parts: int = PARTS

    origin: ClassVar[Origin] = ByPolicy("unite-parts")
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.PARTS})

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        found = 0
        for name in outlook.manifest.segments.cold_states:
            state = outlook.plan.states.get(name)
            for generation, bucket in outlook.manifest.segments.cold(name).items():
                if state is None or len(bucket.entries) <= self.parts:
                    continue
                entries = [
                    Candidate(part.id, part.live_rows, part.live_bytes, part.max_expiry_us)
                    for part in bucket.entries.values()
                ]
                for parts in choose_merges(entries, replace(state, windows=()), None):  # by size alone
                    yield UniteParts(name, generation, tuple(map(SegmentId, parts)))
                    found += 1
                    if found == AT_ONCE:
                        return
