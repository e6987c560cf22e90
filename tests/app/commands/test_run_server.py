"""`cutaway run --server`: one answer of a server, its models, its key, its faults."""

import json
from collections.abc import Iterator

import pytest

from app import cli
from tests.app.remote.chat_server import HELLO, ChatServer, Said, chat_server, delta, page

KEY = "sk-secret-123"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1")
    monkeypatch.setattr("app.remote.remote_answer.WAITS", (0.01, 0.02))
    with chat_server() as running:
        running.answers = [Said(HELLO)]
        yield running


def run(server: ChatServer, *words: str) -> int:
    return cli.main(["run", "--server", server.url, "-p", "Hello?", *words])


def test_one_answer(server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server, "--system", "Be kind.") == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("Hello\n", "")
    roles = [message["role"] for message in server.chats[0].body["messages"]]
    assert roles == ["system", "user"]


def test_json(server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server, "--json", "--api-key", KEY) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["model"], told["stats"]["n_generated"]) == ("Hello", "tiny", 2)
    assert {heard.headers.get("authorization") for heard in server.heard} == {f"Bearer {KEY}"}
    assert KEY not in json.dumps(told)


def test_json_has_no_ids_that_the_server_does_not_give(
    server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    likely = [{"token": "Hel", "logprob": -0.5}, {"token": "lo", "logprob": -1.0, "id": 42}]
    server.answers = [Said([delta("Hello", likely=likely), *HELLO[2:]])]
    assert run(server, "--json", "--logprobs", "1") == 0
    tokens = json.loads(capsys.readouterr().out)["tokens"]
    assert [one["text"] for one in tokens] == ["Hel", "lo"]
    assert [one.get("token") for one in tokens] == [None, 42]
    assert "token" not in tokens[0]


def test_the_key_of_the_environment(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_API_KEY", KEY)
    assert run(server) == 0
    assert server.chats[0].headers["authorization"] == f"Bearer {KEY}"


def test_which_model(server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.pages["/v1/models"] = page({"data": [{"id": "a"}, {"id": "b"}]})
    assert run(server) == 1
    assert "it has a, b; name one with --model" in capsys.readouterr().err
    assert run(server, "--model", "b") == 0
    assert server.chats[0].body["model"] == "b"


def test_waiting_is_said(server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    busy = page({"error": {"message": "full"}}, 503)
    server.answers = [busy, Said(HELLO)]
    assert run(server) == 0
    said = capsys.readouterr()
    assert said.out == "Hello\n"
    assert "retrying in 0.01 s" in said.err


def test_what_came_is_printed_before_the_error(
    server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = [Said([delta("Hel")], cut=True)]
    assert run(server) == 1
    said = capsys.readouterr()
    assert said.out == "Hel\n"
    assert said.err.count("\n") == 1
    assert "connection closed" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--server", "ftp://x"), "address"),
        (("--server", "http://far.example:1", "--api-key", KEY), "--key-in-clear"),
        (("--server", "http://localhost:1", "--ctx", "512"), "--device or --ctx"),
        (("--model", "m"), "--server"),
    ],
)
def test_what_cannot_be_asked(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is connected to: no test may reach these."""
    assert cli.main(["run", "-p", "Hello?", *words]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert KEY not in error
