"""The window: a line on top, talk on the left, the inspector on the right, the log below."""

import base64
from pathlib import Path
from typing import Any

from PySide6.QtCore import QByteArray, QEvent, QPoint, Qt
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QMainWindow, QMenu, QWidget

from app.language import tr
from app.state.workbench import Workbench
from app.theme.theme import Theme, undressed
from app.theme.tokens import GRID
from app.views.models.chooser import Chooser
from app.views.models.model import ModelView
from app.views.talk.chat_rows import shown_title
from app.views.talk.chats import ChatsView
from app.views.tensors.tensors import TensorsView
from app.widgets import file_dialogs
from app.widgets.basics import IconButton, divider, surface
from app.widgets.commands import Actions
from app.widgets.focus import Refuge, move_focus, take_refuge
from app.widgets.guard import guard_overrides
from app.widgets.layouts import vbox
from app.widgets.pictures.loader import PictureLoader
from app.widgets.plots.canvas import warm
from app.window.commands import COMMANDS, MENUS
from app.window.desk import Desk
from app.window.drops import Drops
from app.window.edit_commands import VERBS
from app.window.given_pictures import GivenFiles, GivenPictures
from app.window.looks import Looks
from app.window.model_opener import ModelOpener
from app.window.panes.drawer import LogDrawer
from app.window.panes.inspector import Inspector
from app.window.panes.panes import Panes
from app.window.panes.talk_pane import TalkPane
from app.window.panes.top_line import TopLine
from app.window.sheets import Sheets


class ChatRail(QWidget):
    """A narrow bar with buttons for the chat list, a new chat and search."""

    def __init__(self, commands: Actions[Any]) -> None:
        super().__init__()
        surface(self, "panel")
        column = vbox(on=self, margins=(GRID // 2, GRID, GRID // 2, GRID), spacing=GRID // 2)
        column.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignHCenter)
        for picture, name, command in (
            ("chats", tr("Show the chats (Ctrl+B)"), "view.chats"),
            ("plus", tr("New chat (Ctrl+N)"), "chat.new"),
            ("search", tr("Search chats (Ctrl+K)"), "chat.search"),
        ):
            column.addWidget(_button(picture, name, commands, command))


def _button(picture: str, name: str, commands: Actions[Any], command: str) -> IconButton:
    return IconButton(picture, name, lambda: commands.run(command))


MOST_TITLE = 80  # characters of a chat's title


def window_title(bench: Workbench) -> str:
    """Chat, model and program, as far as there are any, as browsers name their windows."""
    chat, session = bench.chat, bench.session
    title = ""
    if chat.chat_id is not None:
        title = " ".join(shown_title(chat.details.title).split())[:MOST_TITLE]
    parts = " – ".join(part for part in (title, session.model_title, "Cutaway") if part)
    return parts.replace("[*]", "[*][*]")  # alone it is Qt's mark of what is not saved


class MainWindow(QMainWindow, Refuge):
    """Everything the person sees of one workbench; the workbench is closed with it."""

    def __init__(self, bench: Workbench, theme: Theme) -> None:
        super().__init__()
        guard_overrides()
        self.bench, self.looks = bench, Looks(bench.preferences, theme, self)
        file_dialogs.start_in(
            bench.preferences.value.last_folder or "",
            lambda folder: bench.preferences.update(last_folder=folder),
        )
        with undressed():
            self.setMinimumSize(640, 480)
            self.commands = Actions[Desk](self, self, COMMANDS)
            self.chats, self.inspector = ChatsView(bench), Inspector(bench, self.commands)
            self.rail = ChatRail(self.commands)
            self.loader = PictureLoader(self)
            self.talk = TalkPane(bench, self.commands, self.loader)
            self.top = TopLine(bench, self.commands, self.commands.menu(MENUS))
            talk, inspector = self.talk, self.inspector
            order = [self.top, self.rail, self.chats, talk.stack, talk.composer, inspector]
            self.panes = Panes(bench.preferences, self.chats, self.rail, talk, inspector, order)
            self.drawer = LogDrawer(bench, self.panes)
            order += [self.drawer.log, self.drawer.line]
            middle = self._lay_out()
            self.sheets = Sheets(bench, self.commands, self.loader, middle)
            self.vision = GivenPictures(bench, self.talk.notices, self.commands.run, self)
            self.opener = ModelOpener(bench, self.vision, self)
            self.files = GivenFiles(
                *(bench, self.vision, self._open_given, self.talk.composer.isVisible),
                *(self.talk.notices, self.commands.run, self),
            )
            self.drops = Drops(self, middle, lambda: self.vision.sees, self.files.has_chat)
            self.drops.leave_to_window(self.talk.composer.field)
            self._connect()
            self._restore_geometry()
            self.commands.refresh()
        bench.library.refresh()

    def start(self, model: Path | None = None) -> None:
        """Open the last chat, and `model` or the model that was open last."""
        self.bench.reopen_chat()
        self.opener.start(model)
        self.talk.focus_start()
        warm(self)

    def as_widget(self) -> QWidget:
        """Return the parent for other windows."""
        return self

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802
        return move_focus(self, forward)

    def refuge(self, gone: QWidget | None) -> QWidget:
        """The pane beside the talk that had the keyboard; else the composer or the welcome page."""
        for pane in (self.chats, self.rail, self.inspector, self.drawer.line):
            if gone is not None and pane.isVisible() and pane.isAncestorOf(gone):
                return pane
        return self.talk.start

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow():
            take_refuge(self, self.focusWidget())  # what had the keyboard may have gone meanwhile
            self.bench.chats.refresh_if_changed()  # another window may have written meanwhile
            self.bench.library.look_again()

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        self.panes.keep(geometry=base64.b64encode(self.saveGeometry().data()).decode())
        self.inspector.close_windows()
        self.bench.close()
        super().closeEvent(event)

    def _lay_out(self) -> QWidget:
        middle = QWidget()
        surface(middle, "canvas")
        vbox(self.top, divider(), (self.drawer, 1), on=middle, spacing=0)
        self.setCentralWidget(middle)
        return middle

    def _connect(self) -> None:
        bench = self.bench
        self.looks.changed.connect(self.commands.retint)
        self.talk.details_wanted.connect(self.drawer.show_line)
        self.inspector.tensors_wanted.connect(self.sheets.show_tensors)
        self.sheets.picture_wanted.connect(self._show_picture)
        self.chats.new_wanted.connect(lambda: self.commands.run("chat.new"))
        self.drawer.running.probes_wanted.connect(self._show_probes)
        self.drawer.running.serving_wanted.connect(lambda: self.commands.run("model.serve"))
        self.sheets.fetch_wanted.connect(self.opener.get)
        self.opener.file_chosen.connect(lambda: self.sheets.dismiss(Chooser))
        self.drops.dropped.connect(self.files.add)
        self.drops.refused.connect(self._drop_refused)
        self.drops.blind.connect(self.vision.refuse)
        self.drops.picture_dropped.connect(self.vision.add_data)
        composer, chat = self.talk.composer, self.talk.chat
        for writes in (composer, chat):
            writes.files_given.connect(self.files.add)
            writes.picture_given.connect(self.vision.add_data)
        composer.choose_wanted.connect(self.files.choose)
        composer.edits.compare_wanted.connect(self.sheets.show_trial)
        self.inspector.selection.verbs_wanted.connect(self._show_verbs)
        composer.documents.opened.connect(
            lambda place: self.sheets.show_document(bench.chat.documents.documents[place], place)
        )
        chat.choose_wanted.connect(self.vision.choose)
        chat.document_wanted.connect(self.sheets.show_document)
        self.inspector.document_wanted.connect(
            lambda document, at: self.sheets.show_document(document, at=at)
        )
        chat.vision_wanted.connect(self.vision.choose_file)
        chat.demo_wanted.connect(self.opener.try_demo)
        composer.attachments.vision_wanted.connect(self.vision.choose_file)
        composer.attachments.opened.connect(
            lambda place: self.sheets.show_pictures(bench.chat.attached.pictures, place)
        )
        chat.pictures_wanted.connect(self.sheets.show_pictures)
        for signal in (
            *(self.panes.changed, self.drawer.opened, self.talk.notices.undo_changed),
            *(bench.session.changed, bench.preferences.changed),
            *(bench.chat.path_changed, bench.chat.message_added, bench.chat.busy_changed),
            *(bench.selection.changed, bench.chat.edits.changed),
        ):
            signal.connect(self.commands.refresh)
        bench.selection.page_wanted.connect(self.panes.show_tab)
        bench.selection.word_clicked.connect(self.panes.show_word)
        bench.chat.details.changed.connect(self._show_title)
        bench.session.changed.connect(self._show_title)
        self._show_title()

    def _show_picture(self) -> None:
        """Show the heat map of the selected tensor of the model's file."""
        self.sheets.dismiss(ModelView)
        self.panes.show_tab("tensors")
        self.inspector.view(TensorsView).show_picture()

    def _show_verbs(self, where: QPoint) -> None:
        """A menu of what can be done with the selection."""
        self.commands.refresh()
        menu = QMenu(self)
        menu.setAccessibleName(tr("Edit what is selected"))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addActions([self.commands[verb] for verb in VERBS])
        menu.popup(where)

    def _show_probes(self) -> None:
        self.panes.show_tab("tensors")
        self.inspector.view(TensorsView).show_probes()

    def _show_title(self) -> None:
        self.setWindowTitle(window_title(self.bench))

    def _restore_geometry(self) -> None:
        self.resize(1280, 800)
        if self.panes.kept.geometry:
            self.restoreGeometry(QByteArray(base64.b64decode(self.panes.kept.geometry)))

    def _open_given(self, path: Path) -> None:
        self.opener.open(path)

    def _drop_refused(self, path: Path) -> None:
        self.files.refuse(path.name)
