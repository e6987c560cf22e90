"""A text as its tokens: each with a colour and an underline of its band, a keyboard cursor."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleEvent,
    QColor,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.widgets.plots.paper import Paper
from app.widgets.tokens.bands import draw_band
from app.widgets.tokens.lights import UNDERLINED, Light, light_colour
from app.widgets.tokens.lines import Line, Paragraph, cursor_x, start_of, top_of

LINE = 1.75  # of the font's height: room for underlines
BREAK = "↵"
BREAK_WIDTH = 14


class TokenText(QWidget):
    """Paints `text` with tokens that end at `ends`, each in one of BANDS (None: unpainted).

    Left and right move over tokens; `pointed` tells which one the mouse or the keyboard is at,
    `taken` that it was clicked or chosen by Enter, `stepped` an Up or Down key there.
    """

    pointed = Signal(object)  # index, or None
    placed = Signal(int)  # the keyboard's cursor, also by a click
    taken = Signal(int)
    stepped = Signal(int)
    height_changed = Signal()

    def __init__(self, name: str) -> None:
        super().__init__()
        self.text = ""
        self.begin = 0
        self.ends: list[int] = []
        self.bands: list[int | None] = []
        self.place: int | None = None
        self.selected: int | None = None
        self._hovered: int | None = None
        self.lights: Sequence[Light] = ()
        self._paragraphs: list[Paragraph] = []
        self._lines: list[Line] = []
        self._width = self._height = 0
        self._step = 1.0
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(name)

    def set_tokens(self, text: str, begin: int, ends: list[int], bands: list[int | None]) -> None:
        """Show a text, whose tokens begin at `begin`. What continues the one before is laid out
        from its last line on.
        """
        kept = len(self._paragraphs) - 1 if self._paragraphs else 0
        if kept <= 0 or not text.startswith(self.text):
            kept = 0
        self.text, self.begin, self.ends, self.bands = text, begin, ends, bands
        start = self._paragraphs[kept].start if kept else 0
        del self._paragraphs[kept:]
        for line in text[start:].split("\n"):
            self._paragraphs.append(Paragraph(start, line, QTextLayout()))
            start += len(line) + 1
        if self._width:
            self._lay(kept)
        self.update()

    @property
    def current(self) -> int | None:
        """The token under the mouse, else the one the keyboard is at."""
        if self._hovered is not None:
            return self._hovered
        return self.place if self.hasFocus() else None

    def token_rect(self, index: int) -> QRectF:
        """Where a token is, its first line of it."""
        start = self._start(index)
        rects = self._rects(start, max(self.ends[index], start + 1))
        if rects:
            return rects[0]
        last = self._lines[-1]
        return QRectF(last.x_end, last.top, 1, last.line.height())

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
        """Light parts of the text, in order; bands are then told by their underlines alone."""
        if list(lights) != list(self.lights):
            self.lights = lights
            self.update()

    def leave(self) -> None:
        """Point at nothing."""
        self._hovered = None
        self.update()
        self.pointed.emit(None)

    def tell(self, words: str) -> None:
        """Say to screen readers where the cursor is."""
        self.setAccessibleDescription(words)
        event = QAccessibleEvent(self, QAccessible.Event.DescriptionChanged)
        QAccessible.updateAccessibility(event)

    # Layout

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        if width != self._width and width > 0:
            self._width = width
            self._lay(0)
        return self._height

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(self._width or 400, self._height)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(120, 0)

    def _lay(self, first: int) -> None:
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        font = fonts.chat()
        self._step = step = font.pixelSize() * LINE
        if first:
            begin = self._paragraphs[first].start
            del self._lines[bisect_left(self._lines, begin, key=start_of) :]
        else:
            self._lines.clear()
        top = self._lines[-1].top + step if self._lines else 0.0
        for n, paragraph in enumerate(self._paragraphs[first:], first):
            layout = paragraph.layout
            layout.setText(paragraph.text)
            layout.setFont(font)
            layout.setTextOption(option)
            layout.beginLayout()
            while (line := layout.createLine()).isValid():
                line.setLineWidth(self._width - fonts.px(16))
                line.setPosition(QPointF(0, top + (step - line.height()) / 2))
                start = paragraph.position(line.textStart())
                end = paragraph.position(line.textStart() + line.textLength())
                self._lines.append(Line(start, end, top, line, paragraph, False))
                top += step
            layout.endLayout()
            self._lines[-1].breaks = n + 1 < len(self._paragraphs)
        height = round(top)
        if height != self._height:
            self._height = height
            self.updateGeometry()
            self.height_changed.emit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and self._width:
            self._lay(0)

    # Geometry of tokens

    def _start(self, index: int) -> int:
        return self.ends[index - 1] if index else self.begin

    def _rects(self, start: int, end: int) -> list[QRectF]:
        """Where a part of the text stands, a rectangle a line."""
        first = max(0, bisect_right(self._lines, start, key=start_of) - 1)
        rects = []
        for line in self._lines[first:]:
            if line.start >= end:
                break
            rect = self._in_line(line, start, end)
            if rect is not None:
                rects.append(rect)
        return rects

    def _in_line(self, line: Line, start: int, end: int) -> QRectF | None:
        low, high = max(start, line.start), min(end, line.end)
        breaks = line.breaks and start <= line.end < end
        if low >= high and not breaks:
            return None
        left = cursor_x(line.line, line.paragraph.units(low)) if low < high else line.x_end
        right = cursor_x(line.line, line.paragraph.units(high)) if low < high else left
        if breaks:
            right = line.x_end + fonts.px(BREAK_WIDTH)
        return QRectF(left, line.line.y(), right - left, line.line.height())

    def _tokens_in(self, line: Line) -> range:
        """The tokens that stand in a line, at least in part."""
        end = line.end + 1 if line.breaks else line.end
        first = bisect_right(self.ends, line.start)
        return range(first, min(bisect_left(self.ends, end) + 1, len(self.ends)))

    def token_at(self, point: QPointF) -> int | None:
        """The token at a point of the widget."""
        at = bisect_right(self._lines, point.y(), key=top_of) - 1
        if at < 0 or point.y() >= self._height:
            return None
        line = self._lines[at]
        for index in self._tokens_in(line):
            rect = self._in_line(line, self._start(index), self.ends[index])
            if rect is not None and rect.left() <= point.x() < rect.right():
                return index
        return None

    # Drawing

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        now, seen = tokens(), event.rect().toRectF()
        first = max(0, bisect_right(self._lines, seen.top() - self._step, key=top_of) - 1)
        for line in self._lines[first:]:
            if line.top > seen.bottom():
                break
            self._paint_lights(painter, line)
            self._paint_tokens(painter, line)
            painter.setPen(QColor(now.text))
            line.line.draw(painter, QPointF(0, 0))
            if line.breaks:
                painter.setPen(QColor(now.quiet))
                painter.setFont(fonts.small())
                base = line.line.y() + line.line.ascent()
                painter.drawText(QPointF(line.x_end + 2, base), BREAK)
        self._paint_cursor(painter)
        painter.end()

    def _paint_tokens(self, painter: QPainter, line: Line) -> None:
        for index in self._tokens_in(line):
            band = self.bands[index]
            rect = self._in_line(line, self._start(index), self.ends[index])
            if band is None or rect is None:
                continue
            area = rect.adjusted(0.5, -1, -0.5, 2)
            draw_band(Paper(painter, area), area, band, not self.lights)

    def _paint_lights(self, painter: QPainter, line: Line) -> None:
        for first, last, strength in self.lights:
            rect = self._in_line(line, first, last)
            if rect is not None:
                area = rect.adjusted(0.5, -1, -0.5, 2)
                painter.fillRect(area, QColor(light_colour(strength)))
                if strength >= UNDERLINED:
                    top = QRectF(area.left(), area.top() - 2, area.width(), 2)
                    painter.fillRect(top, QColor(tokens().attention))

    def _paint_cursor(self, painter: QPainter) -> None:
        """A frame around the token that is pointed at, a thinner one around the selected one."""
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for index, width in ((self.selected, 1), (self.current, 2)):
            if index is None or index >= len(self.ends):
                continue
            painter.setPen(QPen(QColor(tokens().accent), width))
            for rect in self._rects(self._start(index), self.ends[index]):
                painter.drawRoundedRect(rect.adjusted(-1, -3, 1, 4), 3, 3)

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
