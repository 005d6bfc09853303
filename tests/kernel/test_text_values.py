"""Text as values: usual forms and others mean the same, and what says no value is named."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernel.text_values import UnreadableText, from_text

INSTANT = pa.timestamp("us", tz="UTC")
CLOCK = pa.timestamp("us")
TEN = datetime(2024, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.int32(), "+05", 5),
        (pa.int64(), "-9223372036854775808", -(2**63)),
        (pa.float64(), " +1.5d", 1.5),
        (pa.float64(), "1e400", math.inf),
        (pa.float64(), "-Inf", -math.inf),
        (pa.float32(), "0.1", 0.10000000149011612),
        (pa.decimal128(10, 2), "-1,000.115", Decimal("-1000.12")),
        (pa.decimal128(10, 2), "1E+3", Decimal("1000.00")),
        (pa.bool_(), "TRUE", True),
        (pa.date32(), "2024-2-9T10:00", date(2024, 2, 9)),
        (pa.date32(), " 2024 ", date(2024, 1, 1)),
        (CLOCK, "2024-1-1 1:2", datetime(2024, 1, 1, 1, 2)),
        (INSTANT, "2024-01-01T10:00:00", TEN),
        (INSTANT, "2024-01-01 10:00:00.1234569", TEN.replace(microsecond=123_456)),
        (INSTANT, "2024-01-01 12:00:00+02:00", TEN),
        (INSTANT, "2024-01-01 12:00:00 +2:00", TEN),
        (INSTANT, "2024-01-01 08:00:00-0200", TEN),
        (INSTANT, "2024-01-01 11:00:00 Europe/Berlin", TEN),
        (INSTANT, "2024-01-01 10", TEN),
        (pa.string(), " a ", " a "),
        (pa.binary(), "é", "é".encode()),
    ],
)
def test_a_text_and_its_value(kind: pa.DataType, text: str, value: Any) -> None:
    column = pa.array([None, text, None, text])
    assert from_text(column, kind).to_pylist() == [None, value, None, value]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int32(), "2147483648"),
        (pa.int32(), " 5"),
        (pa.int32(), "0x10"),
        (pa.int32(), ""),
        (pa.float64(), "nan"),
        (pa.float64(), "0x1p3"),
        (pa.decimal128(10, 2), "99999999.999"),
        (pa.decimal128(10, 2), "1.5 "),
        (pa.bool_(), "1"),
        (pa.date32(), "2024-02-30"),
        (pa.date32(), "2024-2-30"),
        (CLOCK, "2024-01-01 10:00:00Z"),
        (INSTANT, "10:00:00"),
        (INSTANT, "2024-01-01 24:00:00"),
        (INSTANT, "2024-01-01 10:00:00+19:00"),
        (INSTANT, "2024-01-01 10:00:00 Nowhere/Land"),
        (INSTANT, "2024-01-01 10:00:00 ../Land"),
        (INSTANT, "2024-01-01 10:00:00 PST"),
    ],
)
def test_a_text_that_says_no_value_is_named(kind: pa.DataType, text: str) -> None:
    good = {pa.int32(): "1", pa.float64(): "1", pa.bool_(): "true"}.get(kind, "2024-01-01")
    with pytest.raises(UnreadableText) as caught:
        from_text(pa.array([None, good if not pa.types.is_decimal(kind) else "1", text, text]), kind)
    assert (caught.value.text, caught.value.kind, caught.value.row) == (text, kind, 2)


def test_nothing_is_read_as_nothing() -> None:
    for kind in (pa.int64(), pa.decimal128(10, 2), INSTANT, CLOCK, pa.date32(), pa.bool_(), pa.string()):
        assert from_text(pa.array([], pa.string()), kind).type == kind
        assert from_text(pa.array([None], pa.string()), kind).to_pylist() == [None]


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.integers(-18 * 60, 18 * 60))
def test_the_usual_form_and_others_are_one_instant(moment: datetime, offset: int) -> None:
    sign, hours, minutes = "-" if offset < 0 else "+", abs(offset) // 60, abs(offset) % 60
    texts = [f"{moment.isoformat(mark)}{sign}{hours:02}{colon}{minutes:02}" for mark in " T" for colon in (":", "")]
    texts += [f" {moment.isoformat(' ')}00 {sign}{hours:02}:{minutes:02}" if moment.microsecond else texts[0]]
    expected = moment.replace(tzinfo=UTC) - timedelta(minutes=offset)
    for text in texts:
        assert from_text(pa.array([text]), INSTANT).to_pylist() == [expected], text
