"""What errors say of a function of the user's that raised."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import JobError, UserError, UserFunctionError, user_function_error

ROWS = pa.table({"k": [1, 2], "ts": [0, 1]})
TEXT = "SELECT A.k FROM A, B WHERE A.k = B.k AND good(A.k, B.ts)"


def caught(function: Callable[[], Any]) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("it did not raise")


def look_up() -> None:
    raise KeyError("account 7")


def save() -> None:
    look_up()


def dig(depth: int) -> None:
    if not depth:
        raise ValueError("first line\nsecond line")
    dig(depth - 1)


def test_the_users_own_calls_are_shown() -> None:
    error = user_function_error(caught(save), "the function of foreachBatch")
    assert isinstance(error, UserError)
    assert error.exit_code == 2
    assert error.primary == "the function of foreachBatch raised KeyError: 'account 7'"
    assert error.detail is not None
    assert f'  File "{__file__}", line ' in error.detail
    assert ", in save\n    look_up()\n" in error.detail
    assert error.detail.endswith(', in look_up\n    raise KeyError("account 7")')
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_deep_traceback_is_cut_in_the_middle_and_a_long_message_after_its_first_line() -> None:
    error = user_function_error(caught(lambda: dig(50)), "it")
    assert error.primary == "it raised ValueError: first line"
    assert error.detail is not None
    assert error.detail.count("  File ") == 6
    assert "\n  ..\n" in error.detail


def test_a_registered_function_that_raises_is_told_from_a_bug_of_ours() -> None:
    def good(k: pa.Array, ts: pa.Array) -> pa.Array:
        raise ZeroDivisionError("by zero")

    query = wm.sql(TEXT, A=ROWS, B=ROWS, functions={"good": good})
    error = caught(query.run)
    assert isinstance(error, UserFunctionError)
    assert error.primary == 'registered function "good" raised ZeroDivisionError: by zero'
    assert error.detail is not None
    assert error.detail.startswith(f'It was raised in\n  File "{__file__}", line ')
    assert "evaluate.py" not in error.detail
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_an_error_of_ours_goes_through_a_registered_function_as_it_is() -> None:
    def good(k: pa.Array, ts: pa.Array) -> pa.Array:
        raise JobError("mine")

    with pytest.raises(JobError, match="mine"):
        wm.sql(TEXT, A=ROWS, B=ROWS, functions={"good": good}).run()
