"""A message being written anew, in its place."""

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QFrame, QWidget

from app.language import tr
from app.state.talk.attached import EditedPictures
from app.theme.tokens import GRID
from app.views.talk.message_row import MessageRow
from app.views.talk.pictures.attachments import Attachments
from app.widgets.basics import Button, IconButton, label, surface
from app.widgets.controls.growing_edit import GrowingEdit
from app.widgets.layouts import hbox, vbox
from app.widgets.pictures.loader import PictureLoader

LINES_OF_EDIT = 20  # of a text that is being rewritten, before it scrolls


class MessageEdit(QFrame):
    """`done` carries the new text and the pictures. Esc leaves all as it was."""

    done = Signal(str, object)
    cancelled = Signal()
    height_changed = Signal()

    def __init__(self, row: MessageRow, loader: PictureLoader) -> None:
        super().__init__()
        surface(self, "card")
        self._row = row
        question = row.is_question
        self.field = GrowingEdit(
            tr("Edit the message"), takes_escape=True, most_lines=LINES_OF_EDIT
        )
        self.field.submits_on_enter = row.send_key == "enter" and question
        self.field.set_text(row.message.text)
        self.field.submitted.connect(self._submit)
        self.field.cancelled.connect(self.cancelled)
        self.field.textChanged.connect(self._refresh)
        hint = tr("Sent as a new branch.") if question else tr("Saved as a new branch.")
        self.send_button = Button(tr("Send") if question else tr("Save"), self._submit, "primary")
        self._hint = label(hint, "quiet", "small", wrap=True)
        self.pictures: EditedPictures | None = None
        self.attachments: Attachments | None = None
        self.add = IconButton("picture", tr("Add pictures to the message"), self._choose)
        self._lay_out()
        if question:
            self._show_pictures(loader)
        self.add.setVisible(question)
        self._refresh()

    def eventFilter(self, watched: object, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.FocusIn and self.pictures is not None:
            self._row.write(self.pictures)
        return False

    def _lay_out(self) -> None:
        steps = hbox(
            self.add,
            (self._hint, 1),
            Button(tr("Cancel"), self.cancelled.emit, "flat"),
            self.send_button,
            spacing=GRID,
        )
        self._column = vbox(self.field, steps, on=self, margins=GRID)
        QWidget.setTabOrder(self.field, self.send_button)

    def _show_pictures(self, loader: PictureLoader) -> None:
        self.pictures = self._row.edit_pictures(self)
        self._row.write(self.pictures)
        self.attachments = self._row.attachments(self.pictures, loader)
        self.attachments.changed.connect(self._refresh)
        self.attachments.changed.connect(self.height_changed)
        self._column.insertWidget(0, self.attachments)
        self.field.installEventFilter(self)
        self.field.files_given.connect(self._row.files_given)
        self.field.picture_given.connect(self._row.picture_given)

    def _choose(self) -> None:
        assert self.pictures is not None
        self._row.write(self.pictures)
        self._row.choose_wanted.emit()

    @property
    def _ready(self) -> bool:
        shown = self.attachments
        if shown is None:
            return not self.field.blank
        return (not self.field.blank or shown.any) and shown.ready

    def _submit(self) -> None:
        if self._ready:
            self.done.emit(self.field.text, () if self.pictures is None else self.pictures.pictures)

    def _refresh(self) -> None:
        self.send_button.setEnabled(self._ready)
