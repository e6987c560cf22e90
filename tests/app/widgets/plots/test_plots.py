"""Lines, dots, histogram, strip and lanes: what is painted, the keyboard, restyling, no leaks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest

from app.theme.theme import Theme, tokens
from app.widgets.plots.canvas import PlotCanvas, decade_marks, round_marks
from app.widgets.plots.colours import sequential
from app.widgets.plots.dots import Dots, PlotDot
from app.widgets.plots.heat_map import HeatMap, Strip
from app.widgets.plots.histogram import Histogram
from app.widgets.plots.levels import STEPS, LevelSliders
from app.widgets.plots.lines import Lines, PlotAxis, PlotLine
from app.widgets.plots.time_lanes import SpanLane, TimeLanes
from tests.app.helpers.painted import faults, texts
from tests.app.rest import come_to_rest

Show = Callable[[Any], Any]
LEFT = Qt.MouseButton.LeftButton


def axes(log: bool = False) -> tuple[PlotAxis, PlotAxis]:
    return PlotAxis("layer", log=log), PlotAxis("share", log=log)


def a_line() -> Lines:
    plot = Lines("Climb", *axes())
    x = np.arange(30.0)
    plot.show_lines([PlotLine("first", x, x * 2), PlotLine("other", x, x**2, "warn")])
    return plot


def some_dots() -> Dots:
    plot = Dots("Roofline", *axes(log=True))
    roof = PlotLine("roof", np.array([0.1, 10, 1000]), np.array([1.0, 100, 100]), "quiet")
    plot.show_dots([PlotDot(100, 50, "b"), PlotDot(1, 5, "a", "#0072B2")], [roof])
    return plot


def a_histogram() -> Histogram:
    plot = Histogram("Values")
    plot.show_counts([1, 5, 100, 4], [-2, -1, 0, 1, 2])
    return plot


def a_strip() -> Strip:
    plot = Strip("RMS", most=8)
    plot.begin([str(n) for n in range(5)])
    for n in range(6):
        plot.append(np.arange(5) + n)
    plot.redraw()
    return plot


def lanes(n: int = 4) -> list[SpanLane]:
    starts = np.arange(n) * 10.0
    return [
        SpanLane(
            name, starts + at, starts + at + 6, np.arange(n) % 2, ("#0072B2", "warn"),
            lambda i: f"op {i}", lambda i, name=name: f"{name}: op {i}",
        )
        for at, name in enumerate(("intel:0", "host"))
    ]  # fmt: skip


def a_time_line() -> TimeLanes:
    plot = TimeLanes("Launches", lambda ns: f"{ns:.4g} ns")
    plot.show_lanes(lanes())
    return plot


MADE = (a_line, some_dots, a_histogram, a_strip, a_time_line)


@pytest.mark.full_cases(r"\[(0\.75|1\.0)")  # the views have all sizes in window/test_legible.py
@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
@pytest.mark.parametrize("scale", [0.75, 1.0, 2.0])
def test_legible_named_and_as_a_table(
    show: Show, theme: Theme, make: Callable[[], PlotCanvas], scale: float
) -> None:
    plot = show(make())
    theme.choose("dark", scale)
    for size in ((400, 300), (260, 160), (900, 500)):
        plot.resize(*size)
        come_to_rest(plot)
        assert list(faults(plot)) == []
        found = texts(plot.view.viewport())
        room = QRectF(plot.view.viewport().rect()).adjusted(-1, -1, 1, 1)
        assert all(room.contains(text.area) for text in found), "nothing is cut at an edge"
    assert found
    assert plot.accessibleName()
    assert plot.accessibleDescription()
    head, *rows = plot.rows()
    assert rows
    assert {len(row) for row in rows} == {len(head)}
    ground = plot.view.grab().toImage().pixelColor(1, plot.view.height() - 2)
    assert ground == QColor(tokens().panel)


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_many_updates_leave_no_items(show: Show, make: Callable[[], Any]) -> None:
    plot = show(make())
    items = len(plot.view.scene().items())
    for n in range(250):
        if isinstance(plot, TimeLanes):
            plot.show_lanes(lanes(n % 7))
        elif isinstance(plot, Histogram):
            plot.show_counts([n, 2], [0, 1, 2])
        elif isinstance(plot, Strip):
            plot.append(np.full(5, n))
        elif isinstance(plot, Dots):
            plot.show_dots([PlotDot(1 + n, 2, "x")] * (n % 5), plot.lines)
        else:
            plot.show_lines(plot.lines[: 1 + n % 2])
    again = make()
    if isinstance(plot, Lines) and not isinstance(plot, Dots):
        plot.show_lines(again.lines)
    assert len(plot.view.scene().items()) == items
    again.close()


def test_the_cursor_says_each_line(show: Show) -> None:
    plot, went = show(a_line()), []
    plot.pointed.connect(went.append)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_End, Qt.Key.Key_Left):
        QTest.keyClick(plot, key)
    assert went == [1, 2, 29, 28]
    assert plot.accessibleDescription() == "layer 28: first 56, other 784"
    at = plot.pixel_of(QPointF(10.2, 400))
    QTest.mouseClick(plot.view.viewport(), LEFT, pos=at)
    assert went[-1] == 10


def test_a_line_is_drawn_where_it_is_and_in_its_colour(show: Show, theme: Theme) -> None:
    plot = show(Lines("Flat", *axes()))
    x = np.arange(3.0)
    y = np.array([1.0, 1, 3])
    plot.show_lines([PlotLine("y", x, y, "bad", 4)])
    plot.set_cursor(2)
    for name in ("light", "dark"):
        theme.choose(name)
        QTest.qWait(10)
        image = plot.view.grab().toImage()
        assert image.pixelColor(plot.pixel_of(QPointF(0.5, 1.0))) == QColor(tokens().bad)
        assert image.pixelColor(plot.pixel_of(QPointF(0.5, 2.0))) == QColor(tokens().panel)


def test_of_a_long_line_no_more_is_drawn_than_can_be_seen_and_no_peak_is_lost(show: Show) -> None:
    many = 262_144
    x, y = np.arange(float(many)), np.sin(np.arange(many))
    y[[12_345, 200_000]], y[100_000:100_010] = (50, -40), np.nan
    plot = show(Lines("Norms", *axes()))
    plot.show_lines([PlotLine("norm", x, y)])
    drawn_x, drawn_y = plot.drawn[0].getData()
    assert plot.room.width() <= len(drawn_x) <= 2 * plot.room.width()
    run = many / plot.room.width()
    for at, value in ((12_345, 50), (200_000, -40)):
        assert abs(drawn_x[np.flatnonzero(drawn_y == value)[0]] - at) <= run
    assert (drawn_x[0], np.isnan(drawn_y).any()) == (0, False)
    plot.box.setRange(xRange=(12_300, 12_400), padding=0)
    drawn_x, drawn_y = plot.drawn[0].getData()
    assert drawn_x.tolist() == [*range(12_299, 12_402)], "each point, and to both edges"
    assert drawn_y.tolist() == y[12_299:12_402].tolist()
    plot.show_all()
    assert len(plot.drawn[0].getData()[0]) <= 2 * plot.room.width()


def test_dots_are_walked_from_left_to_right_and_clicked(show: Show) -> None:
    plot, went = show(some_dots()), []
    plot.dot_pointed.connect(went.append)
    assert plot.dot == 1, "the leftmost"
    QTest.keyClick(plot, Qt.Key.Key_Right)
    assert went == [0]
    assert plot.accessibleDescription() == "b"
    at = plot.pixel_of(QPointF(0.0, np.log10(5)))
    image = plot.view.grab().toImage()
    assert image.pixelColor(at) == QColor("#0072B2"), "decades are as far apart as they should be"
    QTest.mouseClick(plot.view.viewport(), LEFT, pos=at + QPoint(3, 3))
    assert went == [0, 1]
    QTest.mouseClick(plot.view.viewport(), LEFT, pos=plot.pixel_of(QPointF(2.5, 0.3)))
    assert went == [0, 1], "between dots there is none"


def test_bars_are_as_high_as_their_count(show: Show) -> None:
    plot, went = show(a_histogram()), []
    plot.pointed.connect(went.append)
    image, panel = plot.view.grab().toImage(), QColor(tokens().panel)
    assert image.pixelColor(plot.pixel_of(QPointF(0.5, 95))) != panel
    assert image.pixelColor(plot.pixel_of(QPointF(-0.5, 20))) == panel
    plot.set_log(True)
    QTest.qWait(10)
    image = plot.view.grab().toImage()
    assert image.pixelColor(plot.pixel_of(QPointF(-0.5, 0.6))) != panel
    QTest.keyClick(plot, Qt.Key.Key_Right)
    assert went == [1]
    assert plot.accessibleDescription() == "-1 to 0: 5 numbers, 4.55 %"
    QTest.mouseClick(plot.view.viewport(), LEFT, pos=plot.pixel_of(QPointF(1.5, 0.1)))
    assert went == [1, 3]
    with pytest.raises(ValueError, match="edges"):
        plot.show_counts([1, 2], [0, 1])


def test_a_strip_keeps_the_latest_tokens(show: Show) -> None:
    plot = show(a_strip())
    plot.set_cursor(0, 5)
    for n in range(6, 11):
        plot.append(np.arange(5) + n)
    plot.redraw()
    assert list(plot.columns) == list(range(3, 11))
    assert plot.cells.shape == (5, 8)
    assert plot.value(4, 7) == 14
    assert plot.value(0, 0) == 3
    assert plot.describe(4, 7) == "layer 4, token 10: 14"
    assert plot.at == (0, 7), "a cursor at the end stays at the end"
    area = plot.cell_area(4, 7)
    at = QPoint(round(area.left() + 3), round(area.top() + 3))
    colour = plot.view.grab().toImage().pixelColor(at)
    assert colour == QColor(*(int(c) for c in sequential()[-1]))
    with pytest.raises(ValueError, match="5 numbers"):
        plot.append([1, 2])


def test_lanes_are_walked_and_clicked(show: Show) -> None:
    plot, went = show(a_time_line()), []
    plot.pointed.connect(lambda *at: went.append(at))
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_End, Qt.Key.Key_Up, Qt.Key.Key_Up):
        QTest.keyClick(plot, key)
    assert went == [(0, 1), (1, 1), (1, 3), (0, 3), (0, 3)]
    assert plot.accessibleDescription() == "intel:0: op 3"
    at = plot.pixel_of(QPointF(12, 0.5))
    image = plot.view.grab().toImage()
    assert image.pixelColor(plot.pixel_of(QPointF(15.6, 0.3))) == QColor(tokens().warn)
    assert image.pixelColor(plot.pixel_of(QPointF(8, 0.5))) == QColor(tokens().panel)
    QTest.mouseClick(plot.view.viewport(), LEFT, pos=at)
    assert went[-1] == (0, 1)
    plot.zoom(0.1, QPointF(12, 0.5))
    assert plot.seen.height() == 2, "time alone is zoomed"
    plot.set_cursor(1, 3)
    assert plot.seen.left() <= 34 <= plot.seen.right()


def test_of_very_many_spans_few_are_painted(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.widgets.plots import time_lanes

    painted = []
    real = time_lanes.Spans.paint_span
    monkeypatch.setattr(time_lanes.Spans, "paint_span", lambda *a: (painted.append(1), real(*a))[1])
    plot = show(TimeLanes("Launches", str))
    plot.show_lanes(lanes(200_000))
    painted.clear()
    plot.view.grab()
    assert 0 < len(painted) <= 2 * 2 * plot.room.width()


def test_levels_are_set_by_slider(show: Show) -> None:
    plot = HeatMap("Grid")
    levels = LevelSliders(plot)
    show(plot)
    plot.show_cells(np.arange(12, dtype=np.float32).reshape(3, 4))
    assert plot.levels == (0, 11)
    levels.high.setValue(STEPS // 2)
    assert plot.levels == (0, 5.5)
    levels.low.setValue(STEPS)
    assert plot.levels == (5.5, 11), "they do not cross"
    levels.reset()
    assert plot.levels == (0, 11)
    assert levels.low.accessibleDescription() == "0"
    levels.close()


def test_marks_are_round_and_do_not_touch() -> None:
    marks = round_marks(0.13, 9.7, 200, lambda text: 30, lambda x: f"{x:g}")
    assert [text for _, text in marks] == ["2", "4", "6", "8"]
    assert round_marks(1, 1, 200, lambda text: 30, str) == []
    marks = decade_marks(-1.2, 3.3, 400, lambda text: 40, lambda x: f"{x:g}")
    assert [text for _, text in marks] == ["0.1", "1", "10", "100", "1000"]
    marks = decade_marks(0.1, 0.9, 400, lambda text: 40, lambda x: f"{x:g}")
    assert [text for _, text in marks] == ["2", "5"]


def test_a_logarithmic_scale_counts_in_powers_of_ten(show: Show) -> None:
    """Not 9, 99 and 999, which a logarithm of one more than the count makes of them."""
    plot = show(a_histogram())
    plot.resize(500, 400)
    plot.set_log(True)
    plot.show_counts([1, 50, 4000, 0], [-2, -1, 0, 1, 2])
    ticks = [tick for level in plot.left._tickLevels for tick in level]
    said = {text: at for at, text in ticks}
    assert {"1", "10", "100", "1\u2009000"} <= set(said)
    for text, at in said.items():
        assert at == pytest.approx(np.log10(1 + int(text.replace("\u2009", ""))))
