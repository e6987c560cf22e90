"""A banner in the window, and a panel laid over it that keeps the keyboard until Esc."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QBrush, QColor, QKeyEvent, QMouseEvent, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QBoxLayout,
    QFrame,
    QGridLayout,
    QLabel,
    QSizePolicy,
    QWidget,
)

from app.language import tr
from app.theme import fonts
from app.theme.icons import pixmap
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL
from app.widgets.basics import LOOKS, TEXT_SIZE, Button, IconButton, label, surface
from app.widgets.focus import focus_first, has_focus, move_focus
from app.widgets.layouts import vbox
from app.widgets.plots.paper import painting
from app.widgets.tips import set_tip
from app.words import without_folders

LEAST_TEXT = 320  # pixels for the words beside the steps
LEAST_BESIDE = 48  # pixels on each side of the steps
_PICTURES = {"good": "check", "warn": "warning", "bad": "error", "accent": "info"}


class Banner(QWidget):
    """`tone` is good, warn, bad or accent (plain news); `instead` is a quieter second step."""

    closed = Signal()

    def __init__(
        self,
        tone: str,
        text: str,
        action: str = "",
        act: Callable[[], object] | None = None,
        details: Callable[[], object] | None = None,
        closable: bool = True,
        instead: tuple[str, Callable[[], object]] | None = None,
    ) -> None:
        super().__init__()
        self._tone = tone
        self._mark = QLabel()
        self._mark.setFixedSize(20, 20)
        self._text = label(wrap=True)
        self._text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._steps = QWidget()
        steps = self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._steps)
        steps.setContentsMargins(0, 0, 0, 0)
        steps.setSpacing(GRID)
        steps.setAlignment(Qt.AlignmentFlag.AlignLeft)
        if act is not None:
            steps.addWidget(Button(action, act))
        if instead is not None:
            steps.addWidget(Button(instead[0], instead[1], "link"))
        if details is not None:
            steps.addWidget(
                Button(tr("Details"), details, "link", name=tr("Details: {text}", text=text))
            )
        fixed = QSizePolicy.Policy.Fixed
        self._steps.setSizePolicy(QSizePolicy.Policy.Preferred, fixed)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(12, GRID // 2, GRID // 2, GRID // 2)
        self._grid.setHorizontalSpacing(GRID)
        self._grid.setVerticalSpacing(GRID // 2)
        self._grid.setColumnStretch(1, 1)
        self._grid.addWidget(self._mark, 0, 0)
        self._grid.addWidget(self._text, 0, 1)
        self._grid.addWidget(self._steps, 0, 2)
        self._steps.setVisible(act is not None or details is not None)
        if closable:
            close = IconButton("close", tr("Dismiss: {text}", text=text), self.dismiss, 16)
            self._grid.addWidget(close, 0, 3)
        self.set_text(text)
        self._tint()

    @property
    def text(self) -> str:
        """The whole text, with the folders of its files."""
        return self.accessibleName()

    def set_text(self, text: str) -> None:
        """Show another text; where its files are is in the tooltip."""
        shown = without_folders(text)
        self._text.setText(shown)
        set_tip(self._text, text if shown != text else "")
        self.setAccessibleName(text)

    def leave_after(self, milliseconds: int) -> None:
        """Dismiss it then, unless the mouse or the keyboard is there: then once more so long."""

        def leave() -> None:
            if self.underMouse() or has_focus(self):
                timer.start()
            else:
                self.dismiss()

        timer = QTimer(self, singleShot=True, interval=milliseconds)
        timer.timeout.connect(leave)
        timer.start()

    def dismiss(self) -> None:
        self.closed.emit()
        self.setParent(None)
        self.deleteLater()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._place_steps()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self._tint()
            self._place_steps()

    def _place_steps(self) -> None:
        """Below the text where one line would squeeze it, below each other if need be."""
        wanted = sum(b.sizeHint().width() + GRID for b in self._steps.findChildren(Button))
        beside = wanted <= self.width() - fonts.px(2 * LEAST_BESIDE)
        way = QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom
        self._row.setDirection(way)
        self._row.invalidate()
        self._steps.updateGeometry()
        if not beside or self.width() < wanted + fonts.px(LEAST_TEXT):
            self._grid.addWidget(self._steps, 1, 1)
        else:
            self._grid.addWidget(self._steps, 0, 2)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        area = self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5)
        with painting(self) as paper:
            paper.fill(area, tokens().on(self._tone, 0.08), radius=RADIUS_CONTROL)
            paper.frame(area, tokens().on(self._tone, 0.45), 1, RADIUS_CONTROL)

    def _tint(self) -> None:
        colour = getattr(tokens(), self._tone)
        drawn = pixmap(_PICTURES[self._tone], colour, 20, self.devicePixelRatioF())
        self._mark.setPixmap(drawn)


class Sheet(QWidget):
    """Shows `content` over its parent, at most `width` by `height` (0: as high as it wants)."""

    def __init__(self, parent: QWidget, content: QWidget, width: int, height: int = 0) -> None:
        super().__init__(parent)
        self._over, self._wanted = parent, (width, height)
        self._before: QWidget | None = None
        self.content = content
        self.card = QFrame(self)
        surface(self.card, "card")
        vbox(content, on=self.card, margins=1)
        self._paints = QTimer(self, singleShot=True, interval=0)  # a turn after it was made
        self._paints.timeout.connect(lambda: self.setUpdatesEnabled(True))
        self.setAccessibleName(content.accessibleName())
        parent.installEventFilter(self)
        self.hide()

    def open(self) -> None:
        """Show it and take the keyboard."""
        if not self.isVisible():
            self._before = QApplication.focusWidget()
            self._place()
            self.setUpdatesEnabled(False)
            self._paints.start()
            self.show()
            self.raise_()
        focus_first(self.content)

    def dismiss(self) -> None:
        """Hide it and give the keyboard back."""
        if not self.isVisible():
            return
        self.hide()
        if self._before is not None and self._before.isVisible():
            self._before.setFocus()
        self._before = None

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.Resize and watched is self._over:
            self._place()
        return False

    def event(self, event: QEvent) -> bool:
        # Esc is also a shortcut of the window; the sheet in front gets it first.
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
        ):
            event.accept()
            return True
        return super().event(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE and self.isVisible():
            QTimer.singleShot(0, self, self._place)  # once all in the card is of the new size

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if not self.card.geometry().contains(event.position().toPoint()):
            self.dismiss()

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        return move_focus(self, forward) or True  # the keyboard stays

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        with painting(self) as paper:
            paper.fill(event.rect().toRectF(), QBrush(QColor(0, 0, 0, 90)))

    def _place(self) -> None:
        area = self._over.rect()
        self.setGeometry(area)
        width = min(fonts.px(self._wanted[0]), area.width() - 4 * GRID)
        height = fonts.px(self._wanted[1]) or self.card.sizeHint().height()
        height = min(height, area.height() - 8 * GRID)
        left = (area.width() - width) // 2
        top = min(7 * GRID, (area.height() - height) // 2)
        self.card.setGeometry(QRect(left, top, width, height))
