"""The left half: banners, then the messages or how to get a model, then the composer."""

from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.state.workbench import Workbench
from app.theme.tokens import GRID
from app.views.talk.chat import ChatView
from app.views.talk.composer import Composer
from app.widgets.commands import Actions
from app.widgets.focus import focus_first, has_focus
from app.widgets.layouts import vbox
from app.widgets.pictures.loader import PictureLoader
from app.window.panes.notices import Notices
from app.window.panes.welcome import Welcome


class TalkPane(QWidget):
    """Talk, or how to get a model while there is none and nothing to read."""

    details_wanted = Signal(str)  # of a problem, by its text: the log

    def __init__(self, bench: Workbench, commands: Actions[Any], loader: PictureLoader) -> None:
        super().__init__()
        self._bench = bench
        self.notices = Notices(bench, commands)
        self.welcome = Welcome(bench, commands)
        self.chat, self.composer = ChatView(bench, loader), Composer(bench, loader)
        self.stack = QStackedWidget()
        self.stack.setMinimumHeight(GRID)  # where room is short the composer has it
        self.stack.addWidget(self.welcome)
        self.stack.addWidget(self.chat)
        vbox(self.notices, (self.stack, 1), self.composer, on=self, spacing=0)
        self.notices.details_wanted.connect(self.details_wanted)
        self.chat.details_wanted.connect(self.details_wanted)
        self.composer.edit_last_wanted.connect(self.chat.edit_last)
        for signal in (bench.session.changed, bench.chat.path_changed, bench.chat.busy_changed):
            signal.connect(self.refresh)
        bench.chat.message_added.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show what there is."""
        talks, writes = self._bench.has_talk, self._writes
        starts = writes and has_focus(self.welcome)
        if writes:
            self.composer.show()  # first, as what is hidden next may have the keyboard
        self.stack.setCurrentWidget(self.chat if talks else self.welcome)
        self.composer.setVisible(writes)
        if starts:  # the stack gives the keyboard to what it shows
            self.focus_start()

    @property
    def _writes(self) -> bool:
        """Return whether the user can type: while a model loads, its first message may wait."""
        return self._bench.has_talk or self._bench.session.status == "loading"

    @property
    def start(self) -> QWidget:
        """The composer, or the welcome page while there is no model."""
        return self.composer if self._writes else self.welcome

    def show_sampling(self) -> None:
        """Open the settings of answers, also on the welcome page: they are the chat's."""
        self.composer.show_sampling(None if self._writes else self.welcome.open)

    def focus_start(self) -> None:
        """Give the keyboard to `start`."""
        focus_first(self.start)
