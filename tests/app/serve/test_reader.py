"""Readers who take nothing, pictures that the engine forgets, packages that are not there."""

import base64
import io
import socket
import sys
import time

import pytest
from PIL import Image

from app.serve.flow import MOST_WAITING
from app.serve.server import Serving
from app.serve.settings import ServeSettings
from app.serve.web import stream
from engine.errors import MissingPackage
from engine.protocol import (
    Cancel,
    Failed,
    Generate,
    PictureInfo,
    Piece,
    PutPicture,
    TokenInfo,
)
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.serve.running import rest_of
from tests.app.serve.test_gate import LOADED, Asking, end, until


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


def test_a_reader_who_takes_nothing_is_left(
    engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "READER_SECONDS", 0.3)
    serving = Serving(engine, ServeSettings(port=0))
    serving.start()
    serving.open("tiny", LOADED)
    try:
        host, port = place_of(serving)
        body = b'{"stream": true, "messages": [{"role": "user", "content": "hi"}]}'
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:{port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((host, port)) as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.sendall(head.encode() + body)
            (request,) = until(engine, Generate, 1)
            assert isinstance(request, Generate)
            deadline = time.monotonic() + 60
            while not any(isinstance(one, Cancel) for one in engine.asked):
                assert time.monotonic() < deadline
                engine.say(Piece(request.id, "x" * 1_000_000, [TokenInfo(1)]))
                time.sleep(0.02)
        assert serving.clients.now == []
        assert serving.counts.requests == {"gone": 1}
    finally:
        serving.stop(0)


@pytest.mark.parametrize("ends", [False, True])
def test_a_reader_who_stops_reading_holds_nobody(engine: ScriptedEngine, ends: bool) -> None:
    """Its slot is another's at once, though it may come back within a minute: then it gets what
    was kept for it, which is bounded, and the answer's end or why it has none.
    """
    serving = Serving(engine, ServeSettings(port=0))
    serving.start()
    serving.open("tiny", LOADED)
    try:
        body = b'{"stream": true, "messages": [{"role": "user", "content": "hi"}]}'
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {serving.address[7:]}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        with socket.create_connection(place_of(serving)) as reader:
            reader.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)
            (request,) = until(engine, Generate, 1)
            assert isinstance(request, Generate)
            piece, told = Piece(request.id, "x" * 20_000, [TokenInfo(1)]), 0
            while not any(isinstance(one, Cancel) for one in engine.asked):
                assert told < 4 * MOST_WAITING
                engine.say(*[piece] * 50)
                told += 50
                time.sleep(0.01)
                if ends and told == 900:
                    end(engine, request, "the end")
                    break
            other = Asking(serving.address)
            *_, second = until(engine, Generate, 2)
            end(engine, second, "hello")
            assert other.told().json()["choices"][0]["message"]["content"] == "hello"
            text = rest_of(reader).decode()
        pieces = text.count('{"content":"xxx')
        if ends:
            assert pieces == 900
            assert "data: [DONE]\n\n" in text
        else:
            assert MOST_WAITING < pieces < told
            assert "the client did not read 1,024 parts" in text
            assert "[DONE]" not in text
        reasons = {"stop": 2} if ends else {"error": 1, "stop": 1}
        deadline = time.monotonic() + 60
        while serving.counts.requests != reasons:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        serving.stop(0)


def place_of(serving: Serving) -> tuple[str, int]:
    host, _, port = serving.address.removeprefix("http://").rpartition(":")
    return host, int(port)


def test_pictures_that_were_forgotten_are_brought_again(engine: ScriptedEngine) -> None:
    serving = Serving(engine, ServeSettings(port=0))
    serving.start()
    serving.open("tiny", LOADED)
    try:
        file = io.BytesIO()
        Image.new("RGB", (4, 4)).save(file, "PNG")
        url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
        part = {"type": "image_url", "image_url": {"url": url}}
        asking = Asking(serving.address, messages=[{"role": "user", "content": [part]}])
        for n in (1, 2):
            (*_, put) = until(engine, PutPicture, n)
            assert isinstance(put, PutPicture)
            assert put.data == file.getvalue()
            engine.say(PictureInfo(put.id, "digest", 4, 4, []))
            (*_, request) = until(engine, Generate, n)
            assert isinstance(request, Generate)
            if n == 1:
                engine.say(Failed(request.id, "UnknownPictures", "gone", ["digest"]))
        end(engine, request, "a square")
        assert asking.told().json()["choices"][0]["message"]["content"] == "a square"
    finally:
        serving.stop(0)


def test_without_the_packages(engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "app.serve.running", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingPackage, match=r"pip install 'cutaway\[serve\]'"):
        Serving(engine, ServeSettings(port=0)).start()
