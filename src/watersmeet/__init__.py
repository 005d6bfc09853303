"""Watersmeet: adaptive multi-way stream joins on Spark, in Python. See `watersmeet.api`."""

from watersmeet.api import LocalQuery, SparkQuery, sql
from watersmeet.errors import WatersmeetError

__version__ = "0.1.0"
__all__ = ["LocalQuery", "SparkQuery", "WatersmeetError", "__version__", "sql"]
