"""Pins made in the graph: offered, tried, put into effect, taken away."""

from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from app.views.graph.graph import GraphView
from app.window.main_window import MainWindow
from engine.protocol import Failed, Move, Moved
from tests.app.helpers.graphs import graph_done
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.views.graph.driving import buttons, halves, tell

Key = Qt.Key


def menu_of(view: GraphView) -> QMenu:
    return [menu for menu in view.findChildren(QMenu) if menu.isVisible()][-1]


def test_a_pin_by_keyboard(
    window: MainWindow, client: ScriptedEngine, view: GraphView, qtbot: QtBot, tiny_path: Path
) -> None:
    window.bench.selection.select_operation("ffn_norm-1", 1, "intel:0")
    (button,) = [b for b in buttons(view) if b.text() == "Pin…"]
    QTest.keyClick(button, Key.Key_Return)
    actions = {action.text(): action for action in menu_of(view).actions()}
    assert list(actions) == [f"Pin ffn_norm-1 to {d}…" for d in ("intel:0", "pocl:0", "host")]
    actions["Pin ffn_norm-1 to pocl:0…"].trigger()
    assert "planning" in view.offer.caption.text()
    assert not view.offer.apply.isEnabled()
    tell(client, graph_done(4, halves, pinned=("ffn_norm-1", "pocl:0")))
    assert "ffn_norm-1 would move; splits 2 to 4" in view.offer.caption.text()
    assert view.canvas.marks.changed
    QTest.keyClick(view.offer.apply, Key.Key_Return)
    move = client.last_of(Move)
    assert isinstance(move, Move)
    assert move.options.place == "^ffn_norm-1$=pocl:0"
    assert "Uploading" in view.offer.caption.text()
    loaded = window.bench.session.model
    assert loaded is not None
    client.say(Moved(move.id, loaded, 1, 256, 0, 0))
    assert view.offer.isHidden()
    assert window.bench.session.options == move.options
    assert window.bench.options_for(tiny_path).place == move.options.place
    tell(client, graph_done(4, halves, pinned=("ffn_norm-1", "pocl:0")))
    qtbot.waitUntil(lambda: window.bench.graph.is_known)
    (button,) = [b for b in buttons(view) if b.text() == "Pin…"]
    QTest.keyClick(button, Key.Key_Return)
    assert "Remove the pin…" in [a.text() for a in menu_of(view).actions()]


def test_a_pin_that_cannot_be_moved_leaves_all_as_it_was(
    window: MainWindow, client: ScriptedEngine, view: GraphView
) -> None:
    window.bench.graph.try_pin("ffn_norm-1", "pocl:0")
    tell(client, graph_done(4, halves, pinned=("ffn_norm-1", "pocl:0")))
    view.offer.apply.click()
    before = window.bench.session.options
    client.say(Failed(client.last_of(Move).id, "NoMem", "pocl:0: no room"))
    assert view.offer.isVisible()
    assert view.offer.caption.text().startswith("pocl:0: no room")
    assert window.bench.session.options == before
    view.offer.drop.click()
    assert view.offer.isHidden()


def test_what_cannot_be_pinned_says_why(view: GraphView) -> None:
    assert view.index is not None
    view.offer.choose(view.index.by_key["kqv_out-0"], QPoint())
    (action,) = menu_of(view).actions()
    assert action.text() == "Cannot be pinned: it is a view"
    assert not action.isEnabled()


def test_a_launch_is_pinned_by_what_comes_of_it(window: MainWindow, view: GraphView) -> None:
    """From its panel and from its place in the picture; where no device is known that is said."""
    window.bench.selection.select_operation("ffn_norm-1", 1, "intel:0")
    view.show_as("launches")
    index = view.index
    assert index is not None
    launch = index.graph.nodes[index.by_key["ffn_norm-1"]].launch
    result = index.graph.nodes[index.graph.launches[launch].nodes[-1]]
    view.canvas.menu_wanted.emit(launch, QPoint(10, 10))
    assert menu_of(view).actions()[0].text() == f"Pin {result.name} to intel:0…"
    menu_of(view).close()
    window.bench.graph.devices = []
    view.canvas.menu_wanted.emit(launch, QPoint(10, 10))
    assert "not known yet" in menu_of(view).actions()[0].text()
    menu_of(view).close()
