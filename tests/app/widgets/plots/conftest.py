"""Plots alone in a window, in the light theme."""

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.theme.theme import Theme
from app.widgets.plots.canvas import PlotCanvas
from tests.app.helpers.gui import forget_widgets, one_theme, quiet, theme

__all__ = ["one_theme", "quiet", "theme"]

Show = Callable[[PlotCanvas], PlotCanvas]


@pytest.fixture
def show(qtbot: QtBot, theme: Theme) -> Iterator[Show]:
    """Shows a plot, 400 by 300, with the keyboard."""
    shown: list[PlotCanvas] = []

    def show(plot: PlotCanvas) -> PlotCanvas:
        plot.resize(400, 300)
        shown.append(plot)
        with qtbot.waitActive(plot):
            plot.show()
            plot.activateWindow()
        plot.setFocus()
        QTest.qWait(10)
        return plot

    yield show
    for plot in shown:
        plot.close()
        plot.deleteLater()
    forget_widgets()
