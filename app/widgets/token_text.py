"""A text as its tokens: each with a colour and an underline of its band, a keyboard cursor."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

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
    QTextLine,
    QTextOption,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import fonts
from app.theme.theme import tokens
from app.widgets.bands import BANDS, band_colour, band_pen

LINE = 1.75  # of the font's height: room for underlines
BREAK = "↵"


@dataclass
class _Paragraph:
    """A line of the text as typed: where it begins, its layout, where that stands."""

    start: int
    text: str
    layout: QTextLayout
    top: float = 0.0
    height: float = 0.0


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
        self._hovered: int | None = None
        self._paragraphs: list[_Paragraph] = []
        self._width = self._height = 0
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
            self._paragraphs.append(_Paragraph(start, line, QTextLayout()))
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
        start, end = self._start(index), self.ends[index]
        paragraph = self._paragraphs[self._paragraph_at(start)]
        rects = self._rects(paragraph, start, max(end, start + 1))
        return rects[0] if rects else QRectF(0, paragraph.top, 1, paragraph.height)

    def go_to(self, index: int) -> None:
        """Put the keyboard's cursor on a token."""
        if not self.ends:
            return
        self.place = min(max(0, index), len(self.ends) - 1)
        self._hovered = None
        self.update()
        self.pointed.emit(self.place)
        self.placed.emit(self.place)

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
        step = font.pixelSize() * LINE
        top = 0.0
        if first:
            above = self._paragraphs[first - 1]
            top = above.top + above.height
        for paragraph in self._paragraphs[first:]:
            layout = paragraph.layout
            layout.setText(paragraph.text)
            layout.setFont(font)
            layout.setTextOption(option)
            layout.beginLayout()
            y = 0.0
            while (line := layout.createLine()).isValid():
                line.setLineWidth(self._width - fonts.px(16))
                line.setPosition(QPointF(0, y + (step - line.height()) / 2))
                y += step
            layout.endLayout()
            paragraph.top, paragraph.height = top, max(y, step)
            top += paragraph.height
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

    def _paragraph_at(self, position: int) -> int:
        starts = [paragraph.start for paragraph in self._paragraphs]
        return max(0, bisect_right(starts, position) - 1)

    def _rects(self, paragraph: _Paragraph, start: int, end: int) -> list[QRectF]:
        """The parts of a range of the text that stand in a paragraph, a line each."""
        first = self._units(paragraph, start - paragraph.start)
        last = self._units(paragraph, end - paragraph.start)
        rects = []
        for n in range(paragraph.layout.lineCount()):
            line = paragraph.layout.lineAt(n)
            low = max(first, line.textStart())
            high = min(last, line.textStart() + line.textLength())
            if low < high:
                left, right = _x(line, low), _x(line, high)
                rects.append(QRectF(left, paragraph.top + line.y(), right - left, line.height()))
        breaks = end > paragraph.start + len(paragraph.text) >= start
        if breaks and paragraph.start + len(paragraph.text) < len(self.text):
            line = paragraph.layout.lineAt(paragraph.layout.lineCount() - 1)
            left = _x(line, line.textStart() + line.textLength())
            place = QRectF(left, paragraph.top + line.y(), fonts.px(14), line.height())
            if rects and rects[-1].right() >= left - 1:
                rects[-1] = rects[-1].united(place)
            else:
                rects.append(place)
        return rects

    def _units(self, paragraph: _Paragraph, characters: int) -> int:
        """Qt counts UTF-16 units, tokens count characters."""
        characters = min(max(0, characters), len(paragraph.text))
        if paragraph.text.isascii():
            return characters
        return len(paragraph.text[:characters].encode("utf-16-le")) // 2

    def token_at(self, point: QPointF) -> int | None:
        """The token at a point of the widget."""
        for paragraph in self._paragraphs:
            if point.y() < paragraph.top + paragraph.height:
                break
        else:
            return None
        first = bisect_right(self.ends, paragraph.start)
        last = bisect_left(self.ends, paragraph.start + len(paragraph.text) + 1)
        for index in range(first, min(last + 1, len(self.ends))):
            for rect in self._rects(paragraph, self._start(index), self.ends[index]):
                if rect.adjusted(0, -4, 0, 4).contains(point):
                    return index
        return None

    # Drawing

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        now, seen = tokens(), event.rect().toRectF()
        for paragraph in self._paragraphs:
            if paragraph.top > seen.bottom():
                break
            if paragraph.top + paragraph.height < seen.top():
                continue
            self._paint_tokens(painter, paragraph)
            painter.setPen(QColor(now.text))
            paragraph.layout.draw(painter, QPointF(0, paragraph.top))
            if paragraph.start + len(paragraph.text) < len(self.text):
                line = paragraph.layout.lineAt(paragraph.layout.lineCount() - 1)
                x = _x(line, line.textStart() + line.textLength())
                painter.setPen(QColor(now.quiet))
                painter.setFont(fonts.small())
                base = paragraph.top + line.y() + line.ascent()
                painter.drawText(QPointF(x + 2, base), BREAK)
        self._paint_cursor(painter)
        painter.end()

    def _paint_tokens(self, painter: QPainter, paragraph: _Paragraph) -> None:
        first = bisect_right(self.ends, paragraph.start)
        last = bisect_left(self.ends, paragraph.start + len(paragraph.text) + 1)
        for index in range(first, min(last + 1, len(self.ends))):
            band = self.bands[index]
            if band is None:
                continue
            for rect in self._rects(paragraph, self._start(index), self.ends[index]):
                area = rect.adjusted(0.5, -1, -0.5, 2)
                if BANDS[band].share:
                    painter.fillRect(area, QColor(band_colour(band)))
                pen = band_pen(band)
                if pen is not None:
                    painter.setPen(pen)
                    y = area.bottom() + 1
                    painter.drawLine(QPointF(area.left() + 0.5, y), QPointF(area.right() - 0.5, y))

    def _paint_cursor(self, painter: QPainter) -> None:
        index = self.current
        if index is None or index >= len(self.ends):
            return
        start = self._start(index)
        paragraph = self._paragraphs[self._paragraph_at(start)]
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(tokens().accent), 2))
        for rect in self._rects(paragraph, start, self.ends[index]):
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


def _x(line: QTextLine, position: int) -> float:
    return float(line.cursorToX(position)[0])  # type: ignore[index]
