"""Notes below an answer: why it ended where it did, what was dropped, and the way on."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.language import tr, tr_n
from app.state.talk.edits import all_words
from app.theme.tokens import GRID
from app.views.talk.message_row import MessageRow
from app.widgets.basics import TEXT_SIZE, Button, label
from app.widgets.layouts import vbox
from app.widgets.numbers import grouped

CONTINUED_TEXT = tr("This is a base model without a chat template: it continues the text.")
NOT_SAVED = tr("Not saved yet. Cutaway tries again every two seconds.")
Step = tuple[str, Callable[[], object]]


@dataclass(frozen=True)
class Note:
    """A sentence, and the buttons behind it, which are of the last answer of a chat only."""

    text: str
    steps: tuple[Step, ...] = ()
    always: bool = False  # whether its buttons are also there behind later messages


def notes_of(row: MessageRow) -> list[Note]:
    """Everything to be said of the answer at a row; nothing while it is being written."""
    if row.answering or row.of_request:
        return []
    end = _end(row)
    found = [*_dropped(row), *([end] if end is not None else [])]
    if row.unsaved:
        found.append(Note(NOT_SAVED))
    if row.message.edits:
        found.insert(0, _edited(row))
    if row.continues_text:
        found.append(Note(CONTINUED_TEXT))
    return found


def _end(row: MessageRow) -> Note | None:
    message = row.message
    on, again = (tr("Continue"), row.continue_answer), (tr("Try again"), row.regenerate)
    match message.finish, bool(message.text):
        case "length", _:
            return Note(
                tr("Stopped at {tokens}, the limit.", tokens=_tokens(message.n_tokens)), (on,)
            )
        case "loop", _:
            penalty = row.stronger_penalty
            stronger: Step = (
                tr("Try a repeat penalty of {penalty:g}", penalty=penalty),
                lambda: row.penalise_repetition(penalty),
            )
            return Note(tr("Stopped: the answer kept repeating itself."), (stronger, on))
        case "context", _:
            return _full(row)
        case "died", True:
            return Note(
                tr("Interrupted: the engine stopped."), (on, (tr("Regenerate"), row.regenerate))
            )
        case "died", False:
            return Note(tr("Interrupted before the first token: the engine stopped."), (again,))
        case "", True:
            return Note(
                tr("Interrupted: Cutaway was closed."), (on, (tr("Regenerate"), row.regenerate))
            )
        case "", False:
            return Note(tr("Interrupted before the first token: Cutaway was closed."), (again,))
        case "cancelled", False:
            return Note(tr("Stopped before the first token."), (again,))
    return None


def _edited(row: MessageRow) -> Note:
    back: Step = (tr("Show the original answer"), row.show_unchanged)
    text = tr("Written with edits: {edits}.", edits=all_words(row.message.edits))
    return Note(text, (back,) if row.can_show_unchanged else (), always=True)


def _full(row: MessageRow) -> Note:
    stats = row.message.stats
    size = (
        tr(" ({n_context} tokens)", n_context=grouped(stats.n_context)) if stats is not None else ""
    )
    if row.drops_oldest:
        return Note(
            tr(
                "The context is full{size}. Start a new chat, or reload the model with a"
                " larger context.",
                size=size,
            )
        )
    return Note(
        tr("The context is full{size}.", size=size),
        ((tr("Continue, dropping the oldest"), row.continue_dropping),),
    )


def _dropped(row: MessageRow) -> list[Note]:
    stats = row.message.stats
    if stats is None:
        return []
    found = []
    if stats.n_truncated:
        text = tr_n(
            "The chat is longer than the context: {n} token of it was left out.",
            "The chat is longer than the context: {n} tokens of it were left out.",
            stats.n_truncated,
        )
        found.append(Note(text))
    if stats.n_forgotten:
        text = tr_n(
            "The context was full: the oldest {n} token was dropped.",
            "The context was full: the oldest {n} tokens were dropped.",
            stats.n_forgotten,
        )
        found.append(Note(text))
    elif stats.n_shifts:
        found.append(Note(tr("The context was full: the oldest part was dropped.")))
    return found


def _tokens(count: int) -> str:
    return tr_n("{n} token", "{n} tokens", count)


class EndNotes(QWidget):
    """Shows the notes of an answer, one a line."""

    def __init__(self, row: MessageRow) -> None:
        super().__init__()
        self._row = row
        self._shown: list[tuple[str, tuple[str, ...]]] = []
        self._lines: list[_NoteLine] = []
        self.stops: list[QWidget] = []  # its buttons, in the order of Tab
        self._column = vbox(on=self, margins=(0, GRID // 2, 0, 0), spacing=GRID // 2)
        self.hide()

    @property
    def text(self) -> str:
        """All notes, for screen readers and for tests."""
        return " ".join(text for text, _ in self._shown)

    def arrange(self, width: int) -> None:
        """Before Qt requests heights for a width: where there is no room, buttons go below."""
        for line in self._lines:
            line.arrange(width)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self.arrange(self.width())

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self._shown = []  # some labels keep the size of text that they were made in
            self.refresh()

    def refresh(self) -> None:
        """Show the notes as they are now."""
        notes = notes_of(self._row)
        if not self._row.is_last:
            notes = [note for note in notes if note.text != CONTINUED_TEXT]
            notes = [note if note.always else Note(note.text) for note in notes]
        shown = [(note.text, tuple(words for words, _ in note.steps)) for note in notes]
        if shown == self._shown:
            return
        self._shown = shown
        for gone in self._lines:
            self._column.removeWidget(gone)
            gone.hide()
            gone.deleteLater()
        self._lines = [_NoteLine(note, self) for note in notes]
        self.stops = [button for line in self._lines for button in line.buttons]
        for line in self._lines:
            self._column.addWidget(line)
        self.arrange(self.width())
        self.setVisible(bool(notes))


class _NoteLine(QWidget):
    """The buttons stand behind the sentence, or below it where there is no room."""

    def __init__(self, note: Note, parent: QWidget) -> None:
        super().__init__(parent)
        self._caption = label(note.text, "quiet", wrap=True)
        self._caption.setAccessibleName(note.text)
        self.buttons = [Button(words, act, "link") for words, act in note.steps]
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(GRID)
        self._row.addWidget(self._caption)
        for button in self.buttons:
            self._row.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        self._row.addStretch(1)

    def arrange(self, width: int) -> None:
        """Find the arrangement for a width."""
        for widget in (self._caption, *self.buttons):
            widget.ensurePolished()  # else it is measured in the font it had before
        words = self._caption.fontMetrics().horizontalAdvance(self._caption.text()) + GRID
        needed = words + sum(button.sizeHint().width() + GRID for button in self.buttons)
        beside = bool(self.buttons) and needed <= width
        right, down = QBoxLayout.Direction.LeftToRight, QBoxLayout.Direction.TopToBottom
        if self._row.direction() != (right if beside else down):
            self._row.setDirection(right if beside else down)
        self._caption.setMinimumWidth(words if beside else 0)
