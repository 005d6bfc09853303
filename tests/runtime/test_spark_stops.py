"""What Spark makes of a batch that fails, or that is stopped while its job runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from watersmeet.errors import InputError
from watersmeet.runtime.spark.errors import to_spark

pytestmark = pytest.mark.spark


def start(spark: Any, folder: Path, function: Callable[[Any, int], None]) -> Any:
    rows = spark.readStream.format("rate").load()
    return rows.writeStream.foreachBatch(function).option("checkpointLocation", str(folder / "ck")).start()


def wait_long(batches: Any) -> Any:
    time.sleep(30)
    yield from batches


def test_a_stop_in_the_middle_of_a_job_is_no_error(spark: Any, tmp_path: Path) -> None:
    entered = threading.Event()
    lengths: list[int] = []

    def function(frame: Any, batch_id: int) -> None:
        try:
            entered.set()
            frame.sparkSession.range(1).mapInArrow(wait_long, "id BIGINT").collect()
        except BaseException as error:
            lengths.append(len(str(error)))
            raise to_spark(error, stopped=True) from None

    query = start(spark, tmp_path, function)
    assert entered.wait(60)
    time.sleep(1)
    query.stop()
    assert lengths and lengths[0] > 1000, "the job was cancelled, and its own error is long"
    assert query.exception() is None
    assert not query.isActive


def test_a_failure_reaches_spark_in_a_line(spark: Any, tmp_path: Path) -> None:
    def function(frame: Any, batch_id: int) -> None:
        error = InputError("the source is gone", detail="very long " * 100_000)
        raise to_spark(error, stopped=False) from None

    query = start(spark, tmp_path, function)
    with pytest.raises(Exception, match="InputError: the source is gone") as caught:
        query.awaitTermination(60)
    assert "very long" not in str(caught.value)
