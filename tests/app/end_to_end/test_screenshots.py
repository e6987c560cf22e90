"""Pictures of the window with the real engine, into the folder of CUTAWAY_SCREENSHOTS.

The same scenes with a scripted engine are in tests/app/views.
"""

import os
import signal
from pathlib import Path
from random import Random

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from app.fetch import bundled
from app.theme.tokens import DARK, LIGHT
from app.views.profile.profile import ProfileView
from app.views.token.token import TokenView
from app.window.main_window import MainWindow
from engine.protocol import Sampling
from engine.settings import EngineOptions
from tests.app.end_to_end.person import Person
from tests.app.helpers.shots import take
from tests.demo.questions import is_right
from tests.demo.scenes import Shape, draw

# By hand: the other tests here see the same.
pytestmark = [pytest.mark.model_file, pytest.mark.device, pytest.mark.full]

QUESTION = "What is the capital of France?"
MORE = "Write a Python function that says whether a number is prime."
PIRATE = [
    "Arr, matey! Hoist the sails!",
    "Ahoy! Yer treasure be buried here.",
    "Shiver me timbers!",
]
PLAIN = ["Hello, my friend! Start the car!", "Hi! Your money is in the bank.", "That surprises me!"]
MUCH = 80  # tokens
SHAPES = (
    Shape("star", "orange", "large", 17, 16, 13, (240, 130, 30)),
    Shape("circle", "blue", "small", 48, 15, 8, (40, 80, 210)),
    Shape("triangle", "green", "large", 46, 47, 14, (40, 160, 70)),
)
ASKED = (
    (
        "What is in the picture?",
        "A large orange star at the top left, a small blue circle at the top right and a large"
        " green triangle at the bottom right.",
    ),
    ("What is below the circle?", "A green triangle."),
    ("Which is larger, the orange star or the blue circle?", "The orange star."),
)


def ask(person: Person, question: str) -> None:
    person.bench.chat.details.set_sampling(Sampling(temperature=0))
    person.click("Message")
    person.type(question)
    person.key(Qt.Key.Key_Return)
    chat = person.bench.chat
    person.wait(lambda: not chat.busy or chat.path[-1].n_tokens >= MUCH)


def end(person: Person) -> None:
    chat = person.bench.chat
    person.wait(lambda: not chat.busy or chat.path[-1].n_tokens > 3 * MUCH)
    if chat.busy:
        person.key(Qt.Key.Key_Escape)
    person.wait(lambda: not chat.busy)
    person.look(200)


def test_empty_and_loading(
    qtbot: QtBot, first_window: MainWindow, smollm2_path: Path, folder: Path
) -> None:
    person = Person(qtbot, first_window)
    person.wait(lambda: person.reads("No model yet"))
    take(person, folder, "empty")
    session = person.bench.session
    stopped: list[int] = []

    def hold() -> None:
        """Stop the engine in the middle, so that it can be looked at."""
        stage, pid = session.stage, person.bench.engine.local.pid
        if not stopped and pid is not None and stage is not None and stage.done > stage.total / 4:
            stopped.append(pid)
            os.kill(pid, signal.SIGSTOP)

    session.stage_changed.connect(hold)
    person.bench.open_model(smollm2_path)
    person.wait(lambda: stopped)
    take(person, folder, "loading")
    os.kill(stopped[0], signal.SIGCONT)
    person.wait(lambda: session.status == "ready")


def test_pictures(qtbot: QtBot, first_window: MainWindow, tmp_path: Path, folder: Path) -> None:
    person = Person(qtbot, first_window)
    bench = person.bench
    bench.open_model(bundled.model(), EngineOptions(ctx=512))
    person.wait(lambda: bench.session.status == "ready")
    scene = draw(SHAPES, Random(1))
    scene.save(tmp_path / "shapes.png")
    first_window.vision.add_files([tmp_path / "shapes.png"])
    person.wait(lambda: bench.chat.attached.pictures)
    for question, answer in ASKED:
        ask(person, question)
        end(person)
        assert is_right(bench.chat.path[-1].text, answer)
    take(person, folder, "pictures")
    person.window.commands.run("chat.seen")
    seen = first_window.sheets.viewer.seen
    person.wait(lambda: seen.views.pictures)
    seen.views.setFocus()
    for key in (*[Qt.Key.Key_Down] * 3, *[Qt.Key.Key_Right] * 2):
        person.key(key)
    take(person, folder, "seen")


def test_talk(person: Person, folder: Path, expected: list[str]) -> None:
    ask(person, QUESTION)
    end(person)
    ask(person, MORE)
    pid = person.bench.engine.local.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    person.look(300)
    take(person, folder, "busy")
    for theme, other in (("light", DARK), ("dark", LIGHT)):
        person.bench.preferences.update(theme=theme)
        assert other.text.lower() not in _colours(person), f"unreadable in {theme}"
    os.kill(pid, signal.SIGCONT)
    end(person)
    person.window.panes.show_tab("memory")
    take(person, folder, "memory")
    person.window.panes.close_inspector()

    person.run("chat.probabilities")
    person.look(200)

    def point() -> None:
        painter = person.message(3).tokens.painter  # type: ignore[union-attr]
        first = next(n for n in range(len(painter.ends)) if _is_in_sight(painter, n))
        person.hover(person.window.talk.composer.field)  # away from the card of the size before
        person.look(500)
        person.hover(painter, painter.token_rect(first + 4).center().toPoint())

    take(person, folder, "probabilities", point)
    person.run("chat.probabilities")

    expected.append("killed (signal 9)")
    ask(person, "Tell me more.")
    os.kill(pid, signal.SIGKILL)
    person.wait(lambda: person.bench.session.status == "died")
    take(person, folder, "failed")


def test_inside(person: Person, folder: Path) -> None:
    """How a word came to be, and where it was computed."""
    bench, window = person.bench, person.window
    ask(person, QUESTION)
    end(person)
    message, tokens = bench.chat.path[1], bench.chat.tokens(1)
    word = next(i for i in range(len(tokens)) if tokens[i].text.strip() == "Paris")
    window.panes.show_tab("token")
    bench.selection.select_token(message.id, word)
    person.wait(lambda: window.inspector.view(TokenView).lens.reading is not None)
    take(person, folder, "token")
    bench.steering.make(PIRATE, PLAIN, "pirate")
    person.wait(lambda: bench.steering.vector)
    bench.steering.use(1.0, [9, 10, 11])
    bench.selection.select_head(12, 3)
    bench.verbs.switch_off()
    window.sheets.show_trial()
    bench.trial.start()
    end(person)
    person.wait(lambda: not bench.trial.busy)
    bench.trial.start_control(9)
    end(person)
    person.wait(lambda: not bench.trial.busy)
    take(person, folder, "edits")
    person.key(Qt.Key.Key_Escape)
    bench.chat.choose_sibling(1, -1)
    bench.selection.select_operation("Qcur-12", 12, "intel:0")
    window.panes.show_tab("graph")
    person.wait(lambda: bench.graph.is_known)
    take(person, folder, "graph")
    window.panes.show_tab("tensors")
    bench.selection.select_tensor("blk.12.attn_q.weight", 12)
    person.wait(lambda: bench.tensors.numbers is not None)
    take(person, folder, "tensors")
    window.panes.show_tab("profile")
    window.inspector.view(ProfileView).record_empty.click()
    ask(person, "And of Italy?")
    end(person)
    person.wait(lambda: bench.profile.latest is not None)
    take(person, folder, "profile")


def test_layers(qtbot: QtBot, first_window: MainWindow, smollm2_path: Path, folder: Path) -> None:
    """Two drivers: a third of the layers by hand on the other one."""
    person = Person(qtbot, first_window)
    bench = person.bench
    bench.open_model(smollm2_path, EngineOptions(device="intel:0,pocl:0", ctx=2048))
    person.wait(lambda: bench.session.status == "ready")
    first_window.panes.show_tab("layers")
    person.wait(lambda: not bench.layers.pending)
    bench.layers.type_rule("0-17=intel:0, 18-29=pocl:0, out=intel:0")
    person.wait(lambda: not bench.layers.pending and not bench.layers.typed.text)
    bench.layers.measure()
    person.wait(lambda: not bench.layers.measuring.is_busy)
    bench.selection.select_layer(20, "pocl:0")
    take(person, folder, "layers")


def _colours(person: Person) -> set[str]:
    """Colours of the text that is being written."""
    body = person.message(3).body
    assert body is not None
    found = set()
    for laid in body.laid:
        block = laid.document.begin()
        while block.isValid():
            found |= {piece.format.foreground().color().name() for piece in block.textFormats()}
            block = block.next()
    return found


def _is_in_sight(painter: object, token: int) -> bool:
    place: QPoint = painter.token_rect(token).center().toPoint()  # type: ignore[attr-defined]
    return bool(painter.visibleRegion().contains(place))  # type: ignore[attr-defined]
