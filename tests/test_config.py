"""The job file: what it means, and what is said about each mistake in it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from watersmeet.config import SparkConfig, load_job, parse_job
from watersmeet.errors import JobError
from watersmeet.settings.adapt import AdaptSection, AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.forced_step import ForcedStep
from watersmeet.settings.replan import ReplanSettings
from watersmeet.settings.run import RunSection
from watersmeet.settings.sink import SinkSection
from watersmeet.state.retention import Retention

STREAM = """\
[streams.A]
format = "parquet"
path = "in/A"
schema = "k BIGINT, ts BIGINT"
"""
MINIMAL = f"""\
query = "SELECT 1"
{STREAM}
[sink]
path = "out"
[run]
checkpoint = "ck"
"""


def test_defaults() -> None:
    job = parse_job(MINIMAL, "job.toml")
    assert (job.path, job.query) == ("job.toml", "SELECT 1")
    assert job.sink == SinkSection("parquet", "out", None)
    assert job.run == RunSection(runtime="spark", checkpoint="ck", slots=2, groups=300, memory=None, trigger=None)
    assert job.adapt == AdaptSection("auto", settings=AdaptSettings(spill="global-output-penalty"))
    assert job.spark == SparkConfig("local[*]", {})
    source = job.sources["A"]
    assert (source.time, source.lateness, source.options) == ("ts", timedelta(0), {})
    assert job.streams()["A"].schema == pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    assert job.settings.memory == AdaptSettings(replan=ReplanSettings("refined")), "the plan is ours to choose"
    assert not job.settings.memory.watched


def test_a_plan_that_is_named_stays_unless_replan_is_named_too() -> None:
    triggers = {
        text: parse_job(f"{MINIMAL}\n[adapt]\n{text}", "job.toml").settings.memory.replan.trigger
        for text in ('plan = "mjoin"', 'plan = "off"', 'replan = "off"', 'plan = "mjoin"\nreplan = "data-driven"')
    }
    assert list(triggers.values()) == ["off", "off", "off", "data-driven"]


def test_what_is_known_of_streams() -> None:
    text = f"{MINIMAL}\n[stats]\nrates = {{ A = 10 }}\nselectivity = {{ 'A B' = 0.1 }}\nrepeats = {{ A = 4 }}"
    found = parse_job(text, "job.toml").stats
    assert (found.rates, found.selectivities, found.repeats) == ({"A": 10.0}, {"A B": 0.1}, {"A": 4.0})


@pytest.mark.parametrize("value", ["inf", "nan", "-1", "'4'", "true", "1" + "0" * 400])
@pytest.mark.parametrize("key", ["rates", "selectivity", "repeats"])
def test_figures_of_the_streams_are_finite_numbers(key: str, value: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_job(f"{MINIMAL}\n[stats]\n{key} = {{ A = {value} }}", "job.toml")
    assert '"A" in [stats] is ' in caught.value.primary
    assert caught.value.detail == "It is a finite number from 0 up."


def test_every_key() -> None:
    job = parse_job(
        """
        query = "SELECT 1"
        [streams.A]
        format = "csv"
        path = "in/A"
        schema = "k BIGINT, at TIMESTAMP"
        time = "at"
        lateness = "10 seconds"
        options = { maxFilesPerTrigger = 1, header = true, kafka.group = "g" }
        [sink]
        format = "noop"
        late = "late"
        [run]
        runtime = "local"
        slots = 4
        groups = 8
        memory = "256MB"
        slot_memory = "64MB"
        slot_weights = [1, 1, 0.5, 1]
        cores = 1.5
        trigger = "1 second"
        cache = "/tmp/cache"
        [adapt]
        plan = "((A B) C)"
        spill = "off"
        balance = "time"
        balance_every = 7
        balance_threshold = 0.5
        [spark]
        master = "local[2]"
        "spark.sql.shuffle.partitions" = 2
        spark.ui.enabled = false
        """,
        "job.toml",
    )
    source = job.sources["A"]
    assert (source.time, source.lateness) == ("at", timedelta(seconds=10))
    assert source.options == {"maxFilesPerTrigger": 1, "header": True, "kafka.group": "g"}
    assert job.sink == SinkSection("noop", None, "late")
    weights = (1.0, 1.0, 0.5, 1.0)
    run = RunSection("local", None, 4, 8, 256 << 20, 64 << 20, weights, 1.5, timedelta(seconds=1), "/tmp/cache")
    assert job.run == run
    asked = AdaptSettings(spill="off", balance=BalanceSettings("time", 0.5, 7))
    assert job.adapt == AdaptSection("((A B) C)", settings=asked)
    memory = job.settings.memory
    assert (memory.slot_bytes, memory.balance.weights, memory.balance.by_cpu) == (64 << 20, weights, True)
    assert job.spark.master == "local[2]"
    assert job.spark.conf == {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}


def test_versions_kept() -> None:
    assert parse_job(MINIMAL, "job.toml").run.retention == Retention()
    lines = with_run('keep_versions = 70\nkeep_for = "2 hours"')
    assert parse_job(lines, "job.toml").run.retention == Retention(70, 7_200_000_000)


def test_memory_settings() -> None:
    job = parse_job(
        MINIMAL
        + """
        [adapt]
        spill = "largest"
        spill_at = 0.8
        merge = "off"
        upkeep = "recent"
        [[adapt.force]]
        at_batch = 5
        cut = ["J2:3"]
        spill = ["J1:17", "J2:3"]
        [[adapt.force]]
        at_batch = 6
        spill_share = 0.5
        merge = ["J1:17"]
        """,
        "job.toml",
        ["run.memory=1MB"],
    )
    assert job.settings.memory == AdaptSettings(
        1 << 20,
        "largest",
        0.8,
        None,
        "off",
        "recent",
        (ForcedStep(5, (("J1", 17), ("J2", 3)), cut=(("J2", 3),)), ForcedStep(6, (), 0.5, (("J1", 17),))),
        ReplanSettings("refined"),
    )
    assert job.settings.memory.watched


@pytest.mark.parametrize("kind", ["synthetic", "nexmark"])
def test_generated_sources_are_refused_with_the_way_round(kind: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_job(MINIMAL.replace('"parquet"', f'"{kind}"', 1), "job.toml")
    assert f"watersmeet generate {kind}" in (caught.value.hint or "")


def test_overrides_come_before_the_checks() -> None:
    overrides = ["run.slots=4", "adapt.plan=((A B) C)", 'streams.A.lateness="5 seconds"', "run.memory=512MB"]
    overrides += ['spark."spark.ui.enabled"=false', "streams.A.options.header=true"]
    job = parse_job(MINIMAL.replace('checkpoint = "ck"', ""), "job.toml", [*overrides, "run.checkpoint=other"])
    assert (job.run.slots, job.run.memory, job.run.checkpoint) == (4, 512 << 20, "other")
    assert job.adapt.plan == "((A B) C)"
    assert job.sources["A"].lateness == timedelta(seconds=5)
    assert job.sources["A"].options == {"header": True}
    assert job.spark.conf == {"spark.ui.enabled": "false"}


def test_plan_off_leaves_the_choice_at_the_start() -> None:
    assert parse_job(MINIMAL, "job.toml", ["adapt.plan=off"]).settings.plan.plan == "auto"


def with_run(line: str) -> str:
    return MINIMAL.replace('checkpoint = "ck"', f'checkpoint = "ck"\n{line}')


def with_stream(line: str) -> str:
    return MINIMAL.replace("[sink]", f"{line}\n[sink]")


@pytest.mark.parametrize(
    "text, primary, rest",
    [
        pytest.param("query = \nx", 'job file "job.toml" is not valid TOML', "line 1", id="malformed TOML"),
        pytest.param("a = 1\nb c = 2", 'job file "job.toml" is not valid TOML', "  line 2: b c = 2\n", id="its line"),
        pytest.param("a = [1,", 'job file "job.toml" is not valid TOML', "end of document", id="ends too early"),
        pytest.param(STREAM, 'job file "job.toml" has no query', "before the first section", id="no query"),
        pytest.param(MINIMAL.replace("SELECT 1", " "), 'job file "job.toml" has no query', "empty", id="empty query"),
        pytest.param('query = "q"', 'job file "job.toml" has no streams', "[streams.NAME]", id="no streams"),
        pytest.param(MINIMAL + "[sinks]", 'unknown key "sinks" in the job file', '"sink"', id="unknown section"),
        pytest.param(with_run("slotz = 2"), 'unknown key "slotz" in [run]', 'Did you mean "slots"?', id="unknown key"),
        pytest.param(
            with_stream("slots = 2"), 'unknown key "slots" in [streams.A]', "belongs in [run]", id="wrong section"
        ),
        pytest.param(
            with_stream('query = "q"'), 'unknown key "query" in [streams.A]', "top of the file", id="query too late"
        ),
        pytest.param("query = 1\n" + STREAM, '"query" in the job file is an integer, not a string', "1", id="int"),
        pytest.param(with_run('slots = "2"'), '"slots" in [run] is a string, not an integer', '"2"', id="text slots"),
        pytest.param(
            with_run("slots = true"), '"slots" in [run] is true or false, not an integer', "true", id="true is no int"
        ),
        pytest.param(with_run("slots = 0"), '"slots" in [run] is 0', "1 or more", id="no slots"),
        pytest.param(
            with_run("slots = 4\ngroups = 3"),
            "4 slots cannot share 3 groups",
            "one group for each slot",
            id="fewer groups than slots",
        ),
        pytest.param(with_run("groups = 65537"), "65,537 groups are too many", "65,536", id="too many groups"),
        pytest.param(MINIMAL.replace('"out"', '""'), '"path" in [sink] is empty', '"."', id="empty output"),
        pytest.param(MINIMAL.replace('"ck"', '" "'), '"checkpoint" in [run] is empty', '"."', id="empty checkpoint"),
        pytest.param(MINIMAL.replace('"in/A"', '""'), '"path" in [streams.A] is empty', '"."', id="empty input"),
        pytest.param(
            MINIMAL.replace('"out"', '"in/../in/A/"'),
            'folder "in/../in/A/" is for stream "A" and for the results',
            "of its own",
            id="results among the input",
        ),
        pytest.param(
            MINIMAL.replace('"out"', '"out"\nlate = "./out"'),
            'folder "./out" is for the results and for late rows',
            "of its own",
            id="late rows among the results",
        ),
        pytest.param(
            MINIMAL.replace('"ck"', '"out"'),
            'folder "out" is for the results and for the checkpoint',
            "of its own",
            id="checkpoint among the results",
        ),
        pytest.param(with_run('memory = "lots"'), 'memory "lots" is not a size', "512MB", id="memory"),
        pytest.param(with_run("memory = -1"), 'memory "-1" is not a size', "positive", id="negative memory"),
        pytest.param(with_run("memory = 1.5"), '"memory" in [run] is a number', "1.5", id="fractional memory"),
        pytest.param(
            with_run('trigger = "1 fortnight"'),
            'trigger "1 fortnight" is neither "available-now" nor a duration',
            "seconds",
            id="trigger",
        ),
        pytest.param(
            with_run('trigger = "availablenow"'), 'trigger "availablenow"', "available-now", id="near trigger"
        ),
        pytest.param(
            with_stream('lateness = "5 parsecs"'),
            'lateness of stream "A" "5 parsecs" is not a duration',
            "unit",
            id="late",
        ),
        pytest.param(
            with_stream('lateness = "100000000000 days"'),
            'lateness of stream "A" "100000000000 days" is too long',
            "999999999 days",
            id="late for ever",
        ),
        pytest.param(with_run(f'memory = "{"9" * 400}TB"'), 'memory "999', "512MB", id="endless memory"),
        pytest.param(
            with_run('runtime = "sprak"'), 'unknown runtime "sprak" in [run]', 'Did you mean "spark"?', id="runtime"
        ),
        pytest.param(
            MINIMAL.replace('"parquet"', '"kafka"').replace("[run]", '[run]\nruntime = "local"'),
            'format "kafka" of stream "A" is not for the local runtime',
            "parquet, csv, json",
            id="format of the local runtime",
        ),
        pytest.param(MINIMAL.replace('checkpoint = "ck"', ""), '[run] has no "checkpoint"', "ck", id="no checkpoint"),
        pytest.param(MINIMAL.replace('path = "out"', ""), '[sink] has no "path"', "noop", id="no sink path"),
        pytest.param(
            MINIMAL.replace("[sink]", '[sink]\nformat = "delta"'),
            'unknown format "delta" in [sink]',
            "parquet, noop",
            id="sink format",
        ),
        pytest.param(MINIMAL.replace('path = "in/A"', ""), '[streams.A] has no "path"', "folder", id="no source path"),
        pytest.param(
            MINIMAL.replace('format = "parquet"', ""), '[streams.A] has no "format"', "csv", id="no source format"
        ),
        pytest.param(
            MINIMAL.replace('schema = "k BIGINT, ts BIGINT"', ""),
            '[streams.A] has no "schema"',
            "BIGINT",
            id="no schema",
        ),
        pytest.param(
            MINIMAL.replace("k BIGINT", "k BIGIN"),
            'column "k" of schema of stream "A" has unknown type "BIGIN"',
            'Did you mean "BIGINT"?',
            id="schema type",
        ),
        pytest.param(
            with_stream('time = "tss"'),
            'stream "A" has no event-time column "tss"',
            'Did you mean "ts"?',
            id="time column",
        ),
        pytest.param(
            'query = "q"\nrun.checkpoint = "ck"\nstreams.A = "in/A"',
            '"A" in [streams] is a string, not a section',
            "[streams.A]",
            id="no table",
        ),
        pytest.param("run = 3\n" + MINIMAL.split("[run]")[0], '"run" in the job file is an integer', "3", id="run"),
        pytest.param(
            with_stream("options = { a = [1] }"), '"a" in options of [streams.A] is a list', "[1]", id="option type"
        ),
        pytest.param(
            MINIMAL + '[adapt]\nspill = "bottomup"', 'unknown spill "bottomup" in [adapt]', '"bottom-up"', id="policy"
        ),
        pytest.param(with_run("keep_versions = 0"), '"keep_versions" in [run] is 0', "1 or more", id="versions"),
        pytest.param(with_run('keep_for = "2 moons"'), 'keep_for "2 moons" is not a duration', "", id="kept for"),
        pytest.param(
            MINIMAL + 'durability = "power"',
            'unknown durability "power" in [run]',
            "It is one of power-loss, process.",
            id="durability",
        ),
        pytest.param(
            MINIMAL + '[adapt]\nring = "atrr"',
            'unknown ring "atrr" in [adapt]',
            '"atr"',
            id="ring",
        ),
        pytest.param(
            MINIMAL + "[[adapt.force]]\nspill = []", "an entry of [[adapt.force]] has no batch", "", id="no batch"
        ),
        pytest.param(
            MINIMAL + "[[adapt.force]]\nat_batch = 1",
            "the entry of [[adapt.force]] for batch 1 forces nothing",
            "one or more of cut, plan, slots, ring, move, spread, draw_together, spill, spill_share, merge",
            id="forces nothing",
        ),
        pytest.param(
            MINIMAL + "[[adapt.force]]\nat_batch = 1\nslots = 0",
            '"slots" in [[adapt.force]] is 0',
            "There is at least one slot",
            id="no slots",
        ),
        pytest.param(
            MINIMAL + '[[adapt.force]]\nat_batch = 1\nmove = ["J1:3"]',
            "\"move\" in [[adapt.force]] names 'J1:3'",
            'For example "J1:17->1"',
            id="moved nowhere",
        ),
        pytest.param(
            MINIMAL + '[[adapt.force]]\nat_batch = 1\nmove = "J1:3->1"',
            "\"move\" in [[adapt.force]] is 'J1:3->1'",
            'It is a list such as ["J1:17->1"]',
            id="moves are a list",
        ),
        pytest.param(
            MINIMAL + '[[adapt.force]]\nat_batch = 1\nspill = ["17"]',
            '"spill" in [[adapt.force]] names',
            "J1:17",
            id="not a group",
        ),
        pytest.param(
            MINIMAL + "[[adapt.force]]\nat_batch = 1\nspil = []",
            'unknown key "spil" in [[adapt.force]]',
            "spill",
            id="force",
        ),
        pytest.param(MINIMAL + "[adapt]\nspill_at = 0", '"spill_at" is 0', "share", id="spill_at"),
        pytest.param(MINIMAL + "[spark]\nmaster = 4", '"master" in [spark] is an integer', "4", id="master"),
        pytest.param(
            MINIMAL + '[spark]\nmastr = "local"',
            '"mastr" in [spark] is not a Spark setting',
            '"master"',
            id="near master",
        ),
    ],
)
def test_mistakes(text: str, primary: str, rest: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_job(text, "job.toml")
    assert caught.value.primary.startswith(primary)
    assert rest in caught.value.render()
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "override, primary",
    [
        ("run.slots", 'setting "run.slots" cannot be read'),
        ("=4", 'setting "=4" cannot be read'),
        ("run slots=4", 'setting "run slots=4" cannot be read'),
        ("query.x=4", 'setting "query.x=4" goes inside a value'),
        ("run.slotz=4", 'unknown key "slotz" in [run]'),
    ],
)
def test_mistakes_in_overrides(override: str, primary: str) -> None:
    with pytest.raises(JobError) as caught:
        parse_job(MINIMAL, "job.toml", [override])
    assert caught.value.primary == primary


def test_a_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(MINIMAL)
    assert load_job(path, ["run.slots=3"]).run.slots == 3


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'query = "caf\xe9"')
    for name, problem in (
        ("none.toml", "does not exist"),
        ("latin.toml", "is not UTF-8 text"),
        (".", "cannot be read"),
    ):
        with pytest.raises(JobError) as caught:
            load_job(tmp_path / name)
        assert caught.value.primary == f'job file "{tmp_path / name}" {problem}'
        assert caught.value.detail
