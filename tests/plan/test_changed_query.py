"""What users are told that a changed query does differently."""

from __future__ import annotations

import pytest

from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.plan.changed_query import compare_queries
from watersmeet.plan.query import Query

STREAMS = {name: Stream(name, parse_schema("k BIGINT, v BIGINT, ts BIGINT")) for name in "AB"}
COLUMNS = ("Other columns are selected.",)
HAVING = ("What groups must satisfy to be emitted (HAVING) is other.",)


def grouped(select: str, having: str = "") -> Query:
    window = "[RANGE 3 SECONDS SLIDE 1 SECOND]"
    froms = f"FROM A {window}, B {window} WHERE A.k = B.k GROUP BY A.k"
    return bind(f"SELECT A.k AS g, {select} {froms}{having and f' HAVING {having}'}", STREAMS)


@pytest.mark.parametrize(
    "before, after, told",
    [
        (("COUNT(*) AS n",), ("COUNT(*) AS n", "COUNT(*) > 5"), HAVING),
        (("COUNT(*) AS n", "COUNT(*) > 5"), ("COUNT(*) AS n",), HAVING),
        (("COUNT(*) AS n", "COUNT(*) > 5"), ("COUNT(*) AS n", "COUNT(*) > 6"), HAVING),
        (("COUNT(*) AS n", "COUNT(*) > 5"), ("COUNT(*) AS many", "COUNT(*) > 5"), COLUMNS),
        (("SUM(B.v) AS s, AVG(B.v) AS a",), ("SUM(B.v) AS s, COUNT(B.v) AS a",), COLUMNS),
        (("COUNT(*) AS n", "COUNT(*) > 5"), ("COUNT(*) AS n", "COUNT(*) > 5"), ()),
    ],
)
def test_what_is_emitted_of_groups(before: tuple[str, ...], after: tuple[str, ...], told: tuple[str, ...]) -> None:
    found = compare_queries(grouped(*before), grouped(*after))
    assert (found.told, found.refused) == (told, ())
