"""Commands: what can be run by menu, key and palette, and their QActions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

from app.language import tr
from app.theme.icons import icon

On = TypeVar("On")


def always(on: object) -> bool:
    """A command that can be run at any time."""
    return True


@dataclass(frozen=True, kw_only=True)
class Command(Generic[On]):
    """`run`, `enabled` and `checked` are given what the command acts on; `checked` makes it a
    switch. Commands without a menu are for the palette and keys alone. `words` are others that
    people look for it by.
    """

    id: str
    title: str
    run: Callable[[On], object]
    menu: str = ""
    key: str = ""
    icon: str = ""
    words: str = ""
    enabled: Callable[[On], bool] = always
    checked: Callable[[On], bool] | None = None


class Actions(QObject, Generic[On]):
    """Commands as QActions of a window, with what is possible now kept up to date."""

    def __init__(self, window: QWidget, on: On, commands: Sequence[Command[On]]) -> None:
        super().__init__(window)
        self._window, self._on = window, on
        self.commands = {command.id: command for command in commands}
        self._actions = {command.id: self._action(command) for command in commands}
        self.retint()

    def __getitem__(self, command: str) -> QAction:
        return self._actions[command]

    def possible(self) -> list[Command[On]]:
        """The commands that can be run now, in the table's order."""
        self.refresh()
        return [c for id, c in self.commands.items() if self._actions[id].isEnabled()]

    def is_possible(self, command: str) -> bool:
        """Return whether a command was enabled at the last refresh."""
        return self._actions[command].isEnabled()

    def run(self, command: str) -> None:
        """Run it if it is possible now."""
        self.refresh()
        self._actions[command].trigger()

    def refresh(self) -> None:
        """Update which commands are enabled and which switches are on."""
        for id, action in self._actions.items():
            command = self.commands[id]
            action.setEnabled(command.enabled(self._on))
            if command.checked is not None:
                action.setChecked(command.checked(self._on))

    def retint(self) -> None:
        """Pictures in the colours of the theme."""
        for id, action in self._actions.items():
            if self.commands[id].icon:
                action.setIcon(icon(self.commands[id].icon, "quiet"))

    def menu(self, titles: Sequence[str]) -> QMenu:
        """A menu with a part for each title."""
        menu = QMenu(self._window)
        for title in titles:
            part = menu.addMenu(tr(title))
            for id, command in self.commands.items():
                if command.menu == title:
                    part.addAction(self._actions[id])
        menu.aboutToShow.connect(self.refresh)
        return menu

    def _action(self, command: Command[On]) -> QAction:
        action = QAction(command.title, self._window)
        if command.key:
            action.setShortcut(QKeySequence(command.key))
            action.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
        action.setCheckable(command.checked is not None)
        action.triggered.connect(lambda: self._run(command))
        self._window.addAction(action)
        return action

    def _run(self, command: Command[On]) -> None:
        command.run(self._on)
        self.refresh()
