"""The window: a line on top, talk on the left, the inspector on the right."""

from __future__ import annotations

import base64
from pathlib import Path

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QLineEdit,
    QMainWindow,
    QPlainTextEdit,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.fetch.known import KNOWN, SMOLLM2, Terms
from app.state.models.model import ModelState
from app.state.workbench import Workbench, use_models_folder
from app.theme.theme import Theme
from app.views.memory.memory import MemoryView, Page
from app.views.models.chooser import Chooser
from app.views.models.model import ModelView
from app.views.models.terms import TermsView
from app.views.talk.chat import ChatView
from app.views.talk.chats import ChatsView
from app.views.talk.composer import Composer
from app.widgets.basics import divider, surface
from app.widgets.drop import DropShade
from app.widgets.focus import focus_first, has_focus, move_focus
from app.widgets.sheet import Sheet
from app.window.commands import Actions
from app.window.inspector import Inspector
from app.window.log import LogView
from app.window.notices import Notices
from app.window.palette import Palette
from app.window.panes import Panes
from app.window.preferences import PreferencesView
from app.window.top_line import TopLine
from app.window.welcome import Welcome

IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
LEAST_SCALE, MOST_SCALE = 0.75, 2.0


class MainWindow(QMainWindow):
    """Everything the person sees of one workbench; the workbench is closed with it."""

    bench: Workbench
    chats: ChatsView
    chat: ChatView
    composer: Composer
    memory: MemoryView
    panes: Panes

    def __init__(self, bench: Workbench, theme: Theme) -> None:
        super().__init__()
        self.bench, self.theme = bench, theme
        self.setWindowTitle("Cutaway")
        self.setMinimumSize(640, 480)
        self.setAcceptDrops(True)
        self._fetched_for_use = ""
        self.model_file = ModelState(self)
        self._make_views()
        self.commands = Actions(self)
        self.stack = QStackedWidget()
        self.welcome = Welcome(self)
        self.notices = Notices(self)
        self.top = TopLine(self)
        self._lay_out()
        self._make_sheets()
        self._leave_drops_to_window()
        self._connect()
        self._restore()
        self.show_what_is_there()
        bench.library.refresh()

    def start(self, model: Path | None = None) -> None:
        """Open a model, or the one that was open last, once the window is there."""
        value = self.bench.preferences.value
        if model is not None:
            self.bench.open_model(model)
        elif value.open_last_model and value.last_model and Path(value.last_model).is_file():
            self.bench.open_model(value.last_model)
        focus_first(self.composer if self.composer.isVisible() else self.stack)

    # What is in it

    def _make_views(self) -> None:
        bench = self.bench
        self.chats, self.chat, self.composer = ChatsView(bench), ChatView(bench), Composer(bench)
        self.memory, self.model = MemoryView(bench), ModelView(self.model_file)
        self.log = LogView(bench.log)
        self.inspector = Inspector()
        self.inspector.add("memory", "Memory", self.memory)
        self.inspector.add("model", "Model", self.model)
        self.inspector.add("log", "Log", self.log)

    def _make_sheets(self) -> None:
        self.chooser = Chooser(self.bench)
        self.terms = TermsView(self.bench.downloads)
        self.preferences = PreferencesView(self.bench.preferences)
        self.finder = Palette(self)
        self.chooser_sheet = Sheet(self.middle, self.chooser, 960, 640)
        self.terms_sheet = Sheet(self.middle, self.terms, 480)
        self.preferences_sheet = Sheet(self.middle, self.preferences, 560)
        self.palette_sheet = Sheet(self.middle, self.finder, 560, 440)
        self.shade = DropShade(self.middle, "Drop to open")
        self.chooser.done.connect(self.chooser_sheet.dismiss)
        self.terms.done.connect(self.terms_sheet.dismiss)
        self.preferences.done.connect(self.preferences_sheet.dismiss)
        self.finder.done.connect(self.palette_sheet.dismiss)
        self.chooser.wants_file.connect(self.open_file)
        self.chooser.wants_fetch.connect(self.get_model)

    def _lay_out(self) -> None:
        talk = QWidget()
        self.stack.addWidget(self.welcome)
        self.stack.addWidget(self.chat)
        column = QVBoxLayout(talk)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.notices)
        column.addWidget(self.stack, 1)
        column.addWidget(self.composer)
        self.panes = Panes(self.bench.preferences, self.chats, talk, self.inspector)
        self.middle = QWidget()
        surface(self.middle, "canvas")
        middle = QVBoxLayout(self.middle)
        middle.setContentsMargins(0, 0, 0, 0)
        middle.setSpacing(0)
        middle.addWidget(self.top)
        middle.addWidget(divider())
        middle.addWidget(self.panes, 1)
        self.setCentralWidget(self.middle)

    def _leave_drops_to_window(self) -> None:
        """Lines and texts would write a dropped file's address; the composer knows better."""
        for line in self.findChildren(QLineEdit):
            line.setAcceptDrops(False)
        for text in self.findChildren(QPlainTextEdit):
            if text is not self.composer.field:
                text.viewport().setAcceptDrops(False)

    def _connect(self) -> None:
        bench = self.bench
        self.theme.changed.connect(self.commands.retint)
        self.panes.changed.connect(self.commands.refresh)
        self.chat.details_wanted.connect(self.show_log)
        self.composer.edit_last_wanted.connect(self.chat.edit_last)
        self.composer.image_refused.connect(self.refuse_image)
        for signal in (bench.session.changed, bench.chat.path_changed, bench.chat.busy_changed):
            signal.connect(self.show_what_is_there)
        bench.chat.message_added.connect(self.show_what_is_there)
        bench.session.changed.connect(self._follow_model)
        bench.preferences.changed.connect(self._preferences_changed)
        bench.downloads.finished.connect(self._fetched)
        bench.downloads.terms_needed.connect(self._ask_terms)

    def _restore(self) -> None:
        self.resize(1280, 800)
        if self.panes.kept.geometry:
            self.restoreGeometry(QByteArray(base64.b64decode(self.panes.kept.geometry)))
        self._preferences_changed("theme")

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
        self.panes.show_tab(Inspector.TALK)
        focus_first(self.composer)

    def search_chats(self) -> None:
        self.panes.show_chats()
        self.chats.search.setFocus()
        self.chats.search.selectAll()

    def show_palette(self) -> None:
        self.finder.refresh()
        self.palette_sheet.open()

    def show_preferences(self) -> None:
        self.preferences.refresh()
        self.preferences_sheet.open()

    def show_log(self) -> None:
        """The log, at its end: what just went wrong is its last line."""
        self.panes.show_tab("log")
        self.log.show_last()

    def show_memory(self, page: Page) -> None:
        """That page of the memory, or the layers again."""
        shown = self.inspector.tab == "memory" and self.memory.page == page
        self.panes.show_tab("memory")
        self.memory.show_page("layers" if shown else page)

    def next_pane(self, step: int) -> None:
        """Give the keyboard to the next pane that can be seen."""
        panes = [self.top, self.chats, self.stack, self.composer, self.inspector]
        seen = [pane for pane in panes if pane.isVisibleTo(self)]
        at = next((i for i, pane in enumerate(seen) if has_focus(pane)), -1 if step > 0 else 0)
        for further in range(1, len(seen) + 1):
            pane = seen[(at + step * further) % len(seen)]
            if focus_first(pane, Qt.FocusReason.ShortcutFocusReason):
                return

    def scale_text(self, factor: float) -> None:
        """Make all text larger or smaller; 0 is back to normal."""
        scale = self.bench.preferences.value.font_scale * factor if factor else 1.0
        scale = round(min(max(scale, LEAST_SCALE), MOST_SCALE), 2)
        self.bench.preferences.update(font_scale=scale)

    def open_paths(self, paths: list[Path]) -> None:
        """What was dropped: a model is opened, anything else is told apart in a banner."""
        models = [path for path in paths if path.suffix.lower() == ".gguf"]
        images = [path for path in paths if path.suffix.lower() in IMAGES]
        if models:
            self.chooser_sheet.dismiss()
            self.bench.open_model(models[0])
        elif images:
            self.refuse_image(images[0].name)
        elif paths:
            text = f"{paths[0].name} is not a model: models are .gguf files."
            self.notices.news("drop", text, "warn")

    def refuse_image(self, name: str) -> None:
        """Say that no image can be looked at."""
        who = self.bench.session.model_title or "This model"
        self.notices.news(
            "drop", f"{who} can't read images; {name or 'the image'} wasn't attached."
        )

    # What changes

    @property
    def welcome_shown(self) -> bool:
        """Whether the talk's place tells how to get a model, and how far that is."""
        return self.stack.currentWidget() is self.welcome

    def show_what_is_there(self) -> None:
        """The talk, or how to get a model while there is none and nothing to read."""
        bench = self.bench
        talks = bench.session.model is not None or bool(bench.chat.path)
        goes_on = talks and has_focus(self.welcome)
        self.stack.setCurrentWidget(self.chat if talks else self.welcome)
        self.composer.setVisible(talks)
        if goes_on:
            focus_first(self.composer)
        self.commands.refresh()

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        return move_focus(self, forward)

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
        self.panes.keep(geometry=base64.b64encode(self.saveGeometry().data()).decode())
        self.model_file.close()
        self.bench.close()
        super().closeEvent(event)

    def _preferences_changed(self, field: str) -> None:
        value = self.bench.preferences.value
        if field in ("theme", "font_scale", "density"):
            self.theme.choose(value.theme, value.font_scale, value.density == "compact")
        elif field == "models_folder":
            use_models_folder(value.models_folder)
            self.bench.library.refresh()
        self.commands.refresh()

    def _follow_model(self) -> None:
        self.model_file.open(self.bench.session.path)

    def _fetched(self, name: str, path: Path) -> None:
        wanted, self._fetched_for_use = name == self._fetched_for_use, ""
        if wanted and self.bench.session.model is None:
            self.bench.open_model(path)

    def _ask_terms(self, name: str, terms: Terms) -> None:
        self.terms.ask(name, KNOWN.get(name), terms)
        self.terms_sheet.open()
