"""How `watersmeet.sql` takes its arguments, without a JVM."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import JobError

ROWS = pa.table({"k": [1, 2], "ts": [0, 1], "other": [5, 6]})
TEXT = "SELECT A.k FROM A, B WHERE A.k = B.k"


def settings(query: Any) -> dict[str, tuple[str, timedelta]]:
    return {entry.stream.name: (entry.stream.time, entry.stream.lateness) for entry in query.query.inputs}


@pytest.mark.parametrize("lateness", ["10 seconds", timedelta(seconds=10)])
def test_one_lateness_is_for_all_streams(lateness: str | timedelta) -> None:
    ten = timedelta(seconds=10)
    assert settings(wm.sql(TEXT, A=ROWS, B=ROWS, lateness=lateness)) == {"A": ("ts", ten), "B": ("ts", ten)}


def test_one_time_column_is_for_all_streams() -> None:
    zero = timedelta(0)
    assert settings(wm.sql(TEXT, A=ROWS, B=ROWS, time="other")) == {"A": ("other", zero), "B": ("other", zero)}
    query = wm.sql(TEXT, A=ROWS, B=ROWS, time={"A": "other"}, lateness={"B": "1 second"})
    assert settings(query) == {"A": ("other", zero), "B": ("ts", timedelta(seconds=1))}


def test_a_lateness_that_is_none_is_refused() -> None:
    with pytest.raises(JobError, match=r'lateness of stream "A" "10 parsecs" is not a duration'):
        wm.sql(TEXT, A=ROWS, B=ROWS, lateness="10 parsecs")


NAMES = ["time", "lateness", "functions", "rates", "selectivity", "repeats", "streams", "text"]


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_may_have_the_name_of_a_setting(name: str) -> None:
    text = f'SELECT A.k FROM A, "{name}" x WHERE A.k = x.k'
    assert wm.sql(text, streams={"A": ROWS, name: ROWS}).run().num_rows == 2
    assert wm.sql(text, streams={name: ROWS}, A=ROWS).run().num_rows == 2


@pytest.mark.parametrize("name", NAMES[:-1])
def test_a_stream_in_the_place_of_a_setting_is_told_where_to_go(name: str) -> None:
    with pytest.raises(JobError) as caught:
        wm.sql(TEXT, A=ROWS, **{name: ROWS})
    assert caught.value.primary == f"{name} is a Table"
    assert f'streams={{"{name}": ..}}' in (caught.value.hint or "")


def test_a_stream_given_twice_is_refused() -> None:
    with pytest.raises(JobError, match='stream "A" is given twice'):
        wm.sql(TEXT, streams={"A": ROWS, "B": ROWS}, A=ROWS)


def test_no_streams_at_all_are_refused() -> None:
    with pytest.raises(JobError, match="the query has no streams"):
        wm.sql(TEXT, streams={})


def test_a_setting_of_an_unknown_stream_is_refused() -> None:
    with pytest.raises(JobError, match='lateness names unknown stream "C"'):
        wm.sql(TEXT, streams={"A": ROWS}, B=ROWS, lateness={"C": "1 second"})


@pytest.mark.parametrize(
    "args, named",
    [
        ((True,), {}),
        ((False,), {}),
        ((None,), {}),
        (("formatted",), {}),
        ((), {"extended": True}),
        ((), {"extended": "cost"}),
        ((), {"mode": "extended"}),
    ],
)
def test_explain_takes_what_sparks_takes(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    query = wm.sql(TEXT, A=ROWS, B=ROWS)
    assert query.explain(*args, **named) == query.explain() != ""


def test_explain_still_takes_a_plan() -> None:
    query = wm.sql("SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.k = C.k", A=ROWS, B=ROWS, C=ROWS)
    assert query.explain("((A B) C)", extended=True) == query.explain("((A B) C)") != query.explain("(A B C)")


def test_an_unknown_mode_of_explain_is_refused() -> None:
    with pytest.raises(JobError) as caught:
        wm.sql(TEXT, A=ROWS, B=ROWS).explain(mode="formated")
    assert caught.value.hint == 'Did you mean "formatted"?'
