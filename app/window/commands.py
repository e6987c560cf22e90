"""The table of commands; menus, shortcuts and the palette are made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu

from app.theme.icons import icon

if TYPE_CHECKING:
    from app.window.main_window import MainWindow

Menu = str
MENUS: tuple[Menu, ...] = ("Model", "Chat", "View", "Window")


def always(window: MainWindow) -> bool:
    """A command that can be run at any time."""
    return True


@dataclass(frozen=True)
class Command:
    """`checked` makes it a switch. Commands without a menu are for the palette and keys alone."""

    id: str
    title: str
    run: Callable[[MainWindow], object]
    menu: Menu = ""
    key: str = ""
    icon: str = ""
    enabled: Callable[[MainWindow], bool] = always
    checked: Callable[[MainWindow], bool] | None = None


def _has_model(w: MainWindow) -> bool:
    return w.bench.session.model is not None


def _has_chat(w: MainWindow) -> bool:
    return w.bench.chat.chat_id is not None


def _theme(choice: str, title: str) -> Command:
    return Command(
        f"theme.{choice}",
        f"Theme: {title}",
        lambda w: w.bench.preferences.update(theme=choice),
        checked=lambda w: w.bench.preferences.value.theme == choice,
    )


COMMANDS: tuple[Command, ...] = (
    Command(
        "model.open", "Choose a model…", lambda w: w.choose_model(), "Model", "Ctrl+O", "model"
    ),
    Command(
        "model.open_file",
        "Open a GGUF file…",
        lambda w: w.open_file(),
        "Model",
        "Ctrl+Shift+O",
        "folder",
    ),
    Command("model.get", "Get SmolLM2", lambda w: w.get_model(), "Model", "", "download"),
    Command(
        "model.unload",
        "Unload the model",
        lambda w: w.bench.session.unload(),
        "Model",
        "",
        "eject",
        lambda w: w.bench.session.status in ("ready", "answering"),
    ),
    Command(
        "model.cancel_load",
        "Cancel loading",
        lambda w: w.bench.session.cancel_load(),
        "Model",
        "",
        "close",
        lambda w: w.bench.session.status == "loading",
    ),
    Command(
        "engine.restart",
        "Restart the engine",
        lambda w: w.bench.session.restart(),
        "Model",
        "",
        "restart",
        lambda w: w.bench.session.path is not None,
    ),
    Command(
        "engine.restart_less",
        "Restart with half the context",
        lambda w: w.bench.session.restart(less=True),
        "Model",
        "",
        "restart",
        lambda w: w.bench.session.path is not None,
    ),
    Command("chat.new", "New chat", lambda w: w.new_chat(), "Chat", "Ctrl+N", "plus"),
    Command("chat.search", "Search chats", lambda w: w.search_chats(), "Chat", "Ctrl+K", "search"),
    Command(
        "chat.stop",
        "Stop the answer",
        lambda w: w.bench.chat.stop(),
        "Chat",
        "Esc",
        "stop",
        lambda w: w.bench.chat.busy,
    ),
    Command(
        "chat.regenerate",
        "Regenerate",
        lambda w: w.chat.regenerate_last(),
        "Chat",
        "Ctrl+R",
        "retry",
        lambda w: w.bench.session.model is not None and bool(w.bench.chat.path),
    ),
    Command(
        "chat.edit_last",
        "Edit the last question",
        lambda w: w.chat.edit_last(),
        "Chat",
        "",
        "edit",
        lambda w: bool(w.bench.chat.path),
    ),
    Command(
        "chat.copy_last",
        "Copy the last answer",
        lambda w: w.chat.copy_last(),
        "Chat",
        "Ctrl+Shift+C",
        "copy",
        lambda w: bool(w.bench.chat.path),
    ),
    Command(
        "chat.probabilities",
        "Token probabilities",
        lambda w: w.chat.toggle_probabilities(),
        "Chat",
        "Ctrl+P",
        "probability",
        checked=lambda w: w.bench.preferences.value.probabilities_shown,
    ),
    Command(
        "chat.sampling",
        "Sampling and system prompt…",
        lambda w: w.composer.show_sampling(),
        "Chat",
        "Ctrl+Shift+S",
        "settings",
        _has_model,
    ),
    Command(
        "chat.rename",
        "Rename the chat…",
        lambda w: w.chats.rename_current(),
        "Chat",
        "F2",
        "edit",
        _has_chat,
    ),
    Command(
        "chat.duplicate",
        "Duplicate the chat",
        lambda w: w.chats.duplicate_current(),
        "Chat",
        "",
        "copy",
        _has_chat,
    ),
    Command(
        "chat.export",
        "Export the chat…",
        lambda w: w.chats.export_current(),
        "Chat",
        "Ctrl+Shift+E",
        "upload",
        _has_chat,
    ),
    Command(
        "chat.import",
        "Import a chat…",
        lambda w: w.chats.import_file(),
        "Chat",
        "Ctrl+Shift+I",
        "download",
    ),
    Command(
        "chat.delete",
        "Delete the chat",
        lambda w: w.chats.delete_current(),
        "Chat",
        "",
        "trash",
        _has_chat,
    ),
    Command(
        "chat.undo_delete",
        "Bring back the chat deleted last",
        lambda w: w.chats.undo_delete(),
        "Chat",
        "",
        "undo",
    ),
    Command(
        "view.palette",
        "Every command…",
        lambda w: w.show_palette(),
        "View",
        "Ctrl+Shift+P",
        "search",
    ),
    Command(
        "view.chats",
        "Chats",
        lambda w: w.panes.toggle_chats(),
        "View",
        "Ctrl+B",
        "panel-left",
        checked=lambda w: w.bench.preferences.value.window.chats_shown,
    ),
    Command(
        "view.inspector",
        "Inspector",
        lambda w: w.panes.toggle_inspector(),
        "View",
        "Ctrl+J",
        "panel-right",
        checked=lambda w: w.bench.preferences.value.window.inspector_shown,
    ),
    Command("view.memory", "Memory", lambda w: w.panes.show_tab("memory"), "View", "Ctrl+1"),
    Command("view.model", "Model", lambda w: w.panes.show_tab("model"), "View", "Ctrl+2"),
    Command("view.log", "Log", lambda w: w.panes.show_tab("log"), "View", "Ctrl+3"),
    Command(
        "view.table",
        "Charts as tables",
        lambda w: w.memory.toggle_table(),
        "View",
        "Ctrl+T",
        "table",
        checked=lambda w: w.memory.as_table,
    ),
    Command(
        "view.allocations",
        "Allocations over time",
        lambda w: w.show_memory("timeline"),
        "View",
        "Ctrl+Shift+T",
        "chart",
        checked=lambda w: w.memory.page == "timeline",
    ),
    Command(
        "view.splits",
        "Splits of a token",
        lambda w: w.show_memory("splits"),
        "View",
        "Ctrl+Shift+L",
        checked=lambda w: w.memory.page == "splits",
    ),
    Command("view.next_pane", "Next pane", lambda w: w.next_pane(1), "View", "F6"),
    Command("view.previous_pane", "Previous pane", lambda w: w.next_pane(-1), "View", "Shift+F6"),
    Command("view.back", "Back", lambda w: w.bench.selection.back(), "View", "Alt+Left"),
    Command("view.forward", "Forward", lambda w: w.bench.selection.forward(), "View", "Alt+Right"),
    Command("text.larger", "Larger text", lambda w: w.scale_text(1.1), "Window", "Ctrl++"),
    Command("text.smaller", "Smaller text", lambda w: w.scale_text(1 / 1.1), "Window", "Ctrl+-"),
    Command("text.normal", "Normal text", lambda w: w.scale_text(0), "Window", "Ctrl+0"),
    _theme("system", "as the system"),
    _theme("light", "light"),
    _theme("dark", "dark"),
    _theme("contrast", "high contrast"),
    Command(
        "app.preferences",
        "Preferences…",
        lambda w: w.show_preferences(),
        "Window",
        "Ctrl+,",
        "settings",
    ),
    Command("app.quit", "Quit", lambda w: w.close(), "Window", "Ctrl+Q", "close"),
)


class Actions(QObject):
    """The commands as the window's QActions, with what is possible now kept up to date."""

    def __init__(self, window: MainWindow, commands: tuple[Command, ...] = COMMANDS) -> None:
        super().__init__(window)
        self._window = window
        self.commands = {command.id: command for command in commands}
        self._made = {command.id: self._make(command) for command in commands}
        self.retint()

    def __getitem__(self, command: str) -> QAction:
        return self._made[command]

    def run(self, command: str) -> None:
        """Run it if it is possible now."""
        self.refresh()
        self._made[command].trigger()

    def refresh(self) -> None:
        """What is possible, and which switches are on."""
        for id, action in self._made.items():
            command = self.commands[id]
            action.setEnabled(command.enabled(self._window))
            if command.checked is not None:
                action.setChecked(command.checked(self._window))

    def retint(self) -> None:
        """Pictures in the colours of the theme."""
        for id, action in self._made.items():
            if self.commands[id].icon:
                action.setIcon(icon(self.commands[id].icon, "quiet"))

    def menu(self) -> QMenu:
        """One menu with all that have a place in one."""
        menu = QMenu(self._window)
        for title in MENUS:
            part = menu.addMenu(title)
            for id, command in self.commands.items():
                if command.menu == title:
                    part.addAction(self._made[id])
        menu.aboutToShow.connect(self.refresh)
        return menu

    def _make(self, command: Command) -> QAction:
        action = QAction(command.title, self._window)
        if command.key:
            action.setShortcut(QKeySequence(command.key))
            action.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
        action.setCheckable(command.checked is not None)
        action.triggered.connect(lambda: self._run(command))
        self._window.addAction(action)
        return action

    def _run(self, command: Command) -> None:
        command.run(self._window)
        self.refresh()
