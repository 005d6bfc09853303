"""How far ahead rows may be: the limit of each stream, from the clock or from the rows, and what users are told."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import JobError
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.runtime.clock import VirtualClock

TEXT = "SELECT A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k"
YEAR = 365 * 86_400_000_000


def rows(*times: int | None) -> pa.RecordBatch:
    """Rows that all have the same key; `v` is the event time."""
    stamps = pa.array(times, pa.int64())
    return pa.record_batch({"k": pa.array([1] * len(times), pa.int64()), "v": stamps, "ts": stamps})


def outcome(
    a: list[pa.RecordBatch], b: list[pa.RecordBatch], clock_us: int = 0, text: str = TEXT, **settings: Any
) -> tuple[set[tuple[int, int]], dict[str, Any]]:
    events: list[dict[str, Any]] = []
    query = wm.sql(text, A=a, B=b, **settings)
    table = query.run(report=events.append, clock=VirtualClock(clock_us))
    batches = [event for event in events if event["event"] == "batch"]
    return set(zip(*table.to_pydict().values(), strict=True)), batches[-1]["streams"]


def ahead(streams: Mapping[str, Any]) -> tuple[int, int]:
    return streams["A"]["ahead"], streams["B"]["ahead"]


MICRO = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("a", "b", "most", "counts", "watermarks"),
    [
        ([[1, 2, 900]], [[3]], 10, (1, 0), (2, 3)),
        ([[1], [9, 40]], [[3], [12, 22, 31]], 10, (0, 0), (40, 31)),
        ([[1], [9, 40]], [[3], [12, 22, 29]], 10, (1, 0), (9, 29)),
        ([[1], [100, 101, 102]], [[3], [5]], 10, (3, 0), (1, 5)),
        ([[35], [50]], [[40], []], 10, (0, 0), (50, 40)),
        ([[0, 500, 501, 502]], [[503]], 10, (0, 0), (502, 503)),
        ([[0, 1, 500, 501]], [[]], 10, (2, 0), (1, None)),
        ([[None, 7], [None]], [[None], [9]], 10, (0, 0), (7, 9)),
        ([[None]], [[None]], 10, (0, 0), (None, None)),
        ([[900], [5]], [[], [6]], 10, (0, 0), (900, 6)),
    ],
    ids=[
        "one row of the first batch is far from the others",
        "one goes on along the rows of both streams",
        "up to the first gap",
        "a whole stream may be beyond it",
        "the furthest of the other streams counts",
        "the first batch begins where most rows lie, and an old row is an old row",
        "the earlier half if there are as many",
        "rows without a time say nothing",
        "no times at all",
        "a first batch with a wrong time alone passes for right",
    ],
)
def test_ahead_of_the_streams(
    a: list[list[int | None]],
    b: list[list[int | None]],
    most: int,
    counts: tuple[int, int],
    watermarks: tuple[int | None, int | None],
) -> None:
    _, streams = outcome([rows(*t) for t in a], [rows(*t) for t in b], max_ahead=most * MICRO, ahead_of="streams")
    assert ahead(streams) == counts
    assert (streams["A"]["watermark"], streams["B"]["watermark"]) == watermarks


def test_ahead_of_the_clock() -> None:
    found, streams = outcome(
        [rows(90, 110, 111)], [rows(5000)], clock_us=100, max_ahead={"A": 10 * MICRO}, ahead_of="clock"
    )
    assert ahead(streams) == (1, 0)
    assert found == {(90, 5000), (110, 5000)}


def test_each_stream_has_its_own_way() -> None:
    """Rows ahead of the clock are no steps for those that go by the streams."""
    settings = {"max_ahead": {"A": 10 * MICRO, "B": 300 * MICRO}, "ahead_of": {"A": "clock", "B": "streams"}}
    _, streams = outcome([rows(1), rows(250)], [rows(2), rows(3, 500)], clock_us=100, **settings)
    assert ahead(streams) == (1, 1)
    _, streams = outcome([rows(1), rows(250)], [rows(2), rows(3, 500)], clock_us=240, **settings)
    assert ahead(streams) == (0, 0)


def test_a_stream_without_a_limit_counts_for_the_others() -> None:
    a, b = [rows(1), rows(9000), rows(9001)], [rows(2), rows(3), rows(9005)]
    _, streams = outcome(a, b, max_ahead={"B": 10 * MICRO}, ahead_of="streams")
    assert ahead(streams) == (0, 0)
    _, streams = outcome(a, b, max_ahead=10 * MICRO, ahead_of="streams")
    assert ahead(streams) == (2, 1)


def test_two_aliases_of_one_stream_see_the_same() -> None:
    events: list[dict[str, Any]] = []
    text = "SELECT x.v AS a, y.v AS b FROM A x, A y WHERE x.k = y.k"
    query = wm.sql(text, A=[rows(1, 2), rows(3, YEAR)], max_ahead="1 hour")
    assert sorted(query.run(report=events.append).column("a").to_pylist()) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert (events[-1]["rows_ahead"], events[-1]["rows_in"]) == (1, 4)


def test_dates_go_by_the_clock_and_numbers_by_the_streams() -> None:
    stamps, numbers = parse_schema("k INT, ts TIMESTAMP"), parse_schema("k INT, ts BIGINT")
    hour = timedelta(hours=1)
    assert Stream("A", stamps, max_ahead=hour).compared_with == "clock"
    assert Stream("A", numbers, max_ahead=hour).compared_with == "streams"
    assert Stream("A", stamps, max_ahead=hour, ahead_of="streams").compared_with == "streams"
    assert Stream("A", numbers, max_ahead=hour, ahead_of="clock").compared_with == "clock"


def test_the_wall_clock_is_that_of_event_times() -> None:
    now = datetime.now(UTC)
    times = pa.array([now, now + timedelta(minutes=59), now + timedelta(minutes=61)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"k": [1, 1, 1], "ts": times})
    events: list[dict[str, Any]] = []
    wm.sql("SELECT A.k FROM A, B WHERE A.k = B.k", A=table, B=table, max_ahead={"A": "1 hour"}).run(
        report=events.append
    )
    assert events[-1]["rows_ahead"] == 1


@pytest.mark.parametrize(
    ("settings", "primary"),
    [
        ({"max_ahead": "soon"}, 'max_ahead of stream "A" "soon" is not a duration'),
        ({"max_ahead": {"C": "1 hour"}}, 'max_ahead names unknown stream "C"'),
        ({"max_ahead": timedelta(0)}, 'max_ahead of stream "A" is not above zero'),
        ({"max_ahead": "1 hour", "ahead_of": "clocks"}, 'unknown ahead_of "clocks" of stream "A"'),
        ({"max_ahead": 7}, "max_ahead is a int"),
    ],
)
def test_mistakes_are_told(settings: dict[str, Any], primary: str) -> None:
    with pytest.raises(JobError) as caught:
        wm.sql(TEXT, A=[rows(1)], B=[rows(1)], **settings)
    assert caught.value.primary == primary


def test_off_is_no_limit() -> None:
    _, streams = outcome([rows(1, YEAR)], [rows(2)], max_ahead={"A": "off", "B": None})
    assert ahead(streams) == (0, 0)


def test_who_hears_no_events_reads_it_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "watersmeet"):
        wm.sql(TEXT, A=[rows(1, YEAR), rows(2, YEAR)], B=[rows(2)], max_ahead="1 hour", time_unit="us").run()
    (record,) = caplog.records
    assert record.getMessage().startswith('1 row is ahead in stream "A", up to 1971-01-01 00:00:00')
