"""Chats, talk and inspector side by side; in a narrow window one behind the other."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs
from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from app.state.preferences import PreferencesState, WindowPreferences
from app.theme import fonts
from app.theme.tokens import INSPECTOR_SHARE, NARROW, TALK_SHARE
from app.widgets.basics import LOOKS
from app.widgets.focus import focus_first, has_focus
from app.window.panes.inspector import Inspector

CHATS_WIDTH = 208


class Panes(QWidget):
    """What is shown and how wide it is, kept in the preferences; F6 goes round in `order`."""

    changed = Signal()  # what is shown

    def __init__(
        self,
        preferences: PreferencesState,
        chats: QWidget,
        talk: QWidget,
        inspector: Inspector,
        order: Sequence[QWidget],
    ) -> None:
        super().__init__()
        self._preferences, self._chats, self._inspector = preferences, chats, inspector
        self._order = order
        self._is_narrow: bool | None = None
        self._sized = False
        self.left = _splitter("talk", chats, talk)
        self.body = _splitter("body", self.left, inspector)
        self.left.setStretchFactor(1, 1)
        self.body.setStretchFactor(0, TALK_SHARE)
        self.body.setStretchFactor(1, INSPECTOR_SHARE)
        self._bar_place = QVBoxLayout()
        self._bar_place.setContentsMargins(0, 0, 0, 0)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self._bar_place)
        column.addWidget(self.body, 1)
        for splitter in (self.left, self.body):
            splitter.splitterMoved.connect(self._keep_sizes)
        inspector.tab_changed.connect(self._tab_changed)
        self._restore()

    @property
    def kept(self) -> WindowPreferences:
        """The preferences of the window."""
        return self._preferences.value.window

    def keep(self, **fields: Any) -> None:
        """Change the preferences of the window."""
        self._preferences.update(window=structs.replace(self.kept, **fields))

    def show_tab(self, id: str) -> None:
        """A page of the inspector; the talk too, where it is a page in a narrow window."""
        if id != Inspector.TALK and not self._is_narrow:
            self._show(inspector_shown=True)
        self._inspector.show_tab(id)

    def show_chats(self) -> None:
        self._show(chats_shown=True)
        self.show_tab(Inspector.TALK)

    def toggle_chats(self) -> None:
        self._show(chats_shown=not self.kept.chats_shown)

    def toggle_inspector(self) -> None:
        if self._is_narrow:
            at_talk = self._inspector.tab == Inspector.TALK
            self.show_tab(self.kept.tab if at_talk else Inspector.TALK)
        else:
            self._show(inspector_shown=not self.kept.inspector_shown)

    def focus_next(self, step: int) -> None:
        """Give the keyboard to the next pane that can be seen."""
        seen = [pane for pane in self._order if pane.isVisible()]
        at = next((i for i, pane in enumerate(seen) if has_focus(pane)), -1 if step > 0 else 0)
        for further in range(1, len(seen) + 1):
            pane = seen[(at + step * further) % len(seen)]
            if focus_first(pane, Qt.FocusReason.ShortcutFocusReason):
                return

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        if self._narrow() != self._is_narrow:
            self._arrange()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS and self._narrow() != self._is_narrow:
            self._arrange()

    def _narrow(self) -> bool:
        """Whether one pane at a time is shown; larger text needs a wider window for two."""
        return self.width() < fonts.px(NARROW)

    def _arrange(self) -> None:
        narrow = self._narrow()
        if narrow != self._is_narrow:
            self._is_narrow = narrow
            self._inspector.show_talk_tab(narrow)
            if narrow:
                self._bar_place.addWidget(self._inspector.bar)
            else:
                self._inspector.take_bar()
        at_talk = self._inspector.tab == Inspector.TALK
        self._chats.setVisible(self.kept.chats_shown)
        self.left.setVisible(not narrow or at_talk)
        self._inspector.setVisible(not at_talk if narrow else self.kept.inspector_shown)
        self.changed.emit()

    def _show(self, **fields: bool) -> None:
        self.keep(**fields)
        self._arrange()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        if not self._sized:  # before, a splitter does not know its width
            self._sized = True
            QTimer.singleShot(0, self, self._restore_sizes)

    def _restore(self) -> None:
        self._inspector.show_tab(self.kept.tab)
        self._arrange()

    def _restore_sizes(self) -> None:
        talk = self.width() * TALK_SHARE // (TALK_SHARE + INSPECTOR_SHARE)
        for splitter, usual in (
            (self.body, [talk, self.width() - talk]),
            (self.left, [CHATS_WIDTH, max(talk - CHATS_WIDTH, 1)]),
        ):
            kept = self.kept.splitters.get(splitter.objectName(), [])
            splitter.setSizes(kept if len(kept) == splitter.count() else usual)

    def _keep_sizes(self) -> None:
        sizes = {s.objectName(): s.sizes() for s in (self.left, self.body)}
        self.keep(splitters={**self.kept.splitters, **sizes})

    def _tab_changed(self, id: str) -> None:
        if id != Inspector.TALK:
            self.keep(tab=id)
        self._arrange()


def _splitter(name: str, *parts: QWidget) -> QSplitter:
    splitter = QSplitter(Qt.Orientation.Horizontal)
    splitter.setObjectName(name)
    splitter.setHandleWidth(1)
    splitter.setChildrenCollapsible(False)
    for part in parts:
        splitter.addWidget(part)
    return splitter
