"""References to the environment in a job file: what they become, where none may be, and what is hidden for them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from watersmeet.config import parse_job
from watersmeet.errors import InputError, JobError
from watersmeet.references import resolve
from watersmeet.secrets import hide, keep_secret

JOB = """
query = "SELECT A.k FROM A, B WHERE A.k = B.k"
[streams.A]
format = "parquet"
path = "{path}"
schema = "k BIGINT, ts BIGINT"
options = {{ {options} }}
[streams.B]
format = "parquet"
path = "in/B"
schema = "k BIGINT, ts BIGINT"
[sink]
path = "out"
[run]
checkpoint = "ck"
{run}
[spark]
{spark}
"""


def job_text(path: str = "in/A", options: str = "", run: str = "", spark: str = "") -> str:
    return JOB.format(path=path, options=options, run=run, spark=spark)


def resolved(value: Any, **environment: str) -> Any:
    return resolve({"run": {"cache": value}}, environment).data["run"]["cache"]


@pytest.mark.parametrize(
    "text, value",
    [
        ("${X}", "one"),
        ("a${X}b${Y_2}c${X}", "aonebtwoconet"[:-1]),
        ("$${X}", "${X}"),
        ("$$${X}", "$${X}"),
        ("$X and $ and {X} and $$", "$X and $ and {X} and $$"),
        ("s3://${KEY}:${KEY}@b/${KEY}?x=${KEY}", "s3://a%2Fb%2B:a%2Fb%2B@b/a/b+?x=a%2Fb%2B"),
        ("${URL}/x", "s3://k:s@b/x"),
        ("${REF}", "${X}"),  # what a value says is not looked at again
        ("", ""),
    ],
)
def test_what_a_reference_becomes(text: str, value: str) -> None:
    assert resolved(text, X="one", Y_2="two", REF="${X}", KEY="a/b+", URL="s3://k:s@b") == value


def test_what_is_no_text_stays_as_it_is() -> None:
    assert resolved([1, True, "${X}", {"a": 2.5, "b": "${X}"}], X="v") == [1, True, "v", {"a": 2.5, "b": "v"}]


@pytest.mark.parametrize("text", ["${", "${}", "${1X}", "${X-Y}", "${X", "${ X }", "ok ${X} then ${"])
def test_a_reference_that_cannot_be_read(text: str) -> None:
    with pytest.raises(JobError, match=r'"cache" in \[run\] has a reference that cannot be read') as caught:
        resolved(text, X="v")
    assert caught.value.hint == "Write $${ for the text ${."


@pytest.mark.parametrize(
    "text, place",
    [
        (job_text(path="${NOT_THERE}/A"), '"path" in [streams.A]'),
        (job_text(options='"kafka.password" = "${NOT_THERE}"'), '"kafka.password" in options of [streams.A]'),
        (job_text(options='kafka.password = "${NOT_THERE}"'), '"kafka.password" in options of [streams.A]'),
        (job_text(run='cache = "${NOT_THERE}"'), '"cache" in [run]'),
        (job_text(spark='"spark.x" = "${NOT_THERE}"'), '"spark.x" in [spark]'),
    ],
)
def test_a_variable_that_is_not_set(text: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(JobError) as caught:
        parse_job(text, "job.toml")
    assert caught.value.primary == f'{place} refers to the environment variable "NOT_THERE", which is not set'


@pytest.mark.parametrize(
    "old, new, place",
    [
        ("A.k = B.k", "A.k = ${KEPT}", '"query"'),
        ('schema = "k BIGINT, ts', 'schema = "${KEPT} BIGINT, ts', '"schema" in [streams.A]'),
        ('path = "in/B"', 'path = "in/B"\ntime = "${KEPT}"', '"time" in [streams.B]'),
        ('path = "in/B"', 'path = "in/B"\nlateness = "${KEPT}"', '"lateness" in [streams.B]'),
        ("[sink]", '[adapt]\nplan = "${KEPT}"\n[sink]', '"plan" in [adapt]'),
        ("[spark]", '[spark]\n"spark.driver.extraJavaOptions" = "-Dp=${KEPT}"', '"spark.driver.extraJavaOptions"'),
        ("[spark]", "[spark]\nspark.driver.memory = '${KEPT}'", '"spark.driver.memory" in [spark]'),
    ],
)
def test_where_no_reference_may_be(old: str, new: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept in the checkpoint, and what a command line is made from."""
    monkeypatch.setenv("KEPT", "canary-of-the-kept")
    with pytest.raises(JobError) as caught:
        parse_job(job_text().replace(old, new, 1), "job.toml")
    assert caught.value.primary.startswith(place)
    assert 'refers to the environment variable "KEPT"' in caught.value.primary
    assert "canary-of-the-kept" not in str(caught.value)


def test_a_dollar_in_a_query_can_be_written() -> None:
    text = job_text().replace("A.k = B.k", "A.k = B.k AND '$${X}' = '$${X}'")
    assert parse_job(text, "job.toml").query.endswith("'${X}' = '${X}'")


def test_values_reach_their_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_FOLDER", "/data/of/mine")
    monkeypatch.setenv("PASSWORD_1", "canary-in-settings")
    job = parse_job(
        job_text(
            path="${DATA_FOLDER}/A",
            options='kafka.jaas = \'user="u" password="${PASSWORD_1}";\'',
            spark='spark.hadoop.x.secret = "${PASSWORD_1}"',
        ),
        "job.toml",
    )
    assert job.sources["A"].path == "/data/of/mine/A"
    assert job.sources["A"].options == {"kafka.jaas": 'user="u" password="canary-in-settings";'}
    assert job.spark.conf == {"spark.hadoop.x.secret": "canary-in-settings"}
    assert "canary-in-settings" not in repr(job)
    assert hide("no canary-in-settings at /data/of/mine/A") == "no ${PASSWORD_1} at /data/of/mine/A"


@pytest.mark.parametrize("setting", ["trigger", "runtime", "durability", "memory"])
def test_the_wrong_variable_is_not_quoted(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD_2", f"canary-as-{setting}")
    with pytest.raises(JobError) as caught:
        parse_job(job_text(run=f'{setting} = "${{PASSWORD_2}}"'), "job.toml")
    assert "${PASSWORD_2}" in str(caught.value)
    assert "canary-as" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "s3://key:${PASSWORD_3}@bucket/in",
        "s3://bucket/in?session_token=${PASSWORD_3}",
        "${PASSWORD_URL}",
        "other://u:${PASSWORD_3}@host/in",
        "other://host/in?whatever=${PASSWORD_3}",
    ],
)
def test_secrets_in_addresses(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD_3", "canary/in+addresses")
    monkeypatch.setenv("PASSWORD_URL", "s3://key:canary%2Fin%2Baddresses@bucket/in")
    path = parse_job(job_text(path=address), "job.toml").sources["A"].path
    for form in ("canary/in+addresses", "canary%2Fin%2Baddresses", str(path)):
        shown = hide(f"cannot reach {form}")
        assert "canary/in" not in shown
        assert "canary%2Fin" not in shown


def test_what_stands_in_the_file_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of its key; better is not to have it there."""
    parse_job(job_text(options='"x.password" = "canary-in-the-file"'), "job.toml")
    assert hide("no canary-in-the-file") == "no (hidden)"


@pytest.mark.parametrize(
    "override",
    [
        "streams.A.options.password=canary-argument",
        "spark.spark.hadoop.fs.s3a.secret.key=canary-argument",
        "run.checkpoint=s3://k:canary-argument@b/ck",
        "sink.path=s3://b/out?session_token=canary-argument",
    ],
)
def test_a_secret_on_the_command_line(override: str) -> None:
    with pytest.raises(JobError, match="a secret was given on the command line") as caught:
        parse_job(job_text(), "job.toml", [override])
    assert "canary-argument" not in str(caught.value)


def test_a_reference_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD_4", "canary-by-reference")
    job = parse_job(job_text(), "job.toml", ["streams.A.options.password=${PASSWORD_4}", "run.cache=c"])
    assert job.sources["A"].options == {"password": "canary-by-reference"}


def test_every_part_of_an_error_is_without_secrets() -> None:
    """Also of one that came from a worker, which does not know them."""
    before = InputError("has canary-of-errors", detail="d canary-of-errors", hint="h canary-of-errors")
    sent = pickle.dumps(before)
    keep_secret("canary-of-errors")
    after = InputError("has canary-of-errors", detail="d canary-of-errors", hint="h canary-of-errors")
    for error in (after, pickle.loads(sent)):
        assert (error.primary, error.detail, error.hint) == ("has (hidden)", "d (hidden)", "h (hidden)")
        assert "canary" not in repr(error)
    assert "canary" not in str(before)
