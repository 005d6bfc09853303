"""Calls of functions that the user registered: what they are given, and what is made of what they give.

A predicate gives a boolean array, of Arrow or numpy, one value for each row. A preparation gives an array of the type
that it was declared with, of Arrow or numpy, of which one with two dimensions is a list of fixed size for each row.
Anything else is an error that names the function and points at its call, and so is whatever a function raises. Nothing
of the batch is committed then, and a run that is started again comes back to the same rows.

NULL: a declared predicate and its preparations are not asked about rows in which an argument is NULL, which give NULL;
a plain function gets them as they are, and may say NULL there. NULL for a row whose arguments are all known is an
error: nobody could tell whether such rows were to be joined. A preparation may give NULL: there is nothing to compare.
What a numpy array masks is NULL.

What a numpy array holds is copied: a function may fill the same memory again when it is called the next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.errors import UserFunctionError, WatersmeetError, user_function_error
from watersmeet.model.expressions import PrepareCall, PythonCall

Answer: TypeAlias = pa.Array | npt.NDArray[np.bool_]

_START_AGAIN = "Correct the function, and start the run again."


def verdicts(call: PythonCall, args: Sequence[pa.Array], rows: int) -> pa.Array:
    """What a predicate says of rows."""
    answer = answers(call, args, rows)
    return pa.array(answer) if isinstance(answer, np.ndarray) else answer


def answers(call: PythonCall, args: Sequence[pa.Array], rows: int) -> Answer:
    """What a predicate says of rows, as it gave it."""
    if not call.skips_null:
        return _answer(call, args, rows)
    valid = _valid(args, rows)
    if valid is None:
        return _answer(call, args, rows) if rows else pa.array([], pa.bool_())
    known = pa.array(np.flatnonzero(valid))
    answer = verdicts(call, [arg.take(known) for arg in args], len(known)) if len(known) else pa.array([], pa.bool_())
    return _spread(answer, valid)


def prepared_array(call: PrepareCall, values: pa.Array, typed: bool = True) -> pa.Array:
    """What a preparation makes of values; with `typed`, in the type that it is declared with."""
    valid = _valid([values], len(values))
    if valid is None:
        if typed and not len(values):
            return pa.array([], call.type)
        return _prepare(call, values, typed)
    known = pa.array(np.flatnonzero(valid))
    return _spread(_prepare(call, values.take(known), typed) if len(known) else pa.array([], call.type), valid)


def _valid(args: Sequence[pa.Array], rows: int) -> npt.NDArray[np.bool_] | None:
    """Which rows have no NULL; None for all of them."""
    if not any(arg.null_count for arg in args):
        return None
    valid = np.ones(rows, dtype=np.bool_)
    for arg in args:
        valid &= pc.is_valid(arg).to_numpy(zero_copy_only=False)
    return valid


def _spread(values: pa.Array, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """The values in the places of the valid rows, and NULL in the others."""
    return values.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


def _answer(call: PythonCall, args: Sequence[pa.Array], rows: int) -> Answer:
    what = f'registered function "{call.name}"'
    result = _called(call, args, what)
    given = _told(result)
    if isinstance(result, np.ma.MaskedArray) and result.ndim == 1:
        result = pa.array(result)
    if not _is_boolean(result):
        problem = f"{what} gave no boolean array"
    elif len(result) != rows:
        problem = f"{what} gave {len(result)} values for {rows} rows"
    elif unknown := _unexcused(result, args):
        problem = f"{what} gave NULL for {unknown} of {rows} rows that have no NULL among their arguments"
    else:
        return result
    detail = f"It gave {given}; it must give an Arrow or numpy array of booleans, one for each row."
    raise _mistake(call, problem, detail)


def _is_boolean(result: Any) -> bool:
    if isinstance(result, np.ndarray):
        return result.dtype == np.bool_ and result.ndim == 1
    return isinstance(result, pa.Array) and pa.types.is_boolean(result.type)


def _unexcused(result: Answer, args: Sequence[pa.Array]) -> int:
    """How many rows have NULL as the result and none among the arguments."""
    if isinstance(result, np.ndarray) or not result.null_count:
        return 0
    null = ~np.asarray(pc.is_valid(result))
    valid = _valid(args, len(result))
    return int(np.count_nonzero(null if valid is None else null & valid))


def _prepare(call: PrepareCall, values: pa.Array, typed: bool) -> pa.Array:
    what = f'prepare function "{call.name}" of registered function "{call.predicate}"'
    result = _called(call, [values], what)
    given = _told(result)
    try:
        result = _from_numpy(result, call.type if typed else None) if isinstance(result, np.ndarray) else result
        if isinstance(result, pa.Array) and typed and result.type != call.type:
            result = result.cast(call.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        detail = f"It gave {given}: {str(error).rstrip('.')}."
        raise _mistake(call, f"{what} gave no values of type {call.type}", detail) from None
    if not isinstance(result, pa.Array):
        detail = f"It gave {given}; it must give an Arrow or numpy array with a value for each row."
        raise _mistake(call, f"{what} gave no array", detail)
    if len(result) != len(values):
        detail = "It must give an Arrow or numpy array with a value for each row."
        raise _mistake(call, f"{what} gave {len(result)} values for {len(values)} rows", detail)
    return result


def _from_numpy(values: npt.NDArray[Any], kind: pa.DataType | None) -> pa.Array:
    """As an Arrow array; rows of two dimensions as lists of fixed size."""
    if values.ndim != 2:
        return pa.array(values, kind) if values.dtype == object else pa.array(values)
    flat = pa.array(values.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def _called(call: PythonCall | PrepareCall, args: Sequence[pa.Array], what: str) -> Any:
    try:
        result = call.function(*args)
    except (WatersmeetError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise user_function_error(error, what, call.place) from error
    if isinstance(result, pa.ChunkedArray):
        return pa.concat_arrays(result.chunks) if result.num_chunks else pa.array([], result.type)
    return result.copy() if isinstance(result, np.ndarray) else result


def _told(result: Any) -> str:
    if isinstance(result, np.ndarray):
        return f"a numpy array of {result.dtype} with {result.ndim} dimension{'s' * (result.ndim != 1)}"
    if isinstance(result, pa.Array):
        return f"an Arrow array of {result.type}"
    return f"a {type(result).__name__}"


def _mistake(call: PythonCall | PrepareCall, primary: str, detail: str) -> UserFunctionError:
    return UserFunctionError(primary, place=call.place, detail=detail, hint=_START_AGAIN)
