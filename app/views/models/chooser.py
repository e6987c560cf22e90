"""Which model: those on the disk, those to download, and how the chosen one is loaded."""

from functools import cached_property
from pathlib import Path

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QStackedWidget, QWidget

from app.language import tr
from app.library import Stored
from app.state.workbench import Workbench
from app.theme import fonts
from app.theme.theme import undressed
from app.theme.tokens import GRID, PADDING, ROW
from app.views.models.chooser_options import OptionsView
from app.views.models.discover import DiscoverView
from app.views.models.servers import ServersView
from app.views.models.storage import StorageBar
from app.widgets.basics import TEXT_SIZE, Button, IconButton, divider, label, scrolled, set_beside
from app.widgets.controls.elided import ElidedLabel
from app.widgets.controls.fitted_tabs import FittedTabs
from app.widgets.file_dialogs import choose_folder
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.lists.rows import Column, TableRows
from app.widgets.lists.table import Table
from app.widgets.numbers import file_size
from engine.protocol import ListDevices

DISCOVER, SERVERS = 1, 2  # pages, after that of the disk
LEAST_ROWS = 6  # of the table of models
BESIDE = 680  # pixels at normal text; in less, the options stand below the models

ORIGINS = {
    "own": "Cutaway",
    "hugging face": "Hugging Face",
    "ollama": "Ollama",
    "lm studio": "LM Studio",
    "gpt4all": "GPT4All",
    "watched": tr("Watched folder"),
    "opened": tr("Opened file"),
}


def _tone(model: Stored) -> str:
    return "bad" if model.problem else "quiet"


def _kind(model: Stored) -> str:
    if model.problem:
        return tr("cannot be read")
    if model.is_projector:
        return tr("image encoder")
    if model.is_adapter:
        return tr("adapter for {model}", model=model.adapts or model.architecture)
    kind = f"{model.architecture} {model.quantization}"
    return tr("{kind} + images", kind=kind) if model.projector is not None else kind


MODELS = (
    Column[Stored](tr("Name"), lambda m: m.name),
    Column[Stored](tr("Kind"), _kind, tone=_tone),
    Column[Stored](tr("Size"), lambda m: file_size(m.size), lambda m: m.size, right=True),
    Column[Stored](tr("Found in"), lambda m: ORIGINS.get(m.origin, m.origin), quiet=True),
)


class Chooser(QWidget):
    """Shows `bench.library` and `bench.downloads`; loads with `bench.open_model`."""

    wants_file = Signal()
    wants_fetch = Signal(str)
    done = Signal()

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self.setAccessibleName(tr("Choose a model"))
        self._bench = bench
        self._devices_requested = False
        self.table = Table(TableRows(MODELS, self), tr("Models"), stretch=(0,))
        self.options = OptionsView(bench)
        self.storage = StorageBar(bench.storage)
        self.folders = FoldersView(bench)
        self._empty = label(tone="quiet", wrap=True)
        self.tabs = FittedTabs(tr("Sources of models"))
        self.tabs.setProperty("level", "second")
        self._pages = QStackedWidget()
        for title, page in (
            (tr("On this disk"), self._disk()),
            (tr("Discover"), QWidget()),
            (tr("Servers"), QWidget()),
        ):
            self.tabs.put(title)
            self._pages.addWidget(page)
        self.tabs.currentChanged.connect(self._show_page)
        head = hbox(
            (self.tabs, 1),
            Button(tr("Open a file…"), self.wants_file.emit, picture="folder"),
            IconButton("close", tr("Close"), self.done.emit, 16),
            margins=(PADDING, GRID, GRID, GRID // 2),
            spacing=GRID,
        )
        vbox(head, divider(), (self._pages, 1), on=self, spacing=0)
        self.table.chosen.connect(self.options.show_model)
        self.table.chosen.connect(self.storage.show_model)
        self.storage.changed.connect(bench.library.refresh)
        self.table.activated.connect(self._load)
        self.options.loading.connect(self.done)
        self.options.placing.connect(self.done)
        bench.library.changed.connect(self._show_models)
        self.setFocusProxy(self.table.view)
        self._show_models()

    def _disk(self) -> QWidget:
        """The stored models, and the chosen one beside them."""
        self.table.setMinimumHeight(fonts.px(LEAST_ROWS * ROW))
        stored = QWidget()
        vbox((self.table, 1), self._empty, self.storage, self.folders, on=stored, margins=PADDING)
        body = QWidget()
        self._halves = QBoxLayout(QBoxLayout.Direction.LeftToRight, body)
        self._halves.setContentsMargins(0, 0, 0, 0)
        self._halves.setSpacing(0)
        self._halves.addWidget(stored, 56)
        self._halves.addWidget(divider(vertical=True))
        self._halves.addWidget(self.options, 44)
        page = QWidget()
        vbox((scrolled(body), 1), divider(), self.options.footer, on=page, spacing=0)
        return page

    @cached_property
    def discover(self) -> DiscoverView:
        """Models to download; made at its first use, as `servers` is."""
        with undressed():
            view = DiscoverView(self._bench)
            self._put(DISCOVER, view)
        view.repo.known_wanted.connect(self.wants_fetch)
        view.opening.connect(self.done)
        return view

    @cached_property
    def servers(self) -> ServersView:
        """Models of servers."""
        with undressed():
            view = ServersView(self._bench)
            page = QWidget()
            vbox(view, STRETCH, on=page, margins=PADDING, spacing=6)
            self._area = scrolled(page)
            self._put(SERVERS, self._area)
        view.opening.connect(self.done)
        view.editing.connect(lambda: QTimer.singleShot(0, self._show_form))
        view.form.refused.connect(lambda: QTimer.singleShot(0, self._show_problem))
        return view

    def _put(self, at: int, page: QWidget) -> None:
        place = self._pages.widget(at)
        assert place is not None
        vbox(page, on=place)

    def _show_page(self, at: int) -> None:
        if at == DISCOVER:
            self.discover.show()
        elif at == SERVERS:
            self.servers.show()
        self._pages.setCurrentIndex(at)

    def refresh(self) -> None:
        """Look at the disk and the devices again; to be called when it is opened."""
        self._bench.library.refresh()
        if not self._devices_requested:
            self._devices_requested = True
            self._bench.client.send(ListDevices(0))
        self._choose_open_one(always=True)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        set_beside(self._halves, self.width() >= fonts.px(BESIDE))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in TEXT_SIZE:
            self.table.setMinimumHeight(fonts.px(LEAST_ROWS * ROW))

    def show_usual(self) -> None:
        """The models to download where there is none on the disk; else what was shown last."""
        library = self._bench.library
        if library.known and not library.models and not library.problem:
            self.tabs.setCurrentIndex(DISCOVER)
            self.discover.words.setFocus()

    def add_server(self) -> None:
        """Show the form of a new server."""
        self.tabs.setCurrentIndex(SERVERS)
        self.servers.edit(None)

    def _show_form(self) -> None:
        """Scroll to the form: to its end, and back to its beginning where both do not fit."""
        for field in (self.servers.form.save, self.servers.form.name):
            self._area.ensureWidgetVisible(field)

    def _show_problem(self) -> None:
        """Scroll to why the form was refused, and to its buttons."""
        self._area.ensureWidgetVisible(self.servers.form.save)

    def _show_models(self) -> None:
        library = self._bench.library
        if list(self.table.rows.all_rows) != library.models:
            self.table.rows.show_rows(library.models)
            self._choose_open_one()
            if not library.models:
                self.options.show_model(None)
                self.storage.show_model(None)
        looking = tr("Searching the disk …") if library.looking else ""
        none = tr("No models on this disk yet. Download one under “Discover”, or open a GGUF file.")
        self._empty.setText(library.problem or looking or none)
        self._empty.setVisible(bool(library.problem) or not library.models)

    def _choose_open_one(self, always: bool = False) -> None:
        """The cursor on the open model, else on the first."""
        path, shown = self._bench.session.path, self.table.rows.shown
        chosen = self.table.view.selectionModel().hasSelection()
        places = [i for i, model in enumerate(shown) if path in model.paths]
        if shown and (not chosen or (always and places)):
            self.table.choose(places[0] if places else 0)

    def _load(self, model: Stored) -> None:
        self.options.show_model(model)
        self.options.load.click()


class FoldersView(QWidget):
    """The folders that are watched for models besides our own: a line each, add and remove."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench
        self._lines: list[QWidget] = []
        self.add_folder = Button(tr("Watch a folder…"), self._choose, "link")
        self._column = vbox(
            (self.add_folder, Qt.AlignmentFlag.AlignLeft), on=self, spacing=GRID // 2
        )
        bench.preferences.changed.connect(self._on_changed)
        self.refresh()

    def add(self, folder: str) -> None:
        """Watch one more folder."""
        self._keep([*(f for f in self._watched if f != folder), folder])

    def refresh(self) -> None:
        """Show the folders as they are."""
        for line in self._lines:
            line.hide()
            line.deleteLater()
        self._lines = [self._line(folder) for folder in self._watched]
        for place, line in enumerate(self._lines):
            self._column.insertWidget(place, line)

    @property
    def _watched(self) -> list[str]:
        return self._bench.preferences.value.watched_folders

    def _line(self, folder: str) -> QWidget:
        line = QWidget()
        missing = "" if Path(folder).is_dir() else tr("Not found: ")
        name = tr("Stop watching {folder}", folder=folder)
        hbox(
            (ElidedLabel(missing + folder, Qt.TextElideMode.ElideMiddle, "small"), 1),
            Button(tr("Remove"), lambda: self._remove(folder), "link", name=name),
            on=line,
        )
        return line

    def _remove(self, folder: str) -> None:
        self._keep([other for other in self._watched if other != folder])
        self.add_folder.setFocus()

    def _keep(self, folders: list[str]) -> None:
        self._bench.preferences.update(watched_folders=folders)

    def _on_changed(self, field: str) -> None:
        if field == "watched_folders":
            self.refresh()
            self._bench.library.refresh()

    def _choose(self) -> None:
        folder = choose_folder(self, tr("Watch a folder for models"))
        if folder:
            self.add(folder)
