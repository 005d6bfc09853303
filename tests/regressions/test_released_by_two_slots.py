"""Was: `no segment "..."` for a file whose rows all lay in the groups of one slot, when two slots merged it away.

It was written when one slot had all groups. The release by the slot that had its rows took the entry out of the
manifest, and the release by the other, which had groups of it and no rows, did not find it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from watersmeet.errors import InternalError
from watersmeet.model.ids import Generation, SegmentId, StateName
from watersmeet.model.segments import Segment
from watersmeet.state.segment_table import SegmentDraft, SegmentTable

NAME = SegmentId("first")
ACTIVE = Segment(NAME, StateName("A"), 3, 30, 0, ((0, 4),), ((0, 4),), 9, 9, 1, batch=0, group_rows=(2, 1, 0, 0))
COLD = replace(ACTIVE, tier="cold", generation=Generation(2))


@pytest.mark.parametrize("segment", [ACTIVE, COLD], ids=["active", "cold"])
@pytest.mark.parametrize("slots", [(((0, 2),), ((2, 4),)), (((2, 4),), ((0, 2),))], ids=["rows first", "rows last"])
def test_each_slot_releases_its_own_groups(segment: Segment, slots: tuple[tuple[tuple[int, int], ...], ...]) -> None:
    draft = SegmentDraft(SegmentTable.of([segment]))
    for groups in slots:
        draft.release(NAME, groups)
    assert not draft.finish()
    assert draft.files[NAME] == -1, "the file has one entry less, not two"


def test_a_segment_that_never_was_is_still_an_error() -> None:
    draft = SegmentDraft(SegmentTable.of([ACTIVE]))
    with pytest.raises(InternalError):
        draft.release(SegmentId("second"), ((0, 4),))
