"""The language of the window: texts, plurals, and numbers as people of that language write them.

A catalogue is a JSON file, `resources/languages/CODE.json`: from the English text to its
translation, or from "one|many" to a list of both. Qt's own catalogues would serve views alone:
most errors come from modules that must not import Qt. Texts of tables are made at import, so
`use` precedes the import of the window; the command line never calls it and stays English.
"""

import json
import locale
import os
from pathlib import Path
from string import Formatter
from typing import Any, Literal

Language = Literal["en", "de"]
NAMES: dict[Language, str] = {"en": "English", "de": "Deutsch"}
FOLDER = Path(__file__).parents[1] / "resources" / "languages"
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


class _Commas(Formatter):
    """Formats fractions with a decimal comma."""

    def format_field(self, value: Any, format_spec: str) -> str:
        text = str(super().format_field(value, format_spec))
        return text.replace(".", ",") if isinstance(value, float) else text


class _Now:
    """The language in use: one a process."""

    language: Language = "en"
    texts: dict[str, Any] = {}


def of_system() -> Language:
    """The first language of the environment that there is a catalogue for, else English."""
    names = [os.environ.get(name, "") for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")]
    if not any(names):
        names = [locale.getlocale()[0] or ""]
    for code in next(filter(None, names), "").split(":"):
        for language in NAMES:
            if code.lower().startswith((f"{language}_", f"{language}.")) or code == language:
                return language
    return "en"


def use(language: Language) -> None:
    """Translate from now on. Raises `OSError` if the catalogue cannot be read."""
    path = FOLDER / f"{language}.json"
    _Now.texts = {} if language == "en" else json.loads(path.read_text("utf-8"))
    _Now.language = language


def used() -> Language:
    return _Now.language


def tr(text: str, /, **values: object) -> str:
    """The text in the language in use, with `values` in its fields; English without one."""
    text = _Now.texts.get(text, text)
    if not values:
        return text
    if _Now.language == "en":
        return text.format(**values)
    return _Commas().vformat(text, (), values)


def tr_n(one: str, many: str, n: int, /, **values: object) -> str:
    """`one` if `n` is 1, else `many`; a field {n} is the number, grouped by thousands."""
    one, many = _Now.texts.get(f"{one}|{many}", (one, many))
    return tr(one if n == 1 else many, n=grouped(n), **values)


def mark(text: str) -> str:
    """The text unchanged: for the catalogue, where `tr` is called with a variable later."""
    return text


def noun(title: str) -> str:
    """Return a title as a noun within a sentence; a German noun keeps its capital."""
    return title if used() == "de" else title.lower()


def decimal(text: str) -> str:
    """A number that was formatted in English, with the decimal sign of the language in use."""
    return text if _Now.language == "en" else text.replace(".", ",")


def grouped(number: int) -> str:
    """A count with thin spaces between thousands."""
    return f"{number:,}".replace(",", "\u2009")
