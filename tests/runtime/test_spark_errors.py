"""What Spark raises, told as an error of ours. No JVM: the texts are Spark's."""

from __future__ import annotations

import pyspark
import pytest
from py4j.protocol import Py4JError
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
from watersmeet.runtime.spark.errors import translate, translate_start

TRACE = "\tat org.apache.spark.Somewhere.run(Somewhere.scala:1)\n"
CSV = (
    "An error occurred while calling o251.collectToPython.\n"
    ": org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
    f"file:///in/2.csv. SQLSTATE: KD001\n{TRACE}"
    f"Caused by: java.lang.RuntimeException: outer\n{TRACE}"
    f"Caused by: java.lang.IllegalArgumentException: CSV header does not conform to the schema.\n{TRACE}"
)
NO_KAFKA = "[KAFKA_DATA_SOURCE_NOT_ENABLED] Failed to find data source: kafka."


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
            AnalysisException(f"{NO_KAFKA} Please deploy the application as the guide says."),
            JobError,
            'Spark does not know the source format "kafka"',
            f"{NO_KAFKA} Please deploy the application as the guide says.",
        ),
        (
            Py4JError(f"An error occurred while calling o1.go.\n: java.lang.Error: odd\n{TRACE}"),
            InternalError,
            "the query failed in Spark",
            "java.lang.Error: odd",
        ),
        (ZeroDivisionError("by zero"), InternalError, "the query failed in ZeroDivisionError", "by zero"),
    ],
    ids=["csv", "disk", "concurrent", "worker", "analysis", "format", "kafka", "odd", "python"],
)
def test_translate(error: Exception, kind: type[WatersmeetError], primary: str, detail: str | None) -> None:
    told = translate(error)
    assert type(told) is kind
    assert told.primary == primary
    assert detail is None or told.detail == detail
    assert "\tat " not in told.render()


STARTING = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n: "
UNKNOWN = "org.apache.spark.SparkException: Could not parse Master URL: 'nonsense'"
TYPE = (
    "[INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'abc' in the config \"spark.sql.shuffle.partitions\" is invalid. "
    "It should be a/an 'int' value. SQLSTATE: 22022"
)
STOPPED = "java.lang.IllegalArgumentException: requirement failed: Can only call getServletHandlers on a running system"


@pytest.mark.parametrize(
    "said, master, kind, primary, detail",
    [
        (UNKNOWN, "nonsense", JobError, "Spark refused a setting", "Could not parse Master URL: 'nonsense'"),
        (TYPE, "local[2]", JobError, "Spark refused a setting", TYPE),
        (TYPE, "spark://a:1", JobError, "Spark refused a setting", TYPE),
        (
            STOPPED,
            "spark://a:1",
            ResourceError,
            'the master "spark://a:1" of Spark cannot be reached',
            STOPPED.partition(": ")[2],
        ),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            "local[2]",
            JobError,
            "Spark cannot start with these settings",
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
        ),
        (f"x: No space left on device\n{TRACE}", "local[2]", ResourceError, "the disk is full", None),
    ],
    ids=["master", "type", "type on a cluster", "unreachable", "java", "disk"],
)
def test_a_session_that_cannot_be_made(
    said: str, master: str, kind: type[WatersmeetError], primary: str, detail: str | None
) -> None:
    told = translate_start(Py4JError(f"{STARTING}{said}\n{TRACE}"), master)
    assert (type(told), told.primary) == (kind, primary)
    assert detail is None or told.detail == detail
    assert "\tat " not in told.render()


def test_an_error_of_ours_stays_as_it_is() -> None:
    error = JobError("mine")
    assert translate(error) is error


@pytest.mark.parametrize(
    "said, package",
    [
        (NO_KAFKA, f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"),
        (
            "Failed to find data source: kafka. Please",
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}",
        ),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make", "io.delta:delta-spark_2.13"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: io.x.y. Make", None),
    ],
    ids=["kafka", "kafka on 4.1", "delta", "another"],
)
@pytest.mark.parametrize("kind", [AnalysisException, Py4JError])
def test_a_missing_package_is_named(kind: type[Exception], said: str, package: str | None) -> None:
    hint = translate(kind(said)).hint or ""
    assert 'dd its package: "spark.jars.packages" of [spark] in a job file, or of the session.' in hint
    assert package in hint if package else "It is" not in hint


@pytest.mark.parametrize("wanted", ["", "0", "1"])
def test_the_cause_is_kept_for_those_who_want_traces(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATERSMEET_TRACE", wanted)
    error = AnalysisException("no")
    assert translate(error).__cause__ is (error if wanted == "1" else None)
    with pytest.raises(JobError) as caught:
        try:
            raise error
        except AnalysisException as raised:
            raise translate(raised) from cause(raised)
    assert caught.value.__cause__ is (error if wanted == "1" else None)
    assert caught.value.__suppress_context__
