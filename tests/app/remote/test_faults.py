"""Servers that fail: each fault is one sentence, nothing hangs, nothing that came is lost."""

from typing import Any

import pytest

from app.remote.engine import RemoteEngine
from app.remote.keys import Keys
from engine.protocol import (
    ChatMessage,
    Examine,
    Failed,
    Finished,
    Generate,
    ListDevices,
    Loaded,
    Piece,
)
from tests.app.remote.chat_server import (
    HELLO,
    ChatServer,
    Said,
    chat_server,
    delta,
    frame,
    page,
)
from tests.app.remote.conftest import Asker, Ring, connection

KEY = "sk-secret-123"


def error(message: str, status: int, code: str = "", **more: Any) -> Said:
    return page({"error": {"message": message, "code": code, **more}}, status)


FAULTS = {
    "wrong key": (error("bad key", 401), "add it to the connection"),
    "not allowed": (error("no", 403), "does not allow this"),
    "no model": (error("no such", 404, "model_not_found"), "has no model 'tiny'"),
    "too long": (
        error("x", 400, "context_length_exceeded", n_prompt_tokens=9000, n_ctx=4096),
        "9000 tokens, where 4096 fit",
    ),
    "too long in words": (
        error("This model's maximum context length is 4096 tokens", 400),
        "too long for it",
    ),
    "refused": (error("top secret", 400), "refused (400: top secret)"),
    "failed": (error("assert", 500), "see its log"),
    "busy for long": (
        page({"error": "full"}, 429, **{"Retry-After": "600"}),
        "rate limit is reached",
    ),
    "loading": (error("Loading model", 503), "may be loading"),
    "a page": (Said(b"<html>Welcome</html>", kind="text/html"), "web page"),
    "a page not found": (Said(b"<html>?</html>", 418, "text/html"), "web page"),
    "plain text": (Said(b"hello", kind="text/plain"), "text/plain, not JSON"),
    "another stream": (Said(b"data: x", kind="text/event-stream-2"), "text/event-stream-2, not"),
    "no JSON": (Said([b"data: {what\n\n"]), "not chat JSON"),
    "wrong types": (Said([frame(choices="many")]), "not chat JSON"),
    "deep": (Said([b"data: " + b"[" * 100_000 + b"\n\n"]), "not chat JSON"),
    "huge event": (Said([b"data: " + b"x" * (5 << 20) + b"\n\n"]), "larger than 4 MiB"),
    "an empty object": (page({}), "contains no answer"),
    "an error in the stream": (Said([frame(error={"message": "CUDA"})]), "aborted the answer"),
    "nothing": (Said([]), "during the answer"),
    "elsewhere": (
        Said(b"", 307, headers={"Location": "http://127.0.0.2:9/v1/chat/completions"}),
        "redirects to http://127.0.0.2:9",
    ),
    "a circle": (
        Said(b"", 307, headers={"Location": "/v1/chat/completions?"}),
        "redirects",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_a_sentence(opened: Asker, server: ChatServer, name: str) -> None:
    said, words = FAULTS[name]
    server.answers = [said]
    end = opened.chat()
    assert isinstance(end, Failed), end
    assert end.kind == "ServerFailed"
    assert words in end.message
    assert end.message.startswith("server work: ")
    assert "Traceback" not in end.message
    assert len(end.message) < 600


BROKEN = {
    "cut": Said([delta("Hel"), delta("lo")[:20]], cut=True),
    "closed": Said([delta("Hel"), delta("lo")[:20]]),
    "an error": Said([delta("Hel"), frame(error={"message": "device lost"})]),
    "no JSON": Said([delta("Hel"), b"data: }\n\n"]),
    "huge": Said([delta("Hel"), b"data: " + b"x" * (5 << 20) + b"\n\n"]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_came_before_a_fault_is_kept(opened: Asker, server: ChatServer, name: str) -> None:
    """And it is not asked again: what was told cannot be told twice."""
    server.answers = [BROKEN[name], Said(HELLO)]
    end = opened.chat()
    assert isinstance(end, Failed)
    assert opened.text == "Hel"
    assert len(server.chats) == 1
    assert isinstance(opened.chat(), Finished)


def test_bytes_that_are_no_text_are_shown_as_such(opened: Asker, server: ChatServer) -> None:
    bad = delta("QQ").replace(b"QQ", b"\xff\xfe")
    server.answers = [Said([bad, *HELLO[2:]])]
    assert isinstance(opened.chat(), Finished)
    assert opened.text == "\ufffd\ufffd"


def test_before_the_first_token_it_is_asked_again(opened: Asker, server: ChatServer) -> None:
    server.answers = [Said([], cut=True), error("warming", 503), Said(HELLO)]
    end = opened.chat()
    assert isinstance(end, Finished)
    assert len(server.chats) == 3
    assert len([note for note in end.stats.notes if "Retried" in note]) == 2


def test_a_failure_is_not_paid_for_three_times(opened: Asker, server: ChatServer) -> None:
    """A bug of the server would be met again, each time after a whole prompt."""
    server.answers = [error("assert", 500)]
    opened.chat()
    assert len(server.chats) == 1
    server.answers = [page({"error": "no"}, 503, **{"X-Should-Retry": "false"})]
    opened.chat()
    assert len(server.chats) == 2


def test_silence_ends(server: ChatServer) -> None:
    engine = RemoteEngine(Keys(Ring()), silence=0.1)
    asker = Asker(engine)
    asker.open(server)
    server.answers = [Said([], hangs=True)]
    end = asker.chat()
    assert isinstance(end, Failed)
    assert "took too long" in end.message
    assert server.gone.wait(30)
    engine.close()


def test_gone_and_back(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine need not be told: the next question finds the server again."""
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1")
    with chat_server() as first:
        asker.open(first)
    end = asker.chat()
    assert isinstance(end, Failed)
    assert f"no server responds at {first.url.removeprefix('http://')}" in end.message
    with chat_server(int(first.url.rpartition(":")[2])) as again:
        again.answers = [Said(HELLO)]
        assert isinstance(asker.chat(), Finished)
        assert asker.text == "Hello"


def test_the_key_is_in_no_error(
    asker: Asker, server: ChatServer, ring: Ring, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    Keys(ring).keep(connection(server), KEY)
    asker.open(server)
    assert server.heard[0].headers["authorization"] == f"Bearer {KEY}"
    server.answers = [error(f"Incorrect API key provided: {KEY}", 401)]
    end = asker.chat()
    assert isinstance(end, Failed)
    assert "the key is wrong" in end.message
    assert KEY not in end.message
    assert KEY not in caplog.text


def test_closing_in_the_middle_ends_at_once(opened: Asker, server: ChatServer) -> None:
    server.answers = [Said([delta("Hel")], hangs=True)]
    opened.client.send(Generate(0, messages=[ChatMessage("user", "Hello?")]))
    while not isinstance(opened.events.get(timeout=30), Piece):
        pass
    opened.engine.close()
    assert server.gone.wait(30)


def test_what_a_server_cannot_tell_is_said(opened: Asker) -> None:
    for request in (ListDevices(0), Examine(0, 0, [])):
        end = opened.ask(request)
        assert isinstance(end, Failed)
        assert "runs on the server work" in end.message


def test_restart_ends_what_is_under_way(opened: Asker, server: ChatServer) -> None:
    server.answers = [Said([delta("Hel")], hangs=True), Said(HELLO)]
    request = Generate(0, messages=[ChatMessage("user", "Hello?")])
    number = opened.client.send(request)
    while not isinstance(opened.events.get(timeout=30), Piece):
        pass
    opened.engine.restart()
    assert isinstance(opened.end_of(number, request), Failed | Finished)
    assert isinstance(opened.open(server), Loaded)
