"""Chats, talk and inspector side by side: chats folded to icons in a window of middle width, one
pane behind the other in a narrow one.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import structs
from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from app.state.preferences import PreferencesState, WindowPreferences
from app.theme import fonts
from app.theme.tokens import (
    FOLDED,
    INSIDE_SHARE,
    INSPECTOR_SHARE,
    LEAST_INSIDE,
    LEAST_TALK,
    NARROW,
)
from app.widgets.basics import LOOKS
from app.widgets.focus import focus_first, has_focus
from app.window.panes.inspector import Inspector

CHATS_WIDTH = 208
ALL = 100
BALANCED, INSIDE, ALONE = "body", "body-inside", "talk-alone"


class Panes(QWidget):
    """What is shown and how wide it is, kept in the preferences; F6 goes round in `order`.

    Talk and inspector stand 42:58 (`BALANCED`), 25:75 (`INSIDE`) or the talk alone (`ALONE`).
    """

    changed = Signal()  # what is shown

    def __init__(
        self,
        preferences: PreferencesState,
        chats: QWidget,
        rail: QWidget,
        talk: QWidget,
        inspector: Inspector,
        order: Sequence[QWidget],
    ) -> None:
        super().__init__()
        self._preferences, self._chats, self._inspector = preferences, chats, inspector
        self._rail = rail
        self._unfolded = False  # the chats of a window that has room for icons only
        self._order = order
        self._is_narrow: bool | None = None
        self._is_folded = False
        self._sized = False
        self.left = _splitter("talk", chats, talk)
        self.body = _splitter("body", self.left, inspector)
        self.left.setStretchFactor(1, 1)
        self.body.setStretchFactor(0, ALL - INSPECTOR_SHARE)
        self.body.setStretchFactor(1, INSPECTOR_SHARE)
        self._bar_place = QVBoxLayout()
        self._bar_place.setContentsMargins(0, 0, 0, 0)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self._bar_place)
        row = QHBoxLayout()
        row.setSpacing(0)
        row.addWidget(rail)
        row.addWidget(self.body, 1)
        column.addLayout(row, 1)
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

    @property
    def arrangement(self) -> str:
        """BALANCED, INSIDE or ALONE."""
        if not self.kept.inspector_shown:
            return ALONE
        return INSIDE if self.kept.inspector_wide else BALANCED

    def show_tab(self, id: str) -> None:
        """A page of the inspector; the talk too, where it is a page in a narrow window."""
        if id != Inspector.TALK and not self._is_narrow and id not in self._inspector.windows:
            self._show(inspector_shown=True)
        self._inspector.show_tab(id)

    def show_chats(self) -> None:
        """The list of chats, whole."""
        self._unfolded = True
        self._show(chats_shown=True)
        self.show_tab(Inspector.TALK)

    def toggle_chats(self) -> None:
        """Hide or show the chats; where they are folded, unfold them or fold them again."""
        if self._is_folded and self.kept.chats_shown:
            self._unfolded = not self._unfolded
            self._arrange()
        else:
            self._show(chats_shown=not self.kept.chats_shown)

    def cycle(self) -> None:
        """From 42:58 to 25:75 to the talk alone; in a narrow window from the talk to the inspector
        and back.
        """
        if self._is_narrow:
            at_talk = self._inspector.tab == Inspector.TALK
            self.show_tab(self.kept.tab if at_talk else Inspector.TALK)
            return
        following = {BALANCED: INSIDE, INSIDE: ALONE, ALONE: BALANCED}[self.arrangement]
        self._show(inspector_shown=following != ALONE, inspector_wide=following == INSIDE)
        self._size_body()

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
        self._follow_width()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() in LOOKS:
            self._follow_width()

    def _follow_width(self) -> None:
        """One pane at a time, folded chats, or all: larger text needs a wider window for each."""
        narrow, folded = self._narrow(), self._folded()
        if (narrow, folded) != (self._is_narrow, self._is_folded):
            self._unfolded = False
            self._arrange()

    def _narrow(self) -> bool:
        return self.width() < fonts.px(NARROW)

    def _folded(self) -> bool:
        """Whether the left half has no room for chats beside the talk."""
        share = {BALANCED: ALL - INSPECTOR_SHARE, INSIDE: ALL - INSIDE_SHARE, ALONE: ALL}
        return self.width() * share[self.arrangement] / ALL < fonts.px(FOLDED)

    def _arrange(self) -> None:
        narrow, folded = self._narrow(), self._folded()
        self._is_folded = folded
        self.left.setMinimumWidth(0 if narrow else fonts.px(LEAST_TALK))
        self._inspector.setMinimumWidth(0 if narrow else fonts.px(LEAST_INSIDE))
        if narrow != self._is_narrow:
            self._is_narrow = narrow
            self._inspector.show_talk_tab(narrow)
            if narrow:
                self._bar_place.addWidget(self._inspector.bar)
            else:
                self._inspector.take_bar()
        at_talk = self._inspector.tab == Inspector.TALK
        talks, chats = not narrow or at_talk, self.kept.chats_shown
        self._chats.setVisible(chats and (not folded or self._unfolded))
        self._rail.setVisible(talks and chats and folded and not self._unfolded)
        self.left.setVisible(talks)
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
        self._size_body()
        talk = self.body.sizes()[0]
        kept = self.kept.splitters.get(self.left.objectName(), [])
        usual = [CHATS_WIDTH, max(talk - CHATS_WIDTH, 1)]
        self.left.setSizes(kept if len(kept) == self.left.count() else usual)

    def _size_body(self) -> None:
        """Talk and inspector as wide as they were when last arranged so, or as usual."""
        share = INSIDE_SHARE if self.arrangement == INSIDE else INSPECTOR_SHARE
        usual = [self.width() * part // ALL for part in (ALL - share, share)]
        kept = self.kept.splitters.get(self.arrangement, [])
        self.body.setSizes(kept if len(kept) == self.body.count() else usual)

    def _keep_sizes(self) -> None:
        sizes = {self.left.objectName(): self.left.sizes()}
        if self.arrangement != ALONE:
            sizes[self.arrangement] = self.body.sizes()
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
