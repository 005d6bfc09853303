"""The JSON Schema of job files accepts what is right, and refuses what is wrong, as far as it can tell."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from settings.samples import NEEDS, sample, wrong
from watersmeet.cli.main import main
from watersmeet.config import parse_job
from watersmeet.errors import JobError
from watersmeet.settings.declaration import Setting
from watersmeet.settings.every import OF_A_RUN, SETTINGS
from watersmeet.settings.forced_step import STEP_SCHEMA
from watersmeet.settings.schema import job_schema

SCHEMA = job_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
DOCS = Path(__file__).parents[2] / "docs" / "job-file.md"
EVERY = [pytest.param(section, setting, id=f"{section}.{setting.name}") for section, setting in OF_A_RUN.values()]


def job(**values: Any) -> dict[str, Any]:
    stream = {"format": "parquet", "path": "in", "schema": "k BIGINT, ts BIGINT"}
    made: dict[str, Any] = {
        "query": "SELECT 1",
        "streams": {"A": stream},
        "sink": {"path": "out"},
        "run": {"checkpoint": "ck"},
        "adapt": {},
    }
    for name, value in values.items():
        made[OF_A_RUN[name][0]][name] = value
    return made


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("section, setting", EVERY)
def test_right_values_are_right_and_wrong_ones_wrong(section: str, setting: Setting) -> None:
    VALIDATOR.validate(job(**NEEDS.get(setting.name, {}), **{setting.name: sample(setting).value}))
    for value in wrong(setting):
        assert not VALIDATOR.is_valid(job(**{setting.name: value})), f"{setting.name} = {value!r}"


@pytest.mark.parametrize("section, setting", EVERY)
def test_a_default_is_right(section: str, setting: Setting) -> None:
    described = SCHEMA["properties"][section]["properties"][setting.name]
    assert described["description"] == setting.text
    if "default" in described:
        VALIDATOR.validate(job(**{setting.name: described["default"]}))


def test_the_job_in_the_docs_is_right() -> None:
    text = re.search(r"```toml\n(query = .*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert text is not None
    VALIDATOR.validate(tomllib.loads(text[1]))


@pytest.mark.parametrize(
    "text",
    [
        'query = "SELECT 1"\n[run]\nruntime = "local"\n[sink]\nformat = "noop"',
        'streams.A = {format = "kafka", schema = "k BIGINT"}\nsink.path = "out"\nrun.checkpoint = "ck"',
        'query = "q"\nstreams.A = {format = "kafka"}\nsink.path = "out"\nrun.checkpoint = "ck"',
        'query = "q"\nstreams.A = {format = "x", schema = "k INT", slots = 3}\nsink.path = "o"\nrun.checkpoint = "c"',
        'query = "q"\nstreams.A = {format = "kafka", schema = "k BIGINT"}\nrun.checkpoint = "ck"',
        'query = "q"\nstreams.A = {format = "kafka", schema = "k BIGINT"}\nsink.path = "out"\nrun.slots = 2',
    ],
    ids=["no streams", "no query", "no schema", "a key of another section", "no sink", "no checkpoint"],
)
def test_what_is_missing(text: str) -> None:
    assert not VALIDATOR.is_valid(tomllib.loads(text))
    with pytest.raises(JobError):
        parse_job(text, "job.toml")


def test_references_to_the_environment_and_former_names_are_right() -> None:
    VALIDATOR.validate(job(memory="${MEMORY}", checkpoint="s3://${KEY}:${SECRET}@bucket/ck"))
    former = job()
    former["adapt"] = {"upkeep": "recent"}
    VALIDATOR.validate(former)


def test_every_key_of_a_forced_step_is_known() -> None:
    step = SCHEMA["properties"]["adapt"]["properties"]["force"]["items"]
    assert set(step["properties"]) == set(STEP_SCHEMA)


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA
    assert set(SCHEMA["properties"]) >= {"run", "sink", "adapt", "stats"} == set(SETTINGS) - {"streams.*"}
