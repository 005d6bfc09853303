"""Makes the C library keep the memory of arrays that a batch frees for the next one.

glibc maps every block above a threshold of 128 KB anew and hands it back when it is freed, so that its pages are
cleared each time: a join whose arrays are of some megabytes spends a quarter of its CPU on that. The threshold rises to
the size of a freed block by itself, to 32 MB at most, so freeing one large block settles it; up to twice its size may
then stay with the process. Other C libraries have no such threshold, and nothing happens.
"""

from __future__ import annotations

import numpy as np

LARGEST = 31 << 20  # just under what the threshold can rise to

_done = False


def keep_freed_memory() -> None:
    """Call before the work begins; only the first call in a process does anything."""
    global _done
    if not _done:
        _done = True
        block = np.empty(LARGEST, dtype=np.uint8)
        del block  # its pages were never touched: this costs microseconds
