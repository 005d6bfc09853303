"""The folders that a query on Spark is given: checked before anything is made, and without a JVM."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.sessions import QUERY
from watersmeet.errors import JobError
from watersmeet.runtime.spark.writer import StreamWriter


@pytest.mark.parametrize(
    ("options", "primary"),
    [
        ({"latePath": ""}, 'option "latePath" is empty'),
        ({"path": " "}, 'option "path" is empty'),
        ({"latePath": "out/../out/"}, "is for path and for latePath"),
        ({"path": "ck"}, "is for path and for checkpointLocation"),
    ],
)
def test_folders_that_will_not_do(
    options: dict[str, str], primary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    writer = StreamWriter(QUERY, {}).options(**{"path": "out", "checkpointLocation": "ck", **options})
    with pytest.raises(JobError, match=primary):
        writer.start()
    assert os.listdir(tmp_path) == []
