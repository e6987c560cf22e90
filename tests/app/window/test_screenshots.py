"""Pictures of the window to look at: CUTAWAY_SCREENSHOTS names the folder that keeps them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.library import Stored
from app.state.models.downloads import Download
from app.state.problem import Problem
from app.window.main_window import MainWindow
from engine.protocol import (
    DeviceRow,
    Failed,
    ListDevices,
    MemoryEvents,
    PicturePlan,
    Predict,
    Progress,
)
from tests.app.helpers import inside, numbers
from tests.app.helpers.records import MIB, events, memory, refused, step_times
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import bring, landscape, load_seeing, price, show, tiled, until, whole
from tests.app.window.scenes import (
    compare_scenes,
    discover_scenes,
    ending_scenes,
    graph_scenes,
    layer_scenes,
    pair_scenes,
    report_scenes,
    server_scenes,
    trial_scenes,
)

Plan = Callable[[int, int], PicturePlan]
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
    window.talk.notices.news("drop", "notes.txt is not a model (.gguf) or a picture.", "warn")


def refused_cell(window: MainWindow) -> None:
    window.bench.open_model(PATH)
    text = "nvidia:0: no room for cache of layer 9: 1.6 MiB wanted, 0.2 MiB left; by its budget"
    client(window).say(memory("planned", fits=False), MemoryEvents(0, events()[:19]), refused())
    client(window).say(Failed(client(window).last.id, "NoMem", text))


def timeline(window: MainWindow) -> None:
    window.bench.open_model(PATH)
    client(window).say(memory("planned"), MemoryEvents(0, events()), memory("allocated"))
    client(window).load_done()
    window.panes.show_tab("memory")
    window.inspector.memory.show_page("timeline")


def splits(window: MainWindow) -> None:
    answered(window)
    client(window).say(step_times())
    window.panes.show_tab("memory")
    window.inspector.memory.show_page("splits")


def no_splits(window: MainWindow) -> None:
    ready(window)
    window.panes.show_tab("memory")
    window.inspector.memory.show_page("splits")


def timed(window: MainWindow) -> None:
    answered(window)
    client(window).say(step_times())


def timeline_refused(window: MainWindow) -> None:
    refused_cell(window)
    window.panes.show_tab("memory")
    window.inspector.memory.show_page("timeline")


def table(window: MainWindow) -> None:
    ready(window)
    window.panes.show_tab("memory")
    window.inspector.memory.toggle_table()


def file(window: MainWindow) -> None:
    window.bench.file.open(Path(window.property("tiny")))
    window.sheets.show_file()


def tokenizer(window: MainWindow) -> None:
    file(window)
    window.sheets.file.tabs.setCurrentIndex(2)


def chooser(window: MainWindow) -> None:
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
    client(window).predict(memory("planned"))


def too_large(window: MainWindow) -> None:
    """With activations of 8 bits, whose cost takes a line more."""
    chooser(window)
    bits = window.sheets.chooser.options.activations
    bits.setCurrentIndex(bits.findData(8))
    bits.activated.emit(bits.currentIndex())
    asked = client(window).asked
    until(lambda: isinstance(asked[-1], Predict) and asked[-1].options.activations == 8)
    client(window).predict(memory("planned", fits=False))


def palette(window: MainWindow) -> None:
    answered(window)
    window.sheets.show_palette()
    window.sheets.palette.query.setText("chat")


def guide(window: MainWindow) -> None:
    window.sheets.show_guide("Token")


def preferences(window: MainWindow) -> None:
    window.sheets.show_preferences()


def pictures(window: MainWindow, count: int = 3, plan: Plan = tiled) -> None:
    """Some pictures are attached, and the engine has told what they take."""
    window.bench.open_model(Path("/models/SmolVLM-256M-Instruct-Q8_0.gguf"))
    load_seeing(client(window))
    folder = Path(window.property("folder"))
    names = (
        "hills at noon.png",
        "a_very_long_name_of_a_photograph_IMG_20260412_173312.png",
        "c.png",
    )
    sizes = ((640, 480), (320, 960), (31, 17))
    paths = [
        landscape(folder / name, *size) for name, size in zip(names[:count], sizes, strict=False)
    ]
    window.vision.add_files(paths)
    until(lambda: len(window.bench.chat.attached.pictures) == count)
    bring(client(window), plan, count)
    kept = window.bench.chat.attached.pictures
    loader, brought = window.loader, window.bench.chat.pictures_in_engine
    until(lambda: all(loader.thumbnail(brought.path(picture)) for picture in kept))


def attached(window: MainWindow) -> None:
    """What each could be limited to is known."""
    pictures(window)
    price(client(window))
    window.talk.composer.field.set_text("What do these have in common?")


def broken_picture(window: MainWindow) -> None:
    pictures(window, 1)
    bad = Path(window.property("folder")) / "broken.png"
    bad.write_bytes(b"\x89PNG and no more")
    window.vision.add_files([bad])
    until(
        lambda: (
            "can't be opened" in window.talk.composer.attachments.caption.text()
            or window.talk.composer.attachments.caption.text().startswith("broken")
        )
    )


def looking(window: MainWindow) -> None:
    """The tower runs."""
    pictures(window, 2)
    assert window.bench.chat.send("What is in the pictures?")
    asked = client(window).last
    client(window).say(Progress(asked.id, "encode", 29, 156, None, (1, 2), (3, 13), (6, 12)))


def pictured(window: MainWindow) -> None:
    pictures(window)
    assert window.bench.chat.send("What do these have in common?")
    client(window).write("All of them show ", "green hills under a sun.")
    client(window).end()


def edited(window: MainWindow) -> None:
    """The question and its pictures are changed."""
    pictured(window)
    price(client(window))
    window.talk.chat.edit_last()


def blind(window: MainWindow) -> None:
    answered(window)
    window.vision.refuse("hills at noon.png")


def viewer(window: MainWindow) -> None:
    pictured(window)
    window.sheets.show_pictures(window.bench.chat.path[0].pictures, 0)
    until(lambda: "640" in window.sheets.viewer.canvas.accessibleName())


def seen(window: MainWindow, plan: Plan = tiled) -> None:
    pictures(window, 1, plan)
    window.commands.run("chat.seen")
    show(client(window), plan)
    window.sheets.viewer.seen.views.setFocus()
    QTest.keyClick(window.sheets.viewer.seen.views, Qt.Key.Key_Right)
    QTest.keyClick(window.sheets.viewer.seen.views, Qt.Key.Key_Right)


def seen_whole(window: MainWindow) -> None:
    seen(window, whole)


def word(window: MainWindow, layers: int = 30, heads: int = 9) -> None:
    """A word of the answer is looked at."""
    ready(window)
    assert window.bench.chat.send("Which capital lies on the Seine, and what is it known for?")
    client(window).write(
        "The", " capital", " of", " France", " is", " **", "Paris", "**", ",", " known"
    )
    client(window).end()
    window.panes.show_tab("token")
    window.bench.selection.select_token(window.bench.chat.path[1].id, 6)
    window.bench.token.send()
    inside.answer(client(window), layers=layers, heads=heads)
    window.bench.selection.select_layer(layers * 2 // 3)
    inside.answer(client(window), layers=layers, heads=heads)


def word_of_many_layers(window: MainWindow) -> None:
    word(window, 80, 64)


def words_as_tables(window: MainWindow) -> None:
    word(window)
    window.commands.run("view.table")


def no_word(window: MainWindow) -> None:
    """What is known from the file alone."""
    window.bench.open_model(Path(window.property("tiny")))
    client(window).load_done()
    window.panes.show_tab("token")
    until(lambda: window.bench.file.content is not None)


SCENES = (
    empty, stored, fetching, loading, ready, answered, busy, failed, refused_cell,
    timeline, timeline_refused, splits, no_splits, timed,
    table, file, tokenizer, chooser, too_large, palette, guide, preferences,
    *layer_scenes.SCENES,
    *numbers.SCENES,
    attached, broken_picture, looking, pictured, edited, blind, viewer, seen, seen_whole,
    word, word_of_many_layers, words_as_tables, no_word,
    *graph_scenes.SCENES, *trial_scenes.SCENES, *pair_scenes.SCENES,
    *compare_scenes.SCENES, *report_scenes.SCENES,
    *server_scenes.SCENES, *ending_scenes.SCENES, *discover_scenes.SCENES,
)  # fmt: skip


@pytest.mark.styled
@pytest.mark.full  # for the eye; test_legible looks at each scene in every size
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_scene(
    window: MainWindow,
    scene: Callable[[MainWindow], None],
    folder: Path,
    tiny_path: Path,
    tmp_path: Path,
) -> None:
    """It is drawn, in every size and theme; what cannot be asserted is to be looked at."""
    window.setProperty("tiny", str(tiny_path))
    window.setProperty("folder", str(tmp_path))
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
