"""Errors of the engine and of downloads in German: real ones; texts are those of the source."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.client import EngineClient
from app.fetch.job import Job
from app.fetch.search import Hub
from app.fetch.source import Source, explained
from app.language import use, used
from app.library import resolve
from app.translated import FIELD, in_language
from app.work import Work
from engine.device.pool import Component
from engine.errors import CutawayError, NoMem, WorkerDied
from engine.gguf import open_gguf
from engine.protocol import Failed, Load
from engine.settings import EngineOptions
from engine.worker.handle import _reason
from tests import raised
from tests.app.helpers.scripted import ScriptedEngine
from tests.parsed import all_nodes

ROOT = Path(__file__).parents[2]
ENGLISH = re.compile(r"\b(the|is|not|and|no|it|of|try|check|left|wanted|file|engine)\b")


@pytest.fixture
def german() -> Iterator[None]:
    before = used()
    use("de")
    yield
    use(before)


def of_file(content: bytes) -> Callable[[Path], object]:
    def opened(folder: Path) -> object:
        path = folder / "model.gguf"
        path.write_bytes(content)
        return open_gguf(path)

    return opened


def raising(error: CutawayError) -> Callable[[Path], object]:
    def fail(_: Path) -> object:
        raise error

    return fail


def job() -> Job:
    return Job("org/repo", lambda _: None, lambda: False)


BROKE = explained(
    Source("http://127.0.0.1/m.gguf", None, None),
    3 << 19,
    httpx2.ReadError("Connection reset by peer"),
)
HEAD = b"GGUF\x03\x00\x00\x00" + (1).to_bytes(8, "little") * 2
USUAL: dict[str, Callable[[Path], object]] = {
    "no memory": raising(NoMem("intel:0", Component.WEIGHTS, 3 << 29, 1 << 29, layer=3)),
    "no room": raising(
        NoMem("host", "what is not on GPUs", 3 << 29, 0, "unable to load full model on GPU")
    ),
    "no file": lambda folder: resolve(str(folder / "none.gguf")),
    "a folder": lambda folder: resolve(str(folder)),
    "gone": lambda folder: open_gguf(folder / "none.gguf"),
    "empty": of_file(b""),
    "no model": of_file(b"PK\x03\x04" + bytes(60)),
    "old": of_file(b"GGUF\x01\x00\x00\x00" + bytes(60)),
    "cut": of_file(HEAD),
    "killed": raising(WorkerDied(-9, _reason(-9, ""))),
    "crashed": raising(WorkerDied(-11, _reason(-11, "Fatal Python error"))),
    "ended": raising(WorkerDied(1, _reason(1, "MemoryError"))),
    "broken off": raising(job().fail(BROKE)),
    "full disk": raising(job().disk_error(OSError(28, "No space left on device"), Path("/models"))),
    "no room on disk": lambda folder: job().need_space(folder, 1 << 60),
}


@pytest.mark.parametrize("fails", USUAL.values(), ids=USUAL)
def test_usual_errors_are_german(
    fails: Callable[[Path], object], german: None, tmp_path: Path
) -> None:
    with pytest.raises(CutawayError) as raised:
        fails(tmp_path)
    english, found = str(raised.value), in_language(str(raised.value))
    assert found != english
    words = re.sub(r"\S*/\S*|last words:.*|letzte Ausgabe:.*|\(.*?\)", "", found)
    assert not ENGLISH.search(words), found
    for number in re.findall(r"\d{2,}", english):
        assert number in found


def test_what_the_window_gets_is_german(
    german: None, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline, as a search meets it in its job."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    parent, failed = QObject(), list[Any]()
    hub = Hub(endpoint="http://127.0.0.1:1")
    Work(lambda: hub.files("org/repo")).fail(failed.append).start(parent)
    qtbot.waitUntil(lambda: bool(failed))
    assert failed == [
        "HF_HUB_OFFLINE ist gesetzt, daher ist die Suche aus; entfernen Sie die Variable"
    ]


def test_what_the_engine_refuses_is_german(german: None, qtbot: QtBot) -> None:
    engine, failed = ScriptedEngine(), list[Failed]()
    client = EngineClient(engine)
    client.failed.connect(failed.append)
    asked = client.send(Load(0, "m.gguf", EngineOptions()))
    engine.say(Failed(asked.id, "BadFile", "m.gguf: the file is empty"))
    qtbot.waitUntil(lambda: bool(failed))
    assert failed[0].message == "m.gguf: die Datei ist leer"
    client.close()


def test_numbers_and_names_stay(german: None) -> None:
    text = "/a: b/{x}.gguf: the file is empty"
    assert in_language(text) == "/a: b/{x}.gguf: die Datei ist leer"
    assert in_language("something: else") == "something: else"
    hostile = "the engine stopped: " * 4000
    assert in_language(hostile) == hostile
    many = "it; last words: " * 60
    assert len(in_language(many)) >= len(many)


def test_english_stays() -> None:
    before = used()
    use("en")
    assert in_language("m.gguf: the file is empty") == "m.gguf: the file is empty"
    use(before)


def test_no_error_is_untranslated() -> None:
    """`python -m tests.raised` prints what to fill in."""
    lacks = [f"{place}: {text!r}" for text, place in raised.missing("de").items()]
    assert not lacks, f"{len(lacks)} errors have no German:\n" + "\n".join(lacks)


@pytest.mark.parametrize(("english", "expected"), raised.known("de").items())
def test_each_error_is_found_by_its_text(english: str, expected: str, german: None) -> None:
    """By the longest that fits, behind a name, with values that other texts do not fit."""
    assert set(FIELD.findall(english)) == set(FIELD.findall(expected))
    values = {name: "7" if name == "n" else f"<{name}>" for name in FIELD.findall(english)}
    filled = FIELD.sub(lambda field: values[field[1]], f"m.gguf: {english}")
    assert in_language(filled).endswith(FIELD.sub(lambda field: values[field[1]], expected))


def test_no_text_is_left_over() -> None:
    """The words between the fields of each are in a string of the source."""
    said = [
        node.value
        for top in ("engine", "app")
        for path in sorted((ROOT / top).rglob("*.py"))
        for node in all_nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    whole = "\n".join(said)
    system = {"no such file or directory", "No such file or directory", "permission denied"}
    system |= {"Permission denied", "No space left on device", "cannot allocate memory"}
    for text in set(raised.known("de")) - system:
        for part in FIELD.split(text)[::2]:
            for piece in filter(None, re.split(r"^tensors |[;:] |[;:]$", part.strip())):
                assert piece.strip() in whole, (text, piece)
