"""Errors of the engine and of downloads, in the language of the window.

They are raised in English, most of them in another process, and found again by their texts. A
catalogue is a JSON file, `resources/languages/errors/CODE.json`: from the English text to its
translation. A field is {1}, {2} …, and {n} is one of digits alone.
"""

import json
import re
from functools import cache

from app.language import FOLDER, Language, decimal, used

LONGEST = 1000
"""Characters of a text that is looked at."""
DEEPEST = 3
"""How often an error's field may be an error itself."""
MOST_NAMES = 20
"""How many colons and semicolons may come before an error."""
FIELD = re.compile(r"\{(\w+)\}")
_NUMBER = re.compile(r"\d+\.\d+")
_ENDS = re.compile("([:;] )")
_IN_BRACKETS = re.compile(r" \((.*)\)", re.DOTALL)


def in_language(text: str) -> str:
    """An error's text in the language in use, behind the name of what it is about."""
    if used() == "en" or len(text) > LONGEST:
        return text
    return _behind_names(text, DEEPEST)


def _behind_names(text: str, deep: int) -> str:
    """A text and, where it begins with names and colons, what is behind them."""
    pieces = _ENDS.split(text, MOST_NAMES)
    for at in range(0, len(pieces), 2):
        if (found := _translated("".join(pieces[at:]), deep)) is not None:
            return "".join([_translated(name, 0) or name for name in pieces[:at]]) + found
    return text


def _translated(text: str, deep: int) -> str | None:
    """None for a text that the catalogue lacks."""
    for words, names, translation in _catalogue(used()):
        if (fields := _fields(words, text)) is None:
            continue
        found = dict(zip(names, fields, strict=True))
        if found.get("n", "0").isdigit():
            values = {name: _value(field, deep) for name, field in found.items()}
            return FIELD.sub(lambda field: values[field[1]], translation)  # noqa: B023  at once
    return None


def _value(text: str, deep: int) -> str:
    """A field, which may be an error itself; a number as it is written in the language."""
    if _NUMBER.fullmatch(text):
        return decimal(text)
    if found := _IN_BRACKETS.fullmatch(text):
        return f" ({_value(found[1], deep)})"
    return _behind_names(text, deep - 1) if deep else text


def _fields(words: tuple[str, ...], text: str) -> list[str] | None:
    """Return the parts of a text between `words`, each found as early as it can be; None where one
    is missing, or where a name and a colon would be a part of the first field.
    """
    if len(words) == 1:
        return [] if text == words[0] else None
    first, *middle, last = words
    end = len(text) - len(last)
    if not (text.startswith(first) and text.endswith(last) and len(first) <= end):
        return None
    fields, at = list[str](), len(first)
    for word in middle:
        found = text.find(word, at, end)
        if found < 0:
            return None
        fields.append(text[at:found])
        at = found + len(word)
    fields.append(text[at:end])
    return None if not first and ": " in fields[0] else fields


@cache
def _catalogue(language: Language) -> list[tuple[tuple[str, ...], tuple[str, ...], str]]:
    """The words of each text, its fields between them and its translation, the text with the most
    words first: another may be all of it but for a field.
    """
    texts = json.loads((FOLDER / "errors" / f"{language}.json").read_text("utf-8"))
    found = [(*_parts(text), translation) for text, translation in texts.items()]
    return sorted(found, key=lambda one: -sum(map(len, one[0])))


def _parts(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    parts = FIELD.split(text)
    return tuple(parts[::2]), tuple(parts[1::2])
