"""A job over two small streams, for tests that spoil one thing in it and look at what the command line says."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from watersmeet.cli.main import main

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
QUERY = "SELECT A.k, A.v AS a, B.v AS b FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE A.k = B.k"
FILES = 4


def rows_of(number: int, count: int = 20) -> list[dict[str, Any]]:
    return [{"k": i % 7, "v": number * 1000 + i, "ts": number * 1_000_000 + i} for i in range(count)]


def write_rows(path: Path, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> None:
    """Write a file in the format that its suffix says; its modification time follows its number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows, schema=schema)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        pacsv.write_csv(table, path, pacsv.WriteOptions(quoting_style="needed"))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    set_time(path)


def set_time(path: Path) -> None:
    time = 1_700_000_000 + int(path.stem)
    os.utime(path, (time, time))


@dataclass
class SmallJob:
    home: Path
    runtime: str = "local"
    format: str = "parquet"
    query: str = QUERY
    run: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.home / "job.toml"

    @property
    def out(self) -> Path:
        return self.home / "out"

    @property
    def checkpoint(self) -> Path:
        return self.home / "ck"

    def input(self, stream: str, number: int) -> Path:
        return self.home / "in" / stream / f"{number}.{self.format}"

    def write(self) -> SmallJob:
        """The streams' files and the job file, all as they should be."""
        for stream in "AB":
            for number in range(FILES):
                write_rows(self.input(stream, number), rows_of(number))
        lines = [f'query = "{self.query}"']
        for stream in "AB":
            lines += [
                f"[streams.{stream}]",
                f'format = "{self.format}"',
                f'path = "{self.home}/in/{stream}"',
                'schema = "k BIGINT, v BIGINT, ts BIGINT"',
                'time_unit = "us"',
                "options = { maxFilesPerTrigger = 1 }",
            ]
        lines += ["[sink]", f'path = "{self.out}"', "[run]", f'runtime = "{self.runtime}"']
        lines += [f'checkpoint = "{self.checkpoint}"']
        lines += ["[spark]", 'master = "local[2]"'] if self.runtime == "spark" else []
        self.path.write_text("\n".join(lines))
        return self

    def spoil(self, old: str, new: str) -> None:
        """Change the job file."""
        text = self.path.read_text()
        assert old in text
        self.path.write_text(text.replace(old, new))

    def start(self, *settings: str, umask: int = -1) -> subprocess.CompletedProcess[str]:
        """Run it as a process of its own."""
        return subprocess.run(self.command(*settings), capture_output=True, text=True, timeout=240, umask=umask)

    def command(self, *settings: str) -> list[str]:
        return [sys.executable, "-m", "watersmeet", *self.arguments(*settings)]

    def arguments(self, *settings: str) -> list[str]:
        return ["run", str(self.path), "--json", *(part for setting in settings for part in ("--set", setting))]

    def finish(self) -> None:
        """Run it here, to its end."""
        assert main(self.arguments()) == 0

    def answer(self) -> Counter[tuple[Any, ...]]:
        """The rows that were delivered; every file must be readable."""
        return self.answer_in(self.out)

    def answer_in(self, folder: Path) -> Counter[tuple[Any, ...]]:
        """The rows in one of its output folders."""
        files = sorted(folder.glob("*.parquet")) if folder.exists() else []
        return Counter(tuple(row.values()) for path in files for row in pq.read_table(path).to_pylist())

    def expected(self) -> Counter[tuple[Any, ...]]:
        """The answer over the files as `write` makes them: their times lie within one window."""
        rows = [row for number in range(FILES) for row in rows_of(number)]
        return Counter((a["k"], a["v"], b["v"]) for a in rows for b in rows if a["k"] == b["k"])


def check_message(code: int, err: str, expected_code: int, primary: str) -> None:
    """`err` is what a user should see: the primary line first, and no trace of Python or Java."""
    lines = [line for line in err.splitlines() if not line.startswith(("WARNING:", "note:", "Setting", "To adjust"))]
    assert "Traceback" not in err
    assert "\tat " not in err
    assert "internal error" not in err
    assert code == expected_code, err
    assert lines, "nothing was said"
    assert lines[0].startswith(f"error: {primary}"), err


def checked_main(job: SmallJob, capsys: pytest.CaptureFixture[str], code: int, primary: str, *settings: str) -> str:
    """Run the job here; the whole message, after `check_message`."""
    capsys.readouterr()
    found = main(job.arguments(*settings))
    err = capsys.readouterr().err
    check_message(found, err, code, primary)
    return err


OPEN_TO_A_GROUP = 0o002  # an umask


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def check_modes(job: SmallJob, checkpoint_mode: int) -> None:
    """Who may read what a run with the umask above has left."""
    assert mode(job.checkpoint) == checkpoint_mode
    assert {mode(path) for path in (job.checkpoint / "state").rglob("*") if path.is_file()} == {0o664}
    results = list(job.out.glob("*.parquet"))
    assert results
    assert {mode(path) for path in results} == {0o664}
    assert mode(job.out) == 0o775
