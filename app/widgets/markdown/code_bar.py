"""Controls of a code block: language, copy button, scroll bar."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QScrollBar, QSizePolicy, QWidget

from app.language import tr
from app.theme import fonts
from app.widgets.basics import IconButton, label
from app.widgets.layouts import STRETCH, hbox
from app.widgets.markdown.laid import CODE_BAR, CODE_PADDING, SCROLL_BAR, Laid
from app.widgets.markdown.stack import NEAR, Stack

SHOWN_MS = 1500  # how long the button confirms the copy
MOST = 200  # before only blocks near the sight have bars


class CodeBar(QWidget):
    """Lies over the top of the code; the scroll bar, where one is needed, over its bottom."""

    copied = Signal(str)
    scrolled = Signal(int, int)  # its first block, shift

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._block = 0
        self._pieces: Sequence[Laid] = ()
        self._language = label("", "quiet", "small")
        self._copy = IconButton("copy", tr("Copy code"), self.copy, 16)
        self.bar = QScrollBar(Qt.Orientation.Horizontal, parent)
        self.bar.setAccessibleName(tr("Scroll the code sideways"))
        self.bar.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.bar.setSingleStep(fonts.px(24))
        self.bar.valueChanged.connect(lambda shift: self.scrolled.emit(self._block, shift))
        self.bar.hide()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        hbox(
            self._language, STRETCH, self._copy, on=self, margins=(CODE_PADDING, 2, 4, 0), spacing=6
        )
        self.setAccessibleName(tr("Code"))
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.bar.setCursor(Qt.CursorShape.ArrowCursor)
        self.destroyed.connect(self.bar.deleteLater)

    def follow(self, block: int, pieces: Sequence[Laid]) -> None:
        """Take the place and the content of code that begins with a block."""
        self._block, self._pieces = block, pieces
        laid, last = pieces[0], pieces[-1]
        language = laid.block.language or "text"
        if self._language.text() != language:
            self._language.setText(language)
            self._copy.setAccessibleName(tr("Copy {language} code", language=language))
        self.setGeometry(laid.left, laid.top, laid.width, fonts.px(CODE_BAR))
        overflow = max(piece.overflow for piece in pieces)
        self.bar.setVisible(overflow > 0)
        if overflow:
            self.bar.setRange(0, overflow)
            self.bar.setPageStep(laid.width)
            self.bar.setGeometry(
                laid.left + 4, last.bottom - SCROLL_BAR - 1, laid.width - 8, SCROLL_BAR
            )
        for piece in pieces:
            piece.shift = self.bar.value() if overflow else 0

    def scroll_by(self, by: int) -> bool:
        """Move the code sideways; False where all of it is visible."""
        if self.bar.maximum() == 0 or self.bar.isHidden():
            return False
        self.bar.setValue(self.bar.value() + by)
        return True

    def copy(self) -> None:
        """Put the code on the clipboard."""
        code = "".join((piece.block.joint or "") + piece.block.code for piece in self._pieces)
        QGuiApplication.clipboard().setText(code)
        self.copied.emit(code)
        self._copy.set_picture("check", tr("Copied"))
        QTimer.singleShot(SHOWN_MS, self, self._as_before)

    def hideEvent(self, event: object) -> None:  # noqa: N802
        self.bar.hide()

    def _as_before(self) -> None:
        self._copy.set_picture("copy", tr("Copy {language} code", language=self._language.text()))


class CodeBars(QObject):
    """The bars of all code in a widget; where there is very much, only near the viewport."""

    copied = Signal(str)

    def __init__(self, view: QWidget, stack: Stack) -> None:
        super().__init__(view)
        self._view, self._stack = view, stack
        self.bars: dict[int, CodeBar] = {}
        self.some_missing = False

    def place(self) -> None:
        """Put bars where code is now."""
        laid = self._stack.laid
        codes = [n for n in self._stack.codes if laid[n].exact]
        self.some_missing = len(codes) > MOST
        if self.some_missing:
            seen = self._view.visibleRegion().boundingRect()
            near = self._stack.rows_in(seen.top() - NEAR, seen.bottom() + NEAR)
            codes = [n for n in codes if _overlap(self._stack.code_rows(n), near)][:MOST]
        for gone in self.bars.keys() - set(codes):
            bar = self.bars.pop(gone)
            bar.hide()
            bar.deleteLater()
        for n in codes:
            if n not in self.bars:
                self.bars[n] = CodeBar(self._view)
                self.bars[n].copied.connect(self.copied)
                self.bars[n].scrolled.connect(self._scroll)
                self.bars[n].show()
            self.bars[n].follow(n, [laid[row] for row in self._stack.code_rows(n)])

    def at(self, y: float) -> CodeBar | None:
        """The bar of the code at a height."""
        if not self._stack.laid:
            return None
        row = self._stack.row_at(y)
        first = self._stack.code_of(row)
        return self.bars.get(first) if row in self._stack.code_rows(first) else None

    def _scroll(self, block: int, shift: int) -> None:
        if block < len(self._stack.laid):
            for row in self._stack.code_rows(block):
                self._stack.laid[row].shift = shift
            self._view.update()


def _overlap(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop
