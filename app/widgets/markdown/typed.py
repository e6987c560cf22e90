"""A text as it was typed, laid out in lines of one height, and the places of its parts."""

from bisect import bisect_left

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QAbstractTextDocumentLayout,
    QColor,
    QFont,
    QPalette,
    QTextBlockFormat,
    QTextCursor,
    QTextDocument,
    QTextLayout,
    QTextOption,
)

from app.theme.theme import tokens
from app.widgets.markdown.laid import cursor_x
from app.widgets.plots.paper import Paper


class TypedText:
    """Positions are characters of the text. A text that goes on from the last one is appended, so
    that only its last paragraph is laid out again.
    """

    def __init__(self) -> None:
        self.text = ""
        self.step = 1.0
        self._wide: list[int] = []  # characters that take two UTF-16 units
        self._wide_units: list[int] = []  # where these begin, in such units
        self._top = 0.0
        self._document = QTextDocument()
        self._document.setUndoRedoEnabled(False)
        self._document.setDocumentMargin(0)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self._document.setDefaultTextOption(option)

    def set_text(self, text: str) -> None:
        kept = len(self.text) if text.startswith(self.text) else 0
        cursor = QTextCursor(self._document)
        if kept:
            cursor.movePosition(QTextCursor.MoveOperation.End)
        else:
            cursor.select(QTextCursor.SelectionType.Document)
            self._wide, self._wide_units = [], []
        if not text.isascii():
            self._wide += [n for n in range(kept, len(text)) if text[n] > "\uffff"]
            counted = len(self._wide_units)
            self._wide_units += [n + at for at, n in enumerate(self._wide[counted:], counted)]
        cursor.insertText(text[kept:])
        self.text = text

    def lay(self, width: float, font: QFont, step: float) -> float:
        """Lay it out in lines of `step` pixels; its height."""
        if (font, step) != (self._document.defaultFont(), self.step):
            self.step = step
            self._document.setDefaultFont(font)
            lines = QTextBlockFormat()
            lines.setLineHeight(step, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
            cursor = QTextCursor(self._document)
            cursor.select(QTextCursor.SelectionType.Document)
            cursor.mergeBlockFormat(lines)
        if width != self._document.textWidth():  # else all would be laid out again
            self._document.setTextWidth(width)
        height = self._document.size().height()
        first = self._document.begin().layout().lineAt(0)
        self._top = (step - first.height()) / 2 - first.y()
        return height

    def rects(self, start: int, end: int, break_width: float) -> list[QRectF]:
        """The places of a part, a rectangle a line; a new line in it is `break_width` wide."""
        first, last = self._units(start), self._units(end)
        found, block = [], self._document.findBlock(first)
        while block.isValid() and block.position() < max(last, first + 1):
            layout, begins = block.layout(), block.position()
            corner = self._document.documentLayout().blockBoundingRect(block).topLeft()
            corner += QPointF(0, self._top)
            for n in range(_line_at(layout, first - begins), layout.lineCount()):
                line = layout.lineAt(n)
                left = begins + line.textStart()
                if left >= last:
                    break
                right = left + line.textLength()
                low, high = max(first, left), min(last, right)
                last_line = n + 1 == layout.lineCount()
                breaks = last_line and block.next().isValid() and first <= right < last
                if low >= high and not breaks:
                    continue
                x = cursor_x(line, min(low, right) - begins)
                wide = cursor_x(line, max(high, low) - begins) - x if low < high else 0.0
                area = QRectF(x, line.y(), wide + break_width * breaks, line.height())
                found.append(area.translated(corner))
            block = block.next()
        return found

    def position_at(self, place: QPointF) -> int:
        """The character whose edge is nearest to a place."""
        layout, place = self._document.documentLayout(), place - QPointF(0, self._top)
        units = max(0, layout.hitTest(place, Qt.HitTestAccuracy.FuzzyHit))
        return units - bisect_left(self._wide_units, units)

    def breaks(self, first: int, last: int) -> list[int]:
        """The new lines within a part."""
        found, at = [], self.text.find("\n", first, last)
        while at >= 0:
            found.append(at)
            at = self.text.find("\n", at + 1, last)
        return found

    def draw(self, paper: Paper) -> None:
        context = QAbstractTextDocumentLayout.PaintContext()
        context.palette.setColor(QPalette.ColorRole.Text, QColor(tokens().text))
        context.clip = paper.seen.translated(0, -self._top)
        paper.painter.save()
        paper.painter.translate(0, self._top)
        self._document.documentLayout().draw(paper.painter, context)
        paper.painter.restore()

    def _units(self, position: int) -> int:
        return position + bisect_left(self._wide, position)


def _line_at(layout: QTextLayout, position: int) -> int:
    """Return the number of the line with a position of a paragraph, the first one before it."""
    line = layout.lineForTextPosition(max(position, 0))
    return line.lineNumber() if line.isValid() else 0
