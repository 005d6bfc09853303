"""Query text as an identity: two texts that differ in white space and comments alone are one query.

Literals and quoted identifiers count as they are written, white space included. Nothing else is made alike: not the
case of keywords, and not `a=b` with `a = b`.
"""

from __future__ import annotations

from watersmeet.lang.dialect import tokenize


def normal_text(text: str) -> str:
    """`text` with each stretch of white space and comments between two tokens as one space, and with none at the ends.

    >>> normal_text("SELECT  A.x -- the key" + chr(10) + "FROM A /* left */, B ")
    'SELECT A.x FROM A , B'
    >>> normal_text("WHERE  A.s = 'two  spaces -- no comment'  AND `a  b` = 1")
    "WHERE A.s = 'two  spaces -- no comment' AND `a  b` = 1"
    """
    pieces: list[str] = []
    done = 0
    for token in tokenize(text):
        if token.start < done:
            continue  # 1L is three tokens over one stretch of text
        if pieces and token.start > done:
            pieces.append(" ")
        pieces.append(text[token.start : token.end + 1])
        done = token.end + 1
    return "".join(pieces)
