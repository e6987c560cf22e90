"""Nothing is cut off or lies over something else, at any size of text and of the window."""

from collections.abc import Callable

import pytest
from PySide6.QtTest import QTest

from app.window.main_window import MainWindow
from tests.app.views.painted import faults, overlapping
from tests.app.window import test_screenshots as scenes

SCALES = (0.75, 1.0, 2.0)
SIZES = ((640, 700), (1100, 700), (1600, 1000))
SCENES = (
    scenes.answered, scenes.refused_cell, scenes.timeline, scenes.timeline_refused, scenes.splits,
    scenes.timed, scenes.table, scenes.chooser, scenes.too_large,
)  # fmt: skip


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_legible(window: MainWindow, scene: Callable[[MainWindow], None]) -> None:
    scene(window)
    found = []
    for scale in SCALES:
        window.bench.preferences.update(font_scale=scale)
        for width, height in SIZES:
            window.resize(width, height)
            window.panes.show_tab("memory")
            QTest.qWait(20)
            for part in (window.inspector.memory, window.sheets.chooser):
                wrong = {*faults(part), *overlapping(part)}
                found += [f"{scale} {width}: {text}" for text in sorted(wrong)]
    assert found == []
