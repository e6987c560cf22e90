"""A worker that hangs: a stop takes effect all the same, and the next request is answered."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app import local_engine
from app.engine import Died, Restarted, Silent
from app.local_engine import LocalEngine
from engine.protocol import (
    ChatMessage,
    Embed,
    Embedded,
    Failed,
    Finished,
    Generate,
    Load,
    Loaded,
    PictureInfo,
    PicturePart,
    Piece,
    Progress,
    PutPicture,
    Request,
    Sampling,
    TextPart,
)
from engine.settings import EngineOptions
from engine.worker import Worker, handle
from tests.app.helpers import slow_start
from tests.app.test_engine import ENDLESS, FOREVER, Person
from tests.engine.runner.pictures.seeing import noise
from tests.engine.test_worker_pictures import png
from tests.goldens.vision.families import write_pair

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
    assert isinstance(
        person.ends(person.client.send(Load(0, str(path), HOST, embeds=True))), Loaded
    )
    return person


def test_a_stop_ends_an_answer_of_a_worker_that_hangs(engine: LocalEngine, tiny_path: Path) -> None:
    window, server = loaded(engine, tiny_path), Person(engine)
    answer = window.client.send(FOREVER)
    window.until(lambda e: isinstance(e, Piece))
    others = server.client.send(FOREVER)
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
    assert isinstance(window.ends(window.client.send(Load(0, str(tiny_path), HOST))), Loaded)
    again = window.client.send(Generate(0, prompt="a", sampling=ENDLESS, max_tokens=2))
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
        answer = window.client.send(FOREVER)
        window.until(lambda e: isinstance(e, Piece))
        window.client.cancel(answer)
        ended = window.ends(answer)
        assert isinstance(ended, Failed) or ended.reason == "cancelled"
    assert engine.pid == pid


@pytest.mark.parametrize("what", ["load", "embedding"])
def test_a_stop_of_a_worker_that_starts_keeps_it(
    tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    enough = tmp_path / "enough"
    monkeypatch.setenv(slow_start.ENOUGH, str(enough))
    engine = LocalEngine(lambda: Worker("tests.app.helpers.slow_start"))
    person = Person(engine)
    load = Load(0, str(tiny_path), HOST)
    with monkeypatch.context() as limits:
        for limit in ("STOPS", "QUIET", "PATIENCE", "GIVES_UP"):
            limits.setattr(local_engine, limit, 0.2)
        number = person.client.send(load if what == "load" else Embed(0, ["a"]))
        pid = engine.pid
        person.client.cancel(number)
        assert person.ends(number).kind == "Cancelled"
        time.sleep(1.0)  # longer than every limit
    enough.touch()
    assert isinstance(person.ends(person.client.send(load)), Loaded)
    assert engine.pid == pid
    assert not any(isinstance(event, Died | Restarted) for event in person.all())
    engine.close()


def test_a_worker_that_never_starts_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(slow_start.ENOUGH, str(tmp_path / "never"))
    monkeypatch.setattr(handle, "STARTS", 0.4)
    for limit in ("STOPS", "QUIET"):
        monkeypatch.setattr(local_engine, limit, 0.2)
    programs = iter(["tests.app.helpers.slow_start", "engine.worker"])
    engine = LocalEngine(lambda: Worker(next(programs)))
    person = Person(engine)
    number = person.client.send(Embed(0, ["a"]))
    person.client.cancel(number)
    assert person.ends(number).kind == "Cancelled"
    died = person.until(lambda e: isinstance(e, Died))
    assert "did not respond" in str(died.error)
    engine.close()


def test_silence_is_noticed_and_its_end(
    engine: LocalEngine, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_engine, "SILENT", 1.5)
    window, other = loaded(engine, tiny_path), Person(engine)
    answer = window.client.send(FOREVER)
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
    answer = window.client.send(FOREVER)
    window.until(lambda e: isinstance(e, Silent))
    window.client.cancel(answer)
    assert window.ends(answer).kind == "Cancelled"


LONG = "zz " * 3000
AT: dict[str, tuple[Callable[[Path, str], Request[object]], type]] = {
    "load": (lambda path, _: Load(0, str(path), HOST), Progress),
    "prompt": (lambda *_: Generate(0, prompt=LONG[:150], sampling=ENDLESS), Progress),
    "answer": (lambda *_: FOREVER, Piece),
    "embedding": (lambda *_: Embed(0, [LONG[:60]] * 200), Progress),
    "tower": (lambda _, digest: Generate(0, messages=[looking_at(digest)]), Progress),
}
WITHOUT_END = Generate(0, prompt="zz", sampling=ENDLESS, endless=True)  # of ten contexts
ENDS = Failed | Loaded | Finished | Embedded | PictureInfo


def looking_at(digest: str) -> ChatMessage:
    return ChatMessage("user", [TextPart("what is"), PicturePart(digest), TextPart("here")])


def end_of(person: Person, number: int) -> Any:
    """How a request ends, or has ended before."""
    ended = [e for e in person.all() if isinstance(e, ENDS) and e.id == number]
    return ended[0] if ended else person.until(lambda e: isinstance(e, ENDS) and e.id == number)


@pytest.fixture(scope="module")
def seeing_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with a tower for pictures."""
    return write_pair(tmp_path_factory.mktemp("hanging"), "gemma3")[0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[pytest.mark.full] if n >= len(AT) else []) for n in range(20)]
)
def test_stopped_anywhere(
    engine: LocalEngine, tiny_path: Path, seeing_path: Path, seed: int
) -> None:
    """Twenty times at random: the stop within SOON, no silence for another client, and the next
    question is answered.
    """
    draw = random.Random(seed)
    what = list(AT)[seed % len(AT)]
    make, sign = AT[what]
    path = seeing_path if what == "tower" else tiny_path
    window, server = loaded(engine, path), Person(engine)
    picture = end_of(window, window.client.send(PutPicture(0, png(noise(1)))))
    assert isinstance(picture, PictureInfo)
    window.heard.clear()
    if what in ("load", "embedding"):  # they wait for the answers before them
        number = window.client.send(make(path, picture.digest))
        others = server.client.send(WITHOUT_END)
    else:
        others = server.client.send(WITHOUT_END)
        server.until(lambda e: isinstance(e, Piece))
        number = window.client.send(make(path, picture.digest))
    window.until(lambda e: isinstance(e, sign | ENDS) and e.id == number)
    time.sleep(draw.random() / 20)
    hang(engine)
    assert local_engine.STOPS < SOON
    window.client.cancel(number)
    end_of(window, number)
    server.client.cancel(others)  # where the first one had ended, nothing was replaced
    ended = end_of(server, others)
    assert isinstance(ended, Failed) or ended.reason in ("cancelled", "length")
    assert isinstance(end_of(window, window.client.send(Load(0, str(tiny_path), HOST))), Loaded)
    again = window.client.send(
        Generate(0, prompt="a", sampling=Sampling(temperature=0), max_tokens=2)
    )
    assert window.ends(again).stats.n_generated == 2
