"""Output modes: which a query has, and what points at the place in its text that makes it so."""

from __future__ import annotations

import pytest

from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.plan.output_mode import check_output_mode

STREAMS = {"A": Stream("A", parse_schema("k BIGINT, ts BIGINT"))}
WINDOW = "[RANGE 10 SECONDS SLIDE 5 SECONDS]"


@pytest.mark.parametrize(
    "text, place",
    [
        ("SELECT k, COUNT(*) AS n FROM A GROUP BY k HAVING COUNT(*) > 1", "GROUP BY"),
        ("SELECT DISTINCT k\nFROM A", "DISTINCT"),
        ("SELECT 1 AS x FROM A HAVING COUNT(*) > 1", "HAVING"),
        ("SELECT 2 * SUM(k) AS n, COUNT(*) FROM A", "SUM(k)"),
    ],
)
def test_running_totals_in_append_mode_point_at_what_groups(text: str, place: str) -> None:
    query = bind(text, STREAMS)
    check_output_mode(query, "update", "..")
    with pytest.raises(JobError) as caught:
        check_output_mode(query, "append", 'mode = "update" in [sink]')
    told = caught.value.render().split("\n")
    assert told[0] == 'error: groups without windows need output mode "update"'
    mark = told[2].index("^")
    assert told[1][mark : mark + told[2].count("^")] == place
    assert 'Write mode = "update" in [sink], or' in told[-1]


def test_groups_over_windows_are_appended() -> None:
    query = bind(f"SELECT k FROM A {WINDOW} GROUP BY k", STREAMS)
    check_output_mode(query, "append", "..")
    with pytest.raises(JobError, match='"update" is for groups without windows'):
        check_output_mode(query, "update", "..")
