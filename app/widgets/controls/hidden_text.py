"""The middle of a very long line, as one character of a text field.

Qt lays out a line of a field as a whole after each key, and letters without a space take their
square. So a line of more than LONGEST letters shows its ends, and between them a tile that says
how many letters are hidden. The tile is part of the text: it is moved, copied and undone with it.
"""

from PySide6.QtCore import QObject, QRect, QRectF, QSizeF, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QPainter,
    QPyTextObject,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)
from PySide6.QtWidgets import QPlainTextEdit

from app.language import tr
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import RADIUS_CONTROL
from app.widgets.numbers import grouped

LONGEST = 4000  # letters of a line that are shown as they are
SHOWN = 1000  # letters at each end of a longer one, and of each part that is revealed
_TILE = "\ufffc"
_KIND = QTextFormat.ObjectTypes.UserObject.value + 1
_NUMBER, _LETTERS = (QTextFormat.Property.UserProperty.value + n for n in (1, 2))
_PADDING = 6


class HiddenText:
    """The hidden parts of a field's lines. Undo may bring any of them back, so they are kept until
    `clear`.
    """

    def __init__(self, field: QPlainTextEdit) -> None:
        self._field = field
        self._parts: list[str] = []
        self._tile = _Tile(field)
        self._document.documentLayout().registerHandler(_KIND, self._tile)

    @property
    def _document(self) -> QTextDocument:
        """The field's document. It is not kept: Qt for Python may take a wrapper that is kept for
        deleted while the document lives.
        """
        return self._field.document()

    def clear(self) -> None:
        """Forget all parts; the document no longer has their tiles."""
        self._parts.clear()

    def insert(self, cursor: QTextCursor, text: str) -> None:
        """Insert a text in place of the selection, with tiles in its long lines."""
        cursor.beginEditBlock()
        cursor.removeSelectedText()
        plain = QTextCharFormat()
        short: list[str] = []
        for number, line in enumerate(text.split("\n")):
            if number:
                short.append("\n")
            if len(line) <= LONGEST:
                short.append(line)
                continue
            short.append(line[:SHOWN])
            cursor.insertText("".join(short), plain)
            self._insert_tile(cursor, line[SHOWN:-SHOWN])
            short = [line[-SHOWN:]]
        cursor.insertText("".join(short), plain)
        cursor.endEditBlock()

    def text(self, first: int = 0, last: int | None = None) -> str:
        """The text between two positions, whole; all of it by default."""
        cursor = QTextCursor(self._document)
        if last is None:
            shown = self._document.toRawText()
        else:
            cursor.setPosition(first)
            cursor.setPosition(last, QTextCursor.MoveMode.KeepAnchor)
            shown = cursor.selectedText()
        shown = shown.replace("\u2029", "\n")
        if _TILE not in shown or not self._parts:
            return shown
        begin, *others = shown.split(_TILE)
        parts, at = [begin], first
        for other in others:
            found = self._document.find(_TILE, at)
            at = found.position()
            hidden = self._part(at - 1)
            parts += [_TILE if hidden is None else hidden, other]
        return "".join(parts)

    def reveal(self, position: int, from_end: bool = False) -> int | None:
        """Show some letters of the tile at a position; where they meet what was shown before.
        None if no tile is there.
        """
        hidden = self._part(position)
        if hidden is None:
            return None
        cursor = QTextCursor(self._document)
        cursor.setPosition(position)
        cursor.setPosition(position + 1, QTextCursor.MoveMode.KeepAnchor)
        cursor.beginEditBlock()
        cursor.removeSelectedText()
        plain = QTextCharFormat()
        rest = hidden[:-SHOWN] if from_end else hidden[SHOWN:]
        if not from_end:
            cursor.insertText(hidden[:SHOWN], plain)
        if rest:
            self._insert_tile(cursor, rest)
        if from_end:
            cursor.insertText(hidden[-SHOWN:], plain)
        cursor.endEditBlock()
        return cursor.position() if from_end else position

    def _insert_tile(self, cursor: QTextCursor, hidden: str) -> None:
        look = QTextCharFormat()
        look.setObjectType(_KIND)
        look.setProperty(_NUMBER, len(self._parts))
        look.setProperty(_LETTERS, len(hidden))
        self._parts.append(hidden)
        cursor.insertText(_TILE, look)

    def _part(self, position: int) -> str | None:
        """The hidden text of the tile at a position, if one is there."""
        if not self._parts or self._document.characterAt(position) != _TILE:
            return None
        cursor = QTextCursor(self._document)
        cursor.setPosition(position + 1)
        look = cursor.charFormat()
        return self._parts[look.intProperty(_NUMBER)] if look.objectType() == _KIND else None


class _Tile(QPyTextObject):
    """Says how many letters are hidden."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)

    def intrinsicSize(  # noqa: N802
        self, document: QTextDocument, position: int, format: QTextFormat
    ) -> QSizeF:
        metrics = QFontMetricsF(fonts.small())
        return QSizeF(metrics.horizontalAdvance(_words(format)) + 2 * _PADDING, metrics.height())

    def drawObject(  # noqa: N802
        self,
        painter: QPainter,
        rect: QRectF | QRect,
        document: QTextDocument,
        position: int,
        format: QTextFormat,
    ) -> None:
        now = tokens()
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(now.divider))
        painter.setBrush(QColor(now.raised))
        area = QRectF(rect).adjusted(1.5, 0.5, -1.5, -0.5)
        painter.drawRoundedRect(area, RADIUS_CONTROL, RADIUS_CONTROL)
        painter.setPen(QColor(now.quiet))
        painter.setFont(fonts.small())
        painter.drawText(area, Qt.AlignmentFlag.AlignCenter, _words(format))
        painter.restore()


def _words(format: QTextFormat) -> str:
    return tr("{intproperty} more letters", intproperty=grouped(format.intProperty(_LETTERS)))
