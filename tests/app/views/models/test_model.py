"""The model's file."""

from pathlib import Path

from pytestqt.qtbot import QtBot

from app.window.main_window import MainWindow


def test_a_file_is_shown_filtered_and_compared(
    window: MainWindow, tiny_path: Path, tiny_base_path: Path, qtbot: QtBot
) -> None:
    window.sheets.show_file()
    state, view = window.bench.file, window.sheets.file
    state.open(tiny_path)
    qtbot.waitUntil(lambda: state.content is not None)
    assert state.content is not None
    assert len(view.tensors.table.rows.shown) == len(state.content.tensors)
    assert f" · {round(tiny_path.stat().st_size / 1000)} kB" in view.caption.text(), "as on a disk"
    view.tensors.table.query.setText("blk.0 attn_q")
    assert {t.name for t in view.tensors.table.rows.shown} == {"blk.0.attn_q.weight"}
    rows = view.metadata.table.rows.shown
    place = next(at for at, row in enumerate(rows) if row.key == "tokenizer.ggml.tokens")
    view.metadata.table.choose(place)
    qtbot.waitUntil(lambda: view.metadata.items.rows.total == rows[place].count)
    view.tabs.setCurrentIndex(2)
    view.tokenizer.text.setPlainText("Hello")
    qtbot.waitUntil(lambda: "".join(row.text for row in state.tokens if not row.special) == "Hello")
    assert len(view.tokenizer.chips._chips) == len(state.tokens)
    view.tabs.setCurrentIndex(3)
    state.compare(tiny_base_path)
    qtbot.waitUntil(lambda: view.difference.table.isVisible())
    found = {(d.name, d.where) for d in view.difference.table.rows.shown}
    assert ("general.architecture", "changed") in found


def test_a_file_that_cannot_be_read_says_why(
    window: MainWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"nothing")
    window.bench.file.open(broken)
    qtbot.waitUntil(lambda: "broken.gguf" in window.sheets.file.caption.text())
