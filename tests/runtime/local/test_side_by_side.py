"""Tasks that run side by side: when one fails, the others have ended before anybody hears of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from watersmeet.errors import ResourceError
from watersmeet.runtime.local.executor import LocalExecutor, MemoryResults
from watersmeet.state.segment_files import MemorySegments


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalExecutor]:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    made = LocalExecutor(MemorySegments(), MemoryResults())
    yield made
    made.close()


def test_one_fails_and_the_others_have_ended(executor: LocalExecutor) -> None:
    at_work, ended, second = set[int](), set[int](), threading.Event()

    def work(number: int) -> None:
        at_work.add(number)
        if number == 0:
            assert second.wait(5)
            raise ResourceError("no space left")
        second.set()
        time.sleep(0.2)
        ended.add(number)

    with pytest.raises(ResourceError, match="no space left"):
        executor._side_by_side(work, range(50))
    begun = set(at_work)
    assert begun - {0} == ended != set()
    assert len(begun) < 50, "what had not begun does not"
    time.sleep(0.3)
    assert at_work == begun, "nor later"


def test_all_come_in_order(executor: LocalExecutor) -> None:
    assert executor._side_by_side(lambda number: number * 2, range(20)) == [number * 2 for number in range(20)]
