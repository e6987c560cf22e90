"""Looking through a camera: zoom, drag, keys, and the edges of a picture."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, QPointF, QSize, Qt
from PySide6.QtGui import QImage, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.widgets.pictures.canvas import PictureCanvas

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def canvas(qtbot: QtBot) -> PictureCanvas:
    shown = PictureCanvas()
    qtbot.addWidget(shown)
    shown.resize(400, 300)
    image = QImage(1000, 500, QImage.Format.Format_RGB32)
    for x in range(1000):
        for y in range(0, 500, 1):
            image.setPixel(x, y, 0xFF000000 + (x // 4 << 8) + y // 2)
    shown.show_image(image, QSize(1000, 500))
    shown.show()
    return shown


def wheel(canvas: PictureCanvas, at: QPointF, notches: int) -> None:
    none, phase = Qt.MouseButton.NoButton, Qt.ScrollPhase.NoScrollPhase
    keys, turned = Qt.KeyboardModifier.NoModifier, QPoint(0, 120 * notches)
    place = canvas.mapToGlobal(at)
    event = QWheelEvent(at, place, QPoint(), turned, none, keys, phase, False)
    QApplication.sendEvent(canvas, event)


def pixel(canvas: PictureCanvas, at: QPoint) -> tuple[int, int]:
    """The picture's column and row that are painted at a place, to four and two."""
    colour = canvas.grab().toImage().pixelColor(at)
    return colour.green() * 4, colour.blue() * 2


def test_fitted_all_is_seen_and_nothing_moves_it(canvas: PictureCanvas) -> None:
    area = canvas.area
    assert (area.left(), area.right()) == pytest.approx((0, 400))
    assert area.center().y() == pytest.approx(150)
    wheel(canvas, QPointF(50, 150), 3)
    QTest.keyClick(canvas, Qt.Key.Key_Right)
    assert canvas.area == area
    canvas.resize(200, 300)
    assert canvas.area.right() == pytest.approx(200)


def test_pixel_by_pixel_the_hand_takes_the_picture_along(canvas: PictureCanvas) -> None:
    canvas.set_pixel_by_pixel(True)
    assert canvas.area.width() == 1000
    before = pixel(canvas, QPoint(200, 150))
    QTest.mousePress(canvas, LEFT, pos=QPoint(200, 150))
    for step in range(1, 6):
        QTest.mouseMove(canvas, QPoint(200 - 20 * step, 150 - 8 * step))
    QTest.mouseRelease(canvas, LEFT, pos=QPoint(100, 110))
    assert pixel(canvas, QPoint(100, 110)) == before


def test_the_wheel_zooms_about_the_mouse(canvas: PictureCanvas) -> None:
    canvas.set_pixel_by_pixel(True)
    place = QPointF(120, 90)
    before = canvas.camera.scene_point(place)
    wheel(canvas, place, 2)
    assert canvas.area.width() == pytest.approx(1000 * 1.25**2)
    assert (canvas.camera.scene_point(place) - before).manhattanLength() < 1e-6


@pytest.mark.parametrize(
    ("key", "edge"),
    [
        (Qt.Key.Key_Left, lambda c: c.area.left()),
        (Qt.Key.Key_Right, lambda c: c.area.right() - c.width()),
        (Qt.Key.Key_Up, lambda c: c.area.top()),
        (Qt.Key.Key_Down, lambda c: c.area.bottom() - c.height()),
    ],
)
def test_arrows_go_to_the_edge_and_no_further(
    canvas: PictureCanvas, key: Qt.Key, edge: Callable[[PictureCanvas], float]
) -> None:
    canvas.set_pixel_by_pixel(True)
    assert edge(canvas) != pytest.approx(0)
    for _ in range(20):
        QTest.keyClick(canvas, key)
    assert edge(canvas) == pytest.approx(0)
    assert canvas.area.contains(canvas.rect().toRectF())


def test_0_and_enter_and_a_double_click_want_the_other_zoom(
    canvas: PictureCanvas, qtbot: QtBot
) -> None:
    wanted: list[bool] = []
    canvas.zoom_wanted.connect(lambda: wanted.append(canvas.pixel_by_pixel))
    QTest.keyClick(canvas, Qt.Key.Key_Return)
    QTest.keyClick(canvas, Qt.Key.Key_0)  # all is seen already
    canvas.set_pixel_by_pixel(True)
    QTest.keyClick(canvas, Qt.Key.Key_0)
    QTest.mouseDClick(canvas, LEFT, pos=QPoint(9, 9))
    assert wanted == [False, True, True]
