"""The switch that serves the open model: on, used by others, off; with a real worker behind it."""

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.local_engine import LocalEngine
from app.remote.keys import Keys
from app.state.problem import Problem
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.window.main_window import MainWindow
from engine.settings import EngineOptions
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.remote.conftest import Ring
from tests.app.window.scenes.server_scenes import on_server

BODY = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "temperature": 0}


@pytest.fixture(autouse=True)
def loopback(refused: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may be connected to."""
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1 localhost ::1 0.0.0.0")


@pytest.fixture
def ring() -> Ring:
    return Ring()


@pytest.fixture
def served(
    theme: Theme, own_home: Path, qtbot: QtBot, ring: Ring, tiny_path: Path
) -> Iterator[MainWindow]:
    """A window with a random model open on the host."""
    engine = LocalEngine()
    bench = Workbench(engine, keys=Keys(ring))
    window = MainWindow(bench, theme)
    window.show()
    bench.open_model(tiny_path, EngineOptions(device="host", ctx=256))
    qtbot.waitUntil(lambda: bench.session.status == "ready")
    yield window
    window.close()
    bench.close()
    engine.close()


def ask(url: str, key: str = "") -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx2.post(f"{url}/chat/completions", json=BODY, headers=headers, timeout=60)


def test_on_used_and_off(served: MainWindow, qtbot: QtBot, ring: Ring) -> None:
    state, bench = served.bench.serving, served.bench
    served.commands.run("model.serve")
    view = served.sheets.serving
    view.port.setValue(0)
    view.switch.click()
    assert not view.switch.isEnabled()
    qtbot.waitUntil(lambda: state.is_on)
    assert view.switch.text() == "Stop serving"
    assert served.drawer.running.serving.isVisible()
    view.address.copy.click()
    url = QGuiApplication.clipboard().text()
    assert url == f"{state.address}/v1"
    assert url.startswith("http://127.0.0.1:")
    assert ring.kept == {}
    assert not view.key.isVisible()

    answer = ask(url)
    assert answer.status_code == 200, answer.text
    said = answer.json()["choices"][0]["message"]["content"]
    qtbot.waitUntil(lambda: bool(view.table.rows.shown) and bool(state.rows[0].ended))
    view.table.choose(0)
    assert state.rows[0].n_generated == answer.json()["usage"]["completion_tokens"]
    qtbot.waitUntil(lambda: said in view.text.toPlainText())
    assert view.text.toPlainText().startswith("user: hi")
    assert view.text.isReadOnly()
    assert bench.chats.rows == []  # what others ask is in none of the person's chats
    assert bench.chat.send("And here?")  # the window's own goes on beside it
    qtbot.waitUntil(lambda: not bench.chat.busy)
    assert bench.chat.path[-1].problem == ""

    view.chats.click()
    read_as_chat(served, qtbot, ask(url).json()["choices"][0]["message"]["content"])

    bench.session.unload()
    qtbot.waitUntil(lambda: ask(url).status_code == 503)
    assert "no model is open" in view.caption.text()
    view.switch.click()
    qtbot.waitUntil(lambda: not state.busy)
    assert not state.is_on
    with pytest.raises(httpx2.ConnectError):
        ask(url)


def read_as_chat(served: MainWindow, qtbot: QtBot, said: str) -> None:
    """A request is a chat that is read, and gone on with in a copy alone."""
    bench, chat, composer = served.bench, served.bench.chat, served.talk.composer
    qtbot.waitUntil(lambda: len(bench.chats.rows) == 2)
    row = next(row for row in bench.chats.rows if row.served)
    assert row.served.startswith("127.0.0.1 ")
    chat.open(row.id)
    assert [(m.role, m.text) for m in chat.path] == [("user", "hi"), ("assistant", said)]
    assert chat.path[1].stats is not None
    assert composer.field.isReadOnly()
    refused: list[Problem] = []
    chat.problem.connect(refused.append)
    assert not chat.send("More")
    assert not chat.regenerate(1)
    assert not chat.continue_answer(1)
    assert not chat.edit_and_resend(0, "Other")
    assert not chat.edit_and_resend(1, "Other")
    assert not chat.delete_message(0)
    assert [problem.action for problem in refused] == ["copy"] * 6
    composer.copy.click()
    qtbot.waitUntil(lambda: chat.chat_id != row.id)
    assert not composer.field.isReadOnly()
    assert not composer.copy.isVisible()
    assert chat.send("More")
    qtbot.waitUntil(lambda: not chat.busy)
    assert [message.text for message in chat.path[:3]] == ["hi", said, "More"]
    assert len(bench.chat.store.tree(row.id).messages) == 2


def test_others_need_the_key(served: MainWindow, qtbot: QtBot, ring: Ring) -> None:
    state = served.bench.serving
    state.start(0, shared=True)
    qtbot.waitUntil(lambda: state.is_on)
    assert list(ring.kept.values()) == [state.key]
    assert len(state.key) >= 24
    name, _, port = state.address.removeprefix("http://").rpartition(":")
    assert name not in ("0.0.0.0", "127.0.0.1")
    url = f"http://127.0.0.1:{port}/v1"
    assert ask(url).status_code == 401
    called = {"Host": f"{name}:{port}", "Authorization": f"Bearer {state.key}"}
    assert httpx2.get(f"{url}/models", headers=called).status_code == 200
    called["Host"] = f"evil.example:{port}"
    assert httpx2.get(f"{url}/models", headers=called).status_code == 403
    assert ask(url, state.key).status_code == 200
    key = state.key
    state.stop()
    qtbot.waitUntil(lambda: not state.busy)
    state.start(0, shared=True)
    qtbot.waitUntil(lambda: state.is_on)
    assert state.key == key


@pytest.mark.full
def test_a_port_that_is_taken_is_said(served: MainWindow, qtbot: QtBot) -> None:
    state = served.bench.serving
    state.start(0)
    qtbot.waitUntil(lambda: state.is_on)
    port = int(state.address.rpartition(":")[2])
    state.stop()
    qtbot.waitUntil(lambda: not state.busy)
    with socket.create_server(("127.0.0.1", port)):
        state.start(port)
        qtbot.waitUntil(lambda: bool(state.problem))
    assert "--port" in state.problem
    assert not state.is_on
    assert served.sheets.serving.switch.text() == "Start serving"


def test_a_servers_model_is_not_served_on(window: MainWindow) -> None:
    assert isinstance(window.bench.engine, ScriptedEngine)
    on_server(window)
    window.commands.run("model.serve")
    view = window.sheets.serving
    assert not view.switch.isEnabled()
    assert "runs on a server" in view.caption.text()
