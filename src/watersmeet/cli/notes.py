"""Notes that commands write to standard error, beside their output."""

from __future__ import annotations

import sys

from watersmeet.secrets import hide


def tell(note: str) -> None:
    """Write a note."""
    print(f"note: {hide(note)}", file=sys.stderr, flush=True)
