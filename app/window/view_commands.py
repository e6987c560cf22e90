"""The commands of the View menu (pages of the inspector, panes, the selection) and of the Layers
page.
"""

from collections.abc import Callable

from app.language import tr
from app.views.layers.layers import LayersView
from app.views.memory.memory import Page
from app.widgets.commands import Command
from app.window.desk import (
    Desk,
    compare_with_host,
    copy_picture,
    follow_link,
    memory_page,
    put_in_window,
    record_answer,
    save_report,
    tabled,
)
from app.window.panes.inspector import Inspector
from app.window.panes.pages import PAGES, InspectorPage


def _page(page: InspectorPage) -> Command[Desk]:
    return Command(
        id=f"view.{page.id}",
        title=page.title,
        run=lambda w: w.panes.show_tab(page.id),
        menu="View",
        key=page.key,
    )


def _shows_table(w: Desk) -> bool:
    none = w.inspector.tab == Inspector.TALK and not w.inspector.has_made("memory")
    return not none and tabled(w).as_table


def _memory_shows(w: Desk, page: Page) -> bool:
    return w.inspector.has_made("memory") and w.inspector.memory.page == page


VIEW: tuple[Command[Desk], ...] = (
    Command(
        id="view.palette",
        title=tr("Every command…"),
        words="help shortcuts keys command palette",
        run=lambda w: w.sheets.show_palette(),
        menu="View",
        key="Ctrl+Shift+P",
        icon="search",
    ),
    Command(
        id="view.chats",
        title=tr("Chats"),
        words="sidebar history list hide show",
        run=lambda w: w.panes.toggle_chats(),
        menu="View",
        key="Ctrl+B",
        icon="panel-left",
        checked=lambda w: w.panes.lists_chats,
    ),
    Command(
        id="view.inside",
        title=tr("Inspector"),
        run=lambda w: w.panes.toggle_inspector(),
        menu="View",
        icon="panel-right",
        checked=lambda w: w.panes.inspects,
    ),
    Command(
        id="view.inspector",
        title=tr("Cycle layout: balanced, wide inspector, chat only"),
        words="layout panes split sidebar hide show inside",
        run=lambda w: w.panes.cycle(),
        menu="View",
        key="Ctrl+J",
        icon="panel-right",
    ),
    Command(
        id="view.log",
        title=tr("Log"),
        words="errors messages console debug",
        run=lambda w: w.drawer.toggle(),
        menu="View",
        key="Ctrl+Shift+J",
        checked=lambda w: w.drawer.is_open,
    ),
    Command(
        id="view.own_window",
        title=tr("Open this view in its own window"),
        words="detach pop out separate",
        run=put_in_window,
        menu="View",
        key="Ctrl+Shift+N",
        icon="window",
        enabled=lambda w: bool(w.inspector.front),
    ),
    Command(
        id="view.copy_picture",
        title=tr("Copy this view as a picture"),
        words="screenshot image clipboard",
        run=copy_picture,
        menu="View",
        key="Ctrl+Alt+C",
        icon="camera",
        enabled=lambda w: bool(w.inspector.front),
    ),
    Command(
        id="view.save_report",
        title=tr("Save a report of this view…"),
        words="export screenshot",
        run=save_report,
        menu="View",
        key="Ctrl+Alt+S",
        icon="download",
        enabled=lambda w: bool(w.inspector.front),
    ),
    *(_page(page) for page in PAGES),
    Command(
        id="view.table",
        title=tr("Charts as tables"),
        words="numbers text accessible",
        run=lambda w: tabled(w).toggle_table(),
        menu="View",
        key="Ctrl+T",
        icon="table",
        checked=_shows_table,
    ),
    Command(
        id="view.allocations",
        title=tr("Allocations over time"),
        run=memory_page("timeline"),
        menu="View",
        key="Ctrl+Shift+T",
        icon="chart",
        checked=lambda w: _memory_shows(w, "timeline"),
    ),
    Command(
        id="view.splits",
        title=tr("Splits of a token"),
        run=memory_page("splits"),
        menu="View",
        key="Ctrl+Shift+L",
        checked=lambda w: _memory_shows(w, "splits"),
    ),
    Command(
        id="view.record",
        title=tr("Record the next answer"),
        words="profile profiler trace timing start stop recording",
        run=record_answer,
        menu="View",
        icon="chart",
        enabled=lambda w: w.bench.session.model is not None,
        checked=lambda w: w.bench.profile.recording,
    ),
    Command(
        id="view.compare",
        title=tr("Compare each operation with the host"),
        words="check difference errors cpu",
        run=compare_with_host,
        menu="View",
        enabled=lambda w: w.bench.comparison.can_start,
    ),
    Command(
        id="view.next_pane",
        title=tr("Next pane"),
        words="focus switch",
        run=lambda w: w.panes.focus_next(1),
        menu="View",
        key="F6",
    ),
    Command(
        id="view.previous_pane",
        title=tr("Previous pane"),
        words="focus switch",
        run=lambda w: w.panes.focus_next(-1),
        menu="View",
        key="Shift+F6",
    ),
    Command(
        id="view.back",
        title=tr("Previous selection"),
        words="undo previous history",
        run=lambda w: w.bench.selection.back(),
        menu="View",
        key="Alt+Left",
        enabled=lambda w: w.bench.selection.has_past,
    ),
    Command(
        id="view.forward",
        title=tr("Next selection"),
        words="redo next history",
        run=lambda w: w.bench.selection.forward(),
        menu="View",
        key="Alt+Right",
        enabled=lambda w: w.bench.selection.has_future,
    ),
    Command(
        id="view.copy_selection",
        title=tr("Copy the selection as text"),
        run=lambda w: w.inspector.selection.copy(),
        menu="View",
        enabled=lambda w: bool(w.inspector.selection.text),
    ),
    Command(
        id="view.copy_link",
        title=tr("Copy a link to the selection"),
        run=lambda w: w.inspector.selection.copy_link(),
        menu="View",
        icon="link",
        enabled=lambda w: w.inspector.selection.is_selected,
    ),
    Command(
        id="view.follow_link",
        title=tr("Open the link on the clipboard"),
        run=follow_link,
        menu="View",
        key="Ctrl+Shift+G",
    ),
    Command(
        id="view.select_nothing",
        title=tr("Clear the selection"),
        words="clear deselect unselect",
        run=lambda w: w.bench.selection.clear(),
        menu="View",
        enabled=lambda w: w.inspector.selection.is_selected,
    ),
)


PAGE = "layers"


def _is_shown(w: Desk) -> bool:
    return w.inspector.tab == PAGE


def _command(
    id: str,
    title: str,
    run: Callable[[LayersView], object],
    enabled: Callable[[LayersView], bool],
    icon: str = "",
) -> Command[Desk]:
    return Command(
        id=f"layers.{id}",
        title=title,
        run=lambda w: run(w.inspector.view(LayersView)),
        menu="Layers",
        icon=icon,
        enabled=lambda w: _is_shown(w) and enabled(w.inspector.view(LayersView)),
    )


def _has_lanes(view: LayersView) -> bool:
    return bool(view.state.lanes())


LAYERS: tuple[Command[Desk], ...] = (
    _command(
        "undo", tr("Undo the move"), lambda v: v.state.undo(), lambda v: v.state.can_undo, "undo"
    ),
    _command(
        "redo", tr("Redo the move"), lambda v: v.state.redo(), lambda v: v.state.can_redo, "redo"
    ),
    _command(
        "automatic",
        tr("Automatic placement"),
        lambda v: v.state.automatic(),
        lambda v: _has_lanes(v) and not v.state.is_automatic,
        "restart",
    ),
    _command("down", tr("Move to the next device"), lambda v: v.chart.move_taken(1), _has_lanes),
    _command("up", tr("Move to the previous device"), lambda v: v.chart.move_taken(-1), _has_lanes),
    _command(
        "boundary_on",
        tr("Move the boundary one layer down"),
        lambda v: v.chart.move_boundary(1),
        _has_lanes,
    ),
    _command(
        "boundary_back",
        tr("Move the boundary one layer up"),
        lambda v: v.chart.move_boundary(-1),
        _has_lanes,
    ),
    _command("open", tr("Open the layer"), lambda v: v.chart.open(), _has_lanes),
    _command(
        "row", tr("Select all layers of the device"), lambda v: v.chart.choose_row(), _has_lanes
    ),
    _command("measure", tr("Measure device speed"), lambda v: v.state.measure(True), _has_lanes),
    _command(
        "rule", tr("Type a placement rule"), lambda v: v.rule.field.setFocus(), _has_lanes, "edit"
    ),
    _command("place", tr("Copy as --place"), lambda v: v.rule.copy_place(), _has_lanes, "copy"),
    _command(
        "llama_cpp", tr("Copy for llama.cpp"), lambda v: v.rule.copy_llama_cpp(), _has_lanes, "copy"
    ),
    _command(
        "apply",
        tr("Apply the placement"),
        lambda v: v.state.apply(),
        lambda v: not v.state.blocked(),
        "check",
    ),
)
