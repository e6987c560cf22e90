"""A word's sources in an attached document: the list names the place, the sheet is lit there."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QTextEdit

from app.views.talk.documents import LINE, LaidText
from app.views.token.token import TokenView
from app.window.main_window import MainWindow
from tests.app.helpers import inside
from tests.app.window.scenes.trial_scenes import PATH, client

TEXT = "\n".join(f"row {n}: the pump of hall {n} failed" for n in range(60))


def sources_in_document(window: MainWindow) -> None:
    """A word is inspected, which was taken from a document."""
    bench = window.bench
    bench.open_model(PATH)
    client(window).load_done()
    bench.chat.documents.add_text(TEXT)
    assert bench.chat.send("Which pump failed?")
    client(window).write("The", " one", " of", " hall", " 41")
    client(window).end()
    window.panes.show_tab("token")
    bench.selection.select_token(bench.chat.path[1].id, 4)
    bench.token.send()
    inside.answer(client(window))
    bench.selection.select_layer(12)
    inside.answer(client(window))


def lit(text: QTextEdit.ExtraSelection) -> str:
    return text.cursor.selectedText().replace("\u2029", "\n")


def test_the_document_is_lit_and_the_list_names_the_line(window: MainWindow) -> None:
    sources_in_document(window)
    document = window.bench.chat.path[0].documents[0]
    lights = window.bench.token.lights(document.hash)
    assert lights
    panel = window.inspector.view(TokenView).attention
    named = [n for n, line in enumerate(panel.list.lines) if "Pasted text, line " in line.text]
    assert named
    panel.list.setFocus()
    QTest.keyClick(panel.list, Qt.Key.Key_Home)
    for _ in range(named[0]):
        QTest.keyClick(panel.list, Qt.Key.Key_Down)
    assert panel.list.at == named[0]
    QTest.keyClick(panel.list, Qt.Key.Key_Return)
    sheet = window.sheets.document
    assert window.sheets.front is not None
    assert window.sheets.front.content is sheet
    shown = [lit(one) for one in sheet.text.extraSelections()]
    assert shown == [document.text[first:last] for first, last, _ in lights]
    line = int(panel.list.lines[named[0]].text.rpartition(" ")[2])
    assert sheet.text.textCursor().blockNumber() + 1 == line
    sheet.done.emit()
    window.bench.selection.clear()
    window.panes.show_tab("memory")
    assert sheet.text.extraSelections() == []


def test_offsets_in_the_sheet_are_those_of_the_text() -> None:
    text = f"a\n{'x' * (2 * LINE + 5)}y\fend\U0001f600z"
    laid = LaidText(text)
    for mark in ("y", "e", "z"):
        at = text.index(mark)
        units = laid.text.encode("utf-16-le")[2 * laid.offset(at) :].decode("utf-16-le")
        assert units[0] == mark
