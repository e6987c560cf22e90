"""The window with two settings of one model side by side."""

from collections.abc import Sequence

from PySide6.QtTest import QTest

from app.library import Stored
from app.window.main_window import MainWindow
from engine.protocol import Finished, Generate, Piece, Stats
from tests.app.helpers.records import memory
from tests.app.helpers.scripted import token
from tests.app.window.scenes.trial_scenes import PATH, client

LEFT = ("The ", "capital ", "of ", "France ", "is ", "Paris", ", ", "on ", "the ", "Seine", ".")
RIGHT = ("The ", "capital ", "of ", "France ", "is ", "a ", "city ", "called ", "Paris", ".")
CHANCES = (0.97, 0.93, 0.99, 0.98, 0.9, 0.08, 0.71, 0.31, 0.64, 0.12, 0.5)
STATS = Stats(120, 30, 11, 0.001, 0.4, 0.213, 0.08, 7, 131)


def write(window: MainWindow, asked: Generate, texts: Sequence[str], end: bool = True) -> None:
    """Tokens of one of several answers under way."""
    for text, chance in zip(texts, CHANCES, strict=False):
        client(window).say(Piece(asked.id, text, [token(text, chance)]))
    if end:
        client(window).say(Finished(asked.id, "stop", STATS))


def requests(window: MainWindow) -> list[Generate]:
    """All answers that were asked for."""
    return [request for request in client(window).asked if isinstance(request, Generate)]


def pair_form(window: MainWindow) -> None:
    """Before anything was asked."""
    window.bench.open_model(PATH)
    client(window).say(memory("planned"), memory("allocated"))
    client(window).load_done()
    window.bench.library.models = [
        Stored("gemma3-270m", (PATH.with_name("g.gguf"),), 253 << 20, "own", False, "gemma3", "Q4"),
    ]
    window.sheets.show_pair()
    view = window.sheets.pair
    left, right = (side.choice for side in view.sides)
    left.temperature.setCurrentText("0")
    right.temperature.setCurrentText("1.3")
    view.question.set_text("What is the capital of France?")


def pair_busy(window: MainWindow) -> None:
    """Both answers are being written."""
    pair_form(window)
    window.sheets.pair.send.click()
    for asked, texts in zip(requests(window), (LEFT, RIGHT), strict=True):
        write(window, asked, texts[:6], end=False)


def pair(window: MainWindow) -> None:
    """Both have ended and are compared."""
    pair_form(window)
    window.sheets.pair.send.click()
    for asked, texts in zip(requests(window), (LEFT, RIGHT), strict=True):
        write(window, asked, texts)
    window.sheets.pair.sides[1].text.setFocus()
    window.sheets.pair.sides[1].text.go_to(5)
    QTest.qWait(20)


SCENES = (pair_form, pair_busy, pair)
