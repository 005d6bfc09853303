"""The cost constants of this machine, in seconds of CPU: measured once in a second or two, and kept in a file.

The file lies under the user's cache folder (XDG_CACHE_HOME), or where WATERSMEET_COSTS says. `runtime/calibration.py`
measures; it is imported only where it does, since it runs joins and so imports all that runs them.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet.optimize.choose import STANDARD
from watersmeet.optimize.estimates import CostConstants


def machine_costs(report: Callable[[str], None] = lambda text: None, measure: bool = True) -> CostConstants:
    """The constants of this machine: from the file, or measured now and written there if that can be.

    Without `measure`, the constants of another machine stand in for those that the file does not have.
    """
    path = _path()
    known = _read(path)
    if known is not None:
        return known
    if not measure:
        return STANDARD
    from watersmeet.runtime.calibration import measure_costs

    report("measuring what joins cost on this machine (once, some two seconds)")
    costs = measure_costs()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": _machine(), "seconds": asdict(costs)}, indent=2), encoding="utf-8")
    except OSError:
        pass  # a read-only home: they are measured again next time
    return costs


def _path() -> Path:
    given = os.environ.get("WATERSMEET_COSTS")
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "watersmeet" / "costs.json"


def _machine() -> dict[str, str]:
    """What the constants hold for; another version or machine measures again."""
    return {
        "watersmeet": version("watersmeet"),
        "python": platform.python_version(),
        "arrow": pa.__version__,
        "numpy": np.__version__,
        "machine": f"{platform.node()} {platform.machine()} {os.cpu_count()}",
    }


def _read(path: Path) -> CostConstants | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if os.environ.get("WATERSMEET_COSTS") or content["machine"] == _machine():
            seconds = content["seconds"]
            return CostConstants(**{field.name: float(seconds[field.name]) for field in fields(CostConstants)})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None
