"""Choosing a model: prediction, options that are kept, fetches with terms and cancel."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.fetch.known import GEMMA3
from app.library import Stored
from app.state.models.downloads import Download
from app.views.models.chooser import DISCOVER, MODELS
from app.views.models.chooser_options import WAIT_MS
from app.window.main_window import MainWindow
from engine.protocol import (
    DeviceRow,
    ListDevices,
    Load,
    Predict,
    PredictedMemory,
    Unload,
    WireMessage,
)
from engine.settings import KV_TYPES
from tests.app.helpers.records import MIB, memory
from tests.app.helpers.scripted import ScriptedEngine

Asked = Callable[[type[WireMessage]], list[WireMessage]]


@pytest.fixture
def models(window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Stored]:
    """Two models, one of them broken, and the chooser is open."""
    good, bad = tmp_path / "good.gguf", tmp_path / "bad.gguf"
    found = [
        Stored("good", (good,), 98 * MIB, "own", False, "llama", "Q4_1"),
        Stored("bad", (bad,), 5, "own", False, problem="bad.gguf: not a GGUF file"),
    ]
    monkeypatch.setattr(window.bench.library, "refresh", lambda: None)
    window.bench.library.models = found
    window.bench.library.changed.emit()
    window.sheets.show_chooser()
    return found


def test_without_a_model_it_opens_at_those_to_download(
    window: MainWindow, models: list[Stored]
) -> None:
    chooser = window.sheets.chooser
    assert chooser.tabs.tabText(chooser.tabs.currentIndex()) == "On this disk"
    window.bench.library.models = []
    window.sheets.show_chooser()
    assert chooser.tabs.tabText(chooser.tabs.currentIndex()) == "Discover"
    assert chooser.discover.isVisible()
    assert chooser.discover.words.hasFocus()
    window.bench.library.models, window.bench.library.problem = [], "a folder cannot be read"
    chooser.tabs.setCurrentIndex(0)
    window.sheets.show_chooser()
    assert chooser.tabs.tabText(chooser.tabs.currentIndex()) == "On this disk"


@pytest.fixture
def client(window: MainWindow) -> ScriptedEngine:
    assert isinstance(window.bench.engine, ScriptedEngine)
    return window.bench.engine


@pytest.fixture
def asked(client: ScriptedEngine) -> Asked:
    return lambda kind: [r for r in client.asked if isinstance(r, kind)]


def click(window: MainWindow, words: str) -> None:
    (button,) = [b for b in window.findChildren(QPushButton) if b.text() == words and b.isVisible()]
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def says(window: MainWindow) -> str:
    return window.sheets.chooser.options.fits.text()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kv", KV_TYPES)
def test_every_type_of_cache_can_be_chosen(
    window: MainWindow, models: list[Stored], asked: Asked, client: ScriptedEngine, kv: str
) -> None:
    cache = window.sheets.chooser.options.cache
    assert cache.currentData() == "f16"
    cache.setCurrentIndex(cache.findData(kv))
    cache.activated.emit(cache.currentIndex())
    assert window.sheets.chooser.options.options().kv == kv
    client.predict(memory("planned"))
    click(window, "Load")
    assert [load.options.kv for load in asked(Load) if isinstance(load, Load)] == [kv]


def test_8_bit_activations_are_chosen_beside_their_cost(
    window: MainWindow, models: list[Stored], asked: Asked, client: ScriptedEngine
) -> None:
    options = window.sheets.chooser.options
    assert options.activations.currentData() == 12
    assert not options.activations.isVisible()
    QTest.mouseClick(options.advanced, Qt.MouseButton.LeftButton)
    assert not options.cost.isVisible()
    QTest.keyClick(options.activations, Qt.Key.Key_Down)
    assert options.cost.isVisible()
    assert "1 in 40 top tokens" in options.cost.text()
    client.predict(memory("planned"))
    click(window, "Load")
    assert [load.options.activations for load in asked(Load) if isinstance(load, Load)] == [8]
    client.load_done()
    options.activations.setCurrentIndex(0)
    window.sheets.show_chooser()
    options.show_model(models[0])
    assert options.activations.currentData() == 8
    assert options.cost.isVisible()
    kept = window.bench.preferences.of_model(str(models[0].paths[0]))
    assert kept.activations == 8


def test_the_engine_is_asked_what_it_would_take(
    window: MainWindow, models: list[Stored], asked: Asked, client: ScriptedEngine, qtbot: QtBot
) -> None:
    options = window.sheets.chooser.options
    (first,) = asked(Predict)
    assert isinstance(first, Predict)
    assert first.path == str(models[0].paths[0])
    client.say(memory("planned"))
    assert says(window) == "Estimating memory …"
    client.predict(memory("planned"))
    assert says(window).startswith("Fits: ")
    options.context.setCurrentIndex(options.context.findData(4096))
    options.context.activated.emit(options.context.currentIndex())
    assert says(window) == "Estimating memory …"
    qtbot.waitUntil(lambda: len(asked(Predict)) == 2)
    last = asked(Predict)[-1]
    assert isinstance(last, Predict)
    assert last.options.ctx == 4096
    client.predict(memory("planned", fits=False))
    assert "312 MiB too much" in says(window)
    assert options.load.text() == "Load anyway"


def test_the_verdict_has_the_speed_where_it_was_measured(
    window: MainWindow, models: list[Stored], client: ScriptedEngine
) -> None:
    number, told = client.last_of(Predict).id, memory("planned")  # type: ignore[attr-defined]
    known = msgspec.structs.asdict(told) | {"id": number, "tokens_per_s": 46.28}
    client.say(PredictedMemory(**known))
    assert says(window).endswith(" MiB free. About 46.3 tokens per second.")


def test_options_are_kept_with_the_model(
    window: MainWindow, models: list[Stored], asked: Asked, client: ScriptedEngine
) -> None:
    options = window.sheets.chooser.options
    rows = [DeviceRow(f"pocl:{i}", "PoCL", "x", "1", 1 << 30, 2, False) for i in range(3)]
    client.answer(ListDevices, rows)
    assert options.options().device is None
    assert not options.devices.place.isVisible()
    for name in ("pocl:1", "pocl:2"):
        QTest.keyClick(options.devices.boxes[name], Qt.Key.Key_Space)
    QTest.keyClicks(options.devices.place, "3,1")
    options.context.setCurrentIndex(options.context.findData(2048))
    click(window, "Load")
    assert window.sheets.front is None
    (load,) = asked(Load)
    assert isinstance(load, Load)
    assert (load.options.device, load.options.ctx) == ("pocl:1,pocl:2", 2048)
    assert load.options.place == "3,1"
    client.load_done()
    window.sheets.show_chooser()
    assert len(asked(ListDevices)) == 1
    window.sheets.chooser.options.show_model(models[1])
    window.sheets.chooser.options.show_model(models[0])
    assert window.sheets.chooser.options.options().device == "pocl:1,pocl:2"
    assert window.sheets.chooser.options.options().place == "3,1"
    assert window.sheets.chooser.options.options().ctx == 2048
    click(window, "Unload")
    assert len(asked(Unload)) == 1


def test_what_cannot_be_read_cannot_be_loaded(
    window: MainWindow, models: list[Stored], asked: Asked
) -> None:
    before = len(asked(Predict))
    window.sheets.chooser.table.choose(1)
    assert not window.sheets.chooser.options.load.isEnabled()
    assert "not a GGUF file" in window.sheets.chooser.options.caption.text()
    assert len(asked(Predict)) == before


def test_enter_loads_the_chosen_model(
    window: MainWindow, models: list[Stored], asked: Asked
) -> None:
    QTest.keyClick(window.sheets.chooser.table.view, Qt.Key.Key_Return)
    assert len(asked(Load)) == 1


def test_what_is_advanced_is_folded_until_it_is_wanted(
    window: MainWindow, models: list[Stored]
) -> None:
    options = window.sheets.chooser.options
    assert options.context.isVisible()
    assert not options.devices.isVisible()
    QTest.keyClick(options.advanced, Qt.Key.Key_Space)
    assert options.devices.isVisible()
    assert options.cache.isVisible()
    assert window.bench.preferences.value.window.advanced_shown
    options.show_model(models[1])  # it cannot be read
    assert not options.advanced.isVisible()
    options.show_model(models[0])
    assert options.devices.isVisible()
    QTest.keyClick(options.advanced, Qt.Key.Key_Space)
    assert not options.devices.isVisible()


def test_one_that_does_not_fit_offers_a_smaller_context(
    window: MainWindow, models: list[Stored], asked: Asked, client: ScriptedEngine
) -> None:
    options = window.sheets.chooser.options
    assert not options.smaller.isVisible()
    client.predict(memory("planned", fits=False))
    assert options.smaller.isVisible()
    QTest.mouseClick(options.smaller, Qt.MouseButton.LeftButton)
    assert options.options().ctx == 2048
    QTest.qWait(WAIT_MS + 100)
    last = [r for r in asked(Predict) if isinstance(r, Predict)][-1]
    assert last.options.ctx == 2048
    client.predict(memory("planned"))
    assert not options.smaller.isVisible()
    assert says(window).startswith("Fits")


def test_tabs_by_the_keyboard(window: MainWindow, models: list[Stored]) -> None:
    chooser = window.sheets.chooser
    assert chooser.table.isVisible()
    chooser.tabs.setFocus()
    QTest.keyClick(chooser.tabs, Qt.Key.Key_Right)
    assert chooser.discover.isVisible()
    assert not chooser.table.isVisible()
    QTest.keyClick(chooser.tabs, Qt.Key.Key_Right)
    assert chooser.servers.isVisible()
    assert chooser.width() > window.width() - 100  # it grows with the window


def test_terms_come_before_the_fetch(
    window: MainWindow, models: list[Stored], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[tuple[str, bool]] = []

    def fetch(name: str, _: object, __: object, accept_terms: bool, *___: object) -> Path:
        fetched.append((name, accept_terms))
        return Path("/x/y.gguf")

    monkeypatch.setattr("app.fetch.fetch", fetch)
    repo = window.sheets.chooser.discover.repo
    repo.open(GEMMA3.name)
    QTest.mouseClick(repo.download.get, Qt.MouseButton.LeftButton)
    assert window.sheets.terms.isVisible()
    assert fetched == []
    click(window, "Accept and download")
    QTest.qWait(100)
    assert fetched == [(GEMMA3.name, True)]
    assert not window.sheets.terms.isVisible()


def test_a_fetch_is_shown_and_cancelled(window: MainWindow, models: list[Stored]) -> None:
    downloads = window.bench.downloads
    cancelled: list[str] = []
    downloads.cancel = cancelled.append  # type: ignore[method-assign]
    downloads.items["org/repo"] = Download("org/repo", "running", "download", MIB, 4 * MIB)
    downloads.changed.emit("org/repo")
    window.sheets.chooser.tabs.setCurrentIndex(DISCOVER)
    QTest.qWait(20)
    (stop,) = [
        b
        for b in window.sheets.chooser.discover.downloads.findChildren(QPushButton)
        if b.accessibleName() == "Cancel org/repo"
    ]
    assert stop.isVisible()
    QTest.mouseClick(stop, Qt.MouseButton.LeftButton)
    assert cancelled == ["org/repo"]
    downloads.items["org/repo"] = Download("org/repo", "done")
    downloads.changed.emit("org/repo")
    assert "org/repo" not in window.sheets.chooser.discover.downloads.lines


def test_a_fetched_model_opens_by_itself(window: MainWindow, asked: Asked, tmp_path: Path) -> None:
    window.opener.fetched_for_use = "smollm2-135m"
    path = tmp_path / "SmolLM2.gguf"
    window.bench.downloads.finished.emit("smollm2-135m", path)
    (load,) = asked(Load)
    assert isinstance(load, Load)
    assert load.path == str(path)
    window.bench.downloads.finished.emit("gemma3-270m", tmp_path / "other.gguf")
    assert len(asked(Load)) == 1


def test_contexts_end_where_the_training_did(window: MainWindow, tmp_path: Path) -> None:
    options = window.sheets.chooser.options
    path = tmp_path / "small.gguf"
    window.bench.preferences.update_model(str(path), ctx=131072)
    options.show_model(Stored("small", (path,), 5, "own", False, "llama", "F16", n_ctx=8192))
    counts = [options.context.itemData(at) for at in range(options.context.count())]
    assert counts == [None, 512, 1024, 2048, 4096, 8192]
    assert options.options().ctx == 8192
    assert options.context.currentText() == "8\u2009192 tokens, the model's maximum"


def test_an_opened_file_is_in_the_list(
    window: MainWindow, client: ScriptedEngine, tiny_path: Path, qtbot: QtBot
) -> None:
    """From wherever it was opened: it can be loaded anew with other options."""
    window.bench.open_model(tiny_path)
    qtbot.waitUntil(lambda: window.bench.session.status == "loading")
    client.load_done()
    window.sheets.show_chooser()
    table = window.sheets.chooser.table
    qtbot.waitUntil(lambda: any(tiny_path in m.paths for m in table.rows.shown))
    (stored,) = [m for m in table.rows.shown if tiny_path in m.paths]
    assert (stored.origin, stored.n_ctx, stored.problem) == ("opened", 256, None)
    qtbot.waitUntil(lambda: window.sheets.chooser.options.load.text() == "Reload")
    window.bench.preferences.remember_opened(str(tiny_path.with_name("gone.gguf")))
    qtbot.waitUntil(lambda: not window.bench.library.looking)
    assert all("gone" not in m.name for m in window.bench.library.models)


def test_folders_are_watched_and_no_longer(
    window: MainWindow, tiny_path: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    folder = tmp_path / "mine" / "deep"
    folder.mkdir(parents=True)
    window.sheets.show_chooser()
    view, library = window.sheets.chooser.folders, window.bench.library
    qtbot.waitUntil(lambda: library.known and not library.looking)
    view.add(str(folder.parent))
    view.add(str(folder.parent))
    assert window.bench.preferences.value.watched_folders == [str(folder.parent)]
    qtbot.waitUntil(lambda: not library.looking)
    shutil.copy(tiny_path, folder.parent / "added.gguf")  # noticed, though nobody looks again
    qtbot.waitUntil(lambda: [m.origin for m in library.models if m.name == "added"] == ["watched"])
    (remove,) = [b for b in view.findChildren(QPushButton) if b.text() == "Remove"]
    assert remove.accessibleName() == f"Stop watching {folder.parent}"
    QTest.mouseClick(remove, Qt.MouseButton.LeftButton)
    assert window.bench.preferences.value.watched_folders == []
    qtbot.waitUntil(lambda: all(m.name != "added" for m in library.models))
    assert window.focusWidget() is view.add_folder


def test_the_last_model_leaves_nothing_to_load(
    window: MainWindow, models: list[Stored], qtbot: QtBot
) -> None:
    """It was deleted, here or by another program."""
    chooser, library = window.sheets.chooser, window.bench.library
    qtbot.waitUntil(lambda: not library.looking)
    library.models = models
    library.changed.emit()
    assert chooser.options.load.isEnabled()
    assert chooser.storage.delete.isVisible()
    library.models = []
    library.changed.emit()
    assert not chooser.options.load.isEnabled()
    assert not chooser.storage.delete.isVisible()


def test_adapters_are_listed_and_chosen_with_their_model(
    window: MainWindow, models: list[Stored], asked: Asked, tmp_path: Path
) -> None:
    base = models[0].paths[0]
    mine, other = tmp_path / "poems.gguf", tmp_path / "code.gguf"
    window.bench.library.models = [
        *models,
        Stored("poems", (mine,), 5, "own", False, "llama", "F16", adapts="SmolLM2 135M"),
        Stored("code", (other,), 5, "own", False, "qwen2", "F16", adapts=""),
    ]
    window.bench.library.changed.emit()
    chooser = window.sheets.chooser
    kinds = [MODELS[1].text(model) for model in chooser.table.rows.shown]
    assert kinds[2:] == ["adapter for SmolLM2 135M", "adapter for qwen2"]
    options = chooser.options
    options.show_model(window.bench.library.models[2])
    assert options.caption.text().startswith("A LoRA adapter for SmolLM2 135M. Choose such a model")
    assert not options.load.isEnabled()
    options.show_model(models[0])
    assert options.load.isEnabled()
    offered = [options.adapters.itemText(at) for at in range(options.adapters.count())]
    assert offered == ["None", "poems"]
    assert options.options().lora == {}
    assert not options.scale.isVisibleTo(options)
    options.adapters.setCurrentIndex(1)
    options.adapters.activated.emit(1)
    assert options.options().lora == {str(mine): 1.0}
    options.scale.setValue(0.5)
    options.load.click()
    load = asked(Load)[-1]
    assert isinstance(load, Load)
    assert (load.path, load.options.lora) == (str(base), {str(mine): 0.5})
