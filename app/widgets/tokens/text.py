"""A text as its tokens: each with a colour and an underline of its band, a keyboard cursor."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleEvent, QFocusEvent, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QSizePolicy

from app.theme import fonts
from app.theme.theme import tokens
from app.widgets.markdown.typed import TypedText
from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import Paper
from app.widgets.tokens.bands import draw_band
from app.widgets.tokens.lights import UNDERLINED, Light, light_colour

LINE = 1.75  # of the font's height: room for underlines
BREAK = "↵"
BREAK_WIDTH = 14


class TokenText(Painted):
    """Paints `text` with tokens that end at `ends`, each in one of BANDS (None: unpainted).

    Left and right move over tokens; `pointed` shows which one the mouse or the keyboard is at,
    `taken` that it was clicked or chosen by Enter, `stepped` an Up or Down key there.
    """

    pointed = Signal(object)  # index, or None
    placed = Signal(int)  # the keyboard's cursor, also by a click
    taken = Signal(int)
    stepped = Signal(int)
    height_changed = Signal()

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.text = ""
        self.begin = 0
        self.ends: list[int] = []
        self.bands: list[int | None] = []
        self.place: int | None = None
        self.selected: int | None = None
        self._hovered: int | None = None
        self.lights: Sequence[Light] = ()
        self._typed = TypedText()
        self._width = self._height = 0
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def set_tokens(self, text: str, begin: int, ends: list[int], bands: list[int | None]) -> None:
        """Show a text, whose tokens begin at `begin`."""
        self.text, self.begin, self.ends, self.bands = text, begin, ends, bands
        self._typed.set_text(text)
        self._lay()
        self.update()

    @property
    def current(self) -> int | None:
        """The token under the mouse, else the one the keyboard is at."""
        if self._hovered is not None:
            return self._hovered
        return self.place if self.hasFocus() else None

    def token_rect(self, index: int) -> QRectF:
        """The place of a token, its first line of it."""
        self.heightForWidth(self.width())
        start, end = self._start(index), self.ends[index]
        rects = self._rects(start, end) or self._rects(max(start - 1, 0), max(start, 1))
        area = rects[0] if rects else QRectF(0, 0, 0, self._typed.step)
        return area if start < end else QRectF(area.right(), area.top(), 1, area.height())

    def go_to(self, index: int) -> None:
        """Put the keyboard's cursor on a token."""
        if not self.ends:
            return
        self.place = min(max(0, index), len(self.ends) - 1)
        self._hovered = None
        self.update()
        self.pointed.emit(self.place)
        self.placed.emit(self.place)

    def show_selected(self, index: int | None) -> None:
        """Mark a token that is selected, here or elsewhere."""
        self.selected = index
        if index is not None and index < len(self.ends):
            self.place = index
        self.update()

    def light(self, lights: Sequence[Light]) -> None:
        """Light parts of the text, in order; bands then show as underlines alone."""
        if list(lights) != list(self.lights):
            self.lights = lights
            self.update()

    def leave(self) -> None:
        """Point at nothing."""
        self._hovered = None
        self.update()
        self.pointed.emit(None)

    def announce(self, words: str) -> None:
        """Say to screen readers where the cursor is."""
        self.setAccessibleDescription(words)
        event = QAccessibleEvent(self, QAccessible.Event.DescriptionChanged)
        QAccessible.updateAccessibility(event)

    # Layout

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """Layouts request several widths in turn, and must not be woken by that."""
        if width != self._width and width > 0:
            self._width = width
            self._height = self._laid()
        return self._height

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(self._width or 400, self._height)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(120, 0)

    def _lay(self) -> None:
        if not self._width:
            return
        height = self._laid()
        if height != self._height:
            self._height = height
            self.updateGeometry()
            self.height_changed.emit()

    def _laid(self) -> int:
        font = fonts.chat()
        room = self._width - fonts.px(16)
        return round(self._typed.lay(room, font, font.pixelSize() * LINE))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._lay()

    # Geometry of tokens

    def _start(self, index: int) -> int:
        return self.ends[index - 1] if index else self.begin

    def _rects(self, start: int, end: int) -> list[QRectF]:
        """The places of a part of the text, a rectangle a line."""
        return self._typed.rects(start, end, fonts.px(BREAK_WIDTH))

    def _between(self, top: float, bottom: float) -> tuple[int, int]:
        """The characters between two heights."""
        first = self._typed.position_at(QPointF(0, top))
        return first, self._typed.position_at(QPointF(self._width, bottom)) + 1

    def token_at(self, point: QPointF) -> int | None:
        """The token at a point of the widget."""
        self.heightForWidth(self.width())
        if not 0 <= point.y() < self._height:
            return None
        near = bisect_right(self.ends, self._typed.position_at(point))
        step = self._typed.step
        for index in range(max(near - 1, 0), min(near + 2, len(self.ends))):
            for area in self._rects(self._start(index), self.ends[index]):
                high = (step - area.height()) / 2
                if area.adjusted(0, -high, 0, high).contains(point):
                    return index
        return None

    # Drawing

    def draw(self, paper: Paper) -> None:
        self.heightForWidth(self.width())  # the last width that a layout requested may be another
        step = self._typed.step
        first, last = self._between(paper.seen.top() - step, paper.seen.bottom() + step)
        for begin, end, strength in self.lights:
            for rect in self._rects(max(begin, first), min(end, last)):
                area = rect.adjusted(0.5, -1, -0.5, 2)
                paper.fill(area, light_colour(strength))
                if strength >= UNDERLINED:
                    line = QRectF(area.left(), area.top() - 2, area.width(), 2)
                    paper.fill(line, tokens().attention)
        until = min(bisect_left(self.ends, last) + 1, len(self.ends))
        for index in range(bisect_right(self.ends, first), until):
            band = self.bands[index]
            for rect in self._rects(self._start(index), self.ends[index]) if band else ():
                draw_band(paper, rect.adjusted(0.5, -1, -0.5, 3), band or 0, not self.lights)
        self._typed.draw(paper)
        for at in self._typed.breaks(first, last):
            for rect in self._rects(at, at + 1):
                paper.text(rect.adjusted(2, 0, 0, 0), BREAK, tone=tokens().quiet)
        for number, width in ((self.selected, 1), (self.current, 2)):
            if number is not None and number < len(self.ends):
                for rect in self._rects(self._start(number), self.ends[number]):
                    paper.frame(rect.adjusted(-1, -3, 1, 4), tokens().accent, width, 3)

    # Mouse and keyboard

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        index = self.token_at(event.position())
        if index != self._hovered:
            self._hovered = index
            self.setCursor(
                Qt.CursorShape.ArrowCursor if index is None else Qt.CursorShape.PointingHandCursor
            )
            self.update()
            self.pointed.emit(index)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self.leave()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        index = self.token_at(event.position())
        if index is not None:
            self.go_to(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        at = self.place or 0
        match event.key():
            case Qt.Key.Key_Left:
                self.go_to(at - 1)
            case Qt.Key.Key_Right:
                self.go_to(at + 1)
            case Qt.Key.Key_Up:
                self.stepped.emit(-1)
            case Qt.Key.Key_Down:
                self.stepped.emit(1)
            case Qt.Key.Key_Return | Qt.Key.Key_Enter if self.place is not None:
                self.taken.emit(self.place)
            case _:
                event.ignore()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusInEvent(event)
        if event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason):
            self.go_to(self.place or 0)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusOutEvent(event)
        self.leave()
