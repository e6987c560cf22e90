"""A picture of 24 megapixels comes in, is sent and looked at, and the window stays fluid.

Processor time of the window's thread is measured, as in `test_fluid`.
"""

from itertools import count
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from app.window.main_window import MainWindow
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.helpers.seeing import attach, opened, until, whole
from tests.app.helpers.turns import Turns
from tests.bounds import holds_once, slowness

pytestmark = [pytest.mark.usefixtures("small_heap"), pytest.mark.alone]
AT_WORST = 0.050


def test_24_megapixels(window: MainWindow, tmp_path: Path) -> None:
    engine = opened(window)
    assert window.bench.chat.send("Hello")  # icons and fonts are drawn for the first time
    engine.write("Hello.")
    engine.end()
    engine.keeps_pictures = False  # what it would decode is another process's work
    noises = (noise(tmp_path, seed) for seed in count())
    holds_once(lambda: look_fluidly(window, engine, next(noises)))


def noise(folder: Path, seed: int) -> Path:
    pixels = np.random.default_rng(seed).integers(0, 255, (400, 600, 3), dtype=np.uint8)
    path = folder / f"large{seed}.jpg"
    Image.fromarray(pixels).resize((6000, 4000)).save(path)
    assert path.stat().st_size > 1 << 20
    return path


def look_fluidly(window: MainWindow, engine: ScriptedEngine, path: Path) -> None:
    del engine.asked[:]
    chat, viewer = window.bench.chat, window.sheets.viewer
    turns = Turns()
    attach(window, engine, path, plan=whole)
    kept = chat.attached.pictures
    until(lambda: window.loader.thumbnail(chat.pictures_in_engine.path(kept[0])))
    turns.end_one()
    assert chat.send("What is it?")
    turns.end_one()
    window.sheets.show_pictures(kept, 0)
    turns.end_one()
    until(lambda: "6\u2009000" in viewer.canvas.accessibleName())
    viewer.zoom.click()
    until(lambda: viewer.canvas.area.width() == 6000)
    until(lambda: f"{path.name}, 6" in viewer.canvas.accessibleName())
    turns.stop()
    viewer.zoom.click()
    viewer.done.emit()
    engine.end()
    assert turns.longest <= AT_WORST * slowness()
