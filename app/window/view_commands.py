"""The commands of the View menu: pages of the inspector, panes, and the selection."""

from app.widgets.commands import Command
from app.window.desk import Desk, copy_picture, follow_link, memory_page, put_in_window, tabled
from app.window.panes.pages import PAGES, InspectorPage


def _page(page: InspectorPage) -> Command[Desk]:
    return Command(
        id=f"view.{page.id}",
        title=page.title,
        run=lambda w: w.panes.show_tab(page.id),
        menu="View",
        key=page.key,
    )


VIEW: tuple[Command[Desk], ...] = (
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
        title="Chat and inspector: 42:58, 25:75, chat alone",
        run=lambda w: w.panes.cycle(),
        menu="View",
        key="Ctrl+J",
        icon="panel-right",
    ),
    Command(
        id="view.log",
        title="Log",
        run=lambda w: w.drawer.toggle(),
        menu="View",
        key="Ctrl+Shift+J",
        checked=lambda w: w.drawer.is_open,
    ),
    Command(
        id="view.own_window",
        title="This view in a window of its own",
        run=put_in_window,
        menu="View",
        key="Ctrl+Shift+N",
        icon="window",
        enabled=lambda w: bool(w.inspector.front),
    ),
    Command(
        id="view.copy_picture",
        title="Copy this view as a picture",
        run=copy_picture,
        menu="View",
        key="Ctrl+Alt+C",
        icon="camera",
        enabled=lambda w: bool(w.inspector.front),
    ),
    *(_page(page) for page in PAGES),
    Command(
        id="view.table",
        title="Charts as tables",
        run=lambda w: tabled(w).toggle_table(),
        menu="View",
        key="Ctrl+T",
        icon="table",
        checked=lambda w: tabled(w).as_table,
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
        id="view.copy_link",
        title="Copy a link to the selection",
        run=lambda w: w.inspector.selection.copy_link(),
        menu="View",
        icon="link",
        enabled=lambda w: bool(w.inspector.selection.text),
    ),
    Command(
        id="view.follow_link",
        title="Go to the link on the clipboard",
        run=follow_link,
        menu="View",
        key="Ctrl+Shift+G",
    ),
    Command(
        id="view.select_nothing",
        title="Select nothing",
        run=lambda w: w.bench.selection.clear(),
        menu="View",
        enabled=lambda w: bool(w.inspector.selection.text),
    ),
)
