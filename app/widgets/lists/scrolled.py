"""Rows below each other in a scroll area, of which only those near the viewport are widgets."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QPalette, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QFrame, QWidget

from app import turn
from app.theme.tokens import GRID, PADDING
from app.widgets.focus import OwnOrder, focusable, move_focus

KEPT = 24  # widgets that stay when they are out of view
NEAR = 400  # pixels above and below the viewport that are made ready
AT_ONCE = 3  # widgets at most that are made in a turn
SLACK = 2 * GRID  # so far from the end, the end is still followed


class Row(QWidget):
    """A widget for a row."""

    def stops(self) -> list[QWidget]:
        """Where Tab stops now, in order."""
        return list(focusable(self))

    def mark_at(self, y: int) -> object:
        """Return the content at y, so that `y_of` finds it after heights have changed."""
        return y

    def y_of(self, mark: object) -> int:
        """The y of such a mark now."""
        assert isinstance(mark, int)
        return mark


class ScrolledRows(QAbstractScrollArea, OwnOrder):
    """Rows at most `widest` wide, centred. `make` gives a row's widget, which must know
    heightForWidth; `estimate` the heights of rows until then.

    It follows the end while the reader is there, and keeps what is read in place otherwise,
    whatever grows above or below.
    """

    following_changed = Signal(bool)

    def __init__(
        self, make: Callable[[int], Row], estimate: Callable[[range, int], list[int]], widest: int
    ) -> None:
        super().__init__()
        self._make, self._estimate, self.widest = make, estimate, widest
        self._heights: list[int] = []
        self._width = widest  # for which the heights are
        self._live: dict[int, Row] = {}
        self._following = True
        self._anchor: tuple[int, object] = (0, None)  # the row at the upper edge, what of it
        self._arranging = self._again = False
        self._wanted: int | None = None  # a row that is made before others
        self._turn, self._makes = 0, 0  # a turn's number, and how many widgets were made in it
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self.arrange)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.viewport().setBackgroundRole(QPalette.ColorRole.Window)
        self.verticalScrollBar().setSingleStep(40)
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._focus_moved)

    @property
    def following(self) -> bool:
        """True if the end stays visible as rows grow."""
        return self._following

    @property
    def count(self) -> int:
        return len(self._heights)

    @property
    def live(self) -> dict[int, Row]:
        """The rows that are widgets now."""
        return dict(sorted(self._live.items()))

    def set_rows(self, first: int, count: int) -> None:
        """There are `count` rows, and those from `first` on are other ones than before."""
        for row in [row for row in self._live if row >= first]:
            self._drop(row)
        width = self._width = self._row_width()
        del self._heights[first:]
        self._heights += self._estimate(range(len(self._heights), count), width)
        if self._live or not count or not self.isVisible():
            self.arrange()
        else:
            self.viewport().setUpdatesEnabled(False)  # not painted without rows
            self._soon.start()  # all are other ones: a turn of its own

    def widget(self, row: int) -> Row | None:
        """The widget of a row, if it has one now."""
        return self._live.get(row)

    def require(self, row: int) -> Row:
        """The widget of a row, made and shown if need be."""
        self.show_row(row)
        return self._live[row]

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._set_following(True)
        self.arrange()

    def stay(self) -> None:
        """Keep what is in sight where it is, whatever comes below it."""
        self._set_following(False)

    def show_row(self, row: int) -> None:
        """Scroll so that a row becomes visible, if it is not."""
        self._wanted = row
        tops = self._tops()
        bar = self.verticalScrollBar()
        if tops[row] < bar.value() or row not in self._live:
            self._set_following(False)
            self._anchor = (row, None)
        elif tops[row] > bar.value() + self.viewport().height() - 4 * GRID:
            self._anchor = (row, None)
            self._set_following(row == self.count - 1)
        self.arrange()
        self._wanted = None

    def reveal(self, y: int) -> None:
        """Scroll so that viewport y becomes visible."""
        bar, last = self.verticalScrollBar(), self.viewport().height() - 1
        bar.setValue(bar.value() + min(0, y) + max(0, y - last))

    def arrange(self) -> None:
        """Put everything where it belongs; to be called when a row's height has changed."""
        if self._arranging:
            self._again = True
            return
        self._arranging = True
        if turn.number() != self._turn:
            self._turn, self._makes = turn.number(), 0
        turn.left()  # its time begins, so that what can wait goes on in the next one
        try:
            for _ in range(8):  # measuring a row moves others into sight
                self._again = False
                if not self._measure() and not self._again:
                    break
            self._put()
        finally:
            self._arranging = False
            self.viewport().setUpdatesEnabled(True)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            before, width = self._width, self._row_width()
            # Only a guess, but thousands are not estimated anew at each step of a resize.
            self._heights = [height * before // width for height in self._heights]
            self._width = width
        self.arrange()

    def scrollContentsBy(self, dx: int, dy: int) -> None:  # noqa: N802
        if self._arranging:
            return
        bar = self.verticalScrollBar()
        self._set_following(bar.value() >= bar.maximum() - SLACK)
        tops = self._tops()
        row = max(0, min(bisect_right(tops, bar.value()), self.count) - 1)
        self._set_anchor(row, bar.value() - tops[row])
        self.arrange()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        bar = self.verticalScrollBar()
        if event.key() == Qt.Key.Key_Home:
            bar.setValue(0)
        elif event.key() == Qt.Key.Key_End:
            self.follow()
        else:
            super().keyPressEvent(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.LayoutRequest:
            self.arrange()
        return False

    def stops(self) -> list[QWidget]:
        return [stop for row in self.live.values() for stop in row.stops()]

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        return move_focus(self.window(), forward)

    def _row_width(self) -> int:
        return max(80, min(self.widest, self.width() - 2 * PADDING))

    def _tops(self) -> list[int]:
        return list(accumulate(self._heights, initial=2 * GRID))

    def _scroll(self, tops: list[int]) -> int:
        """The scroll position, from the anchor or from the end."""
        most = max(0, tops[-1] + GRID - self.viewport().height())
        row, mark = self._anchor
        wanted = most if self._following else tops[min(row, self.count)] + self._offset(row, mark)
        return min(max(0, wanted), most)

    def _set_anchor(self, row: int, offset: int) -> None:
        """Keep the point `offset` below the top of a row at the upper edge of the viewport."""
        live = self._live.get(row)
        self._anchor = (row, offset if live is None else live.mark_at(offset))

    def _offset(self, row: int, mark: object) -> int:
        live = self._live.get(row)
        if mark is None:
            return 0
        if live is None or isinstance(mark, int):
            return mark if isinstance(mark, int) else 0
        return live.y_of(mark)

    def _in_sight(self, tops: list[int], margin: int) -> range:
        upper = self._scroll(tops) - margin
        lower = self._scroll(tops) + self.viewport().height() + margin
        first = max(0, bisect_right(tops, upper) - 1)
        return range(first, min(self.count, bisect_left(tops, lower)))

    def _measure(self) -> bool:
        """Make widgets of the rows near the viewport and measure them; whether a row moved."""
        width, moved = self._row_width(), False
        tops = self._tops()
        seen = self._in_sight(tops, 0)
        near = [row for row in self._in_sight(tops, NEAR) if row not in self._live]
        near.sort(key=lambda row: (row != self._wanted, row not in seen))
        for row in near:
            most = AT_ONCE if row in seen else 1
            waits = self._makes >= most or self._soon.isActive() or self._makes and not turn.left()
            if waits and row != self._wanted:
                self._soon.start()
                break
            self._makes += 1
            widget = self._make(row)
            widget.setParent(self.viewport())
            widget.installEventFilter(self)
            self._live[row] = widget
            widget.show()
        for row in self._in_sight(tops, NEAR):
            height = self._live[row].heightForWidth(width) if row in self._live else 0
            if height and height != self._heights[row]:
                self._heights[row] = height
                moved = True
        return moved

    def _put(self) -> None:
        tops, width = self._tops(), self._row_width()
        scroll = self._scroll(tops)
        bar = self.verticalScrollBar()
        bar.setRange(0, max(0, tops[-1] + GRID - self.viewport().height()))
        bar.setPageStep(self.viewport().height())
        bar.setValue(scroll)
        left = max(0, (self.width() - width) // 2)  # the scroll bar is as wide as the padding
        near = set(self._in_sight(tops, NEAR))
        for row, widget in self._live.items():
            if row in near:
                widget.setGeometry(left, tops[row] - scroll, width, self._heights[row])
            else:  # laid out for its width when it comes near
                widget.move(left, tops[row] - scroll)
        self._forget(near)

    def _forget(self, near: set[int]) -> None:
        spare = [row for row in self._live if row not in near and not self._in_use(row)]
        middle = sum(near) / len(near) if near else 0
        spare.sort(key=lambda row: abs(row - middle))
        for row in spare[KEPT:]:
            self._drop(row)

    def _in_use(self, row: int) -> bool:
        now = QApplication.focusWidget()
        return now is not None and self._live[row].isAncestorOf(now)

    def _drop(self, row: int) -> None:
        widget = self._live.pop(row)
        widget.removeEventFilter(self)
        widget.hide()
        widget.deleteLater()

    def _set_following(self, following: bool) -> None:
        if following != self._following:
            self._following = following
            self.following_changed.emit(following)

    def _focus_moved(self, old: QWidget | None, now: QWidget | None) -> None:
        """Scroll the focused widget into view."""
        if now is None or not self.viewport().isAncestorOf(now):
            return
        area = now.rect().translated(now.mapTo(self.viewport(), now.rect().topLeft()))
        bar, height = self.verticalScrollBar(), self.viewport().height()
        if area.bottom() < 2 * GRID or (area.top() < 0 and area.height() < height):
            bar.setValue(bar.value() + area.top() - 2 * GRID)
        elif area.top() > height - 2 * GRID or (area.bottom() > height and area.height() < height):
            bar.setValue(bar.value() + min(area.top(), area.bottom() - height) + 2 * GRID)
