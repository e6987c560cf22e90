"""A server of our own, and a machine that knows no other; a folder for the window's pictures."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from tests.app.helpers.fake_hub import FakeHub, fake_hub
from tests.app.helpers.no_network import refused, refusing
from tests.app.helpers.server import Server, serve
from tests.app.left import delete_new, top_widgets
from tests.in_process import kept_engines

__all__ = ["kept_engines", "refused", "refusing"]

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
PATIENCE_MS = 60_000


class PatientBot(QtBot):
    """Waits a minute, which only ends what hangs, where pytest-qt would wait five seconds."""

    def waitUntil(self, callback: Callable[[], Any], *, timeout: int = PATIENCE_MS) -> None:  # noqa: N802
        super().waitUntil(callback, timeout=timeout)

    def waitActive(self, widget: QWidget, *, timeout: int = PATIENCE_MS) -> Any:  # noqa: N802
        return super().waitActive(widget, timeout=timeout)

    def waitExposed(self, widget: QWidget, *, timeout: int = PATIENCE_MS) -> Any:  # noqa: N802
        return super().waitExposed(widget, timeout=timeout)

    def waitSignal(self, signal: Any, *, timeout: int = PATIENCE_MS, **how: Any) -> Any:  # noqa: N802
        return super().waitSignal(signal, timeout=timeout, **how)


@pytest.fixture
def qtbot(qapp: object, request: pytest.FixtureRequest) -> QtBot:
    """As pytest-qt's, for machines of any speed."""
    return PatientBot(request)


@pytest.fixture(autouse=True)
def nothing_between_tests() -> Iterator[None]:
    """What tests leave is deleted in this thread; in that of a job it crashes Qt. Each widget that
    stays would be dressed again with each window of all tests that follow.
    """
    gc.disable()
    before = top_widgets()
    yield
    delete_new(before)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def clipboard_is_left_empty() -> Iterator[None]:
    """Qt for Python 6.11 crashes at the end of a process whose clipboard holds a QMimeData."""
    yield
    if QGuiApplication.instance() is not None:
        QGuiApplication.clipboard().clear()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go."""
    named = os.environ.get("CUTAWAY_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package index and no proxy of this machine."""
    for name in [n for n in os.environ if n.startswith(("PIP_", "UV_")) or "proxy" in n.lower()]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


@pytest.fixture
def server(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A running server; it is the package index and the Hugging Face endpoint, without a proxy."""
    _no_index(monkeypatch)
    with serve() as running:
        monkeypatch.setenv("PIP_INDEX_URL", f"{running.url}/simple/")
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1 localhost")
        yield running


@pytest.fixture
def hub(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hugging Face Hub without repositories; it is the endpoint, without a proxy or a token."""
    _no_index(monkeypatch)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with fake_hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("CUTAWAY_TEST_HOSTS", "127.0.0.1 localhost")
        yield running
