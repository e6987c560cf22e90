"""Catalogues are complete and fit their texts; numbers, plurals, the choice of a language."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import language
from app.language import FOLDER, NAMES, Language, decimal, of_system, tr, tr_n, use, used
from app.state.preferences import chosen_language, preferences_file
from app.widgets.numbers import duration, grouped, mib
from tests import texts

OTHERS = [name for name in NAMES if name != "en"]
WINDOW = ("app/state", "app/views", "app/widgets", "app/window")


@pytest.fixture
def german() -> Iterator[None]:
    before = used()
    use("de")
    yield
    use(before)


@pytest.mark.parametrize("name", OTHERS)
def test_no_text_is_untranslated(name: str) -> None:
    """`python -m tests.texts` prints what to fill in."""
    lacks = [f"{place}: {text!r}" for text, place in texts.missing(name).items()]
    assert not lacks, f"{len(lacks)} texts have no translation:\n" + "\n".join(lacks)


@pytest.mark.parametrize("name", OTHERS)
def test_translations_fit_their_texts(name: str) -> None:
    """No field that the text lacks, no format that its value refuses, spaces as at its ends."""
    pairs = json.loads((FOLDER / f"{name}.json").read_text("utf-8"), object_pairs_hook=list)
    there = dict(pairs)
    assert len(there) == len(pairs), "a text is translated twice"
    assert set(there) <= set(texts.texts()), "texts that the program no longer has"
    wrong = []
    for text, translated in there.items():
        plural = isinstance(translated, list)
        assert plural == (text in texts.plurals())
        forms = [*zip(text.split("|"), translated, strict=True)] if plural else [(text, translated)]
        for source, made in forms:
            fits = texts.fields(made) <= texts.fields(source) | ({"n"} if plural else set())
            fits &= plural or texts.fields(made) == texts.fields(source)
            if not fits or spaces(made) != spaces(source):
                wrong.append(f"{source!r}: {made!r}")
    assert wrong == []


def spaces(text: str) -> tuple[bool, bool]:
    return text.startswith(" "), text.endswith(" ")


def test_texts_with_fields_are_not_formatted_before_they_are_translated() -> None:
    """`tr(f"…")` would look for a text that no catalogue can have."""
    wrong = [
        f"{path}:{node.lineno}"
        for path in sorted((texts.ROOT / "app").rglob("*.py"))
        for node, _ in texts.calls(path)
        for argument in node.args
        if isinstance(argument, ast.JoinedStr)
    ]
    assert wrong == []


def test_sentences_of_the_window_are_translated() -> None:
    """A string of three words or more in a module of the window goes through `tr` or `tr_n`."""
    bare = [found for top in WINDOW for found in texts.bare(top)]
    assert not bare, f"{len(bare)} texts that no tr() translates:\n" + "\n".join(bare)


def test_a_field_is_written_as_germans_write_numbers(german: None) -> None:
    assert tr("{size:.1f} GB", size=1.5) == "1,5 GB"
    assert tr("Opening {model_title}", model_title="v1.5") == "v1.5 wird geöffnet"
    assert tr_n("{n} chat", "{n} chats", 1) == "1 Chat"
    assert tr_n("{n} chat", "{n} chats", 1234) == "1\u2009234 Chats"
    assert (mib(3 << 19), duration(2.5), decimal("0.5")) == ("1,5", "2,5 s", "0,5")
    assert grouped(12345) == "12\u2009345"


def test_without_a_catalogue_texts_are_english() -> None:
    before = used()
    use("en")
    assert tr("{size:.1f} GB", size=1.5) == "1.5 GB"
    assert tr_n("{n} chat", "{n} chats", 2) == "2 chats"
    assert tr("no such text") == "no such text"
    use(before)


def test_a_value_is_no_template(german: None) -> None:
    """What a person or a file wrote goes into a text as it is, braces and percent signs too."""
    name = "{size} %s {0.__class__}"
    assert tr("Opening {model_title}", model_title=name) == f"{name} wird geöffnet"
    assert tr("Deleted “{title}”.", title="Delete") == "„Delete“ gelöscht."


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"LANG": "de_DE.UTF-8"}, "de"),
        ({"LANG": "de_AT"}, "de"),
        ({"LANG": "en_GB.UTF-8", "LC_ALL": "de_CH.UTF-8"}, "de"),
        ({"LANGUAGE": "fr:de:en", "LANG": "fr_FR.UTF-8"}, "de"),
        ({"LANG": "den_XX"}, "en"),
        ({"LANG": "C"}, "en"),
    ],
)
def test_the_systems_language(
    variables: dict[str, str], expected: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert of_system() == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"language": "de"}', "de"),
        ('{"language": "system"}', None),
        ('{"language": ["de"]}', None),
        ('{"language": "\udcff"}', None),
        ('{"language": ' + "[" * 100_000, None),
        ("[1]", None),
        ("{", None),
        (None, None),
    ],
)
def test_the_preferences_language(
    content: str | None, expected: Language | None, own_home: Path
) -> None:
    if content is not None:
        preferences_file().parent.mkdir(parents=True, exist_ok=True)
        preferences_file().write_text(content, "utf-8", "surrogateescape")
    assert chosen_language() == expected


def test_a_pipe_in_the_place_of_the_preferences(own_home: Path) -> None:
    preferences_file().parent.mkdir(parents=True)
    os.mkfifo(preferences_file())
    assert chosen_language() is None


SHOWN = """
import sys
from app.commands import window
def show(model):
    from app.language import tr
    from app.window.panes.pages import PAGES
    from app.window.commands import COMMANDS
    print(*[page.title for page in PAGES], COMMANDS[0].title, sep="|")
    return 0
import importlib, types
real = importlib.import_module
class Program(types.ModuleType):
    open_window = staticmethod(show)
sys.modules["app.window.program"] = Program("app.window.program")
window._check_screen = lambda: None
window.open_window(None, *sys.argv[1:])
"""


@pytest.mark.parametrize(("words", "expected"), [((), "Speicher"), (("en",), "Memory")])
def test_tables_made_at_import_are_in_the_chosen_language(
    words: tuple[str, ...], expected: str
) -> None:
    """The command chooses the language before it imports the window."""
    out = subprocess.run(
        [sys.executable, "-c", SHOWN, *words],
        env={**os.environ, "LANG": "de_DE.UTF-8", "LC_ALL": "", "LANGUAGE": ""},
        cwd=texts.ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert expected in re.split(r"[|\n]", out)


def test_languages_name_themselves() -> None:
    assert set(language.NAMES) == {"en", *(path.stem for path in FOLDER.glob("*.json"))}


@pytest.mark.full
@pytest.mark.parametrize("name", OTHERS)
def test_nothing_is_cut(name: str) -> None:
    """All scenes at all sizes of text and window, in another language."""
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "full or not full"]
        + ["tests/app/window/test_legible.py"],
        env=os.environ | {"CUTAWAY_TEST_LANGUAGE": name},
        cwd=texts.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5000:]
