"""A view's picture with a caption."""

from datetime import datetime

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QWidget

from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID
from app.words import UNKNOWN

BETWEEN = " · "


def caption(bench: Workbench, title: str, selected: str, now: datetime) -> str:
    """Return the caption: view, model, devices, selection and time."""
    session, model = bench.session, bench.session.model
    where = model.device_name or model.device if model is not None else ""
    said = (title, session.model_title or UNKNOWN, where, selected, f"{now:%Y-%m-%d %H:%M}")
    return BETWEEN.join(part for part in said if part)


def picture_of(view: QWidget, words: str) -> QImage:
    """The view as it is on the screen, with words in as many lines as they take below it."""
    drawn = view.grab()
    ratio = drawn.devicePixelRatio()
    width = round(drawn.width() / ratio)
    flags = Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap
    room = QRect(GRID, 0, max(width - 2 * GRID, 1), 10_000)
    measured = QImage(1, 1, QImage.Format.Format_RGB32)
    painter = QPainter(measured)
    painter.setFont(fonts.small())
    needed = painter.boundingRect(room, flags, words).height() + 2 * GRID
    painter.end()
    height = round(drawn.height() / ratio)
    made = QImage(
        round(width * ratio), round((height + needed) * ratio), QImage.Format.Format_RGB32
    )
    made.setDevicePixelRatio(ratio)
    made.fill(QColor(tokens().panel))
    painter = QPainter(made)
    painter.drawPixmap(QPoint(0, 0), drawn)
    painter.setPen(QColor(tokens().divider))
    painter.drawLine(0, height, width, height)
    painter.setFont(fonts.small())
    painter.setPen(QColor(tokens().quiet))
    painter.drawText(room.translated(0, height + GRID), flags, words)
    painter.end()
    return made
