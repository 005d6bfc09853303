"""The query text with its tokens: where each thing stands, so that every error points at it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import Token, TokenType, exp

from watersmeet.errors import QueryError, Span

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


@dataclass(frozen=True)
class Source:
    text: str
    tokens: tuple[Token, ...]

    def refuse(
        self,
        primary: str,
        at: exp.Expr | Span | None,
        *,
        detail: str | None = None,
        hint: str | None = None,
    ) -> NoReturn:
        """Raises the QueryError that points at `at`."""
        span = self.span(at) if isinstance(at, exp.Expr) else at
        raise QueryError(primary, text=self.text, span=span, detail=detail, hint=hint)

    def span(self, node: exp.Expr) -> Span:
        """The stretch of text that `node` was read from; the whole text where the parser left no trace of it."""
        starts: list[int] = []
        ends: list[int] = []
        for part in node.walk():
            # "reach" is what our parser notes for each operand; start and end are sqlglot's, of single tokens.
            start, end = part.meta.get("reach") or (part.meta.get("start"), part.meta.get("end"))
            if start is not None and end is not None:
                starts.append(start)
                ends.append(end + 1)
        return self._balanced(min(starts), max(ends)) if starts else Span(0, len(self.text.rstrip()))

    def _balanced(self, start: int, end: int) -> Span:
        """The stretch widened until each parenthesis in it has its partner: keywords and brackets leave no trace."""
        inside = [i for i, token in enumerate(self.tokens) if start <= token.start < end]
        first, last = inside[0], inside[-1]
        depth = lowest = 0
        for token in self.tokens[first : last + 1]:
            depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
            lowest = min(lowest, depth)
        missing_left, missing_right = -lowest, depth - lowest
        while missing_left and first > 0:
            first -= 1
            kind = self.tokens[first].token_type
            missing_left += (kind in _CLOSING) - (kind in _OPENING)
        while missing_right and last + 1 < len(self.tokens):
            last += 1
            kind = self.tokens[last].token_type
            missing_right += (kind in _OPENING) - (kind in _CLOSING)
        return Span(self.tokens[first].start, self.tokens[last].end + 1)

    def slice(self, span: Span) -> str:
        """The text of `span` on one line."""
        return " ".join(self.text[span.start : span.end].split())

    def called(self, span: Span) -> str | None:
        """The name of the function if `span` is one call, as in `f(..)`; None where anything follows the call."""
        name, *rest = [token for token in self.tokens if span.start <= token.start < span.end]
        depth = 0
        for i, token in enumerate(rest):
            depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
            if depth == 0:
                return name.text if i == len(rest) - 1 and token.token_type in _CLOSING else None
        return None

    def outer_tokens(self) -> Iterator[tuple[int, Token]]:
        """The tokens outside all parentheses and brackets, with their places in `tokens`."""
        depth = 0
        for i, token in enumerate(self.tokens):
            depth -= token.token_type in _CLOSING
            if depth == 0 and token.token_type not in _CLOSING and token.token_type not in _OPENING:
                yield i, token
            depth += token.token_type in _OPENING

    def find(self, kinds: Collection[TokenType]) -> Span | None:
        """The first outer token of one of `kinds`."""
        return next((token_span(t) for _, t in self.outer_tokens() if t.token_type in kinds), None)

    def select_items(self) -> list[Span]:
        """One span for each entry of the select list."""
        items: list[Span] = []
        first: int | None = None
        for i, token in self.outer_tokens():
            if token.token_type == TokenType.SELECT or (token.token_type == TokenType.DISTINCT and first == i):
                first = i + 1
            elif first is not None and token.token_type in (TokenType.COMMA, TokenType.FROM):
                last = max(i - 1, first)  # an empty entry stands at the comma that ends it
                items.append(Span(self.tokens[first].start, self.tokens[last].end + 1))
                first = i + 1
                if token.token_type == TokenType.FROM:
                    break
        return items

    def tokens_before(self, offset: int) -> Iterator[Token]:
        """The tokens that end before `offset`, the nearest first."""
        return (token for token in reversed(self.tokens) if token.end < offset)


def token_span(token: Token) -> Span:
    return Span(token.start, token.end + 1)
