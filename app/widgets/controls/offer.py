"""A wide button: a name on the left, what there is to say about it on the right."""

from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy

from app.language import tr
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import RADIUS_CONTROL
from app.widgets.focus import has_focus

HEIGHT, INSET = 36, 12
MOST_ABOUT = 0.6  # of the width; where it takes more, the name alone is shown


class Offer(QAbstractButton):
    """Something to take, among others."""

    def __init__(self, name: str, about: str, clicked: Callable[[], object]) -> None:
        super().__init__()
        self._about = about
        self.setText(name)
        self.setAccessibleName(tr("Open {name}, {about}", name=name, about=about))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.clicked.connect(lambda: clicked())

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(320), fonts.px(HEIGHT))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        return QSize(fonts.px(160), fonts.px(HEIGHT))  # a name that is longer is elided

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, now = QPainter(self), tokens()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(now.accent if has_focus(self) else now.divider))
        painter.setBrush(QColor(now.raised if self.underMouse() else now.panel))
        area = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(area, RADIUS_CONTROL, RADIUS_CONTROL)
        inside = area.adjusted(INSET, 0, -INSET, 0)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(fonts.small())
        painter.setPen(QColor(now.quiet))
        wanted = painter.fontMetrics().horizontalAdvance(self._about)
        about = self._about if wanted < inside.width() * MOST_ABOUT else ""
        painter.drawText(inside, middle | Qt.AlignmentFlag.AlignRight, about)
        room = inside.width() - painter.fontMetrics().horizontalAdvance(about) - INSET
        painter.setFont(fonts.body())
        painter.setPen(QColor(now.text))
        metrics = painter.fontMetrics()
        name = metrics.elidedText(self.text(), Qt.TextElideMode.ElideMiddle, int(room))
        painter.drawText(inside, middle | Qt.AlignmentFlag.AlignLeft, name)
        painter.end()
