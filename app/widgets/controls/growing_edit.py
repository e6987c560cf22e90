"""A field for plain text that grows with it, from one line to eight."""

from collections import deque
from collections.abc import Iterator

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QInputMethodEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QResizeEvent,
    QTextCursor,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy

from app import turn
from app.theme import fonts
from app.widgets.controls.hidden_text import HiddenText
from app.widgets.pictures.given import local_files, picture_in

MOST_LINES = 8
LONG_PASTE = 2000  # characters
LONG = 100_000  # characters of a text that is not read at each key
PIECE = 16_000  # characters that are inserted at once, up to the end of their line


class GrowingEdit(QPlainTextEdit):
    """Enter or Ctrl+Enter submits (`submits_on_enter`), the other one makes a new line.

    The middle of a very long line is hidden, until the cursor goes there or it is clicked.
    """

    submitted = Signal()
    cancelled = Signal()  # Esc, where `takes_escape`
    above_wanted = Signal()  # Up in an empty field
    slash_typed = Signal()  # "/" in an empty field
    files_given = Signal(list)  # paths of files that were pasted
    long_text_given = Signal(str)  # pasted or dropped, where `hands_on_long`
    picture_given = Signal(object)  # what makes the bytes of a pasted picture, in a thread

    def __init__(
        self,
        name: str,
        takes_escape: bool = False,
        hands_on_long: bool = False,
        most_lines: int = MOST_LINES,
    ) -> None:
        super().__init__()
        self._hands_on_long, self._most_lines = hands_on_long, most_lines
        self.submits_on_enter = True
        self._takes_escape = takes_escape
        self.setAccessibleName(name)
        self._set_font()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setProperty("plain", "true")
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(2)
        self.document().clearUndoRedoStacks()  # of the margin
        self.hidden = HiddenText(self)
        self._known: str | None = None
        self._rest = deque[str]()  # pieces of a long text whose beginning is in the document
        self._at: QTextCursor | None = None  # where the pieces of a paste go; None: to the end
        self.document().contentsChange.connect(self._forget)
        self.document().contentsChanged.connect(self._align)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def _align(self) -> None:
        """Put the text to the side that its first letters begin at, as browsers do (dir=auto)."""
        right = Qt.LayoutDirection.RightToLeft
        begins_right = self.document().firstBlock().textDirection() == right
        side = Qt.AlignmentFlag.AlignRight if begins_right else Qt.AlignmentFlag.AlignLeft
        option = self.document().defaultTextOption()
        if option.alignment() != side:
            option.setAlignment(side)
            self.document().setDefaultTextOption(option)

    @property
    def text(self) -> str:
        if self._known is None:
            self._known = self.hidden.text() + "".join(self._rest)
        return self._known

    @property
    def blank(self) -> bool:
        """True if nothing but space is written."""
        block = self.document().begin()
        while block.isValid() and not block.text().strip():
            block = block.next()
        return not block.isValid() and not any(piece.strip() for piece in self._rest)

    @property
    def long(self) -> bool:
        """True if it takes a while to read `text`."""
        return self.document().characterCount() + sum(map(len, self._rest)) > LONG

    def set_text(self, text: str) -> None:
        """Replace the text; the cursor goes to its end. A long one is inserted in several turns of
        the event loop, or when it is first needed; `text` is all of it from the beginning.
        """
        self.hidden.clear()
        self._rest.clear()
        self._at = None
        self.setUndoRedoEnabled(False)
        blocked = self.blockSignals(True)
        self.clear()
        self._rest.extend(_pieces(text))
        self._insert_piece()
        self.blockSignals(blocked)
        self.textChanged.emit()
        self._fill()

    def _fill(self) -> None:
        """Insert what fits into this turn."""
        while self._rest and turn.left():
            self._insert_piece()
        if self._rest:
            turn.later(self, self._fill)
        elif self._at is not None:
            self._at, self._known = None, None
            self.ensureCursorVisible()
        elif not self.isUndoRedoEnabled():
            self.setUndoRedoEnabled(True)
            if self.textCursor().atEnd():
                self.ensureCursorVisible()

    def _insert_piece(self) -> None:
        if not self._rest:
            return
        known, piece = self.text, self._rest.popleft()
        blocked = self.blockSignals(True)
        cursor = self._at or QTextCursor(self.document())
        if self._at is None:
            cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.joinPreviousEditBlock()  # all pieces are undone at once
        self.hidden.insert(cursor, piece)
        cursor.endEditBlock()
        self.blockSignals(blocked)
        self._known = known

    def _paste(self, text: str) -> None:
        """Insert a text in place of the selection, a long one in several turns of the event loop;
        `text` has all of it from the beginning.
        """
        self._finish()
        first, *rest = list(_pieces(text.replace("\r\n", "\n").replace("\r", "\n"))) or [""]
        cursor = self.textCursor()
        above = below = ""
        if rest:
            last = self.document().characterCount() - 1
            above = self.hidden.text(0, cursor.selectionStart())
            below = self.hidden.text(cursor.selectionEnd(), last)
        blocked = self.blockSignals(bool(rest))
        self.hidden.insert(cursor, first)
        self.blockSignals(blocked)
        if rest:
            self._rest.extend(rest)
            self._at, self._known = cursor, above + first + "".join(rest) + below
            self.textChanged.emit()
            self._fill()
        self.ensureCursorVisible()

    def _finish(self) -> None:
        """Insert all that is left, before a person changes something."""
        if self._rest:
            while self._rest:
                self._insert_piece()
            self._fill()

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(240, self.height())

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        self._finish()
        super().contextMenuEvent(event)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:  # noqa: N802
        self._finish()
        super().inputMethodEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        self._finish()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            held = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
            control = held == Qt.KeyboardModifier.ControlModifier
            if control or (self.submits_on_enter and held == Qt.KeyboardModifier.NoModifier):
                self.submitted.emit()
            else:
                self.insertPlainText("\n")
                self.ensureCursorVisible()
        elif event.key() == Qt.Key.Key_Up and self.document().isEmpty():
            self.above_wanted.emit()
        elif event.text() == "/" and self.document().isEmpty():
            super().keyPressEvent(event)
            self.slash_typed.emit()
        elif event.key() == Qt.Key.Key_Escape and self._takes_escape:
            self.cancelled.emit()
        else:
            self._reveal_for(event)
            super().keyPressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        super().mouseReleaseEvent(event)
        cursor = self.textCursor()
        if event.button() == Qt.MouseButton.LeftButton and not cursor.hasSelection():
            # a click in the left half of a tile puts the cursor before it, in the right half after
            right = event.position().x() >= self.cursorRect().x()
            self._reveal(cursor.position() - (0 if right else 1), from_end=not right)

    def _reveal_for(self, event: QKeyEvent) -> None:
        """Show letters that a key moves over or deletes."""
        cursor = self.textCursor()
        if cursor.hasSelection() and event.key() in (Qt.Key.Key_Backspace, Qt.Key.Key_Delete):
            return
        if event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Backspace):
            self._reveal(cursor.position() - 1, from_end=True)
        elif event.key() in (Qt.Key.Key_Right, Qt.Key.Key_Delete):
            self._reveal(cursor.position())

    def _reveal(self, position: int, from_end: bool = False) -> None:
        cursor = self.textCursor()
        before, anchor = self.document().characterCount(), cursor.anchor()
        seam = self.hidden.reveal(position, from_end)
        if seam is not None:
            grown = self.document().characterCount() - before
            cursor.setPosition(anchor + (grown if anchor > position else 0))
            cursor.setPosition(seam, cursor.MoveMode.KeepAnchor)
            if anchor in (position, position + 1):
                cursor.setPosition(seam)
            self.setTextCursor(cursor)

    def event(self, event: QEvent) -> bool:
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.matches(QKeySequence.StandardKey.Undo)
            and not self.document().isUndoAvailable()
        ):
            event.ignore()  # for the window, which may have something to undo
            return True
        # Esc is also a shortcut of the window.
        if (
            self._takes_escape
            and event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
        ):
            event.accept()
            return True
        return super().event(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802
        # Files are for the window, which knows what to do with them.
        return not source.hasUrls() and (source.hasText() or picture_in(source) is not None)

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802
        files = local_files(source)
        picture = None if source.hasText() and not source.hasUrls() else picture_in(source)
        if files:
            self.files_given.emit(files)
        elif picture is not None:
            self.picture_given.emit(picture)
        elif source.hasText() and self._hands_on_long and len(source.text()) > LONG_PASTE:
            self.long_text_given.emit(source.text())
        elif source.hasText():
            self._paste(source.text())

    def createMimeDataFromSelection(self) -> QMimeData:  # noqa: N802
        self._finish()
        cursor, data = self.textCursor(), QMimeData()
        data.setText(self.hidden.text(cursor.selectionStart(), cursor.selectionEnd()))
        return data

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        styled = event.type() == QEvent.Type.StyleChange
        if styled and self.font().pixelSize() != fonts.chat().pixelSize():
            self._set_font()  # the style sheet has put back the one it first saw
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def set_placeholder(self, text: str) -> None:
        """Set and draw it: Qt leaves the one before until the field is drawn for another reason."""
        if text != self.placeholderText():
            super().setPlaceholderText(text)
            self.viewport().update()

    def _forget(self) -> None:
        self._known = None

    def _set_font(self) -> None:
        self.setFont(fonts.chat())
        self.viewport().setFont(fonts.chat())  # of the placeholder

    def _fit(self) -> None:
        lines = max(1, round(self.document().size().height()))
        spacing = self.fontMetrics().lineSpacing()
        margins = 2 * round(self.document().documentMargin()) + 2
        height = min(lines, self._most_lines) * spacing + margins
        more = lines > self._most_lines
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if more else policy.ScrollBarAlwaysOff
        )
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)
            self.updateGeometry()


def _pieces(text: str) -> Iterator[str]:
    """Whole lines of a text, as many as `PIECE` characters need."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + PIECE) + 1 or len(text)
        yield text[start:end]
        start = end
