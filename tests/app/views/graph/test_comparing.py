"""The graph by its errors against the host, before a scripted engine."""

import msgspec
from PySide6.QtWidgets import QLabel

from app.theme.theme import tokens
from app.views.graph.graph import GraphView
from app.views.graph.picture.painting import ScenePainter
from app.window.main_window import MainWindow
from engine.protocol import Cancel, Compare, Compared
from tests.app.helpers.compared import compared
from tests.app.helpers.scripted import ScriptedEngine


def say(client: ScriptedEngine, told: Compared) -> None:
    client.say(msgspec.structs.replace(told, id=client.last_of(Compare).id))


def facts(view: GraphView) -> list[str]:
    shown = (part for part in view.panel.findChildren(QLabel) if not part.isHidden())
    return [part.accessibleName() for part in shown]


def test_the_command_compares_and_colours(
    window: MainWindow, view: GraphView, client: ScriptedEngine
) -> None:
    assert not view.compared.isVisible()
    window.commands.run("view.compare")
    assert view.compared.isVisible()
    assert view.compared.stop.isVisible()
    assert not view.compared.compare.isVisible()
    view.compared.stop.click()
    assert isinstance(client.last, Cancel)
    say(client, compared(4, ["Qcur-1", "l_out-2"]))
    assert view.index is not None
    number, other = view.index.by_key["Qcur-1"], view.index.by_key["Qcur-0"]
    assert view.canvas.scene is not None
    painter = ScenePainter(view.canvas.scene, view.canvas.coloured)
    assert painter.tone(number) == tokens().bad
    assert painter.tone(other) != tokens().bad
    assert view.legend.chart.keys == [0.0, 0.5, 1.0, "!"]
    assert "First mismatch: Qcur-1 of one token" in view.compared.caption.text()


def test_the_first_that_deviates_is_gone_to(
    window: MainWindow, view: GraphView, client: ScriptedEngine
) -> None:
    view.bar.choose_overlay("error")
    view.compared.compare.click()
    say(client, compared(4, ["Qcur-1", "l_out-2"]))
    view.compared.go.click()
    now = window.bench.selection.now
    assert (now.operation, now.layer) == ("Qcur-1", 1)
    assert "Error: ! NMSE 0.3, at most 1e-05" in facts(view)
    window.bench.selection.select_operation("Vcur-1", 1)
    told = "Error: NMSE 1e-11, at most 1e-05 in attn_out-1, computed from it"
    assert told in facts(view)
    view.toggle_table()
    lines = [line.split("\t") for line in view.pages.nodes.text().splitlines()]
    at = lines[0].index("NMSE"), lines[0].index("Allowed")
    rows = {line[1]: [line[i] for i in at] for line in lines[1:]}
    assert rows["Qcur-1"] == ["0.3 !", "1e-05"]
    assert rows["Qcur-0"] == ["1e-11", "1e-05"]
    assert rows["Vcur-1"] == ["–", "–"]
    window.bench.session.unload()
    assert window.bench.comparison.result is None
