"""Chats, talk and inspector side by side: the chat first, the inspector on demand, chats as icons
in a window of middle width, one pane at a time in a narrow one.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import structs
from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QSplitter, QWidget

from app.state.preferences import PreferencesState, WindowPreferences
from app.theme import fonts
from app.theme.tokens import (
    CHATS_WIDTH,
    CROWDED_TALK,
    INSIDE_SHARE,
    INSPECTOR_SHARE,
    LEAST_INSIDE,
    LEAST_TALK,
    LISTED,
    NARROW,
)
from app.widgets.basics import LOOKS
from app.widgets.focus import focus_first, has_focus
from app.widgets.layouts import hbox, vbox
from app.window.panes.inspector import Inspector

ALL = 100
BALANCED, INSIDE, ALONE = "body", "body-inside", "talk-alone"


class Panes(QWidget):
    """Visibility and widths of the panes, stored in the preferences; F6 goes round in `order`.

    Talk and inspector stand 42:58 (`BALANCED`), 25:75 (`INSIDE`) or the talk alone (`ALONE`), as
    at the first start. The talk keeps `LEAST_TALK` wherever the window has room for it.
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
        self._rail, self._talk = rail, talk
        self._unfolded = False  # the list is wanted for now, with room for it or without
        self._order = order
        self._is_narrow: bool | None = None
        self._turns = False  # to one pane at a time, or back
        self._has_room = True  # for the list of chats beside the others
        self._was_listed = False
        self._sized = False
        self.left = _splitter("talk", chats, talk)
        self.body = _splitter("body", self.left, inspector)
        self.left.setStretchFactor(1, 1)
        self.body.setStretchFactor(0, ALL - INSPECTOR_SHARE)
        self.body.setStretchFactor(1, INSPECTOR_SHARE)
        self._bar_place = vbox()
        row = hbox(rail, (self.body, 1), spacing=0)
        vbox(self._bar_place, (row, 1), on=self, spacing=0)
        for splitter in (self.left, self.body):
            splitter.splitterMoved.connect(self._keep_sizes)
        inspector.tab_changed.connect(self._tab_changed)
        inspector.close_wanted.connect(self.close_inspector)
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

    @property
    def inspects(self) -> bool:
        """True if the inspector is visible."""
        at_page = self._inspector.tab != Inspector.TALK
        return at_page if self._is_narrow else self.kept.inspector_shown

    @property
    def lists_chats(self) -> bool:
        """True if the chats are a list, not icons."""
        if self._unfolded or not self._has_room:
            return self._unfolded
        chosen = self.kept.chats_listed
        least = {ALONE: NARROW, BALANCED: LISTED}.get(self.arrangement)
        usual = least is not None and self.width() >= fonts.px(least)
        return usual if chosen is None else chosen

    def show_tab(self, id: str) -> None:
        """A page of the inspector; the talk too, where it is a page in a narrow window."""
        in_place = id != Inspector.TALK and id not in self._inspector.windows
        self._inspector.show_tab(id)  # before it is seen, else it would make the page of before
        if in_place and not self._is_narrow:
            self._open_inspector()

    def show_word(self) -> None:
        """Open the inspector at the word that was clicked, unless it is open. In a narrow window it
        takes the place of the talk, and the keyboard.
        """
        if not self.inspects:
            self.show_tab("token")
            if self._is_narrow:
                focus_first(self._inspector, Qt.FocusReason.OtherFocusReason)

    def toggle_inspector(self) -> None:
        """Open the inspector beside the chat, or close it."""
        if self.inspects:
            self.close_inspector()
        else:
            self.show_tab(self.kept.tab)

    def close_inspector(self) -> None:
        """The chat alone; in a narrow window the chat in place of the inspector."""
        if self._is_narrow:
            self.show_tab(Inspector.TALK)
        else:
            self._show(inspector_shown=False)

    def show_chats(self) -> None:
        """The list of chats, whole, until it is folded or the window changes."""
        self._unfolded = not self.lists_chats or self._unfolded
        self._arrange()
        self.show_tab(Inspector.TALK)

    def toggle_chats(self) -> None:
        """The chats as a list, or as icons."""
        listed = not self.lists_chats
        self._unfolded = listed and not self._has_room
        if self._has_room:
            self.keep(chats_listed=listed)
        self._arrange()

    def _open_inspector(self) -> None:
        if not self.kept.inspector_shown:
            self._show(inspector_shown=True)
            self._size_body()

    def cycle(self) -> None:
        """From 42:58 to 25:75 to the talk alone; in a narrow window from the talk to the inspector
        and back.
        """
        if self._is_narrow:
            self.show_tab(Inspector.TALK if self.inspects else self.kept.tab)
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
        """One pane at a time, chats as icons, or all: larger text needs a wider window for each."""
        if (self._narrow, self._roomy) != (self._is_narrow, self._has_room):
            self._unfolded = False
            self._arrange()
        elif self.lists_chats != self._was_listed:
            self._arrange()

    @property
    def _narrow(self) -> bool:
        return self.width() < fonts.px(NARROW)

    @property
    def _roomy(self) -> bool:
        """Return whether the chat list fits next to the other open panes."""
        inside = LEAST_INSIDE if self.kept.inspector_shown and not self._narrow else 0
        return self.width() >= fonts.px(CHATS_WIDTH + LEAST_TALK + inside)

    def _arrange(self) -> None:
        narrow, self._has_room = self._narrow, self._roomy
        if narrow != self._is_narrow:
            self._turns = True
            self._turn(narrow)
            self._turns = False
        listed = self._was_listed = self.lists_chats
        talks = not narrow or not self.inspects
        least = LEAST_TALK if self._has_room or not listed else CROWDED_TALK
        self._talk.setMinimumWidth(0 if narrow else fonts.px(least))
        self._inspector.setMinimumWidth(0 if narrow else fonts.px(LEAST_INSIDE))
        self._chats.setVisible(listed)
        self._rail.setVisible(talks and not listed)
        self.left.setVisible(talks)
        self._inspector.setVisible(self.inspects)
        self._inspector.fill()
        self.changed.emit()

    def _turn(self, narrow: bool) -> None:
        """To one pane at a time, or back; what a person was looking at stays in sight."""
        page, looked_at, inspector = self.kept.tab, self.inspects, self._inspector
        first, self._is_narrow = self._is_narrow is None, narrow
        inspector.show_talk_tab(narrow)
        if narrow:
            self._bar_place.addWidget(inspector.bar)
            inspector.show_tab(page if has_focus(inspector) else Inspector.TALK)
        else:
            inspector.take_bar()
            inspector.show_tab(page)
            if looked_at and not first:
                self.keep(inspector_shown=True)

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
        least = fonts.px(LEAST_TALK + (CHATS_WIDTH if self.lists_chats else 0))
        left = max(self.width() * (ALL - share) // ALL, least)
        usual = [left, max(self.width() - left, 1)]
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
        if not self._turns:  # else it arranges all at its end
            self._arrange()


def _splitter(name: str, *parts: QWidget) -> QSplitter:
    splitter = QSplitter(Qt.Orientation.Horizontal)
    splitter.setObjectName(name)
    splitter.setHandleWidth(1)
    splitter.setChildrenCollapsible(False)
    for part in parts:
        splitter.addWidget(part)
    return splitter
