"""What differs between the versions of Spark that we run on, 4.1 to 4.3, in one place.

Each function here does one thing on all of them. It goes by what Spark offers and not by its number, which vendors
change. `make test-spark-versions` runs tests on the oldest and the newest. What earlier versions lack is in
docs/design/2026-11-17-spark-versions.md.
"""

from __future__ import annotations

import inspect
import socket
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

# From 4.2 on a function of PySpark's takes the zone that instants are shown in. Before, it is always UTC.
_ZONE: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def arrow_schema_in_utc(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema, with instants in UTC whatever zone the session has."""
    return to_arrow_schema(schema, **_ZONE)


def arrow_type_in_utc(kind: DataType) -> pa.DataType | None:
    """The Arrow type of a type of Spark; None if there is none."""
    try:
        return arrow_schema_in_utc(StructType([StructField("", kind)])).field(0).type
    except PySparkException:
        return None


def quick_settings() -> dict[str, str]:
    """Settings that make a new session faster and change nothing else.

    Rows go between the JVM and the Python workers through Unix domain sockets: an empty job of two tasks each with a
    shuffle between took 146 instead of 225 ms. Spark before 4.1 does not know the setting, and lets it be.

    A worker then prints a traceback when it is given up, but under our daemon. One that looks for data sources in
    Python, which Spark starts for a format that it does not know, has Spark's: it prints one after a minute's rest, or
    at the end of the session.
    """
    if not hasattr(socket, "AF_UNIX"):
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.daemon.module": "watersmeet.runtime.spark.daemon",
    }
