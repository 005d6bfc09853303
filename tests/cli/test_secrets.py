"""Where a secret of a job file might come out: each channel is searched for a canary, on both runtimes.

The secret is in the environment alone, and the job file refers to it.
"""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from object_server import S3Server
from small_jobs import OPEN_TO_A_GROUP, SmallJob, check_message, check_modes, checked_main
from watersmeet.cli.main import main

CANARY = "canary-0f3b/5+d1"
FORMS = (CANARY, "canary-0f3b%2F5%2Bd1", "canary-0f3b%2F5+d1", "canary-0f3b/5%2Bd1")
RUNTIMES = ["local", pytest.param("spark", marks=pytest.mark.spark)]
SPARK_LATER = ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.campaign])]


def clean(text: str) -> str:
    assert not [form for form in FORMS if form in text], text
    return text


def clean_files(*folders: Path) -> int:
    """No file under the folders, hidden ones too, has the canary in its name or content; how many there are."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    for path in files:
        clean(str(path))
        assert not any(form.encode() in path.read_bytes() for form in FORMS), path
    return len(files)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", CANARY)


def job_with_secret(folder: Path, runtime: str) -> SmallJob:
    """A job that takes the secret as an option of its streams, and as a setting of Spark."""
    job = SmallJob(folder, runtime, format="csv").write()
    job.spoil("maxFilesPerTrigger = 1 }", 'maxFilesPerTrigger = 1, nullValue = "${CANARY}" }')
    if runtime == "spark":
        job.spoil('master = "local[2]"', 'master = "local[2]"\nspark.hadoop.fs.s3a.secret.key = "${CANARY}"')
    return job


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_run_that_goes_well(runtime: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Events, explain, state and the checkpoint; and who may read that, for which Spark need not start once more."""
    job = job_with_secret(tmp_path, runtime)
    told = job.start(umask=OPEN_TO_A_GROUP)
    assert told.returncode == 0, told.stderr
    assert job.answer() == job.expected()
    check_modes(job, 0o700)
    clean(told.stdout + told.stderr)
    for form in ([], ["--json"], ["--svg"]):
        assert main(["explain", str(job.path), *form]) == 0
    for form in ([], ["--json"]):
        assert main(["state", "show", str(job.checkpoint), *form]) == 0
    assert clean("".join(capfd.readouterr())).count("SELECT") >= 2
    assert clean_files(job.checkpoint, job.out) > 8


@pytest.mark.parametrize("runtime", SPARK_LATER)
def test_a_secret_that_becomes_another(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint goes on."""
    job = job_with_secret(tmp_path, runtime)
    assert job.start().returncode == 0
    monkeypatch.setenv("CANARY", "rotated-7788")
    again = job.start()
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout.splitlines()[-1])["batches"] == 0, "nothing is computed again"
    assert job.answer() == job.expected()


@pytest.mark.parametrize("trace", ["0", "1"])
@pytest.mark.parametrize(
    "old, new, code",
    [
        ("maxFilesPerTrigger = 1", 'maxFilesPerTrigger = "${CANARY}"', 2),
        ("maxFilesPerTrigger = 1", 'maxFileAge = "${CANARY}"', 2),
        ("maxFilesPerTrigger = 1", 'sep = "${CANARY}"', 2),
        ('/in/A"', '/in/A"\ntime = 1\n#${CANARY}', 2),
    ],
)
def test_errors_of_the_local_runtime(
    old: str,
    new: str,
    code: int,
    trace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WATERSMEET_TRACE", trace)
    job = SmallJob(tmp_path, format="csv").write()
    job.spoil(old, new)
    assert main(job.arguments()) == code
    told = clean("".join(capfd.readouterr()))
    assert "error: " in told
    assert ("Traceback" in told) == (trace == "1")


@pytest.mark.parametrize("trace", ["0", "1"])
@pytest.mark.parametrize(
    "address",
    [
        "s3://key:${CANARY}@nowhere/in",
        "s3://bucket/in?session_token=${CANARY}&nonsense=1",
        "hdfs://u:${CANARY}@127.0.0.1:1/in",
        "ftp://u:${CANARY}@127.0.0.1/in",
        "s3://[bad:${CANARY}@b/in",
    ],
)
@pytest.mark.parametrize("setting", ["A", "checkpoint", "out"])
def test_errors_of_stores(
    setting: str,
    address: str,
    trace: str,
    tmp_path: Path,
    s3: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Those of ours, of Arrow, which quotes addresses, and of obstore."""
    monkeypatch.setenv("WATERSMEET_TRACE", trace)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    job = SmallJob(tmp_path).write()
    place = {"A": f"{job.home}/in/A", "checkpoint": str(job.checkpoint), "out": str(job.out)}[setting]
    if "nowhere" in address:
        address = s3.address("nowhere/in").replace("verysecret", "${CANARY}")
    job.spoil(f'"{place}"', f'"{address}"')
    assert main(job.arguments()) in (1, 2)
    told = clean("".join(capfd.readouterr()))
    assert "error: " in told
    assert "internal error" not in told


@pytest.mark.parametrize("runtime", SPARK_LATER)
def test_a_checkpoint_on_a_store(runtime: str, tmp_path: Path, s3: S3Server) -> None:
    """Whose address refers to the secret. On Spark the address is one that cannot be used, and that is said."""
    job = SmallJob(tmp_path, runtime).write()
    bucket = s3.bucket()
    job.spoil(str(job.checkpoint), s3.address(f"{bucket}/ck").replace("verysecret", "${CANARY}"))
    job.spoil(f'"{job.out}"', f'"{s3.address(f"{bucket}/out").replace("verysecret", "${CANARY}")}"')
    told = job.start()
    clean(told.stdout + told.stderr)
    if runtime == "local":
        assert told.returncode == 0, told.stderr
        kept = s3.objects(bucket)
        assert any(name.startswith("ck/state/versions/") for name in kept)
        assert not [name for name, content in kept.items() if any(form.encode() in content for form in FORMS)]


@pytest.mark.spark
@pytest.mark.campaign
@pytest.mark.parametrize(
    "old, new",
    [
        ("maxFilesPerTrigger = 1", 'maxFilesPerTrigger = "${CANARY}"'),
        ("maxFilesPerTrigger = 1", 'maxFileAge = "${CANARY}"'),
        ('master = "local[2]"', 'master = "${CANARY}"'),
        ('master = "local[2]"', 'master = "local[2]"\nspark.sql.shuffle.partitions = "${CANARY}"'),
        ('master = "local[2]"', 'master = "local[2]"\nspark.sql.warehouse.dir = "nosuch://u:${CANARY}@h/"'),
        ('format = "csv"', 'format = "${CANARY}"'),
        (
            "options = { maxFilesPerTrigger = 1 }",
            'options = { maxFilesPerTrigger = 1, timestampFormat = "${CANARY} \'" , dateFormat = "bbb${CANARY}" }',
        ),
    ],
)
@pytest.mark.parametrize("trace", ["0", "1"])
def test_errors_of_spark(old: str, new: str, trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark quotes the value of an option that it does not take."""
    monkeypatch.setenv("WATERSMEET_TRACE", trace)
    job = SmallJob(tmp_path, "spark", format="csv").write()
    job.spoil(old, new)
    done = job.start()
    clean(done.stdout + done.stderr)
    assert done.returncode in (0, 1, 2)
    assert done.returncode == 0 or "error: " in done.stderr
    clean_files(*(folder for folder in (job.checkpoint, job.out) if folder.exists()))


@pytest.mark.parametrize("runtime", SPARK_LATER)
def test_no_command_line_has_it(runtime: str, tmp_path: Path) -> None:
    """Of any process that the run starts: the JVM is told its settings on one, if nobody takes care."""
    job = job_with_secret(tmp_path, runtime)
    job.spoil("[run]", '[run]\ntrigger = "100 milliseconds"')
    run = subprocess.Popen(job.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert run.stdout is not None
        lines = [run.stdout.readline() for _ in range(2)]
        assert '"batch"' in lines[1], run.communicate()
        seen = command_lines(run.pid)
        assert any("watersmeet" in words for words in seen)
        assert (runtime == "spark") == any("spark.ui.enabled=false" in words and "java" in words for words in seen)
        for words in seen:
            clean(words)
    finally:
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=120)
    clean(out + err)
    assert run.returncode == 130


def command_lines(process: int) -> list[str]:
    """Of a process, and of all that it has started."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    family = [process]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    found = []
    for member in family:
        with suppress(OSError):  # it may have ended meanwhile
            found.append(Path(f"/proc/{member}/cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def test_a_variable_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CANARY")
    job = job_with_secret(tmp_path, "local")
    told = checked_main(job, capsys, 2, '"nullValue" in options of [streams.A] refers')
    assert 'to the environment variable "CANARY", which is not set' in told
    assert not job.checkpoint.exists()
    check_message(main(["explain", str(job.path)]), capsys.readouterr().err, 2, '"nullValue" in options of [streams.A]')
