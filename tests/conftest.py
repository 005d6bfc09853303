"""Options and fixtures that all tests share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from object_server import S3Server

# A machine that is busy with something else is slow, and that is no defect.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

GOLDEN = Path(__file__).parent / "golden"

# A shell that starts tests in the background has SIGINT ignored, and so would all have that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Plans are chosen by what joins cost on the machine; tests choose the same ones everywhere. Processes that tests start
# inherit it.
os.environ["WATERSMEET_COSTS"] = str(Path(__file__).parent / "costs.json")

# A JVM of a test lives for seconds, in which the optimising compiler and the parallel collector only cost: half of the
# CPU time of tests on Spark.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What tools/share_classes.py has made, if it has. A JVM that cannot use it says nothing and does without.
SHARED_CLASSES = Path(sys.prefix) / "spark-classes.jsa"
if SHARED_CLASSES.exists():
    SHORT_LIVED += f" -XX:SharedArchiveFile={SHARED_CLASSES} -Xlog:disable"
os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)
os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", SHORT_LIVED)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files in tests/golden")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with tests that take long come first, so that no process is left with one of them at the end."""
    long = {item.path for item in items if any(item.iter_markers("slow")) or any(item.iter_markers("spark"))}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares `text` with tests/golden/NAME.txt, or rewrites that with --update-golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing; make it with --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """One S3 server, a process of its own; each test makes a bucket of its own there."""
    from object_server import s3_server

    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all tests that reach Spark through the API: to start a JVM takes seconds."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("watersmeet tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
