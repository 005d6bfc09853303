"""The segments of a manifest, in buckets: the active ones of each state, and the cold ones of each state and generation.

A `SegmentTable` never changes. A `SegmentDraft` is made from one, changed, and turned into the next; buckets that were
not touched are shared by both, with all that was worked out for them. So a commit costs in proportion to the buckets
that it changes, and what is asked of a bucket (rows, bytes, times by group) is worked out once for each of its versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from watersmeet.errors import InternalError
from watersmeet.kernel.window import NEVER
from watersmeet.model.ids import LIVE, Generation, SegmentId, StateName
from watersmeet.model.routing import GroupRange, intersect_ranges
from watersmeet.model.segments import Counts, Segment

Times = npt.NDArray[np.int64]  # microseconds, by group


@dataclass(frozen=True, eq=False)
class Bucket:
    """Segments of one state and generation, by id."""

    entries: Mapping[SegmentId, Segment]

    @cached_property
    def rows(self) -> int:
        return sum(segment.live_rows for segment in self.entries.values())

    @cached_property
    def bytes(self) -> int:
        return sum(segment.live_bytes for segment in self.entries.values())

    @cached_property
    def first_expiry_us(self) -> int:
        """The soonest that all rows of one of the segments have expired."""
        return min((segment.max_expiry_us for segment in self.entries.values()), default=NEVER)

    @cached_property
    def last_expiry_us(self) -> int:
        return max((segment.max_expiry_us for segment in self.entries.values()), default=NEVER)

    def rows_by_group(self, groups: int) -> Counts:
        return self._rows(groups)

    def bytes_by_group(self, groups: int) -> npt.NDArray[np.float64]:
        total = np.zeros(groups)
        for segment in self.entries.values():
            numbers, rows, _ = segment._held
            total[numbers] += rows * (segment.bytes / max(1, segment.rows))
        return total

    def times_by_group(self, groups: int) -> Times:
        """A time that no result with one of the rows is older than; `NEVER` where a group has no rows."""
        return self._times(groups)

    # Worked out once for each bucket; the number of groups does not change while a table lives.
    def _rows(self, groups: int) -> Counts:
        if "rows_by_group" not in self.__dict__:
            total = np.zeros(groups, dtype=np.int64)
            for segment in self.entries.values():
                segment.add_rows(total)
            self.__dict__["rows_by_group_"] = total
            self.__dict__["rows_by_group"] = self.rows_by_group
        return self.__dict__["rows_by_group_"]  # type: ignore[no-any-return]

    def _times(self, groups: int) -> Times:
        total = np.full(groups, NEVER, dtype=np.int64)
        for segment in self.entries.values():
            held = segment.held_groups
            total[held] = np.minimum(total[held], segment.min_time_us)
        return total
