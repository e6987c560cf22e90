"""Opening a model: from the disk, by a fetch, or the one that was open last."""

from dataclasses import replace
from os.path import isfile
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.fetch import bundled
from app.fetch.known import SMOLLM2
from app.language import tr
from app.state.workbench import Workbench
from app.widgets.file_dialogs import open_file
from app.window.given_pictures import GivenPictures


class ModelOpener(QObject):
    """Requests a file over `window`, and opens a fetched model that was wanted here."""

    file_chosen = Signal()

    def __init__(self, bench: Workbench, vision: GivenPictures, window: QWidget) -> None:
        super().__init__(window)
        self._bench, self._vision, self._window = bench, vision, window
        self.fetched_for_use = ""
        self._tries_demo = False
        bench.downloads.finished.connect(self._fetched)
        bench.session.opened.connect(self._opened)
        bench.session.given_up.connect(self._forget_demo)

    def start(self, model: Path | None) -> None:
        """Open a model, or the one that was open last."""
        value = self._bench.preferences.value
        if model is not None:
            self._bench.open_model(model)
        elif value.open_last_model and value.last_model and self._is_there(value.last_model):
            self._bench.open_model(value.last_model)

    def _is_there(self, path: str) -> bool:
        """A file, or a model of a server that is still among the connections."""
        return isfile(path) or self._bench.servers.of(path) is not None

    def choose_file(self) -> None:
        """Let the person choose a file, and open it."""
        path = open_file(self._window, tr("Open a model"), tr("Models (*.gguf)"))
        if path:
            self.open(Path(path))

    def choose_draft(self) -> None:
        """Let the person choose a smaller model that guesses what the open one writes."""
        path = open_file(self._window, tr("Choose a draft model"), tr("Models (*.gguf)"))
        if path:
            if self._bench.preferences.value.speculation == "none":
                self._bench.preferences.update(speculation="draft")
            self._open_with_draft(path)

    def choose_adapter(self) -> None:
        """Let the person choose an adapter for the open model."""
        path = open_file(self._window, tr("Add a LoRA adapter"), tr("LoRA adapters (*.gguf)"))
        if path:
            self._bench.add_adapter(Path(path))

    def remove_draft(self) -> None:
        """Open the model again without a draft model."""
        self._open_with_draft("")

    def _open_with_draft(self, draft: str) -> None:
        path = self._bench.session.path
        if path is not None:
            options = replace(self._bench.options_for(path), model_draft=draft)
            self._bench.open_model(path, options)

    def open(self, path: Path) -> None:
        """Open a file that the person named: a model, or what is added to the open one."""
        self.file_chosen.emit()
        self._vision.take_model(path, self._bench.open_model)

    def try_demo(self) -> None:
        """Open the model that comes with the program, and sees, in a new chat with a picture and a
        question about it.
        """
        self.file_chosen.emit()
        self._bench.chat.open(None)
        self._tries_demo = True
        if self._bench.session.status == "ready" and self._bench.session.path == bundled.model():
            self._opened()
        else:
            self._bench.open_model(bundled.model())

    def get(self, name: str = SMOLLM2.name) -> None:
        """Fetch a model and open it when it has come, unless another is open by then."""
        self.fetched_for_use = name
        self._bench.downloads.start(name)

    def _opened(self) -> None:
        """Attach the sample, where the demo was requested; what a person wrote meanwhile stays."""
        chat, tries = self._bench.chat, self._tries_demo
        self._tries_demo = False
        begins = not chat.path and not chat.attached.pictures and not chat.attached.arriving
        if tries and begins and self._bench.session.path == bundled.model():
            chat.attached.add_files([bundled.sample()])
            if not chat.details.draft:
                chat.details.set_draft(bundled.QUESTIONS[0])
                chat.details.draft_changed.emit(chat.details.draft)

    def _forget_demo(self) -> None:
        self._tries_demo = False

    def _fetched(self, name: str, path: Path) -> None:
        wanted, self.fetched_for_use = name == self.fetched_for_use, ""
        if wanted and self._bench.session.model is None:
            self._bench.open_model(path)
