"""What a registered Python predicate is declared as: what it costs, and what is prepared for it. Frozen data.

A *preparation* is the part of a predicate that depends on one argument alone: a histogram of an image, a parsed text.
It is computed once for each row and kept with it, so that the predicate has only the rest to do for each combination.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Preparation:
    """A vectorised function: the array of an argument in, an array of as many values out."""

    function: Callable[..., Any]
    type: pa.DataType | None = None  # of what it gives; None: as it gives it for no rows

    @property
    def name(self) -> str:
        return function_name(self.function)


@dataclass(frozen=True)
class Predicate:
    """A vectorised predicate with what is known of it: arrays in, a boolean array out.

    `cost` is in seconds for each combination, None where it is to be measured. `prepare` is one preparation for all
    arguments, or one for each, None for those that are taken as they are. Neither the function nor a preparation is
    asked about rows whose argument is NULL. Calling it calls the function.
    """

    function: Callable[..., Any]
    cost: float | None = None
    symmetric: bool = False
    prepare: Preparation | tuple[Preparation | None, ...] | None = None

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def preparation(self, argument: int) -> Preparation | None:
        """What is prepared of an argument, by its place."""
        if isinstance(self.prepare, tuple):
            return self.prepare[argument]
        return self.prepare


def function_name(function: Callable[..., Any]) -> str:
    """What people call a function.

    >>> function_name(max), function_name(partial(max, 3))
    ('max', 'max')
    """
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))
