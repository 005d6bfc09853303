"""The merge of two sets of rows emits what they make together, and nothing that either made alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernel.test_step import THREE, Row, V, plan_of, rows, rows_of, values, whole
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.step import merge_step

sets = st.fixed_dictionaries(dict.fromkeys("ABC", rows))


@given(sets, sets, st.sampled_from([1, 2, 1000]))
def test_what_is_owed_between_two_generations(
    old: dict[str, list[Row]], new: dict[str, list[Row]], chunk_rows: int
) -> None:
    plan = plan_of(THREE)
    (node,) = plan.operators.values()
    found = values(
        list(
            merge_step(
                node,
                [rows_of(plan, alias, new[alias]) for alias in "ABC"],
                [[Indexed.of(rows_of(plan, alias, old[alias]))] for alias in "ABC"],
                chunk_rows,
            )
        ),
        *V,
    )
    both = {alias: old[alias] + new[alias] for alias in "ABC"}
    assert found == whole(both) - whole(old) - whole(new)
