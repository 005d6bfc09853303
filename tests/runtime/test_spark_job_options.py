"""What the settings of a job file are on Spark, without a JVM."""

from __future__ import annotations

from datetime import timedelta

import pytest

from watersmeet.config import parse_job
from watersmeet.lang.binder import bind
from watersmeet.model.quantities import parse_duration
from watersmeet.runtime.spark.writer import StreamWriter

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
def test_the_writer_has_the_settings_of_a_job_file_as_they_are(every: str) -> None:
    """Was: written as text and read again, which cut 500 microseconds to no milliseconds."""
    job = parse_job(JOB, "job.toml", [f"deliver_every={every}", "slots=3", "slot_weights=[1, 0.5, 0.1]", "memory=1000"])
    writer = StreamWriter(bind(job.query, job.streams()), {}).settings(job.sections)
    assert writer.sections == job.sections
    assert job.sink.deliver_every == parse_duration(every, "deliver_every")
    assert writer.option("memory", "2KB").sections.run.memory == 2048, "an option goes before it"


def test_so_is_the_interval_of_the_trigger() -> None:
    job = parse_job(JOB, "job.toml", ["trigger=1500 microseconds"])
    writer = StreamWriter(bind(job.query, job.streams()), {}).settings(job.sections)
    assert writer.sections.run.trigger == timedelta(microseconds=1500)
    assert writer.trigger(processingTime="2 seconds").sections.run.trigger == timedelta(seconds=2)
    assert writer.trigger(availableNow=True).sections.run.trigger is None
