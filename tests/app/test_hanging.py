"""A worker that hangs: a stop takes effect all the same, and the next request is answered."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app import local_engine
from app.engine import Died, Silent
from app.local_engine import LocalEngine
from engine.protocol import (
    Embed,
    Embedded,
    Failed,
    Finished,
    Generate,
    Load,
    Loaded,
    Piece,
    Progress,
    Request,
    Sampling,
)
from engine.settings import EngineOptions
from tests.app.test_engine import ENDLESS, FOREVER, Person

pytestmark = pytest.mark.usefixtures("nothing_left")
HOST = EngineOptions(device="host", ctx=4096, parallel=2)
SOON = 5.0
"""Seconds within which a stop takes effect. They are not measured, as a busy machine adds to them:
the limit is shorter, and what a client waits for ends by nothing else.
"""


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    engine = LocalEngine()
    yield engine
    engine.close()


def hang(engine: LocalEngine) -> None:
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGSTOP)


def loaded(engine: LocalEngine, path: Path) -> Person:
    person = Person(engine)
    assert isinstance(person.ends(person.client.ask(Load(0, str(path), HOST, embeds=True))), Loaded)
    return person


def test_a_stop_ends_an_answer_of_a_worker_that_hangs(engine: LocalEngine, tiny_path: Path) -> None:
    window, server = loaded(engine, tiny_path), Person(engine)
    answer = window.client.ask(FOREVER)
    window.until(lambda e: isinstance(e, Piece))
    others = server.client.ask(FOREVER)
    server.until(lambda e: isinstance(e, Piece))
    hang(engine)
    pid = engine.pid
    assert local_engine.STOPS < SOON
    window.client.cancel(answer)
    ended = window.ends(answer)
    assert ended.kind == "Cancelled"
    failed = server.ends(others)  # it is not left waiting
    assert failed.kind == "WorkerDied"
    assert "did not respond" in failed.message
    for person in (window, server):
        assert any(isinstance(e, Died) for e in person.all())
    assert isinstance(window.ends(window.client.ask(Load(0, str(tiny_path), HOST))), Loaded)
    again = window.client.ask(Generate(0, prompt="a", sampling=ENDLESS, max_tokens=2))
    assert window.ends(again).reason == "length"
    assert engine.pid != pid


def test_a_stop_of_a_worker_that_runs_keeps_it(
    engine: LocalEngine, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is slow to stop ends for its client alone; the model stays open for the others."""
    monkeypatch.setattr(local_engine, "STOPS", -1.0)  # each stop is late at once
    window = loaded(engine, tiny_path)
    pid = engine.pid
    for _ in range(3):
        answer = window.client.ask(FOREVER)
        window.until(lambda e: isinstance(e, Piece))
        window.client.cancel(answer)
        ended = window.ends(answer)
        assert isinstance(ended, Failed) or ended.reason == "cancelled"
    assert engine.pid == pid


def test_silence_is_noticed_and_its_end(
    engine: LocalEngine, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_engine, "SILENT", 1.5)
    window, other = loaded(engine, tiny_path), Person(engine)
    answer = window.client.ask(FOREVER)
    window.until(lambda e: isinstance(e, Piece))
    hang(engine)
    for person in (window, other):
        silent = person.until(lambda e: isinstance(e, Silent))
        assert isinstance(silent, Silent)
        assert silent.seconds > 1.5
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGCONT)
    back = window.until(lambda e: isinstance(e, Silent))
    assert back == Silent(0.0)
    window.until(lambda e: isinstance(e, Piece))
    window.client.cancel(answer)
    assert window.ends(answer).reason == "cancelled"


def test_an_idle_worker_is_not_silent(
    engine: LocalEngine, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What hangs while nothing is asked is no matter, and is replaced at the first stop."""
    monkeypatch.setattr(local_engine, "SILENT", 1.5)
    window = loaded(engine, tiny_path)
    window.heard.clear()
    hang(engine)
    time.sleep(2.0)
    assert not any(isinstance(e, Silent) for e in window.all())
    answer = window.client.ask(FOREVER)
    window.until(lambda e: isinstance(e, Silent))
    window.client.cancel(answer)
    assert window.ends(answer).kind == "Cancelled"


LONG = "zz " * 3000
AT: dict[str, tuple[Callable[[Path], Request[object]], type]] = {
    "load": (lambda path: Load(0, str(path), HOST), Progress),
    "prompt": (lambda path: Generate(0, prompt=LONG[:150], sampling=ENDLESS), Progress),
    "answer": (lambda path: FOREVER, Piece),
    "embedding": (lambda path: Embed(0, [LONG[:60]] * 200), Progress),
}


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
def test_stopped_anywhere(engine: LocalEngine, tiny_path: Path, seed: int) -> None:
    """Twenty times at random: the stop within SOON, the next question answered."""
    draw = random.Random(seed)
    make, sign = AT[list(AT)[seed % len(AT)]]
    window = loaded(engine, tiny_path)
    number = window.client.ask(make(tiny_path))
    window.until(lambda e: isinstance(e, sign | Failed | Loaded | Embedded))
    time.sleep(draw.random() / 20)
    hang(engine)
    assert local_engine.STOPS < SOON
    window.client.cancel(number)
    ends = Failed | Loaded | Finished | Embedded
    if not any(isinstance(e, ends) and e.id == number for e in window.all()):
        window.until(lambda e: isinstance(e, ends) and e.id == number)
    waits = window.client.ask(Load(0, str(tiny_path), HOST))
    event = window.until(lambda e: isinstance(e, Silent) or (isinstance(e, ends) and e.id == waits))
    if isinstance(event, Silent):  # it had ended before the worker hung, so nothing was stopped
        engine.restart()
        window.ends(waits)
        assert isinstance(window.ends(window.client.ask(Load(0, str(tiny_path), HOST))), Loaded)
    again = window.client.ask(
        Generate(0, prompt="a", sampling=Sampling(temperature=0), max_tokens=2)
    )
    assert window.ends(again).stats.n_generated == 2
