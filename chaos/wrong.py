"""The error that a history ends with."""

from __future__ import annotations


class WrongError(Exception):
    """The product did what it must not do."""
