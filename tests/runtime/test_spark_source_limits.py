"""What `max_batch_rows` and `max_batch_bytes` become on Spark; no JVM is started."""

from __future__ import annotations

import pytest

from watersmeet.config import SourceConfig, parse_job
from watersmeet.errors import JobError
from watersmeet.runtime.spark.read_streams import source_limits


def source(format: str, *settings: str) -> SourceConfig:
    text = f"""
    query = "SELECT A.k FROM A, A AS B WHERE A.k = B.k"
    [streams.A]
    format = "{format}"
    path = "in"
    schema = "k BIGINT, ts BIGINT"
    [sink]
    format = "noop"
    [run]
    checkpoint = "ck"
    """
    return parse_job(text, "job.toml", settings).sources["A"]


@pytest.mark.parametrize(
    ("format", "settings", "options"),
    [
        ("parquet", (), {}),
        ("parquet", ("run.max_batch_bytes=64MB",), {"maxBytesPerTrigger": 64 << 20}),
        ("csv", ("run.max_batch_bytes=64MB", "streams.A.max_batch_bytes=1MB"), {"maxBytesPerTrigger": 1 << 20}),
        ("json", ("run.max_batch_bytes=64MB", "streams.A.max_batch_bytes=off"), {}),
        ("kafka", ("run.max_batch_rows=500",), {"maxOffsetsPerTrigger": 500}),
        ("rate-micro-batch", ("run.max_batch_rows=500",), {"rowsPerBatch": 500}),
    ],
)
def test_what_a_source_can_do_is_passed_on(format: str, settings: tuple[str, ...], options: dict[str, int]) -> None:
    assert source_limits(source(format, *settings)) == options


@pytest.mark.parametrize(
    ("format", "setting", "message"),
    [
        ("parquet", "run.max_batch_rows=500", 'max_batch_rows does not apply to stream "A"'),
        ("kafka", "run.max_batch_bytes=1MB", 'max_batch_bytes does not apply to stream "A"'),
        ("delta", "streams.A.max_batch_bytes=1MB", 'max_batch_bytes does not apply to stream "A"'),
    ],
)
def test_what_a_source_cannot_do_is_refused(format: str, setting: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        source_limits(source(format, setting))


def test_files_and_bytes_do_not_go_together() -> None:
    asked = source("parquet", "run.max_batch_bytes=1MB", "streams.A.options.maxFilesPerTrigger=1")
    with pytest.raises(JobError, match="has max_batch_bytes and maxFilesPerTrigger"):
        source_limits(asked)
