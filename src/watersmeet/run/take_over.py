"""The steps of a change under way: take rows in, and take over.

Each of the two is an attempt: if a disk is full or a segment is broken, the change ends and the run continues. After
the switch such an error is the run's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass
