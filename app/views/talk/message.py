"""One message of the talk: speaker, text, and what can be done with it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QContextMenuEvent, QEnterEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from app.language import tr
from app.state.talk.message import Picture
from app.state.talk.reasoning import Excerpt, SplitAnswer, as_written, split_reasoning
from app.theme import fonts
from app.theme.theme import tokens
from app.theme.tokens import CHAT_PX, GRID, PADDING, RADIUS_CARD
from app.views.talk.documents import DocumentStrip
from app.views.talk.ending import EndNotes
from app.views.talk.message_edit import MessageEdit
from app.views.talk.message_parts import (
    AnswerProgress,
    MessageButtons,
    MessageFooter,
    MessageHeader,
    Thought,
)
from app.views.talk.message_row import MessageRow
from app.views.talk.pictures.words import item
from app.views.talk.probabilities import TokenAnswer
from app.views.talk.tools import CallList
from app.widgets.layouts import vbox
from app.widgets.lists.scrolled import Row
from app.widgets.markdown.view import MarkdownView
from app.widgets.overlays import Banner
from app.widgets.pictures.loader import PictureLoader
from app.widgets.pictures.strip import PictureStrip
from app.widgets.tokens.lights import Light

DESCRIBED = 20_000  # letters that a screen reader gets at once


class MessageView(Row):
    """Shows a `MessageRow`."""

    height_changed = Signal()
    reveal_wanted = Signal(int)  # a y in this widget
    mark_found = Signal(int)  # where a marked word is that was found after `mark`

    def __init__(self, row: MessageRow, loader: PictureLoader) -> None:
        super().__init__()
        self.row, self._loader = row, loader
        self.pictures: PictureStrip | None = None
        self._shown = row.message.pictures if row.is_question else ()
        self.documents: DocumentStrip | None = None
        self.calls: CallList | None = None
        self.body: MarkdownView | None = None
        self.tokens: TokenAnswer | None = None
        self.edit: MessageEdit | None = None
        self.thought: Thought | None = None
        self.progress: AnswerProgress | None = None
        self._banner: Banner | None = None
        self._dismissed = ""
        row.setParent(self)
        row.edit_wanted.connect(self.begin_edit)
        user = row.is_question
        self.buttons = MessageButtons(row)
        self.header = MessageHeader(row, self.buttons if user else None)
        self.footer = None if user else MessageFooter(row, self.buttons)
        self.end = None if user else EndNotes(row)
        self._place = vbox(spacing=GRID)
        self._set_margins(card=user)
        self._column = vbox(
            self.header,
            self._place,
            on=self,
            margins=(0, GRID // 2, 0, GRID * 2),
            spacing=GRID // 2,
        )
        if self.end is not None:
            self._column.addWidget(self.end)
        if self.footer is not None:
            self._column.addSpacing(GRID // 2)
            self._column.addWidget(self.footer)
        self.refresh()

    def refresh(self) -> None:
        """Show the message as it is now."""
        self.setAccessibleName(self.row.speaker_text)  # which model answers is known late
        self.header.refresh()
        self._show_thought()
        self._show_pictures()
        if self.edit is None:
            self._show_body()
            self.show_lights()
        self._show_documents()
        self._show_calls()
        self._show_progress()
        self._show_problem()
        self._show_end()
        if self.footer is not None:
            self.footer.refresh()
        self.refresh_actions()

    def refresh_actions(self) -> None:
        """Show what can be done with it now."""
        self.buttons.refresh()
        self._show_end()
        self.show_actions()

    def _show_end(self) -> None:
        if self.end is not None:
            before = self.end.text
            self.end.refresh()
            if self.end.text != before:
                self.height_changed.emit()

    def tick(self) -> None:
        """Update the stage and the elapsed times."""
        self.header.refresh()
        self._show_progress()
        if self.thought is not None:
            self.thought.tick()

    def append_tokens(self, first: int) -> None:
        """Tokens from `first` on are new."""
        if self.tokens is not None:
            self.tokens.append(first)

    def show_lights(self) -> None:
        """Light what of the message is lit, however it is shown."""
        lights = self.row.lights
        if self.tokens is not None:
            self.tokens.painter.light(lights)
            return
        parts = self._shown_parts()
        if self.thought is not None:
            self.thought.light(_moved_lights(lights, parts.thought_part, 0, parts.answer_start))
        if self.body is not None:
            self.body.light(_moved_lights(lights, parts.answer_part, parts.answer_start))

    def _shown_parts(self) -> SplitAnswer:
        if self.row.is_question:
            return as_written(self.row.message.text)
        return self._split()

    def _split(self) -> SplitAnswer:
        message = self.row.message
        return split_reasoning(message.text, self.row.answering, bool(message.calls))

    def show_selected(self) -> QRect | None:
        """Mark the selected token; where it is, if it is in this message."""
        if self.tokens is None:
            return self._point()
        area = self.tokens.show_selected()
        return None if area is None else area.translated(self.tokens.mapTo(self, QPoint(0, 0)))

    def _point(self) -> QRect | None:
        """Mark the selected token in the answer or the thought, shown as text."""
        part, at = self.row.selected_part, None
        parts = self._shown_parts() if part else as_written("")
        thinks = part is not None and part[0] < parts.answer_start
        if self.thought is not None:
            y = self.thought.point(_moved(part, parts.thought_part) if thinks else None)
            at = self.thought.y() + y if thinks else None
        if self.body is not None:
            below = self.body.point(None if thinks else _moved(part, parts.answer_part))
            at = at if below is None else self.body.y() + below
        return None if at is None else QRect(0, at, 1, fonts.px(CHAT_PX) * 3 // 2)

    def begin_edit(self) -> None:
        """Put a field in place of the text."""
        if self.edit is not None:
            self.edit.field.setFocus()
            return
        self.edit = MessageEdit(self.row, self._loader)
        self.edit.done.connect(self._edited)
        self.edit.cancelled.connect(self.end_edit)
        self.edit.height_changed.connect(self.height_changed)
        self._set_margins(card=False)
        self._remove_body()
        self._put(self.edit)
        self.edit.field.setFocus()
        self.refresh()
        self.height_changed.emit()

    def end_edit(self) -> None:
        """Show the text again."""
        if self.edit is not None:
            gone, self.edit = self.edit, None
            self.row.end_edit()
            self._set_margins(card=self.row.is_question)
            self._take_out(gone)
            self.refresh()
            if self.body is not None:
                self.body.setFocus()
            self.height_changed.emit()

    def _edited(self, text: str, pictures: tuple[Picture, ...]) -> None:
        if text == self.row.message.text and not self.row.is_question:
            self.end_edit()
        else:
            self.row.rewrite(text, pictures)

    def show_actions(self) -> None:
        """Show the actions on the last answer, under the mouse, and at the keyboard focus."""
        now = QApplication.focusWidget()
        inside = now is not None and self.isAncestorOf(now)
        near = self.underMouse() or inside
        shown = (near or (self.row.is_last and not self.row.is_question)) and not self.row.answering
        self.buttons.set_shown(shown and self.edit is None)
        self.header.show_time(near)

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802
        super().enterEvent(event)
        self.show_actions()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        super().leaveEvent(event)
        self.show_actions()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """Open the menu beside its text, or where it is shown as tokens."""
        if self.edit is None:
            menu = QMenu(self)
            self.buttons.fill_menu(menu)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(event.globalPos())

    def _add_to_menu(self, menu: QMenu) -> None:
        menu.addSeparator()
        self.buttons.fill_menu(menu)

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        if self.end is not None:
            self.end.arrange(width)
        if not self._column.hasHeightForWidth():
            return self._column.totalSizeHint().height()
        return self._column.totalHeightForWidth(width)

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(self.width(), self.heightForWidth(self.width()))

    def mark(self, words: list[str]) -> int | None:
        """Mark words in the text; where the first stands in this widget."""
        at = self.body.mark(words) if self.body is not None else None
        return None if at is None or self.body is None else self.body.y() + at

    def _mark_found(self, at: int) -> None:
        if self.body is not None:
            self.mark_found.emit(self.body.y() + at)

    def mark_at(self, y: int) -> object:
        """A place in the text, or below the message's top."""
        body = self.body
        if body is None or not body.y() <= y < body.y() + body.height():
            return y
        return body.mark_at(y - body.y())

    def y_of(self, mark: object) -> int:
        if self.body is None or not isinstance(mark, tuple):
            return mark if isinstance(mark, int) else 0
        return self.body.y() + self.body.y_of(mark)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.row.is_question and self.edit is None:
            area = self._place.geometry().toRectF()
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(tokens().raised))
            painter.drawRoundedRect(area, RADIUS_CARD, RADIUS_CARD)
        shown = self.tokens or self.body
        if shown is not None and shown.hasFocus():
            bar = shown.geometry().toRectF().adjusted(-GRID, 2, 0, -2)
            bar.setWidth(2)
            painter.fillRect(bar, QColor(tokens().accent))
        painter.end()

    def _show_pictures(self) -> None:
        pictures = self._shown if self.edit is None else ()
        if self.pictures is None and pictures:
            self.pictures = PictureStrip(tr("Pictures"), self._loader)
            self.pictures.opened.connect(lambda at: self.row.picture_wanted.emit(self._shown, at))
            self._put(self.pictures, 0)
            self._loader.ready.connect(self._picture_known)
            self.row.pictures_in_engine.changed.connect(self._show_pictures)
        if self.pictures is not None:
            in_engine = self.row.pictures_in_engine
            self.pictures.show_items([item(p, in_engine, self._loader) for p in pictures])

    def _picture_known(self, path: Path) -> None:
        if any(self.row.pictures_in_engine.path(picture) == path for picture in self._shown):
            self._show_pictures()
            self.height_changed.emit()

    def _show_documents(self) -> None:
        """Show them below the text; they stay while it is edited."""
        documents = self.row.message.documents
        if self.documents is None and documents:
            self.documents = DocumentStrip(self.row.document_tokens, documents)
            self.documents.opened.connect(
                lambda place: self.row.document_wanted.emit(documents[place])
            )
            self._put(self.documents)

    def _show_calls(self) -> None:
        """Show them below the text."""
        if self.calls is None and self.row.message.calls:
            self.calls = CallList(self.row, self._loader)
            self.calls.resized.connect(self.height_changed)
            self._put(self.calls)
        if self.calls is not None:
            self.calls.refresh()
            self.height_changed.emit()

    def _show_thought(self) -> None:
        parts = self._split()
        if not parts.thought or self.row.is_question:
            if self.thought is not None:
                self._take_out(self.thought)
                self.thought = None
            return
        if self.thought is None:
            self.thought = Thought(self.row)
            self.thought.height_changed.connect(self.height_changed)
            self._put(self.thought, 0)
        self.thought.show_parts(parts)

    def _show_body(self) -> None:
        if self.row.painted:
            if self.tokens is None:
                self._remove_body()
                self.tokens = TokenAnswer(self.row)
                self.tokens.painter.installEventFilter(self)
                self.tokens.height_changed.connect(self.height_changed)
                self._put(self.tokens)
            self.tokens.refresh()
            return
        if self.body is None:
            self._remove_body()
            self.body = MarkdownView(self.row.speaker_text)
            self.body.menu_made.connect(self._add_to_menu)
            self.body.height_changed.connect(self.height_changed)
            self.body.link_clicked.connect(self.row.link_wanted)
            self.body.dragged.connect(self._dragged)
            self.body.mark_found.connect(self._mark_found)
            self.body.word_clicked.connect(
                lambda at: self.row.look_at(self._shown_parts().answer_part.there(at))
            )
            self.body.installEventFilter(self)
            before = (self.thought, self.pictures)
            self._put(self.body, sum(part is not None for part in before))
        self.body.setAccessibleName(self.row.speaker_text)
        if self.row.is_question:
            self.body.set_plain(self.row.message.text)
            self.body.setAccessibleDescription(self.row.message.text[:DESCRIBED])
            self._point()
        else:
            answer = self._split().answer
            self.body.set_text(answer, live=self.row.answering and bool(answer))
            if not self.row.answering:
                self.body.setAccessibleDescription(answer[:DESCRIBED])
            self._point()

    def stops(self) -> list[QWidget]:
        """Tab goes from the text to what can be done with it."""
        last = [*(self.end.stops if self.end is not None else ()), *self.buttons.stops]
        found = super().stops()
        return [w for w in found if w not in last] + [w for w in last if w in found]

    def eventFilter(self, watched: object, event: QEvent) -> bool:  # noqa: N802
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self.show_actions()
            self.update()
        return False

    def _dragged(self, y: int) -> None:
        if self.body is not None:
            self.reveal_wanted.emit(self.body.mapTo(self, QPoint(0, y)).y())

    def _remove_body(self) -> None:
        for shown in (self.body, self.tokens):
            if shown is not None:
                self._take_out(shown)
        self.body = self.tokens = None

    def _show_progress(self) -> None:
        message = self.row.message
        waits = self.row.answering and not message.text and not message.calls
        if waits and self.progress is None:
            self.progress = AnswerProgress()
            self._put(self.progress)
            self.height_changed.emit()
        if waits and self.progress is not None:
            self.progress.show_stage(self.row.stage, self.row.past_stages)
        elif self.progress is not None:
            self._take_out(self.progress)
            self.progress = None

    def _show_problem(self) -> None:
        message = self.row.message
        wrong = message.finish == "failed" and message.problem != self._dismissed
        if self._banner is not None and (not wrong or self._banner.text != message.problem):
            self._take_out(self._banner)
            self._banner = None
        if not wrong or not message.problem or self._banner is not None:
            return
        words, act = self.row.next_step
        details = partial(self.row.details_wanted.emit, message.problem)
        self._banner = Banner("bad", message.problem, words, act, details)
        self._banner.closed.connect(self._dismiss)
        self._put(self._banner)

    def _dismiss(self) -> None:
        self._dismissed, self._banner = self.row.message.problem, None
        self.height_changed.emit()

    def _set_margins(self, card: bool) -> None:
        side, above = (PADDING - 4, GRID + 2) if card else (0, 0)
        self._place.setContentsMargins(side, above, side, above)

    def _put(self, widget: QWidget, place: int = -1) -> None:
        """Put a widget into the layout and show it at once, or it would flicker."""
        self._place.insertWidget(place, widget)
        widget.show()

    def _take_out(self, widget: QWidget) -> None:
        self._place.removeWidget(widget)
        widget.hide()
        widget.deleteLater()


def _moved_lights(
    lights: Sequence[Light], excerpt: Excerpt, begin: int, end: int | None = None
) -> list[Light]:
    """Return the highlighted ranges from `begin` to before `end`, in offsets of the excerpt."""
    moved = (
        (excerpt.here(first), excerpt.here(last), strength)
        for first, last, strength in lights
        if last > begin and (end is None or end <= begin or first < end)
    )
    return [light for light in moved if light[0] < light[1]]


def _moved(part: tuple[int, int] | None, excerpt: Excerpt) -> tuple[int, int] | None:
    """A range of the message as one of an excerpt."""
    return None if part is None else (excerpt.here(part[0]), excerpt.here(part[1]))
