"""Query text as an identity: white space and comments between tokens do not count, everything else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import QueryError
from watersmeet.lang.identity import normal_text

TOKENS = [
    "SELECT",
    "A.k",
    "1.5",
    "1L",
    "'it''s'",
    "'a  b'",
    '"x -- y"',
    "'\\''",
    "`a  /* b`",
    "`c``d`",
    "=",
    ",",
    "[",
    "(",
]
GAPS = [" ", "\n\t ", " -- note\n", "/* a */", " /* a\n /* b */ 'c */ "]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT  *\n FROM A", "SELECT * FROM A"),
        ("  SELECT 1 -- why\n", "SELECT 1"),
        ("SELECT/* */1", "SELECT 1"),
        ("SELECT A.k --'\nFROM A", "SELECT A.k FROM A"),
    ],
)
def test_white_space_and_comments_between_tokens_do_not_count(one: str, other: str) -> None:
    assert normal_text(one) == normal_text(other) == other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A.s = 'a b'", "A.s = 'a  b'"),
        ("A.s = 'a\nb'", "A.s = 'a b'"),
        ("A.s = 'a'", "A.s = ' a'"),
        ("A.s = '/* x */'", "A.s = ''"),
        ('A.s = "it\'s  x"', 'A.s = "it\'s x"'),
        ("A.s = 'it''s  x'", "A.s = 'it''s x'"),
        ("A.s = 'it\\'s  x'", "A.s = 'it\\'s x'"),
        ("A.s = 'a''b'", "A.s = 'a' 'b'"),
        ("A.`a  b` = 1", "A.`a b` = 1"),
        ("A.k=1", "A.k = 1"),
        ("select 1", "SELECT 1"),
    ],
)
def test_everything_else_counts(one: str, other: str) -> None:
    assert normal_text(one) != normal_text(other)


def test_text_without_comments_and_white_space_in_literals_is_the_text_with_single_spaces() -> None:
    text = "SELECT  o.id,\n  c.name FROM orders o [RANGE 30 MINUTES],\tcustomers c\nWHERE o.c=c.id AND o.s = 'it''s'\n"
    assert normal_text(text) == " ".join(text.split())


@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=8), st.data())
def test_any_gaps_give_one_text(tokens: list[str], data: st.DataObject) -> None:
    def text() -> str:
        return "".join(part for token in tokens for part in (token, data.draw(st.sampled_from(GAPS))))

    assert normal_text(text()) == normal_text(text()) == " ".join(tokens)
    assert normal_text(" ".join(tokens)) == " ".join(tokens)


def test_a_quote_that_never_ends_is_refused() -> None:
    with pytest.raises(QueryError, match="opened and never closed"):
        normal_text("SELECT 'x")
