"""SQL type names and Arrow types, both ways.

`TIMESTAMP` is an instant, kept in microseconds of UTC; `TIMESTAMP_NTZ` has no zone. `DECIMAL` alone is DECIMAL(10, 0),
as in Spark. `NOT NULL` in a schema is read and not enforced: every column may hold NULL. Lengths of VARCHAR, CHAR and
BINARY are read and not enforced. Times take the precision 6, which they have, and no other; other types take none.

Of nested types columns may have lists of values of one of these types: `ARRAY<FLOAT>`, as in Spark, and with a fixed
number of values `FLOAT[64]`, for which Spark has no word. They can be selected, and handed to registered functions.
"""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError

from watersmeet.errors import JobError, did_you_mean

SUPPORTED = (
    "TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, VARCHAR, TEXT, BOOLEAN, DATE, TIMESTAMP, "
    "TIMESTAMP_NTZ and BINARY; times have microseconds, so (6) is the only precision that they take"
)
COLUMN_TYPES = f"{SUPPORTED}; ARRAY<T> for lists of these, and T[n] for lists of n values"
TIMESTAMP = pa.timestamp("us", tz="UTC")
DURATION = pa.duration("us")

_ARROW: dict[exp.DType, pa.DataType] = {
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: pa.int64(),
    exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: pa.float64(),
    exp.DType.TEXT: pa.string(),
    exp.DType.VARCHAR: pa.string(),
    exp.DType.CHAR: pa.string(),
    exp.DType.BOOLEAN: pa.bool_(),
    exp.DType.DATE: pa.date32(),
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: pa.timestamp("us"),
    exp.DType.BINARY: pa.binary(),
}
_WITH_LENGTH = (exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR, exp.DType.BINARY)
_WITH_PRECISION = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ)
_WORDS: tuple[str, ...] = (
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "STRING",
    "VARCHAR",
    "TEXT",
)
_OPENING = (TokenType.L_PAREN, TokenType.LT, TokenType.L_BRACKET)
_WORDS += ("ARRAY",)
_WORDS += ("BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY")


def arrow_type(kind: exp.DataType) -> pa.DataType | None:
    """The Arrow type of a parsed SQL type, or None where there is none."""
    numbers = [param.name for param in kind.expressions]
    if kind.this != exp.DType.DECIMAL:
        # FLOAT(53) is a DOUBLE elsewhere, and TIMESTAMP(9) has nanoseconds: read as ours, they would lose digits.
        said = not numbers or kind.this in _WITH_LENGTH or (kind.this in _WITH_PRECISION and numbers == ["6"])
        return _ARROW.get(kind.this) if said else None
    if not all(number.isdigit() for number in numbers) or len(numbers) > 2:
        return None
    precision, scale = (*map(int, numbers), *(10, 0)[len(numbers) :])
    return pa.decimal128(precision, scale) if 1 <= precision <= 38 and scale <= precision else None


def column_type(kind: exp.Expr) -> pa.DataType | None:
    """The Arrow type of a parsed SQL type that a column may have, or None where there is none.

    >>> column_type(exp.DataType.build("FLOAT[64]", dialect="spark"))
    FixedSizeListType(fixed_size_list<item: float>[64])
    """
    if not isinstance(kind, exp.DataType):  # ARRAY<FLOAT>(64) reads like a cast
        return None
    if kind.this != exp.DType.ARRAY:
        return arrow_type(kind)
    sizes = [value.name for value in kind.args.get("values") or ()]
    if len(kind.expressions) != 1 or len(sizes) > 1 or not isinstance(kind.expressions[0], exp.DataType):
        return None
    item = arrow_type(kind.expressions[0])
    if item is None or any(not size.isdigit() or not int(size) for size in sizes):
        return None
    return pa.list_(item, *map(int, sizes))


def parse_schema(text: str, what: str = "schema") -> pa.Schema:
    """The Arrow schema that a Spark DDL text says; `what` names it in errors, as in `schema of stream "A"`.

    >>> parse_schema("k BIGINT, v DECIMAL(10,2)").types
    [DataType(int64), Decimal128Type(decimal128(10, 2))]
    """
    try:
        tokens = Spark().tokenize(text)
    except TokenError as error:
        raise _malformed(what, text) from error
    fields = [_field(part, text, what) for part in _split_at_commas(tokens)]
    if not fields:
        raise _malformed(what, text)
    for first, second in pairwise(sorted(field.name for field in fields)):
        if first == second:
            raise JobError(f'{what} has column "{first}" twice', detail=f'It reads "{text}".')
    return pa.schema(fields)


def _split_at_commas(tokens: list[Token]) -> list[list[Token]]:
    if not tokens:
        return []
    depth, parts = 0, [[]]  # type: tuple[int, list[list[Token]]]
    for token in tokens:
        depth += token.token_type in (TokenType.L_PAREN, TokenType.LT)
        depth -= token.token_type in (TokenType.R_PAREN, TokenType.GT)
        if token.token_type == TokenType.COMMA and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _field(part: list[Token], text: str, what: str) -> pa.Field:
    quoted = bool(part) and part[0].token_type == TokenType.IDENTIFIER
    if len(part) < 2 or not (quoted or part[0].text.replace("_", "a").isalnum()):
        raise _malformed(what, text[part[0].start : part[-1].end + 1] if part else text)
    name, *rest = part
    if rest[0].token_type == TokenType.COLON:  # Spark also writes "k: BIGINT"
        rest = rest[1:]
    stop = next((i for i, token in enumerate(rest) if token.text.upper() in ("NOT", "COMMENT")), len(rest))
    if stop == 0 or (stop > 1 and rest[1].token_type not in _OPENING):
        raise _malformed(what, text[name.start : part[-1].end + 1])
    written = text[rest[0].start : rest[stop - 1].end + 1]
    try:
        kind = column_type(exp.DataType.build(written, dialect="spark"))
    except ParseError:
        kind = None
    if kind is None:
        raise JobError(
            f'column "{name.text}" of {what} has unknown type "{written}"',
            detail=f"The types are {COLUMN_TYPES}.",
            hint=None if rest[0].text.upper() in _WORDS else did_you_mean(rest[0].text.upper(), _WORDS),
        )
    return pa.field(name.text, kind)


def _malformed(what: str, piece: str) -> JobError:
    return JobError(
        f'{what} cannot be read at "{piece.strip()}"',
        detail="A schema is a list of columns with commas between them, each a name and a type.",
        hint='For example "k BIGINT, price DECIMAL(10, 2), ts TIMESTAMP".',
    )
