"""Watersmeet: adaptive multi-way stream joins on Spark, in Python. See `watersmeet.api`.

What takes time to import is imported when it is first asked for: the command must be able to end quietly before that.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

from watersmeet.errors import WatersmeetError

if TYPE_CHECKING:
    from watersmeet.api import LocalQuery, Predicate, SparkQuery, predicate, sql

__version__ = "0.1.0"
__all__ = ["LocalQuery", "Predicate", "SparkQuery", "WatersmeetError", "__version__", "predicate", "sql"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        collects = gc.isenabled()
        gc.disable()  # what is imported stays, and to look for garbage in it takes a sixth of the CPU of the import
        try:
            return getattr(import_module("watersmeet.api"), name)
        finally:
            if collects:
                gc.enable()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
