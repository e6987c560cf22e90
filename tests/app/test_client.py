"""The client with the real engine: messages in order, cancelling, deaths, restarts, no remains."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pytestqt.qtbot import QtBot

from app.client import EngineClient, Latest, PendingRequest
from app.local_engine import LocalEngine
from engine.protocol import (
    ChatMessage,
    Devices,
    Failed,
    Finished,
    Generate,
    HeldMemory,
    ListDevices,
    Load,
    Loaded,
    Piece,
    PlannedMemory,
    Predict,
    PredictedMemory,
    Sampling,
    Unloaded,
)
from engine.settings import EngineOptions
from engine.worker import Worker

OPTIONS = EngineOptions(ctx=512)
ENDLESS = Sampling(temperature=0, frequency_penalty=-100)  # what was said becomes likelier
LONG = Generate(0, messages=[ChatMessage("user", "Count: zz")], sampling=ENDLESS, logprobs=3)


class Heard:
    """Everything a client told, as (name, what it carried)."""

    SIGNALS = ("failed", "died")
    KINDS = (Loaded, Unloaded, Finished, PlannedMemory, HeldMemory, Devices)

    def __init__(self, client: EngineClient) -> None:
        self.all: list[tuple[str, Any]] = []
        for name in self.SIGNALS:
            getattr(client, name).connect(self._into(name))
        for kind in self.KINDS:
            client.on(kind, self._into(kind.__name__.lower()))
        client.restarted.connect(lambda: self.all.append(("restarted", None)))

    def _into(self, name: str) -> Callable[[Any], None]:
        return lambda value: self.all.append((name, value))

    def follow(self, asked: PendingRequest) -> PendingRequest:
        """Note what comes on the way of a request, too."""
        asked.progress.connect(self._into("progress"))
        asked.pieces.connect(lambda pieces: self.all.append(("pieces", (asked.id, pieces))))
        return asked

    def of(self, name: str) -> list[Any]:
        return [value for heard, value in self.all if heard == name]

    def pieces(self, asked: PendingRequest) -> list[Piece]:
        return [p for told, some in self.of("pieces") if told == asked.id for p in some]


@pytest.fixture
def engine(qapp: object) -> Iterator[LocalEngine]:
    """A process on this machine; with it goes all that it started."""
    threads, me = set(threading.enumerate()), psutil.Process()
    children = {child.pid for child in me.children()}
    engine = LocalEngine()
    yield engine
    engine.close()
    engine.close()
    assert {child.pid for child in me.children()} <= children
    assert set(threading.enumerate()) <= threads


@pytest.fixture
def client(engine: LocalEngine) -> Iterator[EngineClient]:
    client = EngineClient(engine)
    yield client
    client.close()
    client.close()


@pytest.fixture
def heard(client: EngineClient) -> Heard:
    return Heard(client)


def wait(qtbot: QtBot, condition: Callable[[], object]) -> None:
    qtbot.waitUntil(lambda: bool(condition()), timeout=120_000)


def test_nothing_runs_before_it_is_needed(engine: LocalEngine, client: EngineClient) -> None:
    assert (engine.alive, engine.pid) == (False, None)


def test_a_file_that_is_not_there(
    engine: LocalEngine, client: EngineClient, heard: Heard, qtbot: QtBot, tmp_path: Path
) -> None:
    number = client.open(Load(0, str(tmp_path / "no.gguf"), OPTIONS))
    refused: list[Failed] = []
    client.send(Predict(0, str(tmp_path / "no.gguf"), OPTIONS), fail=refused.append)
    client.send(LONG)
    wait(qtbot, lambda: len(heard.of("failed")) == 2 and refused)
    assert [f.kind for f in heard.of("failed")] == ["BadFile", "BadSetting"]
    assert heard.of("failed")[0].id == number.id
    assert refused[0].kind == "BadFile"
    assert engine.alive


@pytest.mark.model_file
def test_load_and_answer(
    client: EngineClient, heard: Heard, qtbot: QtBot, smollm2_path: Path
) -> None:
    loading = heard.follow(client.open(Load(0, str(smollm2_path), OPTIONS)))
    wait(qtbot, lambda: heard.of("loaded"))
    assert heard.of("loaded")[0].id == loading.id
    assert heard.of("plannedmemory")
    assert {row.status for row in heard.of("heldmemory")[-1].rows} == {"allocated", "mapped"}
    progress = [p for p in heard.of("progress") if p.stage == "load"]
    assert progress[-1].done == progress[-1].total
    number = heard.follow(client.send(LONG))
    assert number.id > loading.id
    wait(qtbot, lambda: len(heard.pieces(number)) > 30)
    groups = [pieces for told, pieces in heard.of("pieces") if told == number.id]
    number.cancel()
    wait(qtbot, lambda: heard.of("finished"))
    (finished,) = heard.of("finished")
    assert (finished.id, finished.reason) == (number.id, "cancelled")
    assert heard.all[-1][0] == "finished"  # after all its pieces
    assert len(groups) <= 31
    tokens = [info for piece in heard.pieces(number) for info in piece.tokens]
    assert all(len(info.top) == 3 for info in tokens)
    assert finished.stats.n_generated - len(tokens) in (0, 1)

    other = heard.follow(client.send(LONG))
    wait(qtbot, lambda: heard.pieces(other))
    client.open(Load(0, str(smollm2_path), EngineOptions(ctx=256)))  # in mid-answer
    wait(qtbot, lambda: len(heard.of("loaded")) == 2)
    assert [(f.id, f.reason) for f in heard.of("finished")[1:]] == [(other.id, "cancelled")]
    assert heard.of("loaded")[1].n_ctx == 256
    client.unload()
    wait(qtbot, lambda: heard.of("unloaded"))
    assert heard.of("died") == []


@pytest.mark.model_file
def test_only_the_latest_prediction_is_told(
    client: EngineClient, heard: Heard, qtbot: QtBot, smollm2_path: Path
) -> None:
    told: list[PredictedMemory] = []
    latest = Latest(client)
    for ctx in (256, 512, 1024, 2048, 4096):
        request = Predict(0, str(smollm2_path), EngineOptions(ctx=ctx))
        latest.send(request, told.append, lambda failed: pytest.fail(failed.message))
    wait(qtbot, lambda: told)
    cache = sum(r.size for r in told[0].rows if r.component == "cache")
    # K and V, 30 layers of 3 heads of 64 in two bytes, for each of 4096 tokens
    assert cache == 4096 * 2 * 30 * 3 * 64 * 2
    qtbot.wait(100)
    assert len(told) == 1
    assert heard.of("heldmemory") == []


@pytest.mark.model_file
def test_death_is_told_once_and_a_restart_answers(
    engine: LocalEngine, client: EngineClient, heard: Heard, qtbot: QtBot, smollm2_path: Path
) -> None:
    client.open(Load(0, str(smollm2_path), OPTIONS))
    wait(qtbot, lambda: heard.of("loaded"))
    number = heard.follow(client.send(LONG))
    wait(qtbot, lambda: heard.pieces(number))
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)
    number.cancel()  # into the void
    wait(qtbot, lambda: heard.of("died"))
    assert "signal 9" in str(heard.of("died")[0])
    assert (engine.alive, engine.pid) == (False, None)
    number.cancel()
    qtbot.wait(200)
    assert len(heard.of("died")) == 1
    assert heard.of("finished") == []
    client.restart()
    assert engine.alive
    again = heard.follow(client.open(Load(0, str(smollm2_path), OPTIONS)))
    wait(qtbot, lambda: len(heard.of("loaded")) == 2)
    assert (heard.of("loaded")[1].id, heard.of("restarted")) == (again.id, [None])
    assert again.id > number.id
    answer = heard.follow(client.send(LONG))
    wait(qtbot, lambda: heard.pieces(answer))
    client.restart()  # in mid-answer, of a process that lives
    wait(qtbot, lambda: len(heard.of("restarted")) == 2)
    wait(qtbot, lambda: heard.of("failed"))
    assert [(f.id, f.kind) for f in heard.of("failed")][-1] == (answer.id, "Cancelled")
    n = len(heard.all)
    qtbot.wait(200)
    assert heard.all[n:] == []


@pytest.mark.model_file
@pytest.mark.parametrize("moment", ["starting", "loading", "answering"])
def test_closed_at_any_moment(
    engine: LocalEngine,
    client: EngineClient,
    heard: Heard,
    qtbot: QtBot,
    smollm2_path: Path,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process hears it: nobody has to wait until it is ended by force."""
    monkeypatch.setattr("engine.worker.handle.GRACE", 1e6)
    heard.follow(client.open(Load(0, str(smollm2_path), OPTIONS)))
    if moment != "starting":
        wait(qtbot, lambda: heard.of("progress" if moment == "loading" else "loaded"))
    if moment == "answering":
        number = heard.follow(client.send(LONG))
        wait(qtbot, lambda: heard.pieces(number))
    assert engine.pid is not None
    process = psutil.Process(engine.pid)
    client.close()
    engine.close()
    assert not process.is_running()
    assert heard.of("died") == []
    assert client.open(Load(0, str(smollm2_path), OPTIONS)).id == 0  # nothing happens any more
    assert not engine.alive


def test_a_slot_may_close_the_client(
    engine: LocalEngine, client: EngineClient, heard: Heard, qtbot: QtBot, tmp_path: Path
) -> None:
    client.failed.connect(lambda _: client.close())
    for _ in range(5):
        client.open(Load(0, str(tmp_path / "no.gguf"), OPTIONS))
    wait(qtbot, lambda: heard.of("failed"))
    qtbot.wait(50)
    assert len(heard.of("failed")) == 1


def test_a_process_that_cannot_be_started(qapp: object, qtbot: QtBot) -> None:
    def refuse() -> Worker:
        raise OSError(11, "Resource temporarily unavailable")

    engine = LocalEngine(refuse)
    client = EngineClient(engine)
    heard = Heard(client)
    refused: list[Failed] = []
    asked = client.send(ListDevices(0), fail=refused.append)
    wait(qtbot, lambda: heard.of("died"))
    assert "could not be started" in str(heard.of("died")[0])
    assert [f.id for f in refused] == [asked.id]
    client.close()
    engine.close()


def test_devices(client: EngineClient, heard: Heard, qtbot: QtBot) -> None:
    client.send(ListDevices(0))
    wait(qtbot, lambda: heard.of("devices"))
    assert isinstance(heard.of("devices")[0].devices, list)
