"""Speed and context, in the top line."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRect, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QWidget

from app.language import tr
from app.state.session import StageProgress
from app.state.talk.message import Message
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, RADIUS_CONTROL
from app.views.talk.context_meter import ContextMeter
from app.views.talk.statistics import stage_left, stage_percent, stage_title
from app.widgets.basics import LOOKS, label
from app.widgets.controls.elided import ElidedLabel
from app.widgets.layouts import hbox
from app.widgets.numbers import UNKNOWN, duration
from app.widgets.plots.lines import Sparkline
from app.widgets.tips import set_tip

__all__ = ["ContextMeter", "Vitals"]

BARS = 24
REFRESH_MS = 100


class Vitals(QWidget):
    """Tokens per second and the time to the first; while loading, its progress.

    They are those of the latest answer: a click or Enter selects its last token. While a token of
    it is selected, they are underlined.
    """

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.bench = bench
        self.line = Sparkline(tr("Recent tokens per second"), BARS)
        self._has_line = False
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(tr("Progress"))
        self.rate = label()
        self.rate.setFont(fonts.strong())
        self.first = ElidedLabel()
        self.first.setProperty("tone", "quiet")
        self.first.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        hbox(
            self.line,
            self.bar,
            self.rate,
            (self.first, 1),
            on=self,
            margins=(GRID // 2, 0, GRID // 2, 0),
        )
        self._soon = QTimer(self, singleShot=True, interval=REFRESH_MS)
        self._soon.timeout.connect(self.refresh)
        session = bench.session
        session.changed.connect(self.refresh)
        session.stage_changed.connect(self.refresh)
        session.vitals_changed.connect(self._later)
        bench.selection.changed.connect(self.update)
        self._scale()
        self.refresh()

    def refresh(self) -> None:
        """Show the session as it is now."""
        session = self.bench.session
        there = self._latest() is not None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus if there else Qt.FocusPolicy.NoFocus)
        shape = Qt.CursorShape.PointingHandCursor if there else Qt.CursorShape.ArrowCursor
        self.setCursor(shape)
        self.setAccessibleDescription(tr("Enter selects the last token") if there else "")
        stage = session.stage
        busy = session.status == "loading" or stage is not None
        self._has_line = not busy and session.model is not None
        self.bar.setVisible(busy)
        if busy:
            self._show_stage(stage)
        elif session.model is None:
            self._say("", "")
        else:
            vitals = session.vitals
            rate = UNKNOWN if vitals.rate is None else f"{vitals.rate:.0f}"
            self.line.show_values(list(session.rates), session.status == "answering")
            self._say(
                f"{rate} t/s",
                tr("·  TTFT {first_token_s}", first_token_s=duration(vitals.first_token_s)),
            )
            text = tr(
                "{rate} tokens per second, first token after {first_token_s}",
                rate=rate,
                first_token_s=duration(vitals.first_token_s),
            )
            self.setAccessibleName(text)
            set_tip(self, text)
        self._fit()

    @property
    def marked(self) -> bool:
        """True if a token of the measured answer is selected."""
        token, latest = self.bench.selection.now.token, self._latest()
        return token is not None and latest is not None and token[0] == latest.id

    def select(self) -> None:
        """Select the last token of the answer that was measured, in whatever chat it is."""
        chat, latest = self.bench.chat, self._latest()
        if latest is None:
            return
        if chat.row_of(latest.id) is None:
            chat.open_at(latest.chat, latest.id, [])
        if chat.row_of(latest.id) is not None:
            self.bench.selection.select_token(latest.id, latest.n_tokens - 1)

    def _latest(self) -> Message | None:
        latest = self.bench.chat.latest
        return latest if latest is not None and latest.n_tokens else None

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        self.select()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.select()
        else:
            super().keyPressEvent(event)

    @property
    def numbers_area(self) -> QRect:
        """The numbers, without the empty room behind them."""
        words = self.first.fontMetrics().horizontalAdvance(self.first.text())
        last = self.rate.geometry().right()
        if self.first.isVisibleTo(self):
            last = self.first.x() + min(words, self.first.width())
        shown = [part for part in (self.line, self.bar, self.rate) if part.isVisibleTo(self)]
        left = min((part.x() for part in shown), default=self.first.x())
        return QRect(left, 0, max(0, last - left), self.height()).adjusted(-4, 4, 4, -4)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter, area = QPainter(self), self.numbers_area.toRectF()
        accent = QColor(tokens().accent)
        if self.marked:
            painter.fillRect(QRectF(area.left(), area.bottom() - 2, area.width(), 2), accent)
        if self.hasFocus():
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(accent)
            frame = area.adjusted(0.5, 0.5, -0.5, -0.5)
            painter.drawRoundedRect(frame, RADIUS_CONTROL, RADIUS_CONTROL)
        painter.end()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self._scale()

    def _scale(self) -> None:
        self.rate.setFont(fonts.strong())
        self.bar.setFixedWidth(fonts.px(96))

    def _show_stage(self, stage: StageProgress | None) -> None:
        known = stage is not None and stage.total > 0
        self.bar.setRange(0, 1000 if known else 0)
        title, percent, left = stage_title(stage), "", ""
        if stage is not None and known:
            self.bar.setValue(round(1000 * stage.done / stage.total))
            percent, left = stage_percent(stage), stage_left(stage)
        self._say(percent, "  ·  ".join(filter(None, [title, left])))
        self.setAccessibleName(", ".join(filter(None, [title, percent])))

    def _fit(self) -> None:
        """Without the line where the numbers need its room; no number is cut short."""
        words = self.first.fontMetrics().horizontalAdvance(self.first.text())
        needed = words + self.rate.sizeHint().width() + 4 * GRID
        line = self.line.sizeHint().width() + GRID
        self.line.setVisible(self._has_line and self.width() >= needed + line)
        self.first.setVisible(not self._has_line or self.width() >= needed)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._fit()

    def _say(self, strong: str, quiet: str) -> None:
        self.rate.setText(strong)
        self.rate.setVisible(bool(strong))
        self.first.setText(quiet)

    def _later(self) -> None:
        if not self._soon.isActive():
            self._soon.start()
