"""The bases of what is painted: a widget with a tip and a focus, and a chart of parts."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QFocusEvent,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import fonts
from app.widgets.basics import LOOKS
from app.widgets.plots.paper import Paper
from app.widgets.tips import hide_tip, show_tip


class Painted(QWidget):
    """Draws itself, says what is under the mouse in a tip and what it shows to screen readers.
    Ctrl+C copies its numbers as a table.
    """

    wide = 280  # pixels wide at normal text

    def __init__(self, name: str = "", focus: bool = True) -> None:
        super().__init__()
        self.setAccessibleName(name)
        policy = Qt.FocusPolicy.StrongFocus if focus else Qt.FocusPolicy.NoFocus
        self.setFocusPolicy(policy)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)

    def draw(self, paper: Paper) -> None:
        raise NotImplementedError

    def tall(self) -> float:
        """Its height in pixels."""
        return 0.0

    def in_words(self) -> str:
        """It in words, for screen readers."""
        return ""

    def tip(self, place: QPointF) -> str:
        """The tip at a place."""
        return ""

    def rows(self) -> list[list[str]]:
        """Its numbers as a table."""
        return []

    def table_text(self) -> str:
        """The table with tabs between columns."""
        return "\n".join("\t".join(row) for row in self.rows())

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(self.table_text())

    def changed(self) -> None:
        """Something else is shown: words, height and picture follow."""
        self.setAccessibleDescription(self.in_words())
        self.updateGeometry()
        self.update()

    # Events

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(self.wide), round(self.tall()))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        self.draw(Paper(painter, event.rect().toRectF()))
        painter.end()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            words = self.tip(QPointF(event.pos()))
            if words:
                show_tip(event.globalPos(), words, self)
                return True
            hide_tip()
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.matches(QKeySequence.StandardKey.Copy) and self.rows():
            self.copy()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusInEvent(event)
        self._repaint()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusOutEvent(event)
        self._repaint()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self.updateGeometry()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self.updateGeometry()
            self.update()

    def _repaint(self) -> None:
        self.update()


class Chart(Painted):
    """Left and Right walk over the parts and around, Home and End go to the ends, Enter or a click
    chooses one. `at` is the present part; the mouse over a part shows its words as a tip.
    """

    hand = False  # the pointer over a part is a hand
    upright = False  # Up and Down walk too

    def __init__(self, name: str = "", focus: bool = True) -> None:
        super().__init__(name, focus)
        self._at = 0
        self.hovered: int | None = None

    # A chart's own

    def areas(self) -> Sequence[QRectF]:
        """The place of each part."""
        return ()

    def stops(self) -> int:
        """The number of parts."""
        return len(self.areas())

    def words(self, at: int) -> str:
        """A part in words."""
        return ""

    def in_words(self) -> str:
        """The chart in words, for screen readers."""
        return self.words(self.at) if self.stops() else ""

    def rows(self) -> list[list[str]]:
        return [[self.words(at)] for at in range(self.stops())]

    def walked(self) -> None:
        """The person went to another part."""

    def chosen(self) -> bool:
        """The person chose the present part; False where that means nothing."""
        return False

    def hovers(self, at: int | None) -> None:
        """The mouse went to another part, or to none."""

    def tip(self, place: QPointF) -> str:
        """The tip at a place."""
        at = self.under(place)
        return "" if at is None else self.words(at)

    # The present part

    @property
    def at(self) -> int:
        """Always one of those there are; 0 where there is none."""
        return self._at % max(self.stops(), 1)

    def go(self, at: int) -> None:
        """Make a part the present one."""
        self._at = at % max(self.stops(), 1)
        self.walked()
        self.changed()

    def clicked(self, at: int) -> None:
        self.go(at)
        self.chosen()

    def under(self, place: QPointF) -> int | None:
        """The part at a place."""
        return next((n for n, area in enumerate(self.areas()) if area.contains(place)), None)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        at = self.under(event.position())
        if at is not None and event.button() == Qt.MouseButton.LeftButton:
            self.clicked(at)
        else:
            event.ignore()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self._hover(self.under(event.position()))

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self._hover(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        keys = Qt.Key
        places = {
            keys.Key_Left: self.at - 1,
            keys.Key_Right: self.at + 1,
            keys.Key_Home: 0,
            keys.Key_End: -1,
        }
        if self.upright:
            places |= {keys.Key_Up: self.at - 1, keys.Key_Down: self.at + 1}
        key = keys(event.key())
        if self.stops() and key in places:
            self.go(places[key])
        elif key in (keys.Key_Return, keys.Key_Enter) and self.stops() and self.chosen():
            return
        else:
            super().keyPressEvent(event)

    def _hover(self, at: int | None) -> None:
        if at == self.hovered:
            return
        self.hovered = at
        if self.hand:
            shapes = Qt.CursorShape
            self.setCursor(shapes.ArrowCursor if at is None else shapes.PointingHandCursor)
        self.hovers(at)
        self.update()
