"""Parts around a message's text: speaker, actions, statistics, progress, reasoning."""

import time
from collections.abc import Sequence
from datetime import datetime

from PySide6.QtCore import QDateTime, QLocale, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QGuiApplication, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QMenu, QProgressBar, QSizePolicy, QWidget

from app.language import tr, used
from app.state.session import PastStage, StageProgress
from app.state.talk.edits import all_words
from app.state.talk.reasoning import SplitAnswer, as_written
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import GRID, ROW_COMPACT
from app.views.talk.message_row import MessageRow
from app.views.talk.statistics import (
    details,
    stage_left,
    stage_percent,
    stage_title,
    summary,
    which_block,
)
from app.widgets.basics import Button, IconButton, label
from app.widgets.controls.elided import ElidedLabel
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.markdown.view import MarkdownView
from app.widgets.numbers import duration, grouped, local_time, whole_duration
from app.widgets.tips import set_tip
from app.widgets.tokens.lights import Light
from app.words import STAGES

SHOWN_MS = 1500
LINE = "  ·  "


class MessageHeader(QWidget):
    """The speaker's name, and the time."""

    def __init__(self, row: MessageRow, actions: QWidget | None) -> None:
        super().__init__()
        self._row = row
        self._speaker = ElidedLabel()
        self._speaker.setFont(fonts.strong())
        self.edited = label(tr("edited"), "accent", "small")
        self._time = label("", "quiet", "small")
        line = hbox(self._speaker, self.edited, self._time, STRETCH, on=self)
        if actions is not None:
            line.addWidget(actions)
        self.setFixedHeight(fonts.px(ROW_COMPACT + 6))

    def refresh(self) -> None:
        self._speaker.setText(self._row.speaker)
        edits = self._row.message.edits
        self.edited.setVisible(bool(edits))
        if edits:
            set_tip(self.edited, all_words(edits))
            self.edited.setAccessibleName(tr("Edited: {edits}", edits=all_words(edits)))
        self._time.setText(_when(self._row.message.created))

    def show_time(self, shown: bool) -> None:
        self._time.setVisible(shown)


class MessageButtons(QWidget):
    """Branches, copy, edit, answer anew, go on."""

    def __init__(self, row: MessageRow) -> None:
        super().__init__()
        self._row = row
        self._branches = QWidget()
        self.before = IconButton(
            "chevron-left", tr("Previous branch"), lambda: row.sibling_wanted.emit(-1), 16
        )
        self.after = IconButton(
            "chevron-right", tr("Next branch"), lambda: row.sibling_wanted.emit(1), 16
        )
        self.place = label("", "quiet", "small")
        hbox(self.before, self.place, self.after, on=self._branches, spacing=0)
        self._copy = IconButton("copy", tr("Copy the message"), self._do_copy, 16)
        self.edit = IconButton("edit", tr("Edit"), row.edit_wanted.emit, 16)
        buttons = [self._copy, self.edit]
        if not row.is_question:
            self.again = IconButton("retry", tr("Regenerate"), row.regenerate, 16)
            self.on = IconButton("continue", tr("Continue"), row.continue_answer, 16)
            buttons += [self.again, self.on]
        buttons.append(IconButton("trash", tr("Delete this and later messages"), row.delete, 16))
        self.stops: list[QWidget] = [self.before, self.after, *buttons]  # in the order of Tab
        self._buttons = QWidget()
        self._buttons.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        line = hbox(on=self._buttons, spacing=0)
        for button in buttons:
            line.addWidget(button)
        hbox(self._branches, self._buttons, on=self, spacing=GRID // 2)

    def refresh(self) -> None:
        message, row = self._row.message, self._row
        several = message.siblings > 1
        self._branches.setVisible(several)
        if several:
            self.place.setText(f"{message.place + 1}/{message.siblings}")
            self.place.setAccessibleName(
                tr(
                    "Branch {place} of {siblings}",
                    place=message.place + 1,
                    siblings=message.siblings,
                )
            )
            self.before.setEnabled(message.place > 0)
            self.after.setEnabled(message.place < message.siblings - 1)
        if not row.is_question:
            self.on.setVisible(bool(message.text) and message.finish != "died")

    def fill_menu(self, menu: QMenu) -> None:
        """Add what the buttons do, as far as it can be done now."""
        row = self._row
        menu.addAction(tr("Copy the message"), self._do_copy)
        if row.answering:
            return
        menu.addAction(tr("Edit"), row.edit_wanted.emit)
        if not row.is_question:
            menu.addAction(tr("Regenerate"), row.regenerate)
            if not self.on.isHidden():
                menu.addAction(tr("Continue"), row.continue_answer)
        menu.addAction(tr("Branch in a new chat"), row.branch_off)
        menu.addSeparator()
        menu.addAction(tr("Delete this and later messages"), row.delete)

    @property
    def whole_width(self) -> int:
        """How wide it is when all buttons are shown."""
        return self._branches.sizeHint().width() + self._buttons.sizeHint().width()

    def set_shown(self, shown: bool) -> None:
        self._buttons.setVisible(shown)

    def _do_copy(self) -> None:
        QGuiApplication.clipboard().setText(self._row.message.text)
        self._copy.set_picture("check", tr("Copied"))
        QTimer.singleShot(SHOWN_MS, self, self._as_before)

    def _as_before(self) -> None:
        self._copy.set_picture("copy", tr("Copy the message"))


class MessageFooter(QWidget):
    """Statistics on the left, actions on the right."""

    def __init__(self, row: MessageRow, buttons: MessageButtons) -> None:
        super().__init__()
        self._row = row
        self.numbers = ElidedLabel()
        self.numbers.setProperty("tone", "quiet")
        self.numbers.setProperty("letters", "small")
        self._line = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._line.setContentsMargins(0, 0, 0, 0)
        self._line.setSpacing(GRID)
        self._line.addWidget(self.numbers, 1)
        self._line.addWidget(buttons)
        self._actions = buttons
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Two lines where one would cut off numbers, whether or not the buttons are shown."""
        words = self.numbers.fontMetrics().horizontalAdvance(self.numbers.text())
        narrow = self.width() < words + self._actions.whole_width + 3 * GRID
        down, right = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._line.setDirection(down if narrow else right)
        self._line.setAlignment(
            self._actions, Qt.AlignmentFlag.AlignLeft if narrow else Qt.AlignmentFlag(0)
        )
        self.setFixedHeight(fonts.px(ROW_COMPACT + 6) * (2 if narrow else 1))

    def refresh(self) -> None:
        message = self._row.message
        self.numbers.setText("" if self._row.answering else summary(message))
        self._arrange()
        set_tip(self, details(message))
        self.numbers.setAccessibleDescription(details(message))


class AnswerProgress(QWidget):
    """How far the prompt is read, before the first token."""

    def __init__(self) -> None:
        super().__init__()
        self.words = label("", "quiet", wrap=True)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(tr("Progress of the prompt"))
        self._bar.setMaximumWidth(fonts.px(320))
        vbox(self.words, self._bar, on=self, margins=(0, 2, 0, GRID))
        self.show_stage(None, [])

    def show_stage(self, stage: StageProgress | None, past: Sequence[PastStage]) -> None:
        """Show the current stage, after the earlier stages of this answer."""
        before = [f"{tr(STAGES[done.name])} {duration(done.seconds)}" for done in past]
        if stage is None or stage.total <= 0:
            self.words.setText(LINE.join([*before, stage_title(stage)]))
            self._bar.setRange(0, 1)
            self._bar.setValue(0)
            return
        amount = stage_percent(stage)  # of a file's bytes, which a line of text does not count
        if stage.name == "prefill":
            amount = tr(
                "{done} of {total} tokens", done=grouped(stage.done), total=grouped(stage.total)
            )
        elif stage.name == "encode":
            amount = which_block(stage)
        left = stage_left(stage)
        parts = [*before, stage_title(stage), amount, tr("{left} left", left=left) if left else ""]
        self.words.setText(LINE.join(filter(None, parts)))
        self._bar.setRange(0, 1000)  # Qt counts to 2^31, less than the bytes of a file
        self._bar.setValue(1000 * stage.done // stage.total)


class Thought(QWidget):
    """The model's reasoning before it answered, folded."""

    height_changed = Signal()

    def __init__(self, row: MessageRow) -> None:
        super().__init__()
        self._row = row
        self._text: MarkdownView | None = None
        self._lights: Sequence[Light] = ()
        self._parts = as_written("")
        self._began = time.monotonic()
        self._took: float | None = None
        self.fold = Button("", self.toggle, "link")
        line = hbox(self.fold, STRETCH)
        self._inset = vbox(margins=(2 * GRID, 0, 0, 0))
        vbox(line, self._inset, on=self, spacing=GRID // 2)

    def show_parts(self, parts: SplitAnswer) -> None:
        if self._parts.thinking and not parts.thinking:
            self._took = time.monotonic() - self._began
        self._parts = parts
        self.tick()
        if self._text is not None:
            self._text.set_text(parts.thought, live=parts.thinking and self._row.answering)

    @property
    def text(self) -> MarkdownView | None:
        """The view of the reasoning, if it is unfolded."""
        return self._text

    def point(self, part: tuple[int, int] | None) -> int:
        """Mark a part of the thought; where it stands, or where it would unfold."""
        at = self._text.point(part) if self._text is not None else None
        return self.fold.y() if at is None or self._text is None else self._text.y() + at

    def light(self, lights: Sequence[Light]) -> None:
        """Light parts of the thought."""
        self._lights = lights
        if self._text is not None:
            self._text.light(lights)

    def tick(self) -> None:
        """Update the elapsed time."""
        if self._parts.thinking and self._row.answering:
            words = tr(
                "Thinking for {monotonic}",
                monotonic=whole_duration(time.monotonic() - self._began),
            )
        else:
            took = self._took if self._took is not None else self._estimate()
            words = tr("Thought") if took is None else tr("Thought for {took}", took=duration(took))
        self.fold.setText(f"{'▸' if self._text is None else '▾'}  {words}")
        self.fold.setAccessibleName(
            f"{words}, {(tr('folded') if self._text is None else tr('unfolded'))}"
        )

    def toggle(self) -> None:
        """Unfold or fold."""
        unfolded = self._text is None
        if unfolded:
            self._text = MarkdownView(tr("The model's reasoning"))
            self._text.height_changed.connect(self.height_changed)
            self._text.word_clicked.connect(
                lambda at: self._row.look_at(self._parts.thought_part.there(at))
            )
            self._text.set_text(self._parts.thought)
            self._text.light(self._lights)
            self._inset.addWidget(self._text)
            self._text.show()
        elif self._text is not None:
            self._inset.removeWidget(self._text)
            self._text.hide()
            self._text.deleteLater()
            self._text = None
        self.tick()
        self.updateGeometry()
        self.height_changed.emit()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        if self._text is not None:
            painter = QPainter(self)
            bar = QRect(0, self._text.y(), 3, self._text.height())
            painter.fillRect(bar, QColor(tokens().divider))
            painter.end()

    def _estimate(self) -> float | None:
        """Its part of the time that the whole answer took."""
        message = self._row.message
        if message.stats is None or not message.text:
            return None
        return message.stats.decode_s * self._parts.answer_start / len(message.text)


def _when(created: float) -> str:
    then, now = local_time(created), datetime.now()
    if not created or then is None:
        return ""
    if then.date() == now.date():
        return then.strftime("%H:%M")
    form = tr("dd MMM yyyy, HH:mm") if then.year != now.year else tr("dd MMM, HH:mm")
    return QLocale(used()).toString(QDateTime.fromSecsSinceEpoch(int(created)), form)
