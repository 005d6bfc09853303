"""What Spark raises, told as an error of ours. No JVM: the texts are Spark's."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from watersmeet.errors import CheckpointError, InputError, InternalError, JobError, ResourceError, WatersmeetError
from watersmeet.runtime.spark.errors import translate

TRACE = "\tat org.apache.spark.Somewhere.run(Somewhere.scala:1)\n"
CSV = (
    "An error occurred while calling o251.collectToPython.\n"
    ": org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
    f"file:///in/2.csv. SQLSTATE: KD001\n{TRACE}"
    f"Caused by: java.lang.RuntimeException: outer\n{TRACE}"
    f"Caused by: java.lang.IllegalArgumentException: CSV header does not conform to the schema.\n{TRACE}"
)


@pytest.mark.parametrize(
    "error, kind, primary, detail",
    [
        (
            Py4JError(CSV),
            InputError,
            "a source cannot be read",
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/2.csv. SQLSTATE: KD001. "
            "CSV header does not conform to the schema.",
        ),
        (
            PySparkException(f"org.x.Y: No space left on device\n{TRACE}"),
            ResourceError,
            "the disk is full",
            "org.x.Y: No space left on device",
        ),
        (
            PySparkException("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."),
            CheckpointError,
            "another run is using the checkpoint",
            None,
        ),
        (
            Py4JError(f"x\n: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n{TRACE}"),
            ResourceError,
            "a Python worker of Spark died",
            None,
        ),
        (AnalysisException("[NO_SUCH] column x\n'Project"), JobError, "Spark refused the query", "[NO_SUCH] column x"),
        (
            Py4JError(
                f"An error occurred while calling o1.load.\n: [DATA_SOURCE_NOT_FOUND] Failed to find: x.\n{TRACE}"
            ),
            JobError,
            "Spark does not know a source format",
            "[DATA_SOURCE_NOT_FOUND] Failed to find: x.",
        ),
        (
            Py4JError(f"An error occurred while calling o1.go.\n: java.lang.Error: odd\n{TRACE}"),
            InternalError,
            "the query failed in Spark",
            "java.lang.Error: odd",
        ),
        (ZeroDivisionError("by zero"), InternalError, "the query failed in ZeroDivisionError", "by zero"),
    ],
    ids=["csv", "disk", "concurrent", "worker", "analysis", "format", "odd", "python"],
)
def test_translate(error: Exception, kind: type[WatersmeetError], primary: str, detail: str | None) -> None:
    told = translate(error)
    assert type(told) is kind
    assert told.primary == primary
    assert detail is None or told.detail == detail
    assert "\tat " not in told.render()


def test_an_error_of_ours_stays_as_it_is() -> None:
    error = JobError("mine")
    assert translate(error) is error
