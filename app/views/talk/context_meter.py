"""How full the context is, message by message."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, Qt, QTimer
from PySide6.QtGui import QEnterEvent, QFocusEvent, QKeyEvent, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.language import tr
from app.state.talk.context import ContextUse, Share
from app.state.talk.message import Message
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, ROW_COMPACT
from app.widgets.basics import LOOKS, label
from app.widgets.layouts import hbox
from app.widgets.numbers import grouped
from app.widgets.plots.bars import Segment, SegmentBar
from app.widgets.plots.chart import Painted
from app.widgets.plots.paper import LEFT, RIGHT, Paper, painting

BAR = 96
REFRESH_MS = 200
FULL = 0.9  # from here on it warns
MOST = 12  # messages that the card names
CARD_WIDTH = 320


class ContextMeter(QWidget):
    """A bar and a percentage; under the mouse or with the keyboard a card with the parts."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.bench = bench
        self.use = ContextUse((), 0)
        self.card: ContextCard | None = None
        self.bar = SegmentBar(BAR)
        self.bar.pointed.connect(self._pointed)
        self.percent = label("", "quiet")
        self.percent.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._title = label(tr("context"), "quiet")
        hbox(self._title, self.bar, self.percent, on=self, margins=(GRID // 2, 0, GRID // 2, 0))
        self._soon = QTimer(self, singleShot=True, interval=REFRESH_MS)
        self._soon.timeout.connect(self.refresh)
        chat, session = bench.chat, bench.session
        for signal in (
            *(chat.path_changed, chat.message_added, chat.message_changed),
            *(chat.attached.changed, chat.documents.changed, chat.pictures_in_engine.changed),
            *(bench.prompt.changed, chat.details.changed),
        ):
            signal.connect(self._later)
        session.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the context of the open chat as it is now."""
        model = self.bench.session.model
        if model is None or not model.n_ctx:  # a server may not report how much it takes
            self.hide()
            self.hide_card()
            return
        if self.parent() is not None:  # before, it would be a window
            self.show()
        self.use = self.bench.prompt.use
        tone = "warn" if self.share >= FULL else "accent"
        path = self.bench.chat.path
        segments = [_segment(part, path, tone) for part in self.use.shares]
        self.bar.show_segments(segments, model.n_ctx)
        self.percent.setMinimumWidth(self.percent.fontMetrics().horizontalAdvance("100 %"))
        self.percent.setText(self._amount)
        self.setAccessibleName(self.words)
        if self.card is not None and self.card.isVisible():
            self._show_card()

    @property
    def share(self) -> float:
        """How full it is, from 0 to 1."""
        return min(1.0, self.use.used / self.use.n_ctx) if self.use.n_ctx else 0.0

    @property
    def _amount(self) -> str:
        over = self.use.over
        if over <= 1:  # the last token of an answer that fills the context is behind it
            return f"{self.share * 100:.0f} %"
        if any(share.draft for share in self.use.shares):
            return tr("too long")  # the message says by how much, with its text
        return tr("{over} tokens too long", over=grouped(over))

    @property
    def words(self) -> str:
        """All of it in a line."""
        return tr(
            "Context: {about}{used} of {n_ctx} tokens, {amount}",
            about="" if self.use.counted else tr("about "),
            used=grouped(self.use.used),
            n_ctx=grouped(self.use.n_ctx),
            amount=self._amount,
        )

    def who(self, part: Share) -> str:
        """The name of a part of the context."""
        if part.row is None:
            written = tr("Message to send") if self.use.whole else tr("Attachments to send")
            return written if part.draft else tr("System prompt")
        message = self.bench.chat.path[part.row]
        who = tr("You") if message.role == "user" else tr("Answer")
        line = " ".join(message.text.split())
        return f"{who}: {line}" if line else who

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self.refresh()

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802
        self._show_card()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self.hide_card()

    def focusInEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusInEvent(event)
        self.update()
        if event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason):
            self._show_card()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        super().focusOutEvent(event)
        self.update()
        self.hide_card()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        count = len(self.use.shares)
        if step is None or not count:
            super().keyPressEvent(event)
            return
        at = self.bar.marked
        self.bar.marked = (at + step) % count if at is not None else (0 if step > 0 else count - 1)
        self.bar.update()
        self._show_card()
        part = self.use.shares[self.bar.marked]
        self.setAccessibleDescription(
            tr("{name}, {tokens} tokens", name=self.who(part), tokens=grouped(part.tokens))
        )

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        if self.hasFocus():
            area = QRectF(0.5, (self.height() - 28) / 2, self.width() - 1, 28)
            with painting(self) as paper:
                paper.frame(area, tokens().accent, radius=4)

    def hide_card(self) -> None:
        """Take the card away."""
        self.bar.marked = None
        if self.card is not None:
            self.card.hide()

    def _pointed(self, index: int | None) -> None:
        if self.card is not None and self.card.isVisible():
            self._show_card()

    def _show_card(self) -> None:
        if self.card is None:
            self.card = ContextCard(self.window())
            self.destroyed.connect(self.card.deleteLater)
        corner = self.mapTo(self.window(), QPoint(0, 0))
        self.card.show_use(self, QRect(corner, self.size()))

    def _later(self) -> None:
        if not self._soon.isActive():
            self._soon.start()


def _segment(part: Share, path: Sequence[Message], tone: str) -> Segment:
    if part.row is None:
        return Segment(part.tokens, "accent" if part.draft else "quiet", 0.6)
    return Segment(part.tokens, tone, 0.45 if path[part.row].role == "user" else 0.8)


class ContextCard(Painted):
    """Used and free, then one line per message; floats below the meter."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(tr("Context by message"), focus=False)
        self.setParent(parent)
        self._over = parent
        self.lines: list[tuple[str, str, bool]] = []
        self._title = ""
        self._marked: int | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def show_use(self, meter: ContextMeter, beside: QRect) -> None:
        shares = list(enumerate(meter.use.shares))
        left_out = max(0, len(shares) - MOST)
        marked = meter.bar.marked
        shown = shares[left_out:]
        if marked is not None and marked < left_out:
            shown = shares[marked : marked + MOST]
            left_out = 0
        self._title = meter.words
        self._marked = next((n for n, (at, _) in enumerate(shown) if at == marked), None)
        self.lines = [
            (
                meter.who(part),
                ("" if part.counted else "~") + grouped(part.tokens),
                part.row is None,
            )
            for _, part in shown
        ]
        if left_out:
            earlier = sum(part.tokens for _, part in shares[:left_out])
            self.lines.insert(
                0, (tr("{left_out} earlier", left_out=left_out), grouped(earlier), False)
            )
            self._marked = None if self._marked is None else self._marked + 1
        row = fonts.px(ROW_COMPACT)
        height = 44 + len(self.lines) * row + (GRID if self.lines else 0)
        room = self._over.rect()
        width = min(fonts.px(CARD_WIDTH), room.width() - 2 * GRID)
        left = min(beside.left(), room.width() - width - GRID)
        self.setGeometry(left, beside.bottom() - GRID // 2, width, height)
        self.setAccessibleDescription(
            ". ".join([self._title, *(f"{a}, {b}" for a, b, _ in self.lines)])
        )
        self.raise_()
        self.show()
        self.update()

    def draw(self, paper: Paper) -> None:
        now, row = tokens(), fonts.px(ROW_COMPACT)
        paper.card(self.rect().toRectF())
        inner = QRectF(14, 0, self.width() - 28, 40)
        paper.elided(inner, self._title, now.text, LEFT, fonts.body())
        for n, (who, count, _) in enumerate(self.lines):
            area = QRectF(14, 40 + n * row, self.width() - 28, row)
            if n == self._marked:
                paper.fill(area.adjusted(-8, 0, 8, 0), now.selection)
            tone = now.text if n == self._marked else now.quiet
            paper.elided(area.adjusted(0, 0, -48, 0), who, tone)
            paper.text(area, count, tone=now.text, align=RIGHT)
