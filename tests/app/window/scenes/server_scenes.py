"""Servers elsewhere: in the chooser, in their form, as who answers, with a page not to be seen."""

from typing import Any

from app.engine import Abilities
from app.remote.connection import Connection, OpenServer, ProbeServer, ServedModel
from app.serve.server import Serving
from app.serve.settings import ServeSettings
from app.state.models.serving import ServedText
from app.views.models.chooser import SERVERS
from app.window.main_window import MainWindow
from engine.protocol import ChatMessage, Failed, Generate, Loaded
from tests.app.helpers.scripted import ScriptedEngine

AWAY = Abilities(
    memory=False,
    splits=False,
    tokenize=False,
    file=False,
    examine=False,
    ids=False,
    where="work",
)
ASKED = Generate(0, messages=[ChatMessage("user", "What is the capital of France?")])
WORK = Connection("work", "https://gpu.example.org:8000/v1")
HOME = Connection("home", "http://192.168.1.7:8085")
MODELS = [ServedModel("Qwen/Qwen3-32B", 32768), ServedModel("google/gemma-3-27b-it", 8192, True)]
PROBLEM = "server home: no server responds at 192.168.1.7:8085; start the server, or check the port"


def _engine(window: MainWindow) -> ScriptedEngine:
    engine = window.bench.engine
    assert isinstance(engine, ScriptedEngine)
    return engine


def servers(window: MainWindow) -> None:
    """The chooser with two, of which one does not answer."""
    engine, bench = _engine(window), window.bench
    for connection in (WORK, HOME):
        bench.servers.save(connection, None)
    asked = [one for one in engine.asked if isinstance(one, ProbeServer)]
    ends: Any = ProbeServer.ends
    engine.say(ends(asked[0].id, "vllm", "0.11.2", MODELS, 0.034))
    engine.say(Failed(asked[1].id, "ServerFailed", PROBLEM))
    window.sheets.show_chooser()
    window.sheets.chooser.tabs.setCurrentIndex(SERVERS)


def server_form(window: MainWindow) -> None:
    """One that is added over a way that others can read."""
    servers(window)
    form = window.sheets.chooser.servers
    form.edit(None)
    form.form.name.setText("lab")
    form.form.url.setText("http://lab.example.org:8085/v1")
    form.form.key.setText("secret")
    form.form.save.click()


def on_server(window: MainWindow) -> None:
    """A chat with one; the page beside it says what cannot be seen."""
    engine, bench = _engine(window), window.bench
    bench.preferences.update(connections=[WORK])
    bench.open_model(bench.servers.path("work", "Qwen/Qwen3-32B"))
    asked = engine.last_of(OpenServer)
    assert isinstance(asked, OpenServer)
    engine.can = AWAY
    engine.say(
        Loaded(
            asked.id, asked.path, "Qwen3-32B", "vLLM 0.11.2", "server work",
            "gpu.example.org:8000", 32768, 32768, 0, "file",
        )
    )  # fmt: skip
    assert bench.chat.send("What is the capital of France?")
    engine.write("The capital", " of France", " is Paris.")
    engine.end(n=3)
    window.panes.show_tab("memory")


def serving(window: MainWindow) -> None:
    """The switch turned on, with two who ask."""
    engine, state = _engine(window), window.bench.serving
    window.bench.open_model("/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    engine.load_done()
    shown = Serving(engine, ServeSettings())
    one = shown.clients.began("127.0.0.1 openai-python", "/v1/chat/completions", ASKED, 1)
    one.n_generated, one.first, one.last = 812, 0.0, 5.7
    shown.clients.ended(one, "stop", None)
    other = shown.clients.began("127.0.0.1 curl", "/api/chat", ASKED, 1)
    other.n_generated, other.first, other.last = 41, 0.0, 0.3
    state.serving, state.address = shown, "http://192.168.1.5:8085"
    state.key = "mDq0cYb3J5rUQ2kX8nT1vW7z"
    state.texts[other.number] = ServedText(ASKED.messages, "The capital of France is")
    state.changed.emit()
    window.sheets.show_serving()
    window.sheets.serving.table.choose(0)


SCENES = (serving, servers, server_form, on_server)
