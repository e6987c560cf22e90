"""The frame: commands, keys, panes, sheets, what is dropped, what is kept."""

from collections import Counter
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from app.state.workbench import Workbench
from app.theme.theme import Theme, tokens
from app.views.talk.sampling import SamplingPopover
from app.widgets.basics import Button
from app.widgets.focus import has_focus
from app.window.commands import COMMANDS, MENUS
from app.window.main_window import MainWindow
from engine.errors import WorkerDied
from engine.protocol import Load
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.rest import come_to_rest
from tests.goldens.tiny import write_tiny

CTRL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
COMMAND = {command.id: command for command in COMMANDS}
NONE = Qt.KeyboardModifier.NoModifier


def press(window: MainWindow, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
    QTest.keyClick(window.windowHandle(), key, modifiers)
    QApplication.processEvents()


def open_model(window: MainWindow, path: Path) -> ScriptedEngine:
    client = window.bench.engine
    assert isinstance(client, ScriptedEngine)
    window.bench.open_model(path)
    client.load_done()
    QApplication.processEvents()
    return client


def test_commands_have_one_name_and_one_key_each() -> None:
    assert max(Counter(command.id for command in COMMANDS).values()) == 1
    assert max(Counter(command.title for command in COMMANDS).values()) == 1
    assert max(Counter(c.key for c in COMMANDS if c.key).values()) == 1
    assert {command.menu for command in COMMANDS} <= {*MENUS, ""}


class StyleChanges(QObject):
    """Counts how often widgets are told that their style has changed."""

    def __init__(self, app: QApplication) -> None:
        super().__init__()
        self.count = 0
        app.installEventFilter(self)

    def eventFilter(self, of: QObject, event: QEvent) -> bool:  # noqa: N802
        self.count += event.type() == QEvent.Type.StyleChange
        return False


def test_no_widget_is_dressed_over_and_over(
    own_home: Path, theme: Theme, qapp: QApplication
) -> None:
    """It was once for each widget that it lies in, and two thirds of the time to build a window."""
    bench, told = Workbench(ScriptedEngine()), StyleChanges(qapp)
    window = MainWindow(bench, theme)
    assert told.count < 2 * len(window.findChildren(QWidget))
    told.count = 0
    page = window.inspector.page("tensors")  # made in the window that is dressed already
    assert told.count < 6 * len(page.findChildren(QWidget))
    qapp.removeEventFilter(told)
    window.close()
    bench.close()


def test_every_command_is_in_the_menu_or_the_palette(window: MainWindow) -> None:
    window.sheets.show_palette()
    titles = window.sheets.palette.titles()
    for command in COMMANDS:
        assert (command.title in titles) == command.enabled(window), command.id
    menus = window.top.menu.menu().actions()
    in_menus = {a.text() for part in menus for a in part.menu().actions()}  # type: ignore[union-attr]
    assert in_menus == {command.title for command in COMMANDS if command.menu}


def test_the_empty_talk_is_as_large_as_its_pane(window: MainWindow, tmp_path: Path) -> None:
    """Also where the window has another size since, seen or behind the welcome page."""
    empty, ground = window.talk.chat.empty, window.talk.chat.column.viewport()
    window.resize(1200, 700)
    QApplication.processEvents()
    open_model(window, tmp_path)
    assert empty.isVisible()
    assert empty.size() == ground.size()
    window.resize(1500, 800)
    QApplication.processEvents()
    assert empty.size() == ground.size()


def test_the_palette_finds_and_runs(window: MainWindow) -> None:
    press(window, Qt.Key.Key_P, CTRL | SHIFT)
    assert has_focus(window.sheets.palette.query)
    QTest.keyClicks(window.sheets.palette.query, "theme dark")
    assert window.sheets.palette.titles()[0] == "Theme: dark"
    press(window, Qt.Key.Key_Return)
    assert window.sheets.front is None
    assert window.bench.preferences.value.theme == "dark"
    assert tokens().name == "dark"


@pytest.mark.parametrize("talks", [False, True])
def test_settings_of_answers_open_without_a_model(
    window: MainWindow, tmp_path: Path, talks: bool
) -> None:
    """They are the chat's: on the welcome page, and in a chat whose model is closed."""
    if talks:
        client = open_model(window, tmp_path)
        assert window.bench.chat.send("Hello")
        client.write("Hi.")
        client.end()
        window.bench.session.unload()
        QApplication.processEvents()
    assert window.bench.session.model is None
    assert window.talk.composer.isVisible() == talks
    press(window, Qt.Key.Key_S, CTRL | SHIFT)
    popover = QApplication.activePopupWidget()
    assert isinstance(popover, SamplingPopover)
    if talks:
        gap = window.talk.composer.mapToGlobal(QPoint()).y() - popover.geometry().bottom()
        assert abs(gap) < 40, "above what it belongs to"
    assert window.geometry().contains(popover.geometry().center())
    popover.numbers["temperature"].field.setValue(0.3)
    popover.hide()
    assert window.bench.chat.details.sampling.temperature == 0.3


MEANT = (
    ("record", "view.record"),
    ("text size", "text.larger"),
    ("zoom", "text.larger"),
    ("settings", "app.preferences"),
    ("undo", "chat.undo_delete"),
    ("stop", "chat.stop"),
    ("temperature", "chat.sampling"),
    ("logprobs", "chat.probabilities"),
    ("dark mode", "theme.dark"),
    ("screenshot", "view.copy_picture"),
    ("retry", "chat.regenerate"),
)


def test_the_palette_finds_what_a_person_means(window: MainWindow, tmp_path: Path) -> None:
    open_model(window, tmp_path)
    assert window.bench.chat.send("Hello")
    for query, command in MEANT:
        window.sheets.show_palette()
        palette = window.sheets.palette
        palette.query.setText(query)
        assert COMMAND[command].title in palette.titles()[:3], query
        for unmeant in ("Quit", "Start API server…"):
            assert unmeant not in palette.titles(), query
        assert palette.nothing.isHidden(), query
        press(window, Qt.Key.Key_Escape)
        assert window.sheets.front is None


def test_the_palette_tells_what_is_not_possible_and_what_it_does_not_find(
    window: MainWindow, tmp_path: Path
) -> None:
    open_model(window, tmp_path)
    window.sheets.show_palette()
    palette = window.sheets.palette
    palette.query.setText("stop the answer")
    assert palette.titles()[0] == "Stop the answer"
    assert not palette.list.item(0).flags() & Qt.ItemFlag.ItemIsEnabled
    press(window, Qt.Key.Key_Return)
    assert window.sheets.front is not None, "nothing is run"
    palette.query.setText("<b>xyzzy</b>")
    assert palette.titles() == []
    assert palette.nothing.text() == "Nothing found for “<b>xyzzy</b>”."
    assert palette.nothing.textFormat() == Qt.TextFormat.PlainText
    assert palette.nothing.isVisible()
    palette.query.setText("")
    assert palette.nothing.isHidden()
    assert len(palette.titles()) > 20


def test_recording_is_a_command(window: MainWindow, tmp_path: Path) -> None:
    open_model(window, tmp_path)
    window.commands.run("view.record")
    assert window.bench.profile.recording
    assert window.inspector.tab == "profile"
    window.commands.run("view.record")
    assert not window.bench.profile.recording


def test_arrows_walk_in_the_palette(window: MainWindow) -> None:
    window.sheets.show_palette()
    press(window, Qt.Key.Key_Down)
    assert window.sheets.palette.list.currentRow() == 1
    assert has_focus(window.sheets.palette.query)


def test_esc_closes_the_sheet_in_front_and_not_the_answer(
    window: MainWindow, tmp_path: Path
) -> None:
    open_model(window, tmp_path / "SmolLM2.gguf")
    assert window.bench.chat.send("Hello")
    window.sheets.show_preferences()
    press(window, Qt.Key.Key_Escape)
    assert window.sheets.front is None
    assert window.bench.chat.busy
    before = len(window.bench.engine.asked)  # type: ignore[attr-defined]
    press(window, Qt.Key.Key_Escape)
    cancelled = window.bench.engine.asked[before:]  # type: ignore[attr-defined]
    assert [type(request).__name__ for request in cancelled] == ["Cancel"]


@pytest.mark.parametrize("sheet", ["chooser", "preferences"])
def test_a_sheet_keeps_the_keyboard_and_gives_it_back(window: MainWindow, sheet: str) -> None:
    before = QApplication.focusWidget()
    window.sheets.show_chooser() if sheet == "chooser" else window.sheets.show_preferences()
    shown = window.sheets.front
    assert shown is not None
    seen = set()
    for _ in range(40):
        assert has_focus(shown)
        seen.add(QApplication.focusWidget())
        press(window, Qt.Key.Key_Tab)
    assert len(seen) > 3
    press(window, Qt.Key.Key_Backtab, SHIFT)
    assert has_focus(shown)
    QTest.mouseClick(shown, Qt.MouseButton.LeftButton, pos=QPoint(5, shown.height() - 5))
    assert not shown.isVisible()
    assert QApplication.focusWidget() is before


def test_f6_goes_round_the_panes(window: MainWindow, tmp_path: Path) -> None:
    open_model(window, tmp_path / "SmolLM2.gguf")
    panes = [window.top, window.chats, window.talk.composer, window.inspector]
    visited = []
    for _ in range(10):
        press(window, Qt.Key.Key_F6)
        visited += [pane for pane in panes if has_focus(pane)]
    assert set(panes) <= set(visited)
    last = visited[-1]
    press(window, Qt.Key.Key_F6)
    press(window, Qt.Key.Key_F6, SHIFT)
    assert has_focus(last)


def test_panes_are_hidden_by_key_and_stay_so(window: MainWindow, theme: Theme) -> None:
    press(window, Qt.Key.Key_B, CTRL)
    press(window, Qt.Key.Key_J, CTRL)
    press(window, Qt.Key.Key_J, CTRL)
    assert not window.chats.isVisible()
    assert not window.inspector.isVisible()
    press(window, Qt.Key.Key_2, CTRL)
    assert window.inspector.isVisible()
    assert window.inspector.memory.isVisible()
    window.panes.body.setSizes([500, 1100])
    window.panes.body.splitterMoved.emit(500, 1)
    sizes = window.panes.body.sizes()
    window.close()
    bench = Workbench(ScriptedEngine())
    again = MainWindow(bench, theme)
    again.resize(1600, 1000)
    again.show()
    come_to_rest(again)
    assert not again.chats.isVisible()
    assert again.inspector.memory.isVisible()
    assert again.panes.body.sizes() == pytest.approx(sizes, abs=2)
    again.close()
    bench.close()


def test_42_to_58(window: MainWindow) -> None:
    window.resize(2560, 1440)
    window.commands.run("view.inside")
    window.commands.run("view.inside")
    QTest.qWait(20)
    talk, inspector = window.panes.body.sizes()
    assert talk / (talk + inspector) == pytest.approx(0.42, abs=0.02)


def test_in_a_narrow_window_the_inspector_is_a_tab(window: MainWindow, qtbot: QtBot) -> None:
    window.resize(800, 700)
    qtbot.waitUntil(lambda: window.inspector.tab == "talk" or not window.panes.left.isVisible())
    window.panes.show_tab("talk")
    assert window.panes.left.isVisible()
    assert not window.inspector.isVisible()
    press(window, Qt.Key.Key_2, CTRL)
    assert window.inspector.memory.isVisible()
    assert not window.panes.left.isVisible()
    assert window.inspector.bar.isVisible()
    press(window, Qt.Key.Key_N, CTRL)
    assert window.panes.left.isVisible()
    window.resize(1600, 1000)
    qtbot.waitUntil(lambda: window.inspector.isVisible() and window.panes.left.isVisible())


def test_a_death_is_told_with_its_next_step(
    window: MainWindow, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = open_model(window, tmp_path / "SmolLM2.gguf")
    with caplog.at_level(100):
        client.die(WorkerDied(-9, "killed by signal 9"))
    (text,) = window.talk.notices.texts
    assert "signal 9" in text
    words = [b.text() for b in window.talk.notices.findChildren(Button)]
    assert words == ["Restart", "Restart with half the context", "Details"]
    caplog.clear()


def test_a_corrupt_file_of_preferences_is_told(own_home: Path, theme: Theme) -> None:
    bench = Workbench(ScriptedEngine())
    bench.preferences.update(theme="dark")
    bench.close()
    path = bench.preferences.path
    path.write_text("{ this is no JSON")
    bench = Workbench(ScriptedEngine())
    window = MainWindow(bench, theme)
    assert window.talk.notices.texts == [bench.preferences.notice]
    window.close()
    bench.close()


def test_text_grows_by_key(window: MainWindow, qtbot: QtBot) -> None:
    before = window.font().pixelSize()
    press(window, Qt.Key.Key_Plus, CTRL)
    press(window, Qt.Key.Key_Plus, CTRL)
    assert window.bench.preferences.value.font_scale == pytest.approx(1.21)
    qtbot.waitUntil(lambda: window.font().pixelSize() > before)
    press(window, Qt.Key.Key_0, CTRL)
    qtbot.waitUntil(lambda: window.font().pixelSize() == before)


def test_an_open_sheet_grows_with_the_text(window: MainWindow, qtbot: QtBot) -> None:
    window.resize(1600, 1000)
    window.sheets.show_trial()
    before = window.sheets.trial.size()
    window.bench.preferences.update(font_scale=2.0)
    sheet = window.sheets.trial
    qtbot.waitUntil(lambda: sheet.height() > 1.2 * before.height())
    qtbot.waitUntil(lambda: sheet.width() > 1.2 * before.width())


def test_a_draft_model_is_chosen_kept_and_removed(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, small = write_tiny(tmp_path / "large.gguf", "llama"), str(tmp_path / "small.gguf")
    engine = open_model(window, path)

    def loads() -> list[Load]:
        return [one for one in engine.asked if isinstance(one, Load)]

    preferences = window.bench.preferences
    assert not COMMAND["model.no_draft"].enabled(window)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (small, ""))
    COMMAND["model.draft"].run(window)
    qtbot.waitUntil(lambda: len(loads()) == 2)
    assert (loads()[-1].path, loads()[-1].options.model_draft) == (str(path), small)
    assert preferences.value.speculation == "draft"
    engine.load_done()
    qtbot.waitUntil(lambda: window.bench.session.model is not None)
    assert window.bench.options_for(path).model_draft == small
    COMMAND["model.no_draft"].run(window)
    qtbot.waitUntil(lambda: len(loads()) == 3)
    assert loads()[-1].options.model_draft == ""
    assert window.bench.options_for(path).model_draft == ""
