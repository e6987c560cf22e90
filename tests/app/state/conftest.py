"""Folders of one's own, a store, and (where the engine takes part) a bench with a real model."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.local_engine import LocalEngine
from app.state.problem import Problem
from app.state.talk.disk.store import ChatStore
from app.state.workbench import Workbench

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

Until = Callable[[Callable[[], object]], None]
PATIENCE_MS = 120_000


@pytest.fixture
def until(qtbot: QtBot) -> Until:
    """Runs the event loop until something is true."""

    def wait(condition: Callable[[], object]) -> None:
        qtbot.waitUntil(lambda: bool(condition()), timeout=PATIENCE_MS)

    return wait


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChatStore]:
    """An empty store."""
    store = ChatStore(tmp_path / "chats.sqlite")
    yield store
    store.close()


@pytest.fixture
def bench(qapp: object, kept_engines: None, tmp_path: Path) -> Iterator[Workbench]:
    """All state, on empty folders; no thread is left behind."""
    before = set(threading.enumerate())
    engine = LocalEngine()
    bench = Workbench(engine, tmp_path / "config", tmp_path / "data")
    yield bench
    bench.close()
    engine.close()
    assert set(threading.enumerate()) <= before


@pytest.fixture
def problems(bench: Workbench) -> list[Problem]:
    """What the bench's chat and list complained of."""
    heard: list[Problem] = []
    bench.chat.problem.connect(heard.append)
    bench.chats.problem.connect(heard.append)
    return heard


@pytest.fixture(scope="module")
def shared(
    qapp: object, smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workbench]:
    """A bench for all tests of a module, so that the model is read once."""
    folder = tmp_path_factory.mktemp("bench")
    engine = LocalEngine()
    bench = Workbench(engine, folder / "config", folder / "data")
    yield bench
    bench.close()
    engine.close()


@pytest.fixture
def open_bench(shared: Workbench, smollm2_path: Path, until: Until) -> Workbench:
    """The shared bench with the model open and a new chat that answers the same each time."""
    if shared.session.status != "ready":
        shared.open_model(smollm2_path)
        until(lambda: shared.session.status == "ready")
    shared.chat.open(None)
    return shared
