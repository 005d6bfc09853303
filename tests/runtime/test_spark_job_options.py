"""What the settings of a job file are on Spark, without a JVM."""

from __future__ import annotations

import pytest

from watersmeet.config import parse_job
from watersmeet.model.quantities import parse_duration
from watersmeet.runtime.spark.job import writer_options

JOB = """
query = "SELECT A.v FROM A, B WHERE A.k = B.k"
[streams.A]
format = "rate"
schema = "k BIGINT, v BIGINT, ts TIMESTAMP"
[streams.B]
format = "rate"
schema = "k BIGINT, v BIGINT, ts TIMESTAMP"
[sink]
path = "out"
[run]
checkpoint = "ck"
"""


@pytest.mark.parametrize("every", ["500 microseconds", "1 millisecond", "1500 microseconds", "5 seconds", "1 hour"])
def test_deliver_every_is_as_long_as_the_job_file_says(every: str) -> None:
    """Was: cut to whole milliseconds, so that 500 microseconds became none."""
    options = writer_options(parse_job(JOB, "job.toml", [f"sink.deliver_every={every}"]))
    assert parse_duration(str(options["deliverEvery"]), "deliverEvery") == parse_duration(every, "deliver_every")


def test_options_that_the_job_file_leaves_out_are_not_set() -> None:
    options = writer_options(parse_job(JOB, "job.toml"))
    assert options["path"] == "out"
    assert not {"deliverEvery", "keepFor", "latePath", "memory"} & set(options)
