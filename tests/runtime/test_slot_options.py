"""Options of `writeStream` about slots: mistakes show before anything begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from small_plans import CHAIN, STREAMS
from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.runtime.spark.writer import StreamWriter

PROCESSING = {"processingTime": "10 seconds"}


@pytest.mark.parametrize(
    "options, trigger, primary",
    [
        ({"slots": "0"}, {}, 'slots "0" is not a whole number above zero'),
        ({"slots": "9", "groups": "8"}, {}, "9 slots cannot share 8 groups"),
        ({"slotWeights": "1"}, {}, '"slot_weights" has 1 numbers, and there are 2 slots'),
        ({"slotWeights": "1, 0"}, {}, '"slot_weights" are 1, 0'),
        ({"slotWeights": "1, x"}, {}, 'slotWeights "1, x" are not numbers'),
        ({"balance": "memory"}, {}, 'unknown balance "memory"'),
        ({"balanceSpan": "soon"}, {}, 'balanceSpan "soon" is not a duration'),
        ({"balanceLeast": "little"}, {}, 'balanceLeast "little" is not a size'),
        ({"balanceRates": "many"}, {}, 'balanceRates "many" is not a number'),
        ({"balanceRates": "0.5"}, {}, '"balance_rates" is 0.5'),
        ({"allocate": "evenly"}, {}, 'unknown allocate "evenly"'),
        ({"scale": "slots"}, PROCESSING, 'unknown scale "slots"'),
        ({"scale": "seconds"}, {"availableNow": True}, '"scale" has no time that a batch may take'),
        ({"scale": "seconds", "scaleSlots": "2"}, PROCESSING, '"scale_slots" is [2]'),
        ({"scale": "seconds", "scaleSlots": "1, x"}, PROCESSING, "\"scale_slots\" is [1, 'x']"),
        (
            {"scale": "seconds", "scaleSlots": "4, 8"},
            PROCESSING,
            'a run with 2 slots is outside of "scale_slots", 4 to 8',
        ),
        ({"scale": "seconds", "scaleSeconds": "0"}, PROCESSING, '"scale_seconds" is 0'),
        ({"scale": "seconds", "scaleSeconds": "soon"}, PROCESSING, 'scaleSeconds "soon" is not a number'),
    ],
)
def test_mistakes(tmp_path: Path, options: dict[str, str], trigger: dict[str, Any], primary: str) -> None:
    writer = StreamWriter(bind(CHAIN, STREAMS), {}).options(**options, checkpointLocation=str(tmp_path / "ck"))
    with pytest.raises(JobError) as caught:
        writer.trigger(**trigger).start(str(tmp_path / "out"))
    assert caught.value.primary == primary
