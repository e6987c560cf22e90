"""A line in the place it concerns: what happened, one button for the next step, details."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from app.theme.icons import pixmap
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL
from app.widgets.basics import Button, IconButton, label

_PICTURES = {"good": "check", "warn": "warning", "bad": "error", "accent": "info"}


class Banner(QWidget):
    """`tone` is good, warn, bad or accent (plain news)."""

    closed = Signal()

    def __init__(
        self,
        tone: str,
        text: str,
        action: str = "",
        act: Callable[[], object] | None = None,
        details: Callable[[], object] | None = None,
        closable: bool = True,
    ) -> None:
        super().__init__()
        self._tone = tone
        self._mark = QLabel()
        self._mark.setFixedSize(20, 20)
        self._text = label(text, wrap=True)
        self._text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, GRID // 2, GRID // 2, GRID // 2)
        row.setSpacing(GRID)
        row.addWidget(self._mark)
        row.addWidget(self._text, 1)
        if details is not None:
            row.addWidget(Button("Details", details, "link", name=f"Details: {text}"))
        if act is not None:
            row.addWidget(Button(action, act))
        if closable:
            row.addWidget(IconButton("close", f"Dismiss: {text}", self.dismiss, 16))
        self.setAccessibleName(text)
        self._tint()

    @property
    def text(self) -> str:
        return self._text.text()

    def set_text(self, text: str) -> None:
        self._text.setText(text)
        self.setAccessibleName(text)

    def dismiss(self) -> None:
        self.closed.emit()
        self.setParent(None)
        self.deleteLater()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._tint()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(tokens().on(self._tone, 0.45)))
        painter.setBrush(QColor(tokens().on(self._tone, 0.08)))
        area = self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(area, RADIUS_CONTROL, RADIUS_CONTROL)
        painter.end()

    def _tint(self) -> None:
        colour = getattr(tokens(), self._tone)
        drawn = pixmap(_PICTURES[self._tone], colour, 20, self.devicePixelRatioF())
        self._mark.setPixmap(drawn)
