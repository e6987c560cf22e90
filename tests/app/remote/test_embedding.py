"""Embeddings of servers: ours and a scripted one; what cannot be had is said."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app import cli
from engine.protocol import Embed, Embedded, Failed
from engine.runner import load
from tests.app.remote.chat_server import ChatServer, Heard, Said, page
from tests.app.remote.conftest import Asker
from tests.app.serve.running import served

PATH = "/v1/embeddings"
TEXTS = ["the hat on", "on the hat", "and"]


def test_our_own_server_gives_what_the_model_does(
    tiny_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1 localhost ::1")
    words = [word for text in TEXTS for word in ("--text", text)]
    with load(tiny_path, device="host", ctx=64) as model:
        wanted = model.embed(TEXTS, 16)
    with served(tiny_path) as running:
        assert cli.main(["embed", "--server", running.url, *words, "--width", "16", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["model"], told["width"]) == ("tiny", 16)
    assert [one["tokens"] for one in told["embeddings"]] == [None] * 3
    np.testing.assert_allclose([one["embedding"] for one in told["embeddings"]], wanted, atol=1e-6)


def vectors(heard: Heard) -> Said:
    """In another order than asked: the length of each text, and its place."""
    rows = [
        {"index": place, "embedding": [len(text), 3.0, 4.0]}
        for place, text in enumerate(heard.body["input"])
    ]
    return page({"data": rows[::-1]})


def test_many_texts_are_asked_in_parts_and_put_in_order(opened: Asker, server: ChatServer) -> None:
    server.pages[PATH] = vectors
    texts = ["x" * n for n in range(1, 131)]
    end = opened.ask(Embed(0, texts))
    assert isinstance(end, Embedded)
    assert [len(h.body["input"]) for h in server.heard if h.path == PATH] == [64, 64, 2]
    rows = np.frombuffer(end.vectors, "<f4").reshape(130, 3)
    wanted = np.array([[len(text), 3.0, 4.0] for text in texts])
    wanted /= np.sqrt((wanted**2).sum(1, keepdims=True))
    np.testing.assert_allclose(rows, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (page({"error": {"message": "start it with --embeddings"}}, 501), "--embeddings"),
        (page({"data": []}), "one embedding for each of 1 texts"),
        (page({"data": [{"index": 0, "embedding": []}]}), "one embedding for each"),
        (page({"data": [{"index": 0, "embedding": [1e308, 1.0]}]}), "outside"),
        (page({"data": [{"index": 7, "embedding": [1.0]}]}), "one embedding for each"),
        (page({"data": "none"}), "server work"),
        (Said(b"[1", kind="application/json"), "server work"),
    ],
)
def test_what_is_no_embedding(opened: Asker, server: ChatServer, answer: Said, words: str) -> None:
    server.pages[PATH] = answer
    end = opened.ask(Embed(0, ["a"]))
    assert isinstance(end, Failed)
    assert words in end.message


@pytest.mark.parametrize(
    ("more", "words"), [({"normalized": False}, "--raw"), ({"width": 4}, "1 to 3")]
)
def test_what_a_server_cannot_be_asked(
    opened: Asker, server: ChatServer, more: dict[str, Any], words: str
) -> None:
    server.pages[PATH] = vectors
    end = opened.ask(Embed(0, ["a"], **more))
    assert isinstance(end, Failed)
    assert words in end.message


def test_a_model_or_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["embed", "--text", "a"]) == 1
    assert "or --server URL" in capsys.readouterr().err
