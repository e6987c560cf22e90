"""The view as a picture and as a text that say of what they are."""

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPixmap, QRegion
from PySide6.QtWidgets import QWidget

from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import PADDING
from app.widgets.numbers import UNKNOWN

LONGEST = 100  # characters of the prompt
TAKEN = QWidget.RenderFlag.DrawWindowBackground | QWidget.RenderFlag.DrawChildren


def captions(bench: Workbench, word: str) -> list[str]:
    """The word, the model that says it, the prompt's beginning, the seed."""
    session, lines = bench.session, [word]
    row = bench.chat.row_of(bench.token.word.message) if bench.token.word is not None else None
    path = bench.chat.path[: row + 1] if row is not None else []
    asked = next((m.text for m in reversed(path) if m.role == "user"), "")
    prompt = " ".join(asked.split())
    short = prompt if len(prompt) <= LONGEST else f"{prompt[: LONGEST - 1]}…"
    seed = path[-1].seed if path else None
    device = session.model.device_name if session.model is not None else ""
    lines.append(f"Model: {session.model_title or UNKNOWN}{f', on {device}' if device else ''}")
    lines.append(f"Prompt: {short or UNKNOWN}")
    lines.append(f"Seed: {UNKNOWN if seed is None else seed}")
    return lines


def text_of(bench: Workbench, word: str, parts: Sequence[str]) -> str:
    """Captions and tables."""
    return "\n\n".join(["\n".join(captions(bench, word)), *parts]) + "\n"


def picture_of(bench: Workbench, word: str, body: QWidget) -> QPixmap:
    """All of `body`, also what is scrolled out of sight, below its captions."""
    lines, now = captions(bench, word), tokens()
    tall = fonts.px(20)
    above = PADDING + len(lines) * tall + PADDING // 2
    ratio = body.devicePixelRatioF()
    size = body.size()
    width, height = size.width() + 2 * PADDING, size.height() + above + PADDING
    drawn = QPixmap(round(width * ratio), round(height * ratio))
    drawn.setDevicePixelRatio(ratio)
    drawn.fill(QColor(now.panel))
    painter = QPainter(drawn)
    for at, line in enumerate(lines):
        painter.setFont(fonts.strong() if at == 0 else fonts.body())
        painter.setPen(QColor(now.text if at == 0 else now.quiet))
        area = QRectF(PADDING, PADDING + at * tall, width - 2 * PADDING, tall)
        metrics = painter.fontMetrics()
        said = metrics.elidedText(line, Qt.TextElideMode.ElideRight, int(area.width()))
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, said)
    body.render(painter, QPoint(PADDING, above), QRegion(), TAKEN)
    painter.end()
    return drawn
