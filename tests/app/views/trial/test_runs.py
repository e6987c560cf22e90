"""The sheet of runs by mouse, and at other sizes of the text."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QScrollArea, QStyle, QStyleOptionButton, QWidget

from app.window.main_window import MainWindow
from engine.protocol import Cancel, FindFeatures, MapPatches, MeasureQuality, RecordDataset
from tests.app.helpers.seeing import until
from tests.app.rest import come_to_rest
from tests.app.window.scenes.trial_scenes import client, featured, measured, patched, recorded


def click(widget: QWidget) -> None:
    """A click of the mouse; what is further down is scrolled to first, as with its wheel."""
    for area in widget.window().findChildren(QScrollArea):
        if area.widget() is not None and area.widget().isAncestorOf(widget):
            area.ensureWidgetVisible(widget)
    assert widget.isVisible()
    QTest.mouseClick(widget, Qt.MouseButton.LeftButton)


RUNS = {
    patched: (0, MapPatches, "map"),
    measured: (1, MeasureQuality, "quality"),
    recorded: (2, RecordDataset, "recording"),
    featured: (3, FindFeatures, "features"),
}


@pytest.mark.parametrize("scene", RUNS, ids=lambda scene: scene.__name__)
def test_runs_are_started_and_stopped_by_mouse(
    window: MainWindow, scene: Callable[[MainWindow], None]
) -> None:
    row, kind, result = RUNS[scene]
    scene(window)
    if kind is MeasureQuality:
        client(window).load_done()
    view, asked = window.sheets.runs, len(client(window).asked)
    assert view.form is view.forms[row]
    click(view.begin)
    until(lambda: any(isinstance(one, kind) for one in client(window).asked[asked:]))
    assert view.bar.isVisible()
    click(view.stop)
    until(lambda: isinstance(client(window).last, Cancel))
    assert getattr(view, result).isVisible()
    click(view.copy_command)
    assert QApplication.clipboard().text().startswith("cutaway ")


@pytest.mark.styled
def test_check_boxes_grow_with_the_text_of_an_open_sheet(window: MainWindow) -> None:
    recorded(window)
    box = window.sheets.runs.record_form.kinds["norms"]
    window.bench.preferences.update(font_scale=2.0)
    come_to_rest(window, window.bench)
    option = QStyleOptionButton()
    box.initStyleOption(option)
    ticked = box.style().subElementRect(QStyle.SubElement.SE_CheckBoxIndicator, option, box)
    assert box.rect().contains(ticked)
