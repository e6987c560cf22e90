"""The window: a line on top, talk on the left, the inspector on the right."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any

from msgspec import structs
from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QFileDialog,
    QMainWindow,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.actions import Actions
from app.fetch.known import KNOWN, SMOLLM2, Terms
from app.state.model import ModelState
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.theme.tokens import INSPECTOR_SHARE, NARROW, TALK_SHARE
from app.views.chat import ChatView
from app.views.chats import ChatsView
from app.views.chooser import Chooser
from app.views.composer import Composer
from app.views.inspector import Inspector
from app.views.log import LogView
from app.views.memory import MemoryView
from app.views.model import ModelView
from app.views.notices import Notices
from app.views.palette import Palette
from app.views.preferences import PreferencesView
from app.views.terms import TermsView
from app.views.top_line import TopLine
from app.views.welcome import Welcome
from app.widgets.basics import divider, surface
from app.widgets.drop import DropShade
from app.widgets.focus import focus_first, has_focus
from app.widgets.sheet import Sheet

log = logging.getLogger("window")
IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")


class MainWindow(QMainWindow):
    """Everything the person sees of one workbench."""

    def __init__(self, bench: Workbench, theme: Theme) -> None:
        super().__init__()
        self.bench, self.theme = bench, theme
        self.setWindowTitle("Cutaway")
        self.setMinimumSize(640, 480)
        self.setAcceptDrops(True)
        self._fetched_for_use = ""
        self.model_file = ModelState(self)
        self._make_talk()
        self._make_inspector()
        self._make_sheets()
        self.commands = Actions(self)
        self.notices = Notices(self)
        self.welcome = Welcome(self)
        self.top = TopLine(self)
        self._lay_out()
        self._connect()
        self._restore()
        self.show_what_is_there()
        bench.library.refresh()

    # What is in it

    def _make_talk(self) -> None:
        self.chats = ChatsView(self.bench)
        self.chat = ChatView(self.bench)
        self.composer = Composer(self.bench)

    def _make_inspector(self) -> None:
        self.memory = MemoryView(self.bench)
        self.model = ModelView(self.model_file)
        self.log = LogView(self.bench.log)
        self.inspector = Inspector()
        self.inspector.add("memory", "Memory", self.memory)
        self.inspector.add("model", "Model", self.model)
        self.inspector.add("log", "Log", self.log)

    def _make_sheets(self) -> None:
        self.middle = QWidget()
        surface(self.middle, "canvas")
        self.chooser = Chooser(self.bench)
        self.chooser.wants_file.connect(self.open_file)
        self.chooser.wants_fetch.connect(self.get_model)
        self.chooser.done.connect(lambda: self.chooser_sheet.dismiss())
        self.terms = TermsView(self.bench.downloads)
        self.terms.done.connect(lambda: self.terms_sheet.dismiss())
        self.preferences = PreferencesView(self.bench.preferences)
        self.preferences.done.connect(lambda: self.preferences_sheet.dismiss())
        self.palette_view = Palette(self)
        self.palette_view.done.connect(lambda: self.palette_sheet.dismiss())
        self.chooser_sheet = Sheet(self.middle, self.chooser, 960, 640)
        self.terms_sheet = Sheet(self.middle, self.terms, 480)
        self.preferences_sheet = Sheet(self.middle, self.preferences, 560)
        self.palette_sheet = Sheet(self.middle, self.palette_view, 560, 440)
        self.shade = DropShade(self.middle, "Drop to open")

    def _lay_out(self) -> None:
        talk = QWidget()
        self.stack = QStackedWidget()
        self.stack.addWidget(self.welcome)
        self.stack.addWidget(self.chat)
        column = QVBoxLayout(talk)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.notices)
        column.addWidget(self.stack, 1)
        column.addWidget(self.composer)
        self.talk = _splitter("talk", self.chats, talk)
        self.body = _splitter("body", self.talk, self.inspector)
        self.talk.setSizes([208, 520])
        self.body.setSizes([TALK_SHARE * 10, INSPECTOR_SHARE * 10])
        self.body.setStretchFactor(0, TALK_SHARE)
        self.body.setStretchFactor(1, INSPECTOR_SHARE)
        self.talk.setStretchFactor(1, 1)
        self.narrow_bar = QWidget()
        narrow = QVBoxLayout(self.narrow_bar)
        narrow.setContentsMargins(0, 0, 0, 0)
        middle = QVBoxLayout(self.middle)
        middle.setContentsMargins(0, 0, 0, 0)
        middle.setSpacing(0)
        for part in (self.top, divider(), self.narrow_bar):
            middle.addWidget(part)
        middle.addWidget(self.body, 1)
        self.setCentralWidget(self.middle)

    def _connect(self) -> None:
        bench = self.bench
        self.theme.changed.connect(self.commands.retint)
        self.inspector.tab_changed.connect(self._tab_changed)
        for splitter in (self.talk, self.body):
            splitter.splitterMoved.connect(lambda *_, s=splitter: self._keep_sizes(s))
        for signal in (bench.session.changed, bench.chat.path_changed, bench.chat.busy_changed):
            signal.connect(self.show_what_is_there)
        bench.chat.message_added.connect(self.show_what_is_there)
        bench.preferences.changed.connect(self._preferences_changed)
        bench.downloads.finished.connect(self._fetched)
        bench.downloads.terms_needed.connect(self._ask_terms)
        bench.session.changed.connect(self._follow_model)

    def start(self, model: Path | None = None) -> None:
        """Open a model, or the one that was open last, once the window is there."""
        value = self.bench.preferences.value
        if model is not None:
            self.bench.open_model(model)
        elif value.open_last_model and value.last_model and Path(value.last_model).is_file():
            self.bench.open_model(value.last_model)
        focus_first(self.composer if self.composer.isVisible() else self.stack)

    # Commands

    def choose_model(self) -> None:
        self.chooser.refresh()
        self.chooser_sheet.open()

    def open_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open a model", "", "Models (*.gguf)")
        if path:
            self.chooser_sheet.dismiss()
            self.bench.open_model(path)

    def get_model(self, name: str = SMOLLM2.name) -> None:
        """Fetch a model and open it when it has come, unless another is open by then."""
        self._fetched_for_use = name
        self.bench.downloads.start(name)

    def new_chat(self) -> None:
        self.bench.chat.open(None)
        self.show_tab(Inspector.TALK)
        focus_first(self.composer)

    def search_chats(self) -> None:
        self._set_shown(chats_shown=True)
        self.show_tab(Inspector.TALK)
        self.chats.search.setFocus()
        self.chats.search.selectAll()

    def show_palette(self) -> None:
        self.palette_view.refresh()
        self.palette_sheet.open()

    def show_preferences(self) -> None:
        self.preferences.refresh()
        self.preferences_sheet.open()

    def show_log(self) -> None:
        """The log, at its end: what just went wrong is its last line."""
        self.show_tab("log")
        self.log.show_last()

    def toggle_chats(self) -> None:
        self._set_shown(chats_shown=not self._kept.chats_shown)

    def toggle_inspector(self) -> None:
        if self._narrow:
            at_talk = self.inspector.tab == Inspector.TALK
            self.show_tab(self._kept.tab if at_talk else Inspector.TALK)
        else:
            self._set_shown(inspector_shown=not self._kept.inspector_shown)

    def show_tab(self, id: str) -> None:
        """A page of the inspector, or in a narrow window the talk."""
        if id != Inspector.TALK and not self._narrow:
            self._set_shown(inspector_shown=True)
        self.inspector.show_tab(id)

    def next_pane(self, step: int) -> None:
        """Give the keyboard to the next pane that can be seen."""
        panes = [self.top, self.chats, self.stack, self.composer, self.inspector]
        panes = [pane for pane in panes if pane.isVisibleTo(self)]
        at = next((i for i, pane in enumerate(panes) if has_focus(pane)), -1 if step > 0 else 0)
        for further in range(1, len(panes) + 1):
            pane = panes[(at + step * further) % len(panes)]
            if focus_first(pane, Qt.FocusReason.ShortcutFocusReason):
                return

    def scale_text(self, factor: float) -> None:
        """Make all text larger or smaller; 0 is back to normal."""
        scale = self.bench.preferences.value.font_scale * factor if factor else 1.0
        self.bench.preferences.update(font_scale=round(min(max(scale, 0.75), 2.0), 2))

    # What changes

    def show_what_is_there(self) -> None:
        """The talk, or how to get a model while there is none and nothing to read."""
        bench = self.bench
        talks = bench.session.model is not None or bool(bench.chat.path)
        self.stack.setCurrentWidget(self.chat if talks else self.welcome)
        self.composer.setVisible(talks)
        self.commands.refresh()

    def open_paths(self, paths: list[Path]) -> None:
        """What was dropped: a model is opened, anything else is told apart in a banner."""
        models = [path for path in paths if path.suffix.lower() == ".gguf"]
        images = [path for path in paths if path.suffix.lower() in IMAGES]
        if models:
            self.chooser_sheet.dismiss()
            self.bench.open_model(str(models[0]))
        elif images:
            model = self.bench.session.model
            who = f"{model.name} cannot" if model is not None else "This model cannot"
            self.notices.news("drop", f"{who} see images, so {images[0].name} was not taken.")
        elif paths:
            text = f"{paths[0].name} is not a model: models are .gguf files."
            self.notices.news("drop", text, "warn")

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._arrange()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        if event.mimeData().hasUrls():
            event.acceptProposedAction()
            self.shade.show_over()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:  # noqa: N802
        self.shade.hide()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        self.shade.hide()
        urls = event.mimeData().urls()
        self.open_paths([Path(url.toLocalFile()) for url in urls if url.isLocalFile()])
        event.acceptProposedAction()

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        geometry = base64.b64encode(self.saveGeometry().data()).decode()
        self._keep(geometry=geometry)
        self.model_file.close()
        self.bench.close()
        super().closeEvent(event)

    @property
    def _kept(self) -> Any:
        return self.bench.preferences.value.window

    def _keep(self, **fields: Any) -> None:
        self.bench.preferences.update(window=structs.replace(self._kept, **fields))

    def _keep_sizes(self, splitter: QSplitter) -> None:
        self._keep(splitters={**self._kept.splitters, splitter.objectName(): splitter.sizes()})

    def _set_shown(self, **fields: bool) -> None:
        self._keep(**fields)
        self._arrange()
        self.commands.refresh()

    def _restore(self) -> None:
        kept = self._kept
        self.resize(1280, 800)
        if kept.geometry:
            self.restoreGeometry(QByteArray(base64.b64decode(kept.geometry)))
        for splitter in (self.talk, self.body):
            sizes = kept.splitters.get(splitter.objectName())
            if sizes and len(sizes) == splitter.count():
                splitter.setSizes(sizes)
        self.inspector.show_tab(kept.tab)
        self._preferences_changed("theme")
        self._arrange()

    @property
    def _narrow(self) -> bool:
        return self.width() < NARROW

    def _arrange(self) -> None:
        """Side by side, or one behind the other in a narrow window."""
        narrow = self._narrow
        self.inspector.show_talk_tab(narrow)
        if narrow:
            self.narrow_bar.layout().addWidget(self.inspector.bar)
        else:
            self.inspector.layout().insertWidget(0, self.inspector.bar)  # type: ignore[attr-defined]
        self.narrow_bar.setVisible(narrow)
        at_talk = self.inspector.tab == Inspector.TALK
        self.chats.setVisible(self._kept.chats_shown)
        self.talk.setVisible(not narrow or at_talk)
        self.inspector.setVisible(not at_talk if narrow else self._kept.inspector_shown)

    def _tab_changed(self, id: str) -> None:
        if id != Inspector.TALK:
            self._keep(tab=id)
        self._arrange()

    def _preferences_changed(self, field: str) -> None:
        if field in ("theme", "font_scale"):
            value = self.bench.preferences.value
            self.theme.choose(value.theme, value.font_scale)

    def _follow_model(self) -> None:
        self.model_file.open(self.bench.session.path)

    def _fetched(self, name: str, path: Path) -> None:
        self.bench.library.refresh()
        if name == self._fetched_for_use and self.bench.session.model is None:
            self.bench.open_model(str(path))
        self._fetched_for_use = ""

    def _ask_terms(self, name: str, terms: Terms) -> None:
        self.terms.ask(name, KNOWN.get(name), terms)
        self.terms_sheet.open()


def _splitter(name: str, *parts: QWidget) -> QSplitter:
    splitter = QSplitter(Qt.Orientation.Horizontal)
    splitter.setObjectName(name)
    splitter.setHandleWidth(1)
    splitter.setChildrenCollapsible(False)
    for part in parts:
        splitter.addWidget(part)
    return splitter
