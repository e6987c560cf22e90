"""Servers in the state of a window: added, asked, chatted with, gone and back; what is kept."""

import json
from collections.abc import Iterator
from math import log
from pathlib import Path

import pytest

from app.remote.connection import Connection, address_of
from app.remote.engine import RemoteEngine
from app.remote.engines import Engines
from app.remote.keys import Keys
from app.state.problem import Problem
from app.state.workbench import Workbench
from engine.errors import BadSetting
from engine.protocol import Generate, Load, Unload
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.remote.chat_server import (
    DONE,
    HELLO,
    USAGE,
    ChatServer,
    Said,
    chat_server,
    delta,
    page,
)
from tests.app.remote.conftest import Ring
from tests.app.state.conftest import Until

KEY = "sk-secret-123"


@pytest.fixture
def local() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def ring() -> Ring:
    return Ring()


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may be connected to, until the bench is closed: a server may just be asked."""
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1")


@pytest.fixture
def bench(
    qapp: object, tmp_path: Path, local: ScriptedEngine, ring: Ring, loopback: None
) -> Iterator[Workbench]:
    """All state, with servers for real and this machine's engine scripted."""
    keys = Keys(ring)
    engine = Engines(local, RemoteEngine(keys))
    bench = Workbench(engine, tmp_path / "config", tmp_path / "data", keys=keys)
    local.deliver = bench.client.drain
    yield bench
    bench.close()
    engine.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setattr("app.remote.remote_answer.WAITS", (0.01, 0.02))
    with chat_server() as running:
        running.pages["/v1/models"] = page(
            {"data": [{"id": "org/tiny", "owned_by": "vllm", "max_model_len": 2048}]}
        )
        running.answers = [Said(HELLO)]
        yield running


@pytest.fixture
def opened(bench: Workbench, server: ChatServer, until: Until) -> Workbench:
    """With a model of the server open."""
    bench.servers.save(Connection("work", server.url), None)
    bench.open_model(bench.servers.path("work", "org/tiny"))
    until(lambda: bench.session.status == "ready")
    return bench


def answered(bench: Workbench, until: Until) -> str:
    until(lambda: not bench.chat.busy)
    return bench.chat.path[-1].text


def test_a_server_is_asked_when_it_is_added(
    bench: Workbench, server: ChatServer, until: Until
) -> None:
    bench.servers.save(Connection("work", server.url), None)
    assert bench.servers.all[0].testing
    until(lambda: not bench.servers.all[0].testing)
    (one,) = bench.servers.all
    assert (one.models, one.kind, one.problem) == (["org/tiny"], "vLLM", "")
    asked = len(server.heard)
    bench.servers.test("work")
    until(lambda: not bench.servers.all[0].testing)
    assert len(server.heard) > asked


def test_a_chat_with_a_server(opened: Workbench, server: ChatServer, until: Until) -> None:
    session, chat = opened.session, opened.chat
    assert (session.model_title, session.connection) == ("tiny on work", opened.servers.of(
        str(session.path)
    ))  # fmt: skip
    assert chat.send("Hello?")
    assert answered(opened, until) == "Hello"
    answer = chat.path[-1]
    assert (answer.model, answer.finish) == ("tiny on work", "stop")
    assert answer.stats is not None
    assert answer.stats.n_generated == 2
    assert session.status == "ready"
    assert chat.regenerate(1)
    assert answered(opened, until) == "Hello"
    assert len(chat.siblings(chat.path[1])) == 2
    assert chat.edit_and_resend(0, "Another?")
    assert answered(opened, until) == "Hello"
    assert chat.path[0].text == "Another?"
    assert opened.preferences.value.last_model == str(session.path)
    assert address_of(opened.preferences.value.last_model or "") == ("work", "org/tiny")


def test_a_branch_from_another_token(opened: Workbench, server: ChatServer, until: Until) -> None:
    """By its text: a server takes no ids."""
    top = [{"token": "Hel", "logprob": log(0.6)}, {"token": "Good", "logprob": log(0.3)}]
    likely = [{**top[0], "top_logprobs": top}]
    server.answers = [Said([delta("Hel", likely=likely), *HELLO[1:]])]
    opened.chat.send("Hello?")
    answered(opened, until)
    assert opened.chat.tokens(1)[0].logprob == pytest.approx(log(0.6))
    server.answers = [Said([delta(" day"), delta(finish="stop"), USAGE, DONE])]
    assert opened.chat.branch_from_token(1, 0, 1)
    assert answered(opened, until) == "Good day"
    assert server.chats[-1].body["messages"][-1] == {"role": "assistant", "content": "Good"}


def test_gone_and_back(opened: Workbench, server: ChatServer, until: Until) -> None:
    """What came stays; the next question works once the server does, without a restart."""
    server.answers = [Said([delta("Hel")], cut=True)]
    opened.chat.send("Hello?")
    assert answered(opened, until) == "Hel"
    answer = opened.chat.path[-1]
    assert answer.finish == "failed"
    assert "connection closed" in answer.problem
    server.answers = [Said(HELLO)]
    assert opened.session.status == "ready"
    opened.chat.regenerate(1)
    assert answered(opened, until) == "Hello"


def test_stop_keeps_what_came(opened: Workbench, server: ChatServer, until: Until) -> None:
    server.answers = [Said([delta("Hel")], hangs=True)]
    opened.chat.send("Hello?")
    until(lambda: opened.chat.path[-1].text == "Hel")
    assert opened.session.vitals.n_generated == 1
    opened.chat.stop()
    assert answered(opened, until) == "Hel"
    assert opened.chat.path[-1].finish == "cancelled"
    assert server.gone.wait(30)


def test_the_open_model_stays_until_the_server_answers(
    bench: Workbench, local: ScriptedEngine, server: ChatServer, until: Until, tmp_path: Path
) -> None:
    refused: list[Problem] = []
    bench.session.refused.connect(refused.append)
    bench.open_model(tmp_path / "SmolLM2.gguf")
    local.load_done()
    bench.servers.save(Connection("work", server.url), None)
    server.pages["/v1/models"] = page({"error": {"message": "no"}}, 500)
    bench.open_model(bench.servers.path("work", "org/tiny"))
    until(lambda: refused)
    assert "see its log" in refused[0].text
    assert (bench.session.model_title, bench.session.status) == ("SmolLM2", "ready")
    assert bench.session.connection is None
    assert not [one for one in local.asked if isinstance(one, Unload)]
    assert bench.chat.send("Hello?")
    assert isinstance(local.last, Generate)


def test_back_to_this_machine(
    opened: Workbench, local: ScriptedEngine, until: Until, tmp_path: Path
) -> None:
    assert not opened.client.abilities.memory
    opened.session.unload()
    opened.open_model(tmp_path / "SmolLM2.gguf")
    local.load_done()
    assert (opened.session.model_title, opened.session.connection) == ("SmolLM2", None)
    assert opened.client.abilities.memory
    assert isinstance(local.asked[-1], Load)


def test_keys_are_in_the_keyring_alone(
    bench: Workbench, server: ChatServer, until: Until, ring: Ring, tmp_path: Path
) -> None:
    bench.servers.save(Connection("work", server.url), KEY)
    until(lambda: not bench.servers.all[0].testing)
    assert server.heard[0].headers["authorization"] == f"Bearer {KEY}"
    assert list(ring.kept.values()) == [KEY]
    bench.preferences.save()
    bench.log.close()
    written = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"work" in written
    assert KEY.encode() not in written
    assert all(KEY not in line.text for line in bench.log.lines)
    bench.servers.remove("work")
    until(lambda: not ring.kept)
    assert not bench.servers.all


def test_connections_outlast_the_program(
    bench: Workbench, server: ChatServer, tmp_path: Path
) -> None:
    bench.servers.save(Connection("work", server.url, {"X-Team": "a"}), None)
    bench.servers.save(Connection("home", server.url), None)
    bench.servers.save(Connection("office", server.url), None, instead="work")
    bench.preferences.save()
    kept = json.loads((tmp_path / "config" / "preferences.json").read_text())["connections"]
    assert [one["name"] for one in kept] == ["office", "home"]
    with pytest.raises(BadSetting):
        bench.servers.save(Connection("bad", "nowhere"), None)
    assert len(bench.servers.all) == 2


def test_a_server_that_was_removed_is_said(
    bench: Workbench, server: ChatServer, until: Until
) -> None:
    refused: list[Problem] = []
    bench.session.refused.connect(refused.append)
    bench.open_model(bench.servers.path("gone", "m"))
    assert "no server gone any more" in refused[0].text
    assert bench.session.status == "idle"


def test_a_model_that_cannot_be_had_can_be_tried_again(
    bench: Workbench, server: ChatServer, until: Until
) -> None:
    models = server.pages["/v1/models"]
    server.pages["/v1/models"] = page({"error": "down"}, 503)
    bench.servers.save(Connection("work", server.url), None)
    bench.open_model(bench.servers.path("work", "org/tiny"))
    until(lambda: bench.session.status == "failed")
    assert bench.session.error is not None
    assert bench.session.error.action == "retry"
    server.pages["/v1/models"] = models
    bench.session.restart()
    until(lambda: bench.session.status == "ready")
    assert bench.session.model_title == "tiny on work"
