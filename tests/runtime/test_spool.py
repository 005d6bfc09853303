"""Rows between tasks: the same ones come back, whether they stay in memory or go to a file that has no name."""

from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from small_disk import small_disk
from watersmeet.errors import ResourceError
from watersmeet.runtime import spool as spools
from watersmeet.runtime.spool import Spool

ROWS = 1_000


def rows(number: int = 0, count: int = ROWS) -> pa.RecordBatch:
    values = range(number, number + count)
    texts = [None if value % 3 == 0 else f"text {value}" for value in values]
    flags = [value % 2 == 0 for value in values]
    return pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64()), "t": texts, "f": flags})


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "KEPT_BYTES", 0)
    monkeypatch.setattr(spools, "EXTENT_BYTES", 1 << 16)


def test_few_rows_stay_where_they_are(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    batch = rows()
    assert spool.put(batch) is batch
    spool.settle()
    spool.close()


def test_what_is_beyond_goes_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "KEPT_BYTES", 2 * rows().nbytes)
    spool = Spool(str(tmp_path))
    batches = [rows() for _ in range(4)]
    given = [spool.put(batch) for batch in batches]
    assert [one is other for one, other in zip(given, batches, strict=True)] == [True, True, False, False]
    assert given == batches


@pytest.mark.usefixtures("nothing_kept")
def test_rows_outlive_the_spool_and_the_file_has_no_name(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    batches = [rows(number).slice(number, 500) for number in range(100)]
    given = [spool.put(batch) for batch in batches]
    assert os.listdir(tmp_path) == []
    spool.settle()
    assert given == batches
    spool.close()
    spool.close()
    assert given == batches
    assert all(batch.validate(full=True) is None for batch in given)


@pytest.mark.usefixtures("nothing_kept")
def test_a_batch_may_be_larger_than_the_file_grows_by(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    batches = [rows(0, 10), rows(0, 100_000), rows(1, 10)]
    assert [spool.put(batch) for batch in batches] == batches
    spool.close()


@pytest.mark.usefixtures("nothing_kept")
def test_no_rows_are_no_matter(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    assert spool.put(rows(0, 0)) == rows(0, 0)
    spool.close()


@pytest.mark.usefixtures("nothing_kept")
def test_threads_share_it(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    together = threading.Barrier(4)

    def work(number: int) -> bool:
        together.wait()
        given = [(spool.put(rows(number * 1_000 + i)), rows(number * 1_000 + i)) for i in range(50)]
        spool.settle()
        return all(one == other for one, other in given)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
    spool.close()


@pytest.mark.usefixtures("nothing_kept")
def test_its_memory_is_given_back(tmp_path: Path) -> None:
    """Mapped rows count as memory of the process when they are read, and no more when they are settled."""
    spool = Spool(str(tmp_path))
    given = [spool.put(rows(0, 300_000)) for _ in range(20)]
    spool.settle()
    before = _mapped_bytes()
    assert all(pc.sum(batch.column("n")).as_py() for batch in given)
    read = _mapped_bytes()
    assert read - before > 30 << 20
    spool.settle()
    assert _mapped_bytes() < before + (2 << 20)
    assert given[-1] == rows(0, 300_000)
    spool.close()


def _mapped_bytes() -> int:
    """Of files, in this process."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssFile:"))


@pytest.mark.usefixtures("nothing_kept")
def test_a_full_disk_is_an_error_that_names_the_folder(tmp_path: Path) -> None:
    def fill() -> str:
        spool = Spool(str(tmp_path / "small"))
        kept = spool.put(rows())
        with pytest.raises(ResourceError) as caught:
            for number in range(100):
                spool.put(rows(number))
        assert kept == rows()
        spool.close()
        return f"{caught.value}"

    with small_disk(tmp_path / "small", "200k"):
        message = fill()
        gc.collect()  # the error holds on to what it came from
    assert "small" in message
    assert "o space left" in message
