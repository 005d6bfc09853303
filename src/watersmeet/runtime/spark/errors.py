"""What Spark raises, as an error of ours: whose move it is, in a line, without a trace."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from watersmeet.errors import InputError, InternalError, JobError, ResourceError, WatersmeetError

# Parts of Spark's error classes and messages that say the data or the path is at fault.
_INPUT_MARKS = (
    "PATH_NOT_FOUND",
    "FAILED_READ_FILE",
    "CANNOT_READ_FILE",
    "MALFORMED_RECORD",
    "MALFORMED_CSV_RECORD",
    "CANNOT_PARSE",
    "SchemaColumnConvertNotSupported",
    "PARQUET_COLUMN_DATA_TYPE_MISMATCH",
    "CANNOT_PARSE_JSON_FIELD",
    "FileNotFoundException",
    "is not a Parquet file",
)
_WORKER_MARKS = ("Python worker exited unexpectedly", "Python worker failed to connect back")
_DISK_MARKS = ("No space left on device", "Disk quota exceeded")


def translate(error: BaseException) -> WatersmeetError:
    """The error of ours that says what `error` means to the user."""
    if isinstance(error, WatersmeetError):
        return error
    text = str(error)
    line = _first_line(text)
    if any(mark in text for mark in _DISK_MARKS):
        return ResourceError("the disk is full", detail=line, hint="Free some space and start the run again.")
    if any(mark in text for mark in _WORKER_MARKS):
        return ResourceError(
            "a Python worker of Spark died",
            detail="It was killed, or ran out of memory. Nothing of its batch was committed.",
            hint="Start the run again: it goes on where it stopped.",
        )
    if any(mark in text for mark in _INPUT_MARKS):
        return InputError(
            "a source cannot be read", detail=_telling_line(text), hint="Check the path, format and schema."
        )
    if isinstance(error, AnalysisException):
        return JobError("Spark refused the query", detail=line)
    if "DATA_SOURCE_NOT_FOUND" in text or "Failed to find the data source" in text:
        return JobError("Spark does not know a source format", detail=line, hint="Add its package in [spark].")
    kind = "Spark" if isinstance(error, PySparkException | Py4JError) else type(error).__name__
    return InternalError(f"the query failed in {kind}", detail=line, hint="WATERSMEET_TRACE=1 shows the whole trace.")


def _first_line(text: str) -> str:
    """The first line that says something; py4j begins with which call failed."""
    lines = [line.strip(" :") for line in text.splitlines()]
    return next(
        (line for line in lines if line and not line.startswith("An error occurred while calling")), "no message"
    )


def _telling_line(text: str) -> str:
    for line in text.splitlines():
        if any(mark in line for mark in _INPUT_MARKS):
            return re.sub(r"\s+", " ", line).strip()[:600]
    return _first_line(text)
