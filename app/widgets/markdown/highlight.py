"""Colours of code, by pygments."""

from collections.abc import Iterator
from functools import cache, lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, String, _TokenType
from pygments.util import ClassNotFound

MOST = 30_000  # characters; longer code stays in one colour
_TONES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "code_comment"),
    (String, "code_string"),
    (Number, "code_number"),
    (Literal, "code_number"),
    (Keyword, "code_keyword"),
    (Operator.Word, "code_keyword"),
    (Name.Function, "code_name"),
    (Name.Class, "code_name"),
    (Name.Tag, "code_keyword"),
    (Name.Builtin, "code_name"),
    (Name.Decorator, "code_name"),
    (Name.Attribute, "code_name"),
)


def highlight(code: str, language: str) -> Iterator[tuple[int, int, str]]:
    """Runs of a colour: start, length, name of the token of the theme."""
    lexer = _lexer(language.lower())
    if lexer is None or len(code) > MOST:
        return
    for start, kind, text in lexer.get_tokens_unprocessed(code):
        tone = _tone(kind)
        if tone:
            yield start, len(text), tone


def _within(kind: _TokenType, family: _TokenType) -> bool:
    return kind[: len(family)] == family


@cache
def _tone(kind: _TokenType) -> str:
    return next((tone for known, tone in _TONES if _within(kind, known)), "")


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language) if language else None
    except ClassNotFound:
        return None
