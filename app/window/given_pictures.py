"""Pictures given to the window, and what to do where the open model cannot see them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog, QWidget

from app.fetch import bundled
from app.headers import read_header
from app.remote.connection import address_of
from app.state.workbench import Workbench
from app.widgets.overlays.banner import Banner
from app.widgets.pictures.given import SUFFIXES, expand
from app.window.panes.notices import Notices
from app.work import Work

PASTED = "Pasted picture.png"
CHOOSE = "Choose a vision file (mmproj)…"
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
        return self._bench.session.model is not None and bool(self._bench.chat.brought.sees)

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
            self.refuse("The pasted picture")
            return
        self._notices.drop(DROP)
        self._bench.chat.written.add_data(PASTED, data)

    def choose(self) -> None:
        """Let the person choose pictures."""
        if not self.sees:
            self.refuse("")
            return
        kinds = " ".join(f"*{suffix}" for suffix in sorted(SUFFIXES))
        paths, _ = QFileDialog.getOpenFileNames(
            self._window, "Add pictures", "", f"Pictures ({kinds})"
        )
        if paths:
            self.add_files([Path(path) for path in paths])

    def choose_file(self) -> None:
        """Let the person choose what makes the open model see."""
        path, _ = QFileDialog.getOpenFileName(
            self._window, "Choose a vision file (mmproj)", "", "Vision files (*.gguf)"
        )
        if path:
            self.open_with(Path(path))

    def take_model(self, path: Path, otherwise: Callable[[Path], None]) -> None:
        """Open the open model again with `path`, where that is a vision file; else `otherwise`."""

        def look(projector: bool) -> None:
            (self.open_with if projector else otherwise)(path)

        Work(_is_projector, path).then(look).fail(lambda why: otherwise(path)).start(self)

    def open_with(self, projector: Path) -> None:
        """Open the model again with this vision file."""
        session = self._bench.session
        self._notices.drop(DROP)
        if session.path is None:
            text = f"{projector.name} is a vision file. Open the model it belongs to, then drop it."
            act = self._command("model.open")
            self._notices.show_banner(DROP, Banner("warn", text, "Choose a model", act))
            return
        options = self._bench.options_for(session.path)
        self._bench.open_model(session.path, replace(options, mmproj=str(projector)))

    def refuse(self, name: str) -> None:
        """Say why a picture is not taken, with the next step."""
        session = self._bench.session
        not_added = f" {name} was not added." if name else ""
        if session.status == "loading":
            text = f"{session.model_title} is still loading.{not_added}"
            self._notices.news(DROP, text, "warn")
            return
        if session.model is None:
            text = f"No vision model is open.{not_added}"
            demo = ("Try a vision model", self._command("model.demo"))
            banner = Banner(
                *("warn", text, "Choose a model", self._command("model.open")),
                instead=demo if bundled.is_there() else None,
            )
            self._notices.show_banner(DROP, banner)
            return
        server = address_of(session.path) if session.path is not None else None
        beside = self._beside
        if server is not None:
            text = (
                f"{session.model_title} on the server {server.connection} does not support"
                " pictures."
                f"{not_added}"
            )
            act = self._command("model.open")
            self._notices.show_banner(DROP, Banner("warn", text, "Choose a model", act))
        elif beside is None:
            text = (
                f"{session.model_title} does not support pictures: no vision file is"
                f" loaded.{not_added}"
            )
            self._notices.show_banner(DROP, Banner("warn", text, CHOOSE, self.choose_file))
        else:
            text = (
                f"{session.model_title} is open without its vision file (mmproj), so it cannot see"
                f" pictures.{not_added}"
            )
            banner = Banner(
                *("warn", text, f"Load {beside.name}", lambda: self.open_with(beside)),
                instead=("Choose another…", self.choose_file),
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


def _is_projector(path: Path) -> bool:
    """By its header; for a thread."""
    return read_header(path).architecture == "clip"
