"""Which type a column may be declared as, whatever its values: one that has each of them.

The rule is by type, not by value, so that a job either starts or is refused, on both runtimes and whatever comes later.
A timestamp without a zone is in UTC, and a date is midnight in UTC. Nanoseconds are the one exception: they are checked
value by value when rows are read, as other systems write whole microseconds in that type.
"""

from __future__ import annotations

import pyarrow as pa

from watersmeet.model.schema import normal_type

_SIGNED_BITS = {  # that an integer takes as a signed one
    pa.int8(): 8,
    pa.int16(): 16,
    pa.int32(): 32,
    pa.int64(): 64,
    pa.uint8(): 9,
    pa.uint16(): 17,
    pa.uint32(): 33,
    pa.uint64(): 65,
}
_DOUBLE_BITS, _FLOAT_BITS = 32, 16  # the widest integers that are exact; Spark reads 33 bits of Parquet as 32


def keeps_values(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of `source` is a value of `target`, which is a type of the engine.

    >>> keeps_values(pa.int32(), pa.int64()), keeps_values(pa.int64(), pa.int32())
    (True, False)
    >>> keeps_values(pa.int64(), pa.decimal128(19, 0)), keeps_values(pa.decimal128(10, 2), pa.int64())
    (True, False)
    >>> keeps_values(pa.list_(pa.int8()), pa.list_(pa.float64(), 3)), keeps_values(pa.int64(), pa.float64())
    (True, False)
    """
    if isinstance(source, pa.BaseExtensionType):
        return keeps_values(source.storage_type, target)
    if pa.types.is_dictionary(source) or pa.types.is_run_end_encoded(source):
        return keeps_values(source.value_type, target)
    if pa.types.is_null(source) or source == target or normal_type(source) == target:
        return True
    if pa.types.is_integer(source):
        return _integer_fits(_SIGNED_BITS[source], target)
    if pa.types.is_decimal(source):
        return _decimal_fits(source.precision, source.scale, target)
    if pa.types.is_float16(source) or pa.types.is_float32(source):
        return bool(pa.types.is_float32(target) or pa.types.is_float64(target))
    if pa.types.is_timestamp(source) or pa.types.is_date(source):
        return bool(pa.types.is_timestamp(target))
    if pa.types.is_fixed_size_binary(source):
        return bool(pa.types.is_binary(target))
    return _nested_fits(source, target)


def _integer_fits(bits: int, target: pa.DataType) -> bool:
    if pa.types.is_decimal(target):
        return _decimal_fits(len(str(2 ** (bits - 1))), 0, target)
    if pa.types.is_floating(target):
        return bits <= (_DOUBLE_BITS if pa.types.is_float64(target) else _FLOAT_BITS)
    return bool(pa.types.is_signed_integer(target)) and bits <= target.bit_width


def _decimal_fits(precision: int, scale: int, target: pa.DataType) -> bool:
    if pa.types.is_signed_integer(target):
        return scale <= 0 and precision - scale < len(str(2 ** (target.bit_width - 1)))
    if not pa.types.is_decimal(target):
        return False
    return bool(scale <= target.scale and precision - scale <= target.precision - target.scale)


def _nested_fits(source: pa.DataType, target: pa.DataType) -> bool:
    if _is_list(source) and _is_list(target):  # how many values a list has is checked when rows are read
        return keeps_values(source.value_type, target.value_type)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return [field.name for field in source] == [field.name for field in target] and all(
            keeps_values(mine.type, theirs.type) for mine, theirs in zip(source, target, strict=True)
        )
    if pa.types.is_map(source) and pa.types.is_map(target):
        return keeps_values(source.key_type, target.key_type) and keeps_values(source.item_type, target.item_type)
    return False


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )
