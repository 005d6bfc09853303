"""All settings on all surfaces: each accepts each of them, with the same meaning, default and error."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from settings.samples import NEEDS, Sample, as_toml, sample, wrong
from watersmeet.api import LocalQuery
from watersmeet.config import parse_job
from watersmeet.errors import JobError
from watersmeet.settings import argument_types
from watersmeet.settings.argument_types import Settings
from watersmeet.settings.arguments import ARGUMENTS, annotation_of, default_of, read_arguments
from watersmeet.settings.declaration import Setting, Surface, declared_in
from watersmeet.settings.every import OF_A_RUN, SECTIONS, SETTINGS, Sections
from watersmeet.settings.kinds import Place
from watersmeet.settings.options import OPTIONS, option_name, read_options
from watersmeet.settings.run import RunSection

JOB = """
query = "SELECT 1"
[streams.A]
format = "parquet"
path = "in"
schema = "k BIGINT, ts BIGINT"
[sink]
path = "out"
[run]
checkpoint = "ck"
"""
LOCAL_JOB = JOB.replace('[run]\ncheckpoint = "ck"', '[run]\nruntime = "local"')
ROWS = pa.table({"k": [1, 2], "ts": [0, 1]})
QUERY = wm.sql("SELECT A.k FROM A, B WHERE A.k = B.k", A=ROWS, B=ROWS)
# What errors have always called some settings.
NAMED_OTHERWISE = {"migrate": ("way to change the plan",)}
EVERY = [pytest.param(section, setting, id=f"{section}.{setting.name}") for section, setting in OF_A_RUN.values()]
ON_SPARK = [
    pytest.param(section, setting, id=setting.camel)
    for section, setting in OF_A_RUN.values()
    if setting.on(Surface.SPARK)
]
IN_PYTHON = [
    pytest.param(section, setting, id=setting.keyword)
    for section, setting in OF_A_RUN.values()
    if setting.on(Surface.PYTHON)
]


def of_job(values: Mapping[str, Any], base: str = JOB) -> Sections:
    """What a job file with these settings means, each given by --set without its section."""
    return parse_job(base, "job.toml", [f"{name}={as_toml(value)}" for name, value in values.items()]).sections


def of_options(values: Mapping[str, Any]) -> Sections:
    given = {"path": "out", "checkpointLocation": "ck"}
    return Sections().having(read_options({**given, **{option_name(name): value for name, value in values.items()}}))


def of_arguments(values: Mapping[str, Any]) -> Sections:
    given = {OF_A_RUN[name][1].keyword if name in OF_A_RUN else name: value for name, value in values.items()}
    return Sections(RunSection(runtime="local")).having(read_arguments(given))


def with_needs(setting: Setting, value: Any, by: str = "name") -> dict[str, Any]:
    return {**NEEDS.get(setting.name, {}), getattr(setting, by): value}


def test_each_setting_has_one_name() -> None:
    names = [setting.name for section in ("run", "sink", "adapt") for setting in SETTINGS[section]]
    assert len(names) == len(set(names)) == len(OF_A_RUN)


@pytest.mark.parametrize("section, setting", EVERY)
def test_what_a_job_file_says_is_what_is_set(section: str, setting: Setting) -> None:
    found = values_in(getattr(of_job(with_needs(setting, sample(setting).value)), section))
    assert found[setting.name] == setting.kind.read(sample(setting).value, Place(setting.name))
    assert found[setting.name] != setting.default


@pytest.mark.parametrize("section, setting", EVERY)
def test_the_section_of_a_setting_may_be_named(section: str, setting: Setting) -> None:
    needs = with_needs(setting, sample(setting).value)
    overrides = [f"{OF_A_RUN[name][0]}.{name}={as_toml(value)}" for name, value in needs.items()]
    assert parse_job(JOB, "job.toml", overrides).sections == of_job(needs)


@pytest.mark.parametrize("form", ["value", "text"])
@pytest.mark.parametrize("section, setting", ON_SPARK)
def test_an_option_means_the_same(section: str, setting: Setting, form: str) -> None:
    """As a value and as text, and after its Spark name or its own."""
    given: Sample = sample(setting)
    expected = of_job(with_needs(setting, given.value))
    assert of_options(with_needs(setting, getattr(given, form))) == expected
    assert option_name(setting.camel) == option_name(setting.camel.upper()) == option_name(setting.name)


def test_defaults_are_the_same() -> None:
    assert of_job({}) == of_options({})
    assert replace(of_job({}).run, checkpoint=None) == Sections().run


@pytest.mark.parametrize("section, setting", IN_PYTHON)
def test_an_argument_means_the_same(section: str, setting: Setting) -> None:
    expected = of_job(with_needs(setting, sample(setting).value), LOCAL_JOB)
    found = of_arguments(with_needs(setting, sample(setting).value))
    assert (found.run, found.adapt, found.sink.mode) == (expected.run, expected.adapt, expected.sink.mode)
    assert (
        of_arguments({setting.keyword: None})
        == of_arguments({})
        == of_arguments({setting.keyword: default_of(setting)})
    )


@pytest.mark.parametrize("section, setting", IN_PYTHON)
def test_each_argument_has_its_type_and_its_sentence(section: str, setting: Setting) -> None:
    given = inspect.signature(LocalQuery.stream).parameters[setting.keyword]
    assert (given.kind, given.default) == (inspect.Parameter.KEYWORD_ONLY, default_of(setting))
    hints = get_type_hints(Settings)
    assert hints[setting.keyword] == eval(annotation_of(setting), vars(argument_types))
    assert set(hints) == set(ARGUMENTS)
    assert f"{setting.keyword}: {setting.text}" in (LocalQuery.run.__doc__ or "")


def test_an_argument_that_is_for_others_says_why() -> None:
    for _, setting in OF_A_RUN.values():
        if not setting.on(Surface.PYTHON):
            with pytest.raises(JobError, match=f'setting "{setting.name}" is not for q.run') as caught:
                read_arguments({setting.name: sample(setting).value})
            assert caught.value.detail == setting.elsewhere[Surface.PYTHON]
    for call in (QUERY.run, QUERY.explain, QUERY.picture):
        with pytest.raises(JobError, match='unknown setting "slotz"') as caught:
            call(slotz=3)  # type: ignore[operator]
        assert caught.value.hint == 'Did you mean "slots"?'


@pytest.mark.parametrize("section, setting", EVERY)
def test_what_is_wrong_is_wrong_everywhere(section: str, setting: Setting) -> None:
    for value in wrong(setting):
        with pytest.raises(JobError) as in_job:
            of_job(with_needs(setting, value))
        found = [in_job.value]
        if setting.on(Surface.SPARK):
            with pytest.raises(JobError) as in_option:
                of_options(with_needs(setting, value))
            found.append(in_option.value)
        if setting.on(Surface.PYTHON):
            with pytest.raises(JobError) as in_argument:
                QUERY.run(**with_needs(setting, value, by="keyword"))
            found.append(in_argument.value)
        for error in found:
            named = error.primary.replace("_", "").lower()
            names = {setting.name.replace("_", ""), setting.camel.lower(), *NAMED_OTHERWISE.get(setting.name, ())}
            assert any(name in named for name in names), error.primary
            assert error.detail or error.hint
            assert error.exit_code == 2


def test_numbers_of_numpy_are_numbers() -> None:
    given = {"slots": np.int64(2), "memory": np.int32(5000), "spill_at": np.float32(0.5), "slot_weights": np.ones(2)}
    expected = of_job({"slots": 2, "memory": 5000, "spill_at": 0.5, "slot_weights": [1.0, 1.0]}, LOCAL_JOB)
    assert of_arguments(given).adapt == of_options(given).adapt == expected.adapt
    assert of_arguments(given).run == expected.run


def test_settings_of_streams_are_arguments_of_sql() -> None:
    arguments = inspect.signature(wm.sql).parameters
    for setting in (*SETTINGS["streams.*"], *SETTINGS["stats"]):
        assert setting.on(Surface.PYTHON) == setting.on(Surface.SPARK) == (setting.name in arguments), setting.name


def test_a_misspelt_setting_gets_the_nearest_one() -> None:
    for override in ("slotz=4", "run.slotz=4"):
        with pytest.raises(JobError, match='unknown key "slotz" in ') as caught:
            parse_job(JOB, "job.toml", [override])
        assert caught.value.hint == 'Did you mean "slots"?'


def test_an_option_that_is_set_elsewhere_says_where() -> None:
    for _, setting in OF_A_RUN.values():
        if not setting.on(Surface.SPARK):
            with pytest.raises(JobError, match=f'unknown option "{setting.name}"') as caught:
                option_name(setting.name)
            assert caught.value.hint == setting.elsewhere[Surface.SPARK]
    with pytest.raises(JobError, match='unknown option "slotz"') as caught:
        option_name("slotz")
    assert caught.value.hint == 'Did you mean "slots"?'
    assert len(OPTIONS) + sum(not setting.on(Surface.SPARK) for _, setting in OF_A_RUN.values()) == len(OF_A_RUN)


def test_the_former_name_of_a_setting_is_read_where_the_present_one_is_silent() -> None:
    job = parse_job(f'{JOB}[adapt]\nupkeep = "recent"', "job.toml")
    assert job.adapt.settings.smoothing == "recent"
    job = parse_job(f'{JOB}[adapt]\nupkeep = "recent"\nsmoothing = "average"', "job.toml")
    assert job.adapt.settings.smoothing == "average"


def values_in(whole: Any) -> dict[str, Any]:
    """The values of the settings of a section, by name."""
    declared = {entry.name: setting.name for entry, setting in declared_in(whole)}
    found = {}
    for entry in fields(whole):
        value = getattr(whole, entry.name)
        if entry.name in declared:
            found[declared[entry.name]] = value
        elif is_dataclass(value):
            found |= values_in(value)
    return found


def test_every_section_is_there() -> None:
    assert set(SECTIONS) == {"streams.*", "sink", "run", "adapt", "stats"}
