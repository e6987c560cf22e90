"""Files given to the window: models are opened, pictures and documents go to the message."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog, QWidget

from app.state.workbench import Workbench
from app.widgets.overlays.banner import Banner
from app.widgets.pictures.given import expand, is_picture
from app.window.given_pictures import DROP, GivenPictures
from app.window.panes.notices import Notices
from app.work import Work

MODEL = ".gguf"


def is_model(path: Path) -> bool:
    """By its name."""
    return path.suffix.lower() == MODEL


class GivenFiles(QObject):
    """`open_model` takes a model's file. Documents need a chat that is shown: `has_chat`."""

    def __init__(
        self,
        bench: Workbench,
        pictures: GivenPictures,
        open_model: Callable[[Path], object],
        has_chat: Callable[[], bool],
        notices: Notices,
        run: Callable[[str], object],
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._run = run
        self._bench, self._pictures, self._open_model = bench, pictures, open_model
        self.has_chat, self._notices, self._window = has_chat, notices, window

    def add(self, paths: Sequence[Path]) -> None:
        """Files and folders that were dropped, pasted or chosen."""
        model = next(filter(is_model, paths), None)
        if model is not None:
            self._notices.drop(DROP)
            self._open_model(model)
            return
        sees = self._pictures.sees
        work = Work(_sorted, list(paths), sees).then(self._take)
        work.fail(lambda why: self._notices.news(DROP, why, "bad")).start(self)

    def choose(self) -> None:
        """Let the person choose files."""
        if not self.has_chat():
            self.refuse("")
            return
        paths, _ = QFileDialog.getOpenFileNames(self._window, "Attach files")
        if paths:
            self.add([Path(path) for path in paths])

    def refuse(self, name: str) -> None:
        """Say that there is no chat for a file yet, with the next step."""
        text = f"No model is open. {name} was not added." if name else "No model is open."
        act = partial(self._run, "model.open")
        self._notices.show_banner(DROP, Banner("warn", text, "Choose a model", act))

    def _take(self, given: tuple[list[Path], list[Path]]) -> None:
        pictures, documents = given
        if documents and not self.has_chat():
            self.refuse(documents[0].name)
            return
        if documents:
            self._notices.drop(DROP)
            self._bench.chat.documents.add_files(documents)
        if pictures:
            self._pictures.add_files(pictures)


def _sorted(paths: list[Path], sees: bool) -> tuple[list[Path], list[Path]]:
    """Pictures and documents; a folder of pictures holds pictures for a model that `sees`. For a
    thread.
    """
    pictures: list[Path] = []
    documents: list[Path] = []
    for path in paths:
        shows = sees and bool(expand([path])) if path.is_dir() else is_picture(path)
        (pictures if shows else documents).append(path)
    return pictures, documents
