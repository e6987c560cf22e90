"""Pictures of the window to look at: CUTAWAY_SCREENSHOTS names the folder that keeps them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.library import Stored
from app.state.models.downloads import Download
from app.state.problem import Problem
from app.window.main_window import MainWindow
from engine.protocol import DeviceRow, Failed, ListDevices, MemoryEvents, Predict, Progress
from tests.app.helpers.records import MIB, events, memory, refused, step_times
from tests.app.helpers.scripted import ScriptedEngine

SIZES = ((1600, 1000), (1100, 700))
THEMES = ("light", "dark")
PATH = Path("/models/SmolLM2-135M-Instruct.Q4_1.gguf")
ANSWER = (
    "**Paris** is the capital of France.\n\n", "Its population over time:\n\n",
    "| year | people |\n|---|---|\n| 1801 | 546,856 |\n| 2021 | 2,133,111 |\n\n",
    "```python\n", "def growth(a: int, b: int) -> float:\n", "    return b / a - 1\n", "```\n\n",
    "That is *almost* four times as many.",
)  # fmt: skip


def client(window: MainWindow) -> ScriptedEngine:
    made = window.bench.engine
    assert isinstance(made, ScriptedEngine)
    return made


def empty(window: MainWindow) -> None:
    """Nobody's first look."""


def models(window: MainWindow) -> list[Stored]:
    found = [
        Stored("smollm2-135m", (PATH,), 98 * 10**6, "own", False, "llama", "Q4_1"),
        Stored("gemma3-270m", (Path("/m/g.gguf"),), 253 * 10**6, "own", False, "gemma3", "Q4_K_M"),
        Stored(
            "bartowski/Qwen3-4B-GGUF:Q4_K_M", (Path("/m/q-1.gguf"), Path("/m/q-2.gguf")),
            2_497 * 10**6, "hugging face", False, "qwen3", "Q4_K_M",
        ),
        Stored("broken", (Path("/m/b.gguf"),), 12345, "own", False, problem="not a GGUF file"),
    ]  # fmt: skip
    window.bench.library.models = found
    window.bench.library.changed.emit()
    return found


def stored(window: MainWindow) -> None:
    models(window)


def fetching(window: MainWindow) -> None:
    item = Download("smollm2-135m", "running", "download", 41 * MIB, 88 * MIB, 3.4 * MIB, 14.0)
    window.bench.downloads.items[item.name] = item
    window.bench.downloads.changed.emit(item.name)


def loading(window: MainWindow) -> None:
    window.bench.open_model(PATH)
    client(window).say(memory("planned"), Progress(client(window).last.id, "load", 30, 52))
    QTest.qWait(50)
    client(window).say(Progress(client(window).last.id, "load", 31 * MIB, 52 * MIB))


def ready(window: MainWindow) -> None:
    loading(window)
    client(window).say(memory("allocated"))
    client(window).load_done()


def answered(window: MainWindow) -> None:
    ready(window)
    for title in ("What is the capital of France?", "Explain RoPE", "A poem about memory"):
        window.bench.chat.open(None)
        assert window.bench.chat.send(title)
        client(window).write(*ANSWER)
        client(window).end()
        QApplication.processEvents()


def busy(window: MainWindow) -> None:
    answered(window)
    assert window.bench.chat.send("And of Italy?")
    client(window).write("The capital of Italy", " is Rome, ")


def failed(window: MainWindow) -> None:
    answered(window)
    text = "intel:0: no room for cache: 512.0 MiB wanted, 200.0 MiB left"
    window.talk.notices.problem("session", Problem("NoMem", text, "restart_less"))
    window.talk.notices.news("drop", "SmolLM2 can't read images; cat.png wasn't attached.")


def refused_cell(window: MainWindow) -> None:
    window.bench.open_model(PATH)
    text = "nvidia:0: no room for cache of layer 9: 1.6 MiB wanted, 0.2 MiB left; by its budget"
    client(window).say(memory("planned", fits=False), MemoryEvents(0, events()[:19]), refused())
    client(window).say(Failed(client(window).last.id, "NoMem", text))


def timeline(window: MainWindow) -> None:
    window.bench.open_model(PATH)
    client(window).say(memory("planned"), MemoryEvents(0, events()), memory("allocated"))
    client(window).load_done()
    window.inspector.memory.show_page("timeline")


def splits(window: MainWindow) -> None:
    answered(window)
    client(window).say(step_times())
    window.inspector.memory.show_page("splits")


def no_splits(window: MainWindow) -> None:
    ready(window)
    window.inspector.memory.show_page("splits")


def timed(window: MainWindow) -> None:
    answered(window)
    client(window).say(step_times())


def timeline_refused(window: MainWindow) -> None:
    refused_cell(window)
    window.inspector.memory.show_page("timeline")


def table(window: MainWindow) -> None:
    ready(window)
    window.inspector.memory.toggle_table()


def file(window: MainWindow) -> None:
    window.bench.file.open(Path(window.property("tiny")))
    window.panes.show_tab("model")


def tokenizer(window: MainWindow) -> None:
    file(window)
    window.inspector.model.tabs.setCurrentIndex(2)


def chooser(window: MainWindow, fits: bool = True) -> None:
    found = models(window)
    window.bench.library.refresh = lambda: None  # type: ignore[method-assign]
    window.sheets.chooser.table.rows.show_rows(found)
    window.sheets.show_chooser()
    window.sheets.chooser.table.choose(1)
    rows = [
        DeviceRow("intel:0", "Intel CPU", "Intel", "1", 24 << 30, 8, True),
        DeviceRow("nvidia:0", "NVIDIA RTX", "NVIDIA", "1", 8 << 30, 40, False),
    ]
    client(window).answer(ListDevices, rows)
    predict = [r for r in client(window).asked if isinstance(r, Predict)]
    assert predict
    found_memory = memory("planned", fits=fits)
    client(window).predict(found_memory)


def too_large(window: MainWindow) -> None:
    chooser(window, fits=False)


def palette(window: MainWindow) -> None:
    answered(window)
    window.sheets.show_palette()
    window.sheets.palette.query.setText("chat")


def preferences(window: MainWindow) -> None:
    window.sheets.show_preferences()


SCENES = (
    empty, stored, fetching, loading, ready, answered, busy, failed, refused_cell,
    timeline, timeline_refused, splits, no_splits, timed,
    table, file, tokenizer, chooser, too_large, palette, preferences,
)  # fmt: skip


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_scene(
    window: MainWindow, scene: Callable[[MainWindow], None], folder: Path, tiny_path: Path
) -> None:
    """It is drawn, in every size and theme; what cannot be asserted is to be looked at."""
    window.setProperty("tiny", str(tiny_path))
    scene(window)
    QTest.qWait(150)
    for theme in THEMES:
        window.bench.preferences.update(theme=theme)
        for width, height in SIZES:
            window.resize(width, height)
            QTest.qWait(30)
            picture = window.grab()
            path = folder / f"{scene.__name__}-{width}x{height}-{theme}.png"
            assert picture.save(str(path))
            assert (picture.width(), picture.height()) == (width, height)
            image = picture.toImage().scaled(80, 50)
            colours = {image.pixel(x, y) for x in range(80) for y in range(50)}
            assert len(colours) > 5
