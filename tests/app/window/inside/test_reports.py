"""What a view shows, saved to attach to an issue: words, table, picture and data of each view."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.files import write_named
from app.views.tensors.tensors import KINDS, TensorsView
from app.widgets.lists.rows import ReportTable, ViewReport
from app.window import reporting
from app.window.main_window import MainWindow
from app.window.reporting import facts_of, write_report
from engine.errors import CutawayError
from engine.protocol import Compare
from tests.app.helpers.compared import compared
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.window.test_pairs import LAYER, OPERATION, PAGES, go, know

TABLES = {
    "token": {"Logit lens", "Attention", "Sources", "Choice", "Time"},
    "memory": {"Memory", "Events", "Splits"},
    "layers": {"Layers"},
    "graph": {"Operations", "Launches"},
    "tensors": {"Numbers"},
    "profile": {"Answer by operation", "Answer by kernel", "Answer by layer", "Answer by device"},
}


@pytest.fixture
def save(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> Callable[[str], tuple[dict[str, Any], str, QImage]]:
    """Saves the page that is in front; what was written: data, Markdown, picture."""

    def save(name: str) -> tuple[dict[str, Any], str, QImage]:
        path = tmp_path / f"{name}.md"
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
        window.commands.run("view.save_report")
        said = f"Saved {name}.md, {name}.png, {name}.json in {tmp_path}."
        qtbot.waitUntil(lambda: said in window.talk.notices.texts)
        window.talk.notices.drop("report")
        picture = QImage(str(path.with_suffix(".png")))
        return json.loads(path.with_suffix(".json").read_text()), path.read_text(), picture

    return save


def test_each_view_is_saved(
    window: MainWindow, client: ScriptedEngine, save: Callable[[str], Any]
) -> None:
    know(window, client)
    window.bench.selection.select_tensor("blk.1.attn_norm.weight", 1)
    go(window, "tensors")
    for page in PAGES:
        go(window, page)
        data, text, picture = save(page)
        title = window.inspector.title(page)
        facts = data["facts"]
        assert (facts["View"], facts["Model"]) == (title, window.bench.session.model_title)
        assert facts["Selected"] == window.inspector.selection.text != ""
        assert (facts["Prompt"], facts["Seed"], facts["Device"]) == ("Hello", "7", "Intel CPU")
        assert f"![Picture of the view]({page}.png)" in text
        assert f"# {title} of " in text
        assert picture.width() > 300
        assert {t["title"] for t in data["tables"]} >= TABLES[page], page
        for table in data["tables"]:
            assert all(len(row) == len(table["columns"]) for row in table["rows"]), table["title"]
            assert f"## {table['title']}" in text
        assert any(table["rows"] for table in data["tables"]), page
        assert data["data"], page


def test_numbers_of_a_report_are_those_of_the_view(
    window: MainWindow, client: ScriptedEngine, save: Callable[[str], Any]
) -> None:
    """Also of pages that are not in front: all records, whatever is filtered."""
    know(window, client)
    go(window, "memory")
    memory = window.inspector.memory
    memory.records.query.setText("nothing has this")
    data, text, _ = save("memory")
    (records,) = [t for t in data["tables"] if t["title"] == "Memory"]
    cells = window.bench.memory.cells
    assert [row[-1] for row in records["rows"]] == [str(cell.row().size) for cell in cells]
    assert len(data["data"]["Memory"]) == len(cells)
    more = len(records["rows"]) - reporting.MOST_ROWS
    assert (f"{more} more rows are in" in text) == (more > 0)
    window.bench.selection.select_operation(OPERATION, LAYER)
    go(window, "graph")
    data, text, _ = save("graph")
    assert OPERATION in "".join(data["words"])
    index = window.bench.graph.indices["decode"]
    assert [n["name"] for n in data["data"]["nodes"]] == [n.name for n in index.graph.nodes]
    go(window, "profile")
    data, text, _ = save("profile")
    assert "| MUL\\_MAT | " in text
    assert data["data"][-1]["launches"]


def test_kinds_of_numbers_are_saved(
    window: MainWindow, client: ScriptedEngine, save: Callable[[str], Any]
) -> None:
    go(window, "tensors")
    view = window.inspector.view(TensorsView)
    for kind in KINDS:
        view.kinds.setCurrentIndex(KINDS.index(kind))
        if kind == "Compare":
            window.bench.comparison.start()
            client.say(compared(4, ["ffn_norm-2"], client.last_of(Compare).id))  # type: ignore[attr-defined]
        data, text, _ = save(kind.replace(" ", ""))
        assert data["words"]
        assert all(data["words"]), kind
        if kind == "Compare":
            (results,) = data["tables"]
            assert ["ffn_norm-2", "token"] in [row[:2] for row in results["rows"]]
            assert "First mismatch: ffn\\_norm-2" in text


def report() -> ViewReport:
    rows = [["<b>`x`|y\x1b[2J", str(n)] for n in range(50)]
    return ViewReport(["a *b*\nc"], [ReportTable("T", ["A", "B"], lambda: rows)], lambda: [1])


def facts(window: MainWindow) -> reporting.Facts:
    return facts_of(window.bench, "Token", "", datetime(2026, 1, 2))


def test_nothing_in_it_is_markup(window: MainWindow, tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    write_report(path, facts(window), report(), QImage(4, 4, QImage.Format.Format_RGB32))
    text = path.read_text()
    assert "| \\<b\\>\\`x\\`\\|y \\[2J | 0 |" in text
    assert "\x1b" not in text
    assert "a \\*b\\*\nc" in text
    assert "10 more rows are in [a.json](a.json)." in text
    assert len(json.loads(path.with_suffix(".json").read_text())["tables"][0]["rows"]) == 50


def test_three_files_or_none(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of them cannot be written; what was there before stays."""
    picture, folder = QImage(4, 4, QImage.Format.Format_RGB32), tmp_path / "reports"
    folder.mkdir()
    for kind in (".md", ".png", ".json"):

        def refuse(path: Path, content: bytes, kind: str = kind) -> None:
            if path.suffix == kind:
                raise CutawayError("no room")
            write_named(path, content)

        monkeypatch.setattr(reporting, "write_named", refuse)
        with pytest.raises(CutawayError, match="no room"):
            write_report(folder / "a.md", facts(window), report(), picture)
        assert not list(folder.iterdir()), kind
    monkeypatch.setattr(reporting, "write_named", write_named)
    (folder / "cat.png").write_bytes(b"a cat")
    with pytest.raises(CutawayError, match="already exists"):
        write_report(folder / "cat.md", facts(window), report(), picture)
    assert (folder / "cat.png").read_bytes() == b"a cat"
    write_report(folder / "b.md", facts(window), report(), picture)
    write_report(folder / "b.md", facts(window), report(), picture)  # in its place
    with pytest.raises(CutawayError, match="no such folder"):
        write_report(folder / "no" / "a.md", facts(window), report(), picture)
