"""A label that shortens its text instead of requesting room."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy

from app.widgets.tips import set_tip


class ElidedLabel(QLabel):
    """One line; what does not fit is left out at `where`, and the tool tip has all of it."""

    def __init__(
        self,
        text: str = "",
        where: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
        size: str = "",
    ) -> None:
        super().__init__()
        self.setProperty("letters", size)
        self._where = where
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setText(text)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(self.fontMetrics().averageCharWidth() * 4, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        text = self.fontMetrics().elidedText(self.text(), self._where, self.width())
        set_tip(self, self.text() if text != self.text() else "")
        painter = QPainter(self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self.rect(), int(self.alignment()), text)
        painter.end()
