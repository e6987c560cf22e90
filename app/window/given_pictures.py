"""Files and pictures dropped or pasted into the window: models are opened, pictures and documents
go to the question.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.fetch import bundled
from app.headers import Header, read_header
from app.language import tr
from app.remote.connection import address_of
from app.state.workbench import Workbench
from app.widgets.file_dialogs import open_file, open_files
from app.widgets.overlays import Banner
from app.widgets.pictures.given import SUFFIXES, expand, is_picture
from app.window.panes.notices import Notices
from app.work import Work

PASTED = tr("Pasted picture.png")
CHOOSE = tr("Choose a vision file (mmproj)…")
DROP = "drop"  # the banner of what was given last


class GivenPictures(QObject):
    """Takes pictures for what is written or edited, or says why not and offers the next step."""

    def __init__(
        self, bench: Workbench, notices: Notices, run: Callable[[str], object], window: QWidget
    ) -> None:
        super().__init__(window)
        self._bench, self._notices, self._run, self._window = bench, notices, run, window

    @property
    def sees(self) -> bool:
        """True if pictures can be added now."""
        return self._bench.session.model is not None and bool(
            self._bench.chat.pictures_in_engine.sees
        )

    def add_files(self, paths: Sequence[Path]) -> None:
        """Pictures that were dropped, pasted or chosen, and those in folders among them."""
        if not self.sees:
            self.refuse(paths[0].name)
            return
        self._notices.drop(DROP)
        written = self._bench.chat.written
        work = Work(expand, paths).then(written.add_files)
        work.fail(lambda why: self._notices.news(DROP, why, "bad")).start(written)

    def add_data(self, data: Callable[[], bytes]) -> None:
        """A picture that is not a file."""
        if not self.sees:
            self.refuse(tr("The pasted picture"))
            return
        self._notices.drop(DROP)
        self._bench.chat.written.add_data(PASTED, data)

    def choose(self) -> None:
        """Let the person choose pictures."""
        if not self.sees:
            self.refuse("")
            return
        kinds = " ".join(f"*{suffix}" for suffix in sorted(SUFFIXES))
        paths = open_files(self._window, tr("Add pictures"), tr("Pictures ({kinds})", kinds=kinds))
        if paths:
            self.add_files([Path(path) for path in paths])

    def choose_file(self) -> None:
        """Let the person choose what makes the open model see."""
        path = open_file(
            self._window, tr("Choose a vision file (mmproj)"), tr("Vision files (*.gguf)")
        )
        if path:
            self.open_with(Path(path))

    def take_model(self, path: Path, otherwise: Callable[[Path], None]) -> None:
        """Open the open model again with `path`, where that is a vision file or an adapter; else
        `otherwise`.
        """

        def look(header: Header) -> None:
            if header.adapts is not None:
                self.open_adapted(path, header.adapts or header.architecture or "")
            else:
                (self.open_with if header.architecture == "clip" else otherwise)(path)

        Work(read_header, path).then(look).fail(lambda why: otherwise(path)).start(self)

    def open_adapted(self, adapter: Path, base: str) -> None:
        """Open the model again with this adapter, which is for `base`."""
        self._notices.drop(DROP)
        session = self._bench.session
        if session.path is not None and session.connection is None:
            self._bench.add_adapter(adapter)
            return
        text = tr(
            "{name} is a LoRA adapter for {base}. Open that model, then drop the file.",
            name=adapter.name,
            base=base,
        )
        act = self._command("model.open")
        self._notices.show_banner(DROP, Banner("warn", text, tr("Choose a model"), act))

    def open_with(self, projector: Path) -> None:
        """Open the model again with this vision file."""
        session = self._bench.session
        self._notices.drop(DROP)
        if session.path is None:
            text = tr(
                "{name} is a vision file. Open the model it belongs to, then drop it.",
                name=projector.name,
            )
            act = self._command("model.open")
            self._notices.show_banner(DROP, Banner("warn", text, tr("Choose a model"), act))
            return
        options = self._bench.options_for(session.path)
        self._bench.open_model(session.path, replace(options, mmproj=str(projector)))

    def refuse(self, name: str) -> None:
        """Say why a picture is not taken, with the next step."""
        session = self._bench.session
        title, not_added = session.model_title, ""
        if name:
            not_added = f" {tr('{name} was not added.', name=name)}"
        choose = (tr("Choose a model"), self._command("model.open"))
        if session.status == "loading":
            text = tr("{title} is still loading.", title=title)
            self._notices.news(DROP, text + not_added, "warn")
            return
        if session.model is None:
            text = tr("No vision model is open.") + not_added
            demo = (tr("Try a vision model"), self._command("model.demo"))
            instead = demo if bundled.is_there() else None
            self._notices.show_banner(DROP, Banner("warn", text, *choose, instead=instead))
            return
        server = address_of(session.path) if session.path is not None else None
        beside = self._beside
        if server is not None:
            text = tr(
                "{title} on the server {server} does not support pictures.",
                title=title,
                server=server.connection,
            )
            banner = Banner("warn", text + not_added, *choose)
        elif beside is None:
            text = tr("{title} does not support pictures: no vision file is loaded.", title=title)
            banner = Banner("warn", text + not_added, CHOOSE, self.choose_file)
        else:
            text = tr(
                "{title} is open without its vision file (mmproj), so it cannot see pictures.",
                title=title,
            )
            banner = Banner(
                *("warn", text + not_added),
                *(tr("Load {name}", name=beside.name), lambda: self.open_with(beside)),
                instead=(tr("Choose another…"), self.choose_file),
            )
        self._notices.show_banner(DROP, banner)

    @property
    def _beside(self) -> Path | None:
        """The vision file that lies beside the open model and fits it."""
        models = self._bench.library.models
        here = (model for model in models if self._bench.session.path in model.paths)
        return next((model.projector for model in here), None)

    def _command(self, command: str) -> Callable[[], None]:
        def run() -> None:
            self._notices.drop(DROP)
            self._run(command)

        return run


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
        paths = open_files(self._window, tr("Attach files"))
        if paths:
            self.add([Path(path) for path in paths])

    def refuse(self, name: str) -> None:
        """Say that there is no chat for a file yet, with the next step."""
        text = (
            tr("No model is open. {name} was not added.", name=name)
            if name
            else tr("No model is open.")
        )
        act = partial(self._run, "model.open")
        self._notices.show_banner(DROP, Banner("warn", text, tr("Choose a model"), act))

    def _take(self, sorted_paths: tuple[list[Path], list[Path]]) -> None:
        pictures, documents = sorted_paths
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
