"""What Spark raises, as an error of ours: whose move it is, in a line, without a trace.

Raise it with `raise translate(error) from cause(error)`, which shows Spark's own trace to those alone who ask for it.
"""

from __future__ import annotations

import re

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException

from watersmeet.errors import (
    CheckpointError,
    InputError,
    InternalError,
    JobError,
    ResourceError,
    WatersmeetError,
    cause,
)
from watersmeet.secrets import hide

# What a call to Spark may raise; those of the JVM that PySpark does not know come as they are.
SPARK_ERRORS = (PySparkException, Py4JError)

DOES_NOT_FIT = "has a value that does not fit its type"  # what a source of ours raises within Spark
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
    "CSV header does not conform to the schema",
    "PARTITION_VALUE",
    "PARTITION_COLUMN",
    "CONFLICTING_DIRECTORY_STRUCTURES",
    "came in a partition folder",
    "INVALID_UTF8_STRING",
    DOES_NOT_FIT,
)
_CHECK_SETTINGS = "Check [spark] of the job file, or the settings of the session."
_WORKER_MARKS = ("Python worker exited unexpectedly", "Python worker failed to connect back")
_DISK_MARKS = ("No space left on device", "Disk quota exceeded")
# What Spark says of a setting that it does not take: its error classes, and texts of those that have none.
_SETTING = re.compile(
    r"INVALID_CONF_VALUE|CANNOT_MODIFY_(?:STATIC_)?CONFIG|INVALID_DRIVER_MEMORY|INVALID_EXECUTOR_MEMORY"
    r"|should be \w+, but was |Could not parse Master URL|Failed to parse (?:time|byte) string"
    r"|(?:Size|Time) must be specified as|INVALID_(?:BYTE|TIME)_STRING"
)
# Some formats that Spark knows by name only have an error of their own, which is one of analysis.
_NO_SOURCE = re.compile(r"DATA_SOURCE_NOT_FOUND|Failed to find (?:the )?data source: (?P<format>[\w.-]*\w)")


def translate(error: BaseException) -> WatersmeetError:
    """The error of ours that says what `error` means to the user."""
    if isinstance(error, WatersmeetError):
        return error
    told = _translate(error)
    told.__cause__ = cause(error)  # for one that is kept, and raised elsewhere
    return told


def _translate(error: BaseException) -> WatersmeetError:
    text = hide(str(error))  # before it is cut: a part of a secret would not be known
    line = _first_line(text)
    if any(mark in text for mark in _DISK_MARKS):
        return ResourceError("the disk is full", detail=line, hint="Free some space and start the run again.")
    if "CONCURRENT_STREAM_LOG_UPDATE" in text:
        # We hold the lock, so it is nobody who would have asked for it.
        return CheckpointError(
            "another run is using the checkpoint",
            detail="Spark found another query at work in it, most likely of a run that was killed a moment ago.",
            hint="Wait for it to end, and start the run again.",
        )
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
    if _NO_SOURCE.search(text):
        return _no_source(text, line)
    if _SETTING.search(text):
        said = next(found for found in text.splitlines() if _SETTING.search(found))  # which may be the cause of others
        return JobError("Spark refused a setting", detail=_sentence(said), hint=_CHECK_SETTINGS)
    if isinstance(error, AnalysisException):
        return JobError("Spark refused the query", detail=line)
    kind = "Spark" if isinstance(error, SPARK_ERRORS) else type(error).__name__
    return InternalError(f"the query failed in {kind}", detail=line, hint="WATERSMEET_TRACE=1 shows the whole trace.")


def translate_start(error: BaseException, master: str) -> WatersmeetError:
    """The error of ours for one that was raised while a session was made: there is nothing but settings to blame.

    Of a cluster that does not answer Spark's log tells, and its error only what broke when it gave up.
    """
    told = translate(error)
    if not isinstance(told, InternalError):
        return told
    if master.startswith("spark://"):
        return ResourceError(
            f'the master "{hide(master)}" of Spark cannot be reached',
            detail=_sentence(told.detail or ""),
            hint="See that it runs, and that [spark] has its address.",
        )
    return JobError("Spark cannot start with these settings", detail=_sentence(told.detail or ""), hint=_CHECK_SETTINGS)


class BatchFailure(Exception):
    """What the function of a streaming query raises to Spark. It is short, whatever it was made from.

    In a query that is being stopped, Spark looks with a regular expression for signs of an interrupt in the whole text
    of the error and its causes. On a Java trace, of tens of kilobytes, that overflows the stack of the query's thread,
    which prints a thousand lines, past any setting of the log.
    """


def to_spark(error: BaseException, stopped: bool) -> BatchFailure:
    """What to raise (`from None`) in a batch that failed of `error`; if the run was `stopped`, so that Spark sees that.

    A stop cancels the job of the batch, whose error then comes back to Spark, which takes it for no error if it reads
    like a call that was interrupted.
    """
    if stopped:
        return BatchFailure(
            "py4j.protocol.Py4JJavaError: An error occurred while calling a batch: java.lang.InterruptedException"
        )
    said = error.primary if isinstance(error, WatersmeetError) else _first_line(str(error))
    return BatchFailure(f"{type(error).__name__}: {hide(said)[:600]}")


def _no_source(text: str, line: str) -> JobError:
    named = next((match["format"] for match in _NO_SOURCE.finditer(text) if match["format"]), "")
    version = pyspark.__version__
    packages = {
        "kafka": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
        "avro": f"org.apache.spark:spark-avro_2.13:{version}",
        "delta": f"io.delta:delta-spark_2.13, in a version made for Spark {version}",
    }
    package = packages.get(named.lower())
    how = 'add its package: "spark.jars.packages" of [spark] in a job file, or of the session.'
    return JobError(
        f'Spark does not know the source format "{named}"' if named else "Spark does not know a source format",
        detail=line,
        hint=f"A{how[1:]} It is {package}." if package else f"Check its name, or {how}",
    )


def _first_line(text: str) -> str:
    """The first line that says something; py4j begins with which call failed."""
    lines = [line.strip(" :") for line in text.splitlines()]
    return next(
        (line for line in lines if line and not line.startswith("An error occurred while calling")), "no message"
    )


def _sentence(line: str) -> str:
    """Without the name of a Java class before it.

    >>> _sentence("org.apache.spark.SparkException: Could not parse Master URL: 'x'")
    "Could not parse Master URL: 'x'"
    """
    return re.sub(r"^[: ]*(?:Caused by: )?(?:(?:[a-z]\w*\.)+\w+: )?", "", line)


def _telling_line(text: str) -> str:
    """The line that names the file, and the innermost cause, without the names of Java's classes."""
    lines = [re.sub(r"^(Caused by)?[: ]*([\w.$]+: )?", "", line) for line in text.splitlines()]
    told = next((line for line in lines if any(mark in line for mark in _INPUT_MARKS)), _first_line(text))
    causes = [line for line, raw in zip(lines, text.splitlines(), strict=True) if raw.startswith("Caused by: ")]
    if causes and causes[-1] not in told:
        told = f"{told.rstrip('. ')}. {causes[-1]}"
    return re.sub(r"\s+", " ", told).strip()[:600]
