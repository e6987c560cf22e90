"""Small charts: places by size, mouse, keys, words, and what they draw."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.theme.theme import tokens
from app.widgets.plots.bands import Bands, Look, Piece
from app.widgets.plots.bars import Bar, Bars
from tests.app.helpers.painted import texts

RED, BLUE = "#CC0000", "#0000CC"


class Times(Bands):
    """Pieces of sizes; what is chosen is kept."""

    def __init__(self, *sizes: float, whole: float = 0.0) -> None:
        super().__init__("Times")
        self.sizes, self.full = sizes, whole
        self.picked: list[int] = []
        self.resize(600, round(self.tall()))

    def whole(self) -> float:
        return self.full

    def head(self) -> tuple[str, str, str]:
        return "All of it", "12.5", "ms"

    def empty(self) -> str:
        return "nothing yet"

    def pieces(self) -> list[Piece]:
        looks = [Look((RED,), "#FFFFFF"), Look((BLUE,), "#FFFFFF")]
        return [
            Piece(size, looks[at % 2], (f"a long name {at}", str(at)), at, 0.0)
            for at, size in enumerate(self.sizes)
        ]

    def words(self, at: int) -> str:
        return f"part {at} of {self.sizes[at]}"

    def chosen(self) -> bool:
        self.picked.append(self.at)
        return True


def test_pieces_are_as_wide_as_their_sizes(qtbot: QtBot) -> None:
    chart = Times(1, 2, 3)
    qtbot.addWidget(chart)
    assert [area.width() for area in chart.areas()] == pytest.approx([100, 200, 300])
    assert [area.left() for area in chart.areas()] == pytest.approx([0, 100, 300])
    chart.full = 12
    assert [area.width() for area in chart.areas()] == pytest.approx([50, 100, 150])


def test_the_first_text_that_fits_is_written(qtbot: QtBot) -> None:
    chart = Times(20, 280, 300)
    qtbot.addWidget(chart)
    assert [text.text for text in texts(chart)] == [
        *("ms", "12.5", "All of it"),
        *("0", "a long name 1", "a long name 2"),
    ]


def test_keys_go_around_and_enter_and_a_click_choose(qtbot: QtBot) -> None:
    chart = Times(1, 2, 3)
    qtbot.addWidget(chart)
    keys = Qt.Key
    for key, at in (
        (keys.Key_Right, 1),
        (keys.Key_End, 2),
        (keys.Key_Right, 0),
        (keys.Key_Left, 2),
        (keys.Key_Home, 0),
    ):
        QTest.keyClick(chart, key)
        assert chart.at == at
        assert chart.accessibleDescription() == chart.words(at)
    QTest.keyClick(chart, keys.Key_Return)
    QTest.mouseClick(chart, Qt.MouseButton.LeftButton, pos=chart.areas()[1].center().toPoint())
    QTest.mouseClick(chart, Qt.MouseButton.RightButton, pos=chart.areas()[2].center().toPoint())
    QTest.mouseClick(chart, Qt.MouseButton.LeftButton, pos=QPoint(5, 2))
    assert chart.picked == [0, 1]


def test_a_tip_is_of_what_is_below_the_mouse(qtbot: QtBot) -> None:
    chart = Times(1, 2, 3)
    qtbot.addWidget(chart)
    assert chart.tip(chart.areas()[2].center()) == "part 2 of 3"
    assert chart.tip(chart.rect().topLeft().toPointF()) == ""


def test_the_part_with_the_keyboard_is_framed(qtbot: QtBot) -> None:
    chart = Times(1, 2, 3)
    qtbot.addWidget(chart)
    chart.show()
    chart.setFocus()
    qtbot.waitUntil(chart.hasFocus)
    chart.go(1)
    left = chart.areas()[1].left()
    image = chart.grab().toImage()
    middle = round(chart.band().center().y())
    assert image.pixelColor(round(left) + 1, middle) == QColor(tokens().text)
    assert image.pixelColor(round(left) + 8, middle) == QColor(BLUE)
    assert image.pixelColor(1, middle) == QColor(RED)


def test_without_pieces_there_are_words(qtbot: QtBot) -> None:
    chart = Times()
    qtbot.addWidget(chart)
    assert "nothing yet" in [text.text for text in texts(chart)]
    QTest.keyClick(chart, Qt.Key.Key_Right)
    QTest.keyClick(chart, Qt.Key.Key_Return)
    assert (chart.at, chart.picked) == (0, [])


class Shares(Bars):
    """Bars of shares."""

    columns_from = 190

    def __init__(self, *shares: float) -> None:
        super().__init__("Shares")
        self.shares = shares
        self.resize(300, round(self.tall()))

    def bars(self) -> list[Bar]:
        return [Bar(f"word {n}", [(share, RED)], f"{share}") for n, share in enumerate(self.shares)]


def test_a_bar_is_as_long_as_its_share(qtbot: QtBot) -> None:
    chart = Shares(1.0, 0.5, 0.25)
    qtbot.addWidget(chart)
    image, lengths = chart.grab().toImage(), []
    for area in chart.areas():
        y = round(area.center().y())
        row = [image.pixelColor(x, y) for x in range(image.width())]
        lengths.append(row.count(QColor(RED)))
    assert lengths[0] > 50
    assert lengths[1] == pytest.approx(lengths[0] / 2, abs=2)
    assert lengths[2] == pytest.approx(lengths[0] / 4, abs=2)


def test_many_bars_stand_in_two_columns_where_there_is_room(qtbot: QtBot) -> None:
    chart = Shares(*[0.1] * 6)
    qtbot.addWidget(chart)
    one = chart.tall()
    chart.resize(900, 200)
    assert chart.tall() == one / 2
    assert len({area.left() for area in chart.areas()}) == 2
    assert chart.under(chart.areas()[4].center()) == 4
    QTest.keyClick(chart, Qt.Key.Key_Down)
    assert chart.at == 1


def test_ctrl_c_copies_the_parts_as_lines(qtbot: QtBot) -> None:
    chart = Times(1, 2)
    qtbot.addWidget(chart)
    QTest.keyClick(chart, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "part 0 of 1\npart 1 of 2"
