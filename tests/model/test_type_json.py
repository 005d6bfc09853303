"""Types as JSON: every type that Arrow has comes back as it was, through text."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.lang.types import parse_schema
from watersmeet.model.schema import normal_type
from watersmeet.model.type_json import type_from_json, type_to_json

UNITS = ("s", "ms", "us", "ns")
NAMES = st.text(max_size=5)


def plain() -> st.SearchStrategy[pa.DataType]:
    simple = [
        *(pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.date32(), pa.date64(), pa.month_day_nano_interval(), pa.time32("s"), pa.time32("ms")),
        *(pa.time64("us"), pa.time64("ns"), pa.uuid(), pa.json_(), pa.bool8()),
    ]
    zones = st.sampled_from([None, "UTC", "Europe/Vienna", "+02:00"])
    return st.one_of(
        st.sampled_from(simple),
        st.builds(pa.timestamp, st.sampled_from(UNITS), zones),
        st.builds(pa.duration, st.sampled_from(UNITS)),
        st.builds(pa.binary, st.integers(1, 99)),
        *(
            st.builds(make, st.integers(1, digits), st.integers(-9, 9))
            for make, digits in ((pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76))
        ),
    )


def nested(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.builds(
        lambda name, kind, nullable: pa.field(name, kind, nullable or kind == pa.null()), NAMES, types, st.booleans()
    )
    several = st.lists(fields, min_size=1, max_size=3, unique_by=lambda field: field.name)
    keys = st.builds(pa.field, st.just("key"), types.filter(lambda kind: kind != pa.null()), st.just(False))
    indexes = st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64()])
    return st.one_of(
        *(st.builds(make, fields) for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)),
        st.builds(pa.list_, fields, st.integers(1, 99)),
        st.builds(pa.struct, several),
        st.builds(pa.map_, keys, fields, st.booleans()),
        st.builds(pa.dictionary, indexes, types, st.booleans()),
        st.builds(pa.run_end_encoded, st.sampled_from([pa.int16(), pa.int32(), pa.int64()]), types),
        st.builds(pa.union, several, st.sampled_from(["dense", "sparse"])),
    )


@given(st.recursive(plain(), nested, max_leaves=6))
def test_every_type_comes_back(kind: pa.DataType) -> None:
    assert type_from_json(json.loads(json.dumps(type_to_json(kind)))) == kind


@given(st.recursive(plain(), nested, max_leaves=4), st.recursive(plain(), nested, max_leaves=4))
def test_two_types_are_the_same_as_their_json_is(one: pa.DataType, other: pa.DataType) -> None:
    assert (one == other) == (type_to_json(one) == type_to_json(other))


@pytest.mark.parametrize(
    "kind", ["BIGINT", "DECIMAL(10, 2)", "TIMESTAMP", "TIMESTAMP_NTZ", "ARRAY<FLOAT>", "FLOAT[64]"]
)
def test_types_of_a_job_file(kind: str) -> None:
    declared = parse_schema(f"c {kind}").field("c").type
    assert type_from_json(type_to_json(declared)) == declared == normal_type(declared)


@pytest.mark.parametrize("data", ["int63", {"type": "none"}, {"type": "list"}, {}])
def test_what_is_no_type(data: Any) -> None:
    with pytest.raises((ValueError, LookupError)):
        type_from_json(data)
