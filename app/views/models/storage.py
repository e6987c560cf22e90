"""Deleting and moving the chosen model: what goes is listed first, nothing goes by one click."""

from pathlib import Path

from PySide6.QtCore import QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QProgressBar, QWidget

from app.language import tr
from app.library import Stored
from app.state.models.storage import StorageState
from app.storage import Deletion, StorageError
from app.widgets.basics import Button, label, set_tone
from app.widgets.controls.flow import Flow
from app.widgets.file_dialogs import choose_folder
from app.widgets.layouts import vbox
from app.widgets.numbers import file_size

SHOWN = 4  # files that a question names


class StorageBar(QWidget):
    """Buttons for the model of `show_model`, a question before anything is deleted, progress."""

    changed = Signal()  # models were deleted or moved

    def __init__(self, storage: StorageState) -> None:
        super().__init__()
        self._storage = storage
        self._model: Stored | None = None
        self._planned: Deletion | None = None
        self.caption = label(wrap=True)
        self.show_folder = Button(tr("Show in folder"), self._show_folder)
        self.delete = Button(tr("Delete…"), self._confirm, picture="trash")
        self.elsewhere = Button(tr("Move…"), self._choose_folder, picture="folder")
        self.agree = Button(tr("Delete"), self._delete, "primary", name=tr("Delete these files"))
        self.keep = Button(tr("Keep"), self._keep, name=tr("Keep the model"))
        self.stop = Button(tr("Cancel"), storage.cancel, name=tr("Cancel moving"))
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(tr("Progress of moving"))
        actions = Flow(tr("Files of the model"))
        actions.show_items(
            [self.show_folder, self.elsewhere, self.delete, self.agree, self.keep, self.stop]
        )
        vbox(self.caption, actions, self._bar, on=self)
        storage.changed.connect(self.refresh)
        storage.finished.connect(self._finished)
        self.refresh()

    def show_model(self, model: Stored | None) -> None:
        """The model that the buttons are about; a question about another is withdrawn."""
        if model != self._model:
            self._model, self._planned = model, None
            self._say("")
        self.refresh()

    def refresh(self) -> None:
        """Show what is possible now."""
        task, asks = self._storage.task, self._planned is not None
        busy = self._storage.busy
        if task is not None and task.problem:
            self._say(task.problem, "bad")
        elif busy and task is not None:
            verb = tr("Moving") if task.action == "move" else tr("Deleting")
            self._say(
                tr(
                    "{verb} {name}: {done} of {total}",
                    verb=verb,
                    name=task.name,
                    done=file_size(task.done),
                    total=file_size(task.total),
                )
            )
            self._bar.setRange(0, 1000)
            self._bar.setValue(round(1000 * task.done / max(1, task.total)))
        there = self._model is not None and bool(self._model.paths)
        for button in (self.show_folder, self.delete, self.elsewhere):
            button.setVisible(there and not asks and not busy)
        for button in (self.agree, self.keep):
            button.setVisible(asks and not busy)
        moving = busy and task is not None and task.action == "move"
        self.stop.setVisible(moving)
        self._bar.setVisible(moving)
        self.caption.setVisible(bool(self.caption.text()))

    def _show_folder(self) -> None:
        if self._model is not None:
            folder = self._model.paths[0].parent
            if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
                self._say(tr("No file manager opens {folder}.", folder=folder), "bad")
                self.refresh()

    def _say(self, text: str, tone: str = "") -> None:
        self.caption.setText(text)
        set_tone(self.caption, tone)

    def _confirm(self) -> None:
        if self._model is None:
            return
        try:
            self._planned = self._storage.deletion(self._model)
        except StorageError as error:
            self._say(str(error), "bad")
            self.refresh()
            return
        files = [path.name for path in self._planned.files]
        more = tr(" and {files} more", files=len(files) - SHOWN) if len(files) > SHOWN else ""
        named = ", ".join(files[:SHOWN]) + more
        self._say(
            tr(
                "Delete {named}? {size} become free.",
                named=named,
                size=file_size(self._planned.size),
            )
        )
        self.refresh()
        self.keep.setFocus()

    def _delete(self) -> None:
        planned, self._planned = self._planned, None
        if planned is not None:
            self._say("")
            self._storage.delete(planned)
        self.refresh()

    def _keep(self) -> None:
        self._planned = None
        self._say("")
        self.refresh()
        self.delete.setFocus()

    def _choose_folder(self) -> None:
        folder = choose_folder(self, tr("Move the model into"))
        if folder:
            self.move_to(Path(folder))

    def move_to(self, folder: Path) -> None:
        """Move the chosen model into a folder."""
        if self._model is None:
            return
        try:
            self._storage.move(self._model, folder)
        except StorageError as error:
            self._say(str(error), "bad")
        self.refresh()

    def _finished(self, name: str, path: object) -> None:
        self._say(
            tr("{name} is in {parent} now.", name=name, parent=path.parent)
            if isinstance(path, Path)
            else ""
        )
        self.refresh()
        self.changed.emit()
