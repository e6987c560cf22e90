"""The table of commands; menus, shortcuts and the palette are made from it."""

from app.widgets.commands import Command
from app.window.desk import Desk, memory_page, new_chat, search_chats

MENUS = ("Model", "Chat", "View", "Window")


def _has_model(w: Desk) -> bool:
    return w.bench.session.model is not None


def _has_path(w: Desk) -> bool:
    return w.bench.session.path is not None


def _has_chat(w: Desk) -> bool:
    return w.bench.chat.chat_id is not None


def _has_messages(w: Desk) -> bool:
    return bool(w.bench.chat.path)


def _theme(choice: str, title: str) -> Command[Desk]:
    return Command(
        id=f"theme.{choice}",
        title=f"Theme: {title}",
        run=lambda w: w.bench.preferences.update(theme=choice),
        checked=lambda w: w.bench.preferences.value.theme == choice,
    )


COMMANDS: tuple[Command[Desk], ...] = (
    Command(
        id="model.open",
        title="Choose a model…",
        run=lambda w: w.sheets.show_chooser(),
        menu="Model",
        key="Ctrl+O",
        icon="model",
    ),
    Command(
        id="model.open_file",
        title="Open a GGUF file…",
        run=lambda w: w.opener.choose_file(),
        menu="Model",
        key="Ctrl+Shift+O",
        icon="folder",
    ),
    Command(
        id="model.get",
        title="Download SmolLM2",
        run=lambda w: w.opener.get(),
        menu="Model",
        icon="download",
    ),
    Command(
        id="model.unload",
        title="Unload the model",
        run=lambda w: w.bench.session.unload(),
        menu="Model",
        icon="eject",
        enabled=lambda w: w.bench.session.status in ("ready", "answering"),
    ),
    Command(
        id="model.cancel_load",
        title="Cancel loading",
        run=lambda w: w.bench.session.cancel_load(),
        menu="Model",
        icon="close",
        enabled=lambda w: w.bench.session.status == "loading",
    ),
    Command(
        id="engine.restart",
        title="Restart the engine",
        run=lambda w: w.bench.session.restart(),
        menu="Model",
        icon="restart",
        enabled=_has_path,
    ),
    Command(
        id="engine.restart_less",
        title="Restart with half the context",
        run=lambda w: w.bench.session.restart(less=True),
        menu="Model",
        icon="restart",
        enabled=_has_path,
    ),
    Command(id="chat.new", title="New chat", run=new_chat, menu="Chat", key="Ctrl+N", icon="plus"),
    Command(
        id="chat.search",
        title="Search chats",
        run=search_chats,
        menu="Chat",
        key="Ctrl+K",
        icon="search",
    ),
    Command(
        id="chat.stop",
        title="Stop the answer",
        run=lambda w: w.bench.chat.stop(),
        menu="Chat",
        key="Esc",
        icon="stop",
        enabled=lambda w: w.bench.chat.busy,
    ),
    Command(
        id="chat.regenerate",
        title="Regenerate",
        run=lambda w: w.talk.chat.regenerate_last(),
        menu="Chat",
        key="Ctrl+R",
        icon="retry",
        enabled=lambda w: _has_model(w) and _has_messages(w),
    ),
    Command(
        id="chat.edit_last",
        title="Edit the last question",
        run=lambda w: w.talk.chat.edit_last(),
        menu="Chat",
        icon="edit",
        enabled=_has_messages,
    ),
    Command(
        id="chat.copy_last",
        title="Copy the last answer",
        run=lambda w: w.talk.chat.copy_last(),
        menu="Chat",
        key="Ctrl+Shift+C",
        icon="copy",
        enabled=_has_messages,
    ),
    Command(
        id="chat.probabilities",
        title="Token probabilities",
        run=lambda w: w.talk.chat.toggle_probabilities(),
        menu="Chat",
        key="Ctrl+P",
        icon="probability",
        checked=lambda w: w.talk.chat.paints_tokens,
    ),
    Command(
        id="chat.sampling",
        title="Sampling and system prompt…",
        run=lambda w: w.talk.composer.show_sampling(),
        menu="Chat",
        key="Ctrl+Shift+S",
        icon="sliders",
        enabled=_has_model,
    ),
    Command(
        id="chat.prompt",
        title="Prompt with the chat template…",
        run=lambda w: w.sheets.show_prompt(),
        menu="Chat",
        icon="info",
        enabled=_has_model,
    ),
    Command(
        id="chat.rename",
        title="Rename the chat…",
        run=lambda w: w.chats.rename_current(),
        menu="Chat",
        key="F2",
        icon="edit",
        enabled=_has_chat,
    ),
    Command(
        id="chat.duplicate",
        title="Duplicate the chat",
        run=lambda w: w.chats.duplicate_current(),
        menu="Chat",
        icon="copy",
        enabled=_has_chat,
    ),
    Command(
        id="chat.export",
        title="Export the chat…",
        run=lambda w: w.chats.export_current(),
        menu="Chat",
        key="Ctrl+Shift+E",
        icon="upload",
        enabled=_has_chat,
    ),
    Command(
        id="chat.import",
        title="Import a chat…",
        run=lambda w: w.chats.import_file(),
        menu="Chat",
        key="Ctrl+Shift+I",
        icon="download",
    ),
    Command(
        id="chat.delete",
        title="Delete the chat",
        run=lambda w: w.chats.delete_current(),
        menu="Chat",
        icon="trash",
        enabled=_has_chat,
    ),
    Command(
        id="chat.undo_delete",
        title="Bring back the chat deleted last",
        run=lambda w: w.chats.undo_delete(),
        menu="Chat",
        icon="undo",
    ),
    Command(
        id="view.palette",
        title="Every command…",
        run=lambda w: w.sheets.show_palette(),
        menu="View",
        key="Ctrl+Shift+P",
        icon="search",
    ),
    Command(
        id="view.chats",
        title="Chats",
        run=lambda w: w.panes.toggle_chats(),
        menu="View",
        key="Ctrl+B",
        icon="panel-left",
        checked=lambda w: w.panes.kept.chats_shown,
    ),
    Command(
        id="view.inspector",
        title="Inspector",
        run=lambda w: w.panes.toggle_inspector(),
        menu="View",
        key="Ctrl+J",
        icon="panel-right",
        checked=lambda w: w.panes.kept.inspector_shown,
    ),
    Command(
        id="view.memory",
        title="Memory",
        run=lambda w: w.panes.show_tab("memory"),
        menu="View",
        key="Ctrl+1",
    ),
    Command(
        id="view.model",
        title="Model",
        run=lambda w: w.panes.show_tab("model"),
        menu="View",
        key="Ctrl+2",
    ),
    Command(
        id="view.log", title="Log", run=lambda w: w.panes.show_tab("log"), menu="View", key="Ctrl+3"
    ),
    Command(
        id="view.table",
        title="Charts as tables",
        run=lambda w: w.inspector.memory.toggle_table(),
        menu="View",
        key="Ctrl+T",
        icon="table",
        checked=lambda w: w.inspector.memory.as_table,
    ),
    Command(
        id="view.allocations",
        title="Allocations over time",
        run=memory_page("timeline"),
        menu="View",
        key="Ctrl+Shift+T",
        icon="chart",
        checked=lambda w: w.inspector.memory.page == "timeline",
    ),
    Command(
        id="view.splits",
        title="Splits of a token",
        run=memory_page("splits"),
        menu="View",
        key="Ctrl+Shift+L",
        checked=lambda w: w.inspector.memory.page == "splits",
    ),
    Command(
        id="view.next_pane",
        title="Next pane",
        run=lambda w: w.panes.focus_next(1),
        menu="View",
        key="F6",
    ),
    Command(
        id="view.previous_pane",
        title="Previous pane",
        run=lambda w: w.panes.focus_next(-1),
        menu="View",
        key="Shift+F6",
    ),
    Command(
        id="view.back",
        title="Back to the selection before",
        run=lambda w: w.bench.selection.back(),
        menu="View",
        key="Alt+Left",
        enabled=lambda w: w.bench.selection.has_past,
    ),
    Command(
        id="view.forward",
        title="Forward to the next selection",
        run=lambda w: w.bench.selection.forward(),
        menu="View",
        key="Alt+Right",
        enabled=lambda w: w.bench.selection.has_future,
    ),
    Command(
        id="view.copy_selection",
        title="Copy the selection as text",
        run=lambda w: w.inspector.selection.copy(),
        menu="View",
        enabled=lambda w: bool(w.inspector.selection.text),
    ),
    Command(
        id="view.select_nothing",
        title="Select nothing",
        run=lambda w: w.bench.selection.clear(),
        menu="View",
        enabled=lambda w: bool(w.inspector.selection.text),
    ),
    Command(
        id="text.larger",
        title="Larger text",
        run=lambda w: w.looks.scale(1.1),
        menu="Window",
        key="Ctrl++",
    ),
    Command(
        id="text.smaller",
        title="Smaller text",
        run=lambda w: w.looks.scale(1 / 1.1),
        menu="Window",
        key="Ctrl+-",
    ),
    Command(
        id="text.normal",
        title="Normal text",
        run=lambda w: w.looks.scale(0),
        menu="Window",
        key="Ctrl+0",
    ),
    _theme("system", "match system"),
    _theme("light", "light"),
    _theme("dark", "dark"),
    _theme("contrast", "high contrast"),
    Command(
        id="app.preferences",
        title="Preferences…",
        run=lambda w: w.sheets.show_preferences(),
        menu="Window",
        key="Ctrl+,",
        icon="settings",
    ),
    Command(
        id="app.quit",
        title="Quit",
        run=lambda w: w.close(),
        menu="Window",
        key="Ctrl+Q",
        icon="close",
    ),
)
