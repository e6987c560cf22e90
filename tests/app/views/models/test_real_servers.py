"""The window before real servers in other processes: `cutaway serve`, and llama.cpp's."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from PIL import Image
from pytestqt.qtbot import QtBot

from app.fetch import bundled
from app.remote.connection import Connection
from app.remote.engine import RemoteEngine
from app.remote.engines import Engines
from app.remote.keys import Keys
from app.shared.attached import SharedEngine
from app.state.presets import AnswerLimits
from app.state.talk.message import Message
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.views.models.servers import ServerLine
from app.window.main_window import MainWindow
from engine.protocol import Load, Sampling
from engine.runner import load
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.remote.conftest import Ring
from tests.app.remote.programs import KEY, RunningServer, llama, ours, running
from tests.demo.scenes import COLOURS, SIDE, Shape, draw
from tests.engine.runner.pictures.seeing import noise
from tests.goldens.vision.families import write_pair
from tests.line.elsewhere import MARK

LONG = "Count from one to a hundred, each number as a word."
WHAT = "What colour is the circle?"
GREEDY = Sampling(temperature=0.0, seed=1)


@pytest.fixture
def loopback(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may be connected to."""
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1 localhost ::1")


@pytest.fixture
def window(theme: Theme, own_home: Path, qtbot: QtBot) -> Iterator[MainWindow]:
    """With servers for real, and no model on this machine."""
    keys = Keys(Ring())
    engine = Engines(ScriptedEngine(), RemoteEngine(keys), SharedEngine())
    bench = Workbench(engine, keys=keys)
    window = MainWindow(bench, theme)
    window.show()
    window.start()
    yield window
    window.close()
    bench.close()
    engine.close()


@pytest.mark.usefixtures("loopback")
def test_cutaway_serve(tiny_path: Path, tmp_path: Path, window: MainWindow, qtbot: QtBot) -> None:
    """Of two models, one of which sees."""
    with running(ours(tiny_path, "--models", bundled.NAME)) as server:
        line = connected(server, window, qtbot)
        assert line.facts.text() == "256 tokens of context  ·  reads text only"
        line.models.setCurrentText(bundled.NAME)
        assert line.facts.text() == ""  # it is not open there, so nothing is told of it
        line.models.setCurrentIndex(0)
        opened(line, window, qtbot)
        assert window.bench.chat.pictures_in_engine.sees is False
        talk_with(server, window, qtbot)
        line.models.setCurrentText(bundled.NAME)
        opened(line, window, qtbot)
        assert "red" in shown(circle(tmp_path, "red"), WHAT, window, qtbot).lower()
        if MARK not in os.environ:  # as if on Windows, where no program shares its engine
            attach_to(server, circle(tmp_path, "blue"), window, qtbot)


def circle(folder: Path, colour: str) -> Path:
    """A picture of one, as the model that comes along knows them."""
    shape = Shape("circle", colour, "large", SIDE / 2, SIDE / 2, 13.0, COLOURS[colour])
    draw([shape], Random(1)).save(folder / f"{colour}.png")
    return folder / f"{colour}.png"


def attach_to(server: RunningServer, picture: Path, window: MainWindow, qtbot: QtBot) -> None:
    """The file that `cutaway serve` has open is opened here: its engine answers, and no other."""
    bench = window.bench
    assert isinstance(bench.engine, Engines)
    here = bench.engine.local
    assert isinstance(here, ScriptedEngine)
    bench.open_model(bundled.model())
    qtbot.waitUntil(lambda: bench.session.status == "ready" and bench.session.connection is None)
    assert window.top.model.text().endswith("in cutaway serve  ▾")
    assert not any(isinstance(one, Load) for one in here.asked)
    assert "blue" in shown(picture, WHAT, window, qtbot).lower()
    server.kill_engine()
    qtbot.waitUntil(lambda: bench.session.status == "died")
    qtbot.waitUntil(lambda: bench.session.status == "ready")  # by itself: the server brings it back
    assert bench.chat.regenerate(1)
    assert "blue" in ended(window, qtbot).text.lower()
    server.end()
    qtbot.waitUntil(lambda: bench.session.status == "died")
    assert bench.session.error is not None
    assert "has ended" in bench.session.error.text
    bench.session.restart()
    qtbot.waitUntil(lambda: any(isinstance(one, Load) for one in here.asked))


@pytest.mark.full
@pytest.mark.model_file
@pytest.mark.usefixtures("loopback")
def test_llama_server(smollm2_path: Path, window: MainWindow, qtbot: QtBot) -> None:
    with running(llama(smollm2_path)) as server:
        opened(connected(server, window, qtbot), window, qtbot)
        talk_with(server, window, qtbot)


@pytest.mark.full
@pytest.mark.usefixtures("loopback")
def test_llama_server_that_sees(tmp_path: Path, window: MainWindow, qtbot: QtBot) -> None:
    """It answers about pictures as our engine does with the same files; chats, stops and comes back
    with pictures in the chat; without its tower it is known to read text only.

    Its process aborts on the towers of Gemma 3 and Idefics 3 where these are tiny, so a Pixtral's.
    """
    text, tower = write_pair(tmp_path / "models", "pixtral")
    pictures = []
    for seed in range(3):  # of whole patches, so that neither side resizes
        pictures.append(tmp_path / f"{seed}.png")
        Image.fromarray(noise(seed, 35, 49)).save(pictures[-1])
    with load(text, device="host", ctx=512, kv="f32", mmproj=str(tower)) as model:
        wanted = [
            "".join(model.generate(WHAT, images=[picture], max_tokens=8, sampling=GREEDY))
            for picture in pictures
        ]
    assert len(set(wanted)) == 3
    exact = ("-ctk", "f32", "-ctv", "f32", "--no-warmup")
    with running(llama(text, "--mmproj", str(tower), *exact)) as server:
        line = connected(server, window, qtbot)
        assert line.facts.text().endswith("reads pictures")
        opened(line, window, qtbot)
        answers = [shown(picture, WHAT, window, qtbot) for picture in pictures]
        assert answers == wanted
        assert len(window.bench.chat.tokens(1)[0].top) == 10
        server.end()
        assert window.bench.chat.regenerate(1)
        assert "no server responds at" in ended(window, qtbot).problem
        server.start()
        assert window.bench.chat.regenerate(1)
        assert ended(window, qtbot).text == wanted[-1]
        seen = window.bench.chat.chat_id
        window.bench.chat.open(None)
        talk_with(server, window, qtbot)
    with running(llama(text, *exact)) as blind:
        line = connected(blind, window, qtbot)
        assert line.facts.text().endswith("reads text only")
        opened(line, window, qtbot)
        assert window.bench.chat.pictures_in_engine.sees is False
        window.bench.chat.open(seen)
        assert window.bench.chat.regenerate(1)
        assert "its model reads no pictures" in ended(window, qtbot).problem


def connected(server: RunningServer, window: MainWindow, qtbot: QtBot) -> ServerLine:
    """The server's line in the chooser, after a wrong key and the right one."""
    bench = window.bench
    lines = window.sheets.chooser.servers.lines
    window.sheets.show_chooser()
    bench.servers.save(Connection("work", server.url), "wrong")
    qtbot.waitUntil(lambda: bool(bench.servers.all[0].problem))
    assert "key is wrong" in lines["work"].caption.text()
    bench.servers.save(Connection("work", server.url), KEY)
    qtbot.waitUntil(lambda: bool(bench.servers.all[0].models))
    return lines["work"]


def opened(line: ServerLine, window: MainWindow, qtbot: QtBot) -> None:
    """Chat with the model that is chosen there."""
    session = window.bench.session
    before, wanted = session.model, line.models.currentText()
    line.chat.click()

    def is_open() -> bool:
        model = session.model
        return model is not None and model is not before and model.name == wanted

    qtbot.waitUntil(is_open)


def shown(picture: Path, text: str, window: MainWindow, qtbot: QtBot) -> str:
    """The greedy answer to a question about a picture, in a chat of its own."""
    chat = window.bench.chat
    chat.open(None)
    chat.details.set_sampling(GREEDY)
    chat.details.set_limits(AnswerLimits(max_tokens=8))
    window.vision.add_files([picture])
    qtbot.waitUntil(lambda: bool(chat.attached.pictures) and not chat.attached.arriving)
    assert chat.send(text)
    answer = ended(window, qtbot)
    assert answer.problem == ""
    return answer.text


def ended(window: MainWindow, qtbot: QtBot) -> Message:
    """The last answer of the chat that is shown, once it is over."""
    qtbot.waitUntil(lambda: not window.bench.chat.busy)
    return window.bench.chat.path[-1]


def talk_with(server: RunningServer, window: MainWindow, qtbot: QtBot) -> None:
    """Answers, probabilities, stop, going on, errors of the open model; gone and back."""
    bench, chat = window.bench, window.bench.chat

    def answered() -> str:
        return ended(window, qtbot).text

    assert window.top.model.text().endswith("on work  ▾")
    model = bench.session.model
    assert model is not None
    assert model.n_ctx in (256, 1024, 2048)  # what each was made for, or what was asked for
    bench.chat.details.set_sampling(GREEDY)
    bench.chat.details.set_limits(AnswerLimits(max_tokens=16))
    assert chat.send("Hello?")
    assert answered()
    answer, tokens = chat.path[-1], chat.tokens(1)
    assert answer.problem == ""
    assert answer.finish in ("stop", "length")
    assert answer.stats is not None
    assert answer.stats.n_prompt > 0
    assert 0 < len(tokens) <= answer.stats.n_generated  # half a character is told with the next
    first = tokens[0]
    assert first.logprob is not None
    assert len(first.top) == 10
    assert any(note.startswith("Network and queue took") for note in answer.stats.notes)
    assert chat.regenerate(1)
    assert answered() == answer.text  # greedy
    assert [other.text for other in chat.tokens(1)[0].top] == [other.text for other in first.top]

    bench.chat.details.set_limits(AnswerLimits())
    chat.open(None)
    assert chat.send(LONG)
    qtbot.waitUntil(lambda: chat.path[-1].n_tokens > 2 or not chat.busy)
    chat.stop()
    began = answered()
    assert began
    assert chat.path[-1].problem == ""
    if chat.path[-1].finish == "cancelled":
        assert chat.continue_answer(1)
        qtbot.waitUntil(lambda: len(chat.path[-1].text) > len(began) or not chat.busy)
        chat.stop()
        assert answered().startswith(began)
        assert chat.path[-1].text.count(began) == 1

    chat.open(None)
    assert chat.send("word " * 3000)
    answered()
    assert "too long" in chat.path[-1].problem

    server.end()
    chat.open(None)
    assert chat.send("Hello?")
    answered()
    assert "no server responds at 127.0.0.1:" in chat.path[-1].problem
    assert bench.session.status == "ready"
    server.start()
    assert chat.regenerate(1)
    assert answered() != ""
    assert chat.path[-1].problem == ""
