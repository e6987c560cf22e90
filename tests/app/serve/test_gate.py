"""Who is let in, who waits and who is refused; clients that leave, and engines that die."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from app.engine import Engine
from app.serve.server import Serving
from app.serve.settings import ServeSettings
from engine.errors import WorkerDied
from engine.protocol import Cancel, Finished, Generate, Loaded, Piece, Stats, TokenInfo
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.serve.running import HTTP, events, served

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hi"}]}
LOADED = Loaded(1, "/x/tiny.gguf", "tiny", "llama", "host", "host", 256, 256, 320, "file")


class Asking(threading.Thread):
    """Somebody who asks in a thread, and what came of it."""

    def __init__(self, url: str, **more: object) -> None:
        super().__init__(daemon=True)
        self._url, self._body = url, BODY | more
        self.answer: httpx2.Response | None = None
        self.leave = threading.Event()
        self.start()

    def run(self) -> None:
        asyncio.run(self._ask())

    async def _ask(self) -> None:
        async with httpx2.AsyncClient(timeout=60, verify=False) as client:
            asking = asyncio.create_task(client.post(self._url + CHAT, json=self._body))
            while not asking.done():
                if self.leave.is_set():
                    asking.cancel()
                    return
                await asyncio.sleep(0.01)
            self.answer = asking.result()

    def told(self) -> httpx2.Response:
        self.join(60)
        assert self.answer is not None
        return self.answer


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def serving(engine: Engine) -> Iterator[Serving]:
    """Two slots, and room for two who wait."""
    serving = Serving(engine, ServeSettings(port=0, slots=2, queue=2, metrics=True))
    serving.start()
    serving.open("tiny", LOADED)
    yield serving
    serving.stop(0)


def until(engine: ScriptedEngine, kind: type, n: int) -> list[object]:
    """The first `n` requests of a class that the engine was asked."""
    deadline = time.monotonic() + 60
    while len(found := [one for one in engine.asked if isinstance(one, kind)]) < n:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert len(found) == n
    return found


def wait_for(serving: Serving, waiting: int) -> None:
    deadline = time.monotonic() + 60
    while f"cutaway:requests_deferred {waiting}" not in HTTP.get(f"{serving.address}/metrics").text:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def end(engine: ScriptedEngine, request: object, text: str) -> None:
    assert isinstance(request, Generate)
    stats = Stats(5, 0, 1, 0.001, 0.01, 0.01, 0.01, 7, 6)
    number = request.id
    engine.say(Piece(number, text, [TokenInfo(5)]), Finished(number, "stop", stats))


def test_slots_queue_and_refusal(engine: ScriptedEngine, serving: Serving) -> None:
    first = [Asking(serving.address) for _ in range(2)]
    running = until(engine, Generate, 2)
    waiting = []
    for n in (1, 2):
        waiting.append(Asking(serving.address))
        wait_for(serving, n)
    refused = Asking(serving.address).told()
    assert refused.status_code == 429
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert 1 <= int(refused.headers["retry-after"]) <= 120
    for n, request in enumerate(running):
        end(engine, request, f"answer {n}")
    for n, request in enumerate(until(engine, Generate, 4)[2:]):
        end(engine, request, f"answer {n + 2}")
    texts = {one.told().json()["choices"][0]["message"]["content"] for one in (*first, *waiting)}
    assert texts == {f"answer {n}" for n in range(4)}


def test_who_leaves_frees_a_slot_or_a_place(engine: ScriptedEngine, serving: Serving) -> None:
    first = [Asking(serving.address, stream=n > 0) for n in range(2)]
    running = until(engine, Generate, 2)
    waiting = [Asking(serving.address)]
    wait_for(serving, 1)
    waiting.append(Asking(serving.address))
    wait_for(serving, 2)
    waiting[0].leave.set()
    wait_for(serving, 1)
    assert len([one for one in engine.asked if isinstance(one, Generate)]) == 2
    for one in first:
        one.leave.set()
    assert {one.id for one in until(engine, Cancel, 2)} == {one.id for one in running}
    (last,) = until(engine, Generate, 3)[2:]
    for one in running:  # what was made for them all the same is counted
        assert isinstance(one, Generate)
        engine.say(Finished(one.id, "cancelled", Stats(5, 2, 3, 0.001, 0.01, 0.01, 0.01, 7, 6)))
    end(engine, last, "hello")
    assert waiting[1].told().json()["choices"][0]["message"]["content"] == "hello"
    assert serving.counts.requests == {"gone": 3, "stop": 1}
    counts = serving.counts
    assert (counts.predicted, counts.prompt, counts.cached) == (3 + 3 + 1, 3 + 3 + 5, 2 + 2)
    assert serving.clients.now == []


def test_an_engine_that_dies_in_the_middle(engine: ScriptedEngine, serving: Serving) -> None:
    whole, streamed = Asking(serving.address), Asking(serving.address, stream=True)
    until(engine, Generate, 2)
    later = Asking(serving.address)
    wait_for(serving, 1)
    for request in [one for one in engine.asked if isinstance(one, Generate)]:
        engine.say(Piece(request.id, "half", [TokenInfo(5)]))
    engine.die(WorkerDied(-9, "it was killed in /somewhere/private.gguf"))
    told = whole.told()
    assert told.status_code == 503
    assert "/somewhere" not in told.text
    *frames, last = events(streamed.told().text)
    assert frames[-1]["choices"][0]["delta"] == {"content": "half"}
    assert last["error"]["type"] == "unavailable_error"
    assert "[DONE]" not in streamed.told().text
    assert HTTP.get(f"{serving.address}/health").status_code == 503
    assert Asking(serving.address).told().headers["retry-after"] == "2"
    assert len([one for one in engine.asked if isinstance(one, Generate)]) == 2
    serving.open("tiny", LOADED)  # who waited has not been told of any of that
    (request,) = until(engine, Generate, 3)[2:]
    end(engine, request, "at last")
    assert later.told().json()["choices"][0]["message"]["content"] == "at last"


def test_silence_is_filled(
    engine: ScriptedEngine, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.serve.web import stream

    monkeypatch.setattr(stream, "KEEP_ALIVE", 0.05)
    body = BODY | {"stream": True}
    with HTTP.stream("POST", serving.address + CHAT, json=body) as response:
        coming, text = response.iter_text(), ""
        while text.count(":\n\n") < 2:
            text += next(coming)
        assert text.replace(":\n\n", "") == ""
        (request,) = until(engine, Generate, 1)
        end(engine, request, "late")
        text += "".join(coming)
    assert text.endswith("data: [DONE]\n\n")


def test_pieces_that_wait_are_one_write(engine: ScriptedEngine, serving: Serving) -> None:
    asking = Asking(serving.address, stream=True)
    (request,) = until(engine, Generate, 1)
    assert isinstance(request, Generate)
    with engine.lock:
        for n in range(200):
            engine.say(Piece(request.id, f"{n} ", [TokenInfo(5)]))
    end(engine, request, "")
    chunks = events(asking.told().text)[1:-2]
    assert "".join(c["choices"][0]["delta"]["content"] for c in chunks) == "".join(
        f"{n} " for n in range(200)
    )


def test_shutting_down_tells_those_who_are_left(engine: ScriptedEngine, serving: Serving) -> None:
    streamed, whole = Asking(serving.address, stream=True), Asking(serving.address)
    until(engine, Generate, 2)
    waiting = Asking(serving.address)
    wait_for(serving, 1)
    serving.stop(0.1)
    assert whole.told().status_code == waiting.told().status_code == 503
    assert "shutting down" in streamed.told().text
    assert "[DONE]" not in streamed.told().text


def test_kill_9_in_the_middle_of_streams(tiny_path: Path) -> None:
    endless = {"stream": True, "ignore_eos": True, "temperature": 0}
    with served(tiny_path) as running:
        stopped = threading.Event()
        keeping = threading.Thread(
            target=running.keeper.keep, args=(lambda text: None, stopped.is_set)
        )
        keeping.start()
        asking = [Asking(running.url, **endless) for _ in range(8)]
        while len(running.serving.clients.now) < 8:
            assert any(one.is_alive() for one in asking)
            time.sleep(0.001)
        pid = running.engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        told = [one.told() for one in asking]
        cut = [one for one in told if one.status_code == 503 or '"error"' in one.text]
        ended = [one for one in told if "[DONE]" in one.text]
        assert len(cut) + len(ended) == 8
        assert not set(map(id, cut)) & set(map(id, ended))
        assert cut
        deadline = time.monotonic() + 60
        while running.get("/health").status_code != 200:
            assert time.monotonic() < deadline
        assert running.engine.pid != pid
        assert running.post(CHAT, BODY | {"max_tokens": 3}).status_code == 200
        assert running.serving.counts.restarts == 1
        stopped.set()
        keeping.join()
