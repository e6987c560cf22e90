"""What belongs to a block of code beside its text: language, copy button, scroll bar."""

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QScrollBar, QSizePolicy, QWidget

from app.theme import fonts
from app.widgets.basics import IconButton, label
from app.widgets.markdown.laid import CODE_BAR, CODE_PADDING, SCROLL_BAR, Laid

SAID_MS = 1500  # how long the button tells that it has copied


class CodeBar(QWidget):
    """Lies over the top of the block; the scroll bar, where one is needed, over its bottom."""

    copied = Signal(str)
    scrolled = Signal(int, int)  # block, shift

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._block, self._code = 0, ""
        self._language = label("", "quiet", "small")
        self._copy = IconButton("copy", "Copy code", self.copy, 16)
        self._bar = QScrollBar(Qt.Orientation.Horizontal, parent)
        self._bar.setAccessibleName("Scroll the code sideways")
        self._bar.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._bar.setSingleStep(fonts.px(24))
        self._bar.valueChanged.connect(lambda shift: self.scrolled.emit(self._block, shift))
        self._bar.hide()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        row = QHBoxLayout(self)
        row.setContentsMargins(CODE_PADDING, 2, 4, 0)
        row.addWidget(self._language)
        row.addStretch(1)
        row.addWidget(self._copy)
        self.setAccessibleName("Code")
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self._bar.setCursor(Qt.CursorShape.ArrowCursor)
        self.destroyed.connect(self._bar.deleteLater)

    def follow(self, block: int, laid: Laid) -> None:
        """Take the place and the content of a block."""
        self._block, self._code = block, laid.block.code
        language = laid.block.language or "text"
        if self._language.text() != language:
            self._language.setText(language)
            self._copy.setAccessibleName(f"Copy {language} code")
        self.setGeometry(laid.left, laid.top, laid.width, CODE_BAR)
        overflow = laid.overflow
        self._bar.setVisible(overflow > 0)
        if overflow:
            self._bar.setRange(0, overflow)
            self._bar.setPageStep(laid.width)
            laid.shift = self._bar.value()
            self._bar.setGeometry(
                laid.left + 4, laid.bottom - SCROLL_BAR - 1, laid.width - 8, SCROLL_BAR
            )

    def scroll_by(self, by: int) -> bool:
        """Move the code sideways; False where all of it is in sight."""
        if self._bar.maximum() == 0 or self._bar.isHidden():
            return False
        self._bar.setValue(self._bar.value() + by)
        return True

    def copy(self) -> None:
        """Put the code on the clipboard."""
        QGuiApplication.clipboard().setText(self._code)
        self.copied.emit(self._code)
        self._copy.set_picture("check", "Copied")
        QTimer.singleShot(SAID_MS, self, self._as_before)

    def hideEvent(self, event: object) -> None:  # noqa: N802
        self._bar.hide()

    def _as_before(self) -> None:
        self._copy.set_picture("copy", f"Copy {self._language.text()} code")
