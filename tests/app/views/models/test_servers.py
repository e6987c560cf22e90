"""Servers in the chooser and in the window: by the keyboard, with what cannot be seen said."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.remote.connection import OpenServer, ProbeServer
from app.views.models.server_form import ServerForm
from app.window.main_window import MainWindow
from app.window.panes.inspector import SeenPage
from app.window.panes.pages import PAGES
from engine.protocol import Failed, Generate, Progress
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import until
from tests.app.window.scenes.server_scenes import MODELS, on_server, servers


@pytest.fixture
def engine(window: MainWindow) -> ScriptedEngine:
    assert isinstance(window.bench.engine, ScriptedEngine)
    return window.bench.engine


@pytest.fixture
def form(window: MainWindow) -> ServerForm:
    window.commands.run("model.server")
    return window.sheets.chooser.servers.form


def test_a_server_is_added_by_the_keyboard(
    window: MainWindow, form: ServerForm, engine: ScriptedEngine
) -> None:
    assert form.name.hasFocus()
    QTest.keyClicks(form.name, "work")
    QTest.keyClick(form.name, Qt.Key.Key_Tab)
    QTest.keyClicks(form.url, "http://localhost:8085")
    QTest.keyClick(form.url, Qt.Key.Key_Return)
    assert not form.isVisible()
    asked = engine.last
    assert isinstance(asked, ProbeServer)
    assert (asked.connection.name, asked.key) == ("work", None)
    line = window.sheets.chooser.servers.lines["work"]
    assert "Listing" in line.caption.text()
    engine.answer(ProbeServer, "vllm", "1", MODELS, 0.01)
    assert "2 models" in line.caption.text()
    QTest.keyClick(line.chat, Qt.Key.Key_Return)
    opened = engine.last
    assert isinstance(opened, OpenServer)
    assert opened.model == MODELS[0].id
    assert window.sheets.front is None


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "url", "key", "words"),
    [
        ("", "http://localhost:1", "", "Name: "),
        ("work", "localhost:1", "", "Address: "),
        ("work", "http://far.example:1", "secret", "unencrypted"),
    ],
)
def test_what_cannot_be_saved_says_why(
    window: MainWindow, form: ServerForm, engine: ScriptedEngine,
    name: str, url: str, key: str, words: str,
) -> None:  # fmt: skip
    form.name.setText(name)
    form.url.setText(url)
    form.key.setText(key)
    form.save.click()
    assert form.isVisible()
    assert words in form.problem
    assert "secret" not in form.problem
    assert not window.bench.servers.all
    if key:
        form.clear.click()
        form.save.click()
        (server,) = window.bench.servers.all
        assert server.connection.key_in_clear


def test_a_refusal_is_scrolled_into_view(window: MainWindow) -> None:
    window.resize(1100, 600)
    servers(window)
    window.sheets.chooser.servers.edit(None)
    form = window.sheets.chooser.servers.form
    QTest.qWait(10)
    form.url.setText("http://lab.example.org:8085/v1")
    form.key.setText("secret")
    QTest.qWait(10)
    assert form.save.visibleRegion().isEmpty()
    QTest.keyClick(form.name, Qt.Key.Key_Return)
    for part in (form.problem_text, form.save):
        until(lambda part=part: part.visibleRegion().boundingRect().size() == part.size())


def test_a_server_is_changed_and_removed(window: MainWindow, engine: ScriptedEngine) -> None:
    servers(window)
    view = window.sheets.chooser.servers
    assert "No server responds at" in view.lines["home"].caption.text()
    view.lines["home"].change.click()
    assert view.form.url.text() == "http://192.168.1.7:8085"
    assert view.form.key.text() == ""
    view.form.name.setText("work")
    view.form.save.click()
    assert "another server has this one" in view.form.problem
    view.form.name.setText("house")
    view.form.save.click()
    assert list(view.lines) == ["work", "house"]
    view.lines["house"].remove.click()
    assert list(view.lines) == ["work"]


def test_each_page_says_what_cannot_be_seen(window: MainWindow, engine: ScriptedEngine) -> None:
    on_server(window)
    for page in PAGES:
        window.inspector.show_tab(page.id)
        shown = window.inspector.stack.currentWidget()
        assert isinstance(shown, SeenPage)
        assert shown.is_missing
        assert "Qwen3-32B runs on the server work." in shown.caption.text()
        assert shown.caption.isVisible()
        assert not window.inspector.page(page.id).isVisible()
    assert "Qwen3-32B on work" in window.top.model.text()
    assert "gpu.example.org:8000" in window.top.model.accessibleName()
    assert not window.top.device.isVisible()
    window.bench.open_model("/models/SmolLM2.gguf")
    engine.can = type(engine.can)()
    window.bench.session.unload()
    window.inspector.show_tab("memory")
    assert window.inspector.page("memory").isVisible()


def test_waiting_for_a_server_is_said(window: MainWindow, engine: ScriptedEngine) -> None:
    on_server(window)
    assert window.bench.chat.send("And of Italy?")
    asked = engine.last_of(Generate)
    assert isinstance(asked, Generate)
    note = "server work: busy; retrying in 2 s"
    engine.say(Progress(asked.id, "prefill", 0, 0, note=note))
    assert note in window.top.vitals.accessibleName()
    engine.say(Failed(asked.id, "ServerFailed", "server work: gone"))
    assert window.bench.chat.path[-1].problem == "server work: gone"
    assert window.bench.session.status == "ready"
