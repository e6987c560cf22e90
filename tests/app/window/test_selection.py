"""The one selection through the whole window: each view sets it, each other view shows it."""

import pytest
from PySide6.QtCore import QModelIndex, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractItemView, QApplication

from app.state.selection import Selected
from app.theme.tokens import GRID
from app.views.models.model import ModelView
from app.views.tensors.tensors import TensorsView
from app.widgets.lists.table import Table
from app.window.main_window import MainWindow
from tests.app.helpers.records import memory, step_times
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.window.selecting import (
    LEFT,
    SOURCES,
    click,
    place,
    press,
    split_row_by_mouse,
    tensors,
)

CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
LAYERS = 2  # of the file in the model's view


def marked(window: MainWindow) -> set[tuple[int | None, str]]:
    """Layers and columns of the matrix that are marked."""
    matrix = window.inspector.memory.matrix
    title = matrix.rows.headerData
    return {
        (matrix.rows.grid.layers[i.row()], str(title(i.column(), Qt.Orientation.Horizontal)))
        for i in matrix.selectedIndexes()
    }


def framed(window: MainWindow) -> set[tuple[str, str]]:
    """Parts of the bars that are framed."""
    bars = window.inspector.memory.bars.bars
    parts = [(bar.framed(n), part) for bar in bars for n, part in enumerate(bar.parts)]
    return {(part.device, part.component) for framed, part in parts if framed}


def current(table: Table) -> object:
    at = table.view.currentIndex().row()
    return table.rows.shown[at] if at >= 0 else None


def assert_shown(window: MainWindow, now: Selected) -> None:
    """Every view shows `now`."""
    view = window.inspector.memory
    layers, columns = {at for at, _ in marked(window)}, {title for _, title in marked(window)}
    if now.layer is not None:
        assert layers == {now.layer}
        index = view.matrix.currentIndex()
        assert view.matrix.rows.grid.layers[index.row()] == now.layer
    if now.device is not None:
        wanted = f"{now.device} {now.component or ''}"
        assert columns
        assert all(title.startswith(wanted) for title in columns)
        assert framed(window) == {
            (device, component)
            for device, component in view.matrix.rows.grid.columns
            if device == now.device and now.component in (component, None)
        }
    else:
        assert framed(window) == set()
    if (now.layer, now.device) != (None, None):
        row = current(view.records)
        assert now.layer in (row.layer, None)
        assert now.device in (row.device, None)
    assert_shown_in_the_past(window, now)
    on_top = window.top.device.buttons
    assert {device for device, button in on_top.items() if button.isChecked()} == {
        device for device in on_top if device == now.device
    }
    view.show_page("splits")
    legend = view.split_chart.legend
    assert legend.selected == [device for device in legend.keys if device == now.device]
    wanted_split = now.split if now.split is not None else window.bench.splits.place_of(now)
    assert view.split_chart.band.selected == wanted_split
    if wanted_split is not None:
        assert view.split_chart.band.at == wanted_split
        assert current(view.splits)[0] == wanted_split
    view.show_page("layers")
    tensor = current(window.sheets.file.tensors.table)
    if now.tensor is not None:
        assert tensor.name == now.tensor
    elif now.layer is not None and now.layer < LAYERS:
        assert tensor.name.startswith(f"blk.{now.layer}.")


def assert_shown_in_the_past(window: MainWindow, now: Selected) -> None:
    """Allocations of `now` are marked, in charts, legends and the table."""
    view = window.inspector.memory
    view.show_page("timeline")
    place = (now.layer, now.device) != (None, None)
    fits = [
        place
        and now.layer in (event.layer, None)
        and now.device in (event.device, None)
        and now.component in (event.component, None)
        for event in view.events.rows.shown
    ]
    assert sum(len(track.selected) for track in view.tracks.tracks) == sum(fits)
    for track in view.tracks.tracks:
        assert not track.selected or track.at in track.selected
    assert {owner for legend in view.tracks.legends for owner in legend.selected} == {
        owner
        for legend in view.tracks.legends
        for owner in legend.keys
        if owner[0] == now.device and now.component in (owner[1], None)
    }
    if any(fits):
        assert fits[view.events.view.currentIndex().row()]


def begin_anew(window: MainWindow) -> None:
    """The memory view as it is at first, and nothing selected."""
    window.sheets.dismiss(ModelView)
    if window.inspector.memory.as_table:
        window.inspector.memory.toggle_table()
    window.inspector.memory.show_page("layers")
    window.bench.selection.forget()


def test_from_each_part_to_every_other(window: MainWindow, client: ScriptedEngine) -> None:
    selection = window.bench.selection
    for source, wanted in SOURCES:
        print(source.__name__)  # noqa: T201 - seen where this fails
        begin_anew(window)
        selection.select_layer(5)
        source(window)
        assert selection.now == wanted
        assert_shown(window, wanted)
        assert selection.now == wanted, "showing it selects nothing"
        while selection.now.layer != 5:
            press(window, Qt.Key.Key_Left)
        assert_shown(window, Selected(layer=5))
        while selection.has_future:
            press(window, Qt.Key.Key_Right)
        assert selection.now == wanted
        assert_shown(window, wanted)


def test_the_strip_always_says_what_is_selected(window: MainWindow, client: ScriptedEngine) -> None:
    strip, selection = window.inspector.selection, window.bench.selection
    assert strip.isVisible()
    newest = "“word399” #400 (newest)"  # the word that the Token view follows, and shows
    assert strip.caption.text() == newest
    for tab in ("memory",):
        window.panes.show_tab(tab)
        assert strip.isVisible()
    selection.select_cell(12, "nvidia:0", "weights")
    letter = strip.text.split(" › ")[2][0]
    assert strip.caption.text() == f"{newest} › output block › {letter} nvidia:0 › weights"
    window.commands.run("view.copy_selection")
    assert QGuiApplication.clipboard().text() == strip.caption.text()
    window.commands.run("view.select_nothing")
    assert strip.caption.text() == newest
    assert not strip.is_selected
    press(window, Qt.Key.Key_Left)
    assert selection.now.layer == 12
    selection.select_token(window.bench.chat.path[1].id, 390)
    window.commands.run("chat.new")
    assert strip.caption.text() == f"output block › {letter} nvidia:0 › weights"
    window.commands.run("view.select_nothing")
    assert strip.caption.text() == "Nothing selected"


def test_a_link_is_copied_and_followed(window: MainWindow, client: ScriptedEngine) -> None:
    selection, clipboard = window.bench.selection, QGuiApplication.clipboard()
    message = window.bench.chat.path[-1].id
    selection.select_token(message, 36)
    selection.select_operation("kqv_out-5", 5, "nvidia:0")
    text = window.inspector.selection.caption.text()
    assert "” #37 › layer 5 › kqv_out-5 › " in text
    window.commands.run("view.copy_link")
    link = clipboard.text()
    assert link == f"cutaway:token={message}.36;layer=5;operation=kqv_out-5;device=nvidia:0"
    window.commands.run("view.select_nothing")
    press(window, Qt.Key.Key_G, CTRL | SHIFT)
    assert selection.link() == link
    assert window.inspector.selection.caption.text() == text
    assert window.talk.notices.texts == []


def test_a_link_to_elsewhere_is_refused_aloud(window: MainWindow, client: ScriptedEngine) -> None:
    window.bench.selection.select_layer(5)
    message = window.bench.chat.path[-1].id
    for link, words in (
        ("cutaway:layer=99", "layer is 99; this model has 12"),
        ("cutaway:token=999.0", "no longer exists"),
        (f"cutaway:token={message}.400", "#401; the message has fewer"),
        ("<b>cutaway:</b>", "“<b>cutaway:</b>”"),
    ):
        QGuiApplication.clipboard().setText(link)
        window.commands.run("view.follow_link")
        (said,) = window.talk.notices.texts
        assert words in said
        assert window.bench.selection.now == Selected(layer=5)


def test_a_link_opens_the_chat_that_has_its_word(
    window: MainWindow, client: ScriptedEngine
) -> None:
    chat, selection = window.bench.chat, window.bench.selection
    first, message = chat.chat_id, chat.path[-1].id
    assert chat.regenerate(len(chat.path) - 1)  # another version is in sight
    client.write("Other", " words")
    client.end(n=2)
    chat.open(None)
    assert chat.send("Another chat")
    client.write("Yes")
    client.end(n=1)
    QGuiApplication.clipboard().setText(f"cutaway:token={message}.36;layer=5")
    window.commands.run("view.follow_link")
    assert chat.chat_id == first
    assert chat.path[-1].id == message
    assert selection.now == Selected((message, 36), layer=5)
    assert window.talk.notices.texts == []


def test_a_view_is_asked_for_by_its_page(window: MainWindow, client: ScriptedEngine) -> None:
    window.panes.cycle()
    window.panes.cycle()
    assert not window.inspector.isVisible()
    window.bench.selection.show_in("memory")
    assert window.inspector.memory.isVisible()


def test_back_is_offered_only_where_there_is_a_way(window: MainWindow) -> None:
    assert not window.commands["view.back"].isEnabled()
    window.bench.selection.select_layer(3)
    assert window.commands["view.back"].isEnabled()
    press(window, Qt.Key.Key_Left)
    assert not window.commands["view.back"].isEnabled()
    assert window.commands["view.forward"].isEnabled()


def test_another_model_has_another_selection(window: MainWindow, client: ScriptedEngine) -> None:
    window.bench.selection.select_layer(3)
    window.bench.open_model("/models/other.gguf")
    assert window.bench.selection.now == Selected()
    press(window, Qt.Key.Key_Left)
    assert window.bench.selection.now == Selected()


@pytest.mark.parametrize("way", ["enter", "double click"])
def test_a_cell_opens_its_tensors_and_a_tensor_its_picture(
    window: MainWindow, client: ScriptedEngine, way: str
) -> None:
    matrix, tensors = window.inspector.memory.matrix, window.sheets.file.tensors.table

    def open_it(view: QAbstractItemView, index: QModelIndex) -> None:
        if way == "enter":
            QTest.keyClick(view, Qt.Key.Key_Return)
        else:
            at = view.visualRect(index).center()
            QTest.mouseClick(view.viewport(), LEFT, pos=at)
            QTest.mouseDClick(view.viewport(), LEFT, pos=at)

    matrix.setFocus()
    matrix.setCurrentIndex(place(window, 1, "intel:0 weights"))
    open_it(matrix, matrix.currentIndex())
    assert window.sheets.file.isVisible()
    assert tensors.isVisible()
    assert tensors.view.hasFocus()
    shown = [tensor.name for tensor in tensors.rows.shown]
    assert shown
    assert all(name.startswith("blk.1.") for name in shown)
    click(tensors.view, tensors.rows.index(2, 0))
    name = tensors.rows.shown[2].name
    assert window.bench.selection.now.tensor == name
    open_it(tensors.view, tensors.rows.index(2, 0))
    assert window.inspector.tab == "tensors"
    view = window.inspector.view(TensorsView)
    assert view.page == "Heat map"
    assert view.heat.hasFocus()
    assert window.bench.tensors.item is not None
    assert window.bench.tensors.item.name == name
    window.panes.show_tab("memory")
    assert {layer for layer, _ in marked(window)} == {1}


def test_what_refreshes_by_itself_selects_nothing(
    window: MainWindow, client: ScriptedEngine
) -> None:
    """Splits come each second, memory while loading: neither takes the selection back."""
    split_row_by_mouse(window)
    window.bench.selection.select_layer(5)
    client.say(step_times(2), memory("planned"), memory("allocated"))
    window.panes.show_tab("memory")
    QApplication.processEvents()
    assert window.bench.selection.now == Selected(layer=5)


def test_tab_goes_past_the_tables_without_selecting(
    window: MainWindow, client: ScriptedEngine
) -> None:
    for show in (
        lambda: window.panes.show_tab("memory"),
        window.inspector.memory.toggle_table,
        lambda: tensors(window),
    ):
        show()
        for view in (
            window.inspector.memory.matrix,
            window.inspector.memory.records.view,
            window.sheets.file.tensors.table.view,
        ):
            view.setFocus(Qt.FocusReason.TabFocusReason)
    assert window.bench.selection.now == Selected()


def test_no_point_of_a_bar_is_dead(window: MainWindow, client: ScriptedEngine) -> None:
    bar = window.inspector.memory.bars.bars[0]
    devices = set()
    for y in range(round(bar.band().bottom()) + GRID, bar.height()):
        window.bench.selection.clear()
        QTest.mouseClick(bar, LEFT, pos=QPointF(20, y).toPoint())
        devices.add(window.bench.selection.now.device)
    assert devices - {None} == {"intel:0", "host"}
