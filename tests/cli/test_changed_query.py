"""A restart with another query: what the state can serve goes on, the rest is refused with what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from changed_queries import ANY, BEFORE, CASE, CHANGES, STREAMS, answer, due, expected_after, start, text, with_query
from judged_jobs import write_streams


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "plan, run", [("((A B) C)", "memory = 3000"), ("(A B C)", ""), ("auto", "")], ids=["a budget", "routed", "auto"]
)
@pytest.mark.share(2)
def test_what_the_state_can_serve_goes_on(tmp_path: Path, change: str, plan: str, run: str) -> None:
    job = start(tmp_path, text(), f'plan = "{plan}"', run)
    job.finish()
    assert answer(job) == due(*ANY, lambda batch: batch < BEFORE)
    write_streams(CASE, STREAMS, tmp_path / "in")
    with_query(job, CHANGES[change][0])
    events = job.finish()
    (told,) = [e for event in events for e in event.get("decisions", ()) if e["decision"] == "ChangePlan"]
    assert told["reason"] == "the query was changed"
    assert answer(job) == expected_after(change)
    again = job.finish()
    assert [event["event"] for event in again] == ["end"], "it is of the new query now"


def test_what_changes_is_told_before_and_by_explain(tmp_path: Path) -> None:
    job = start(tmp_path, text(), 'plan = "((A B) C)"')
    job.finish()
    with_query(job, text(more=" AND B.v % 3 = 0", a=2))
    sentences = [
        "the query was changed: The window of A was [RANGE 4 SECONDS], and becomes [RANGE 2 SECONDS].",
        "the query was changed: Rows of B are filtered by modulo(B.v, 3) = 0 too.",
    ]
    code, out, _ = job.call("explain", "job.toml", "--against", "ck")
    assert code == 0
    assert all(sentence in out for sentence in sentences), out
    assert "  made    A@A.x" in out
    assert job.run_here().stderr.splitlines() == [f"note: {sentence}" for sentence in sentences]


@pytest.mark.parametrize(
    "query, message",
    [
        (text(a=5), "The window of A was [RANGE 4 SECONDS], and rows that [RANGE 5 SECONDS] needs have gone."),
        (text().replace("A.x = B.x", "A.x = B.y").replace("B.y = C.y", "B.x = C.y"), "joined on are others"),
        (
            "SELECT A.v AS a, B.v AS b FROM A [RANGE 4 SECONDS], B [RANGE 4 SECONDS] WHERE A.x = B.x",
            "It reads the streams A, B, C, and this run A, B.",
        ),
        (text(a=2).replace("A [RANGE 2 SECONDS]", "A"), "The window of A was"),
    ],
)
def test_what_it_cannot_is_refused(tmp_path: Path, query: str, message: str) -> None:
    job = start(tmp_path, text())
    job.finish()
    before = job.state()
    with_query(job, query)
    for command in (("run", "job.toml", "--json"), ("explain", "job.toml", "--against", "ck")):
        code, _, err = job.call(*command)
        assert code == 2
        assert err.startswith("error: the checkpoint belongs to another query\ndetail: ")
        assert message in err
    assert job.state() == before


def test_a_filter_that_was_there_cannot_go(tmp_path: Path) -> None:
    job = start(tmp_path, text(more=" AND A.v > 3 AND A.v < B.v"))
    job.finish()
    with_query(job, text())
    _, _, err = job.call("run", "job.toml")
    assert "Rows of A that do not satisfy A.v > 3 were not kept." in err
    assert "Results had to satisfy A.v < B.v before." in err


def test_columns_that_are_not_held(tmp_path: Path) -> None:
    job = start(tmp_path, text("A.v AS a, B.v AS b, 1 AS c"))
    job.finish()
    with_query(job, text())
    code, _, err = job.call("run", "job.toml")
    assert code == 2
    assert err.startswith("error: the checkpoint does not hold all that the query needs now\n")
    assert "Of the rows that it keeps it has no C.v." in err


@pytest.mark.parametrize("point", ["before-migration", "before-switch", "after-switch", "after-commit"])
def test_killed_on_the_way(tmp_path: Path, point: str) -> None:
    job = start(tmp_path, text(), 'plan = "((A B) C)"', "memory = 3000")
    job.finish()
    write_streams(CASE, STREAMS, tmp_path / "in")
    with_query(job, CHANGES["all of it"][0])
    assert job.start(fault=point).code == -9
    job.finish()
    assert answer(job) == expected_after("all of it")


def test_there_and_back_with_another_plan_at_once(tmp_path: Path) -> None:
    job = start(tmp_path, text(), 'plan = "((A B) C)"')
    job.finish()
    write_streams(CASE, STREAMS, tmp_path / "in", BEFORE, 7)
    with_query(job, text(more=" AND A.v < C.v"))
    job.finish("adapt.plan=(A (B C))")
    assert job.state()["plan"] == "(A (B C))"
    with_query(job, text(more=" AND A.v < C.v AND B.v < C.v"))
    write_streams(CASE, STREAMS, tmp_path / "in", 7)
    job.finish("adapt.plan=mjoin")
    expected = (
        due(*ANY, lambda batch: batch < BEFORE)
        + due((4, 4, 4), lambda a, b, c: a["v"] < c["v"], lambda batch: BEFORE <= batch < 7)
        + due((4, 4, 4), lambda a, b, c: max(a["v"], b["v"]) < c["v"], lambda batch: batch >= 7)
    )
    assert answer(job) == expected
