"""The top line's numbers, and the context by message."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.state.session import StageProgress
from app.state.workbench import Workbench
from app.views.talk.context_meter import ContextMeter
from app.window.main_window import MainWindow
from app.window.panes.vitals import Vitals
from engine.protocol import Finished, Load, Progress, Stats
from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine
from tests.app.test_library import put

Ask = Callable[..., None]


@pytest.fixture
def meter(talk: Talk) -> ContextMeter:
    meter = ContextMeter(talk.bench)
    layout = talk.layout()
    assert layout is not None
    layout.addWidget(meter)
    meter.show()
    return meter


def answer(engine: ScriptedEngine, n_prompt: int, n: int) -> None:
    """An answer of n tokens after a prompt of so many."""
    engine.write(*["w "] * n)
    stats = Stats(n_prompt, 0, n, 0.0, 0.1, 0.2, 1.0, 1, n_prompt + n)
    engine.say(Finished(engine.last.id, "stop", stats))


def test_speed_and_first_token_after_an_answer(qtbot: QtBot, talk: Talk, ask: Ask) -> None:
    vitals = Vitals(talk.bench)
    qtbot.addWidget(vitals)
    assert "– t/s" in vitals.rate.text()
    ask("Q", *["a "] * 40)
    qtbot.waitUntil(lambda: vitals.rate.text() == "139 t/s")
    assert vitals.first.text() == "·  TTFT 213 ms"
    assert vitals.accessibleName() == "139 tokens per second, first token after 213 ms"


def test_a_selected_word_underlines_the_numbers_alone(qtbot: QtBot, talk: Talk, ask: Ask) -> None:
    """No block is painted behind them, nor in the empty room at their right."""
    vitals = Vitals(talk.bench)
    qtbot.addWidget(vitals)
    vitals.resize(830, 48)
    vitals.show()
    qtbot.waitExposed(vitals)
    ask("Q", *["a "] * 40)
    qtbot.waitUntil(lambda: vitals.rate.text() == "139 t/s")
    before = vitals.grab().toImage()
    talk.bench.selection.select_token(talk.bench.chat.path[1].id, 3)
    QApplication.processEvents()
    assert vitals.marked
    after = vitals.grab().toImage()
    ratio, size = after.devicePixelRatio(), after.size()
    changed = {
        (x / ratio, y / ratio)
        for x in range(size.width())
        for y in range(size.height())
        if before.pixel(x, y) != after.pixel(x, y)
    }
    assert changed
    area = vitals.numbers_area
    assert area.right() < 400
    assert all(area.left() <= x <= area.right() + 1 for x, _ in changed)
    assert len({y for _, y in changed}) <= 3


def test_loading_shows_how_far_it_is(
    qtbot: QtBot, bench: Workbench, engine: ScriptedEngine, tiny_path: Path
) -> None:
    vitals = Vitals(bench)
    qtbot.addWidget(vitals)
    bench.open_model(tiny_path)
    qtbot.waitUntil(lambda: getattr(engine.last, "path", "") == str(tiny_path))
    engine.say(Progress(engine.last.id, "load", 30, 120))
    qtbot.waitUntil(lambda: vitals.rate.text() == "25 %")
    assert vitals.bar.value() == 250
    assert not vitals.bar.isHidden()
    assert vitals.line.isHidden()


def test_segments_are_the_messages_tokens(
    talk: Talk, meter: ContextMeter, engine: ScriptedEngine
) -> None:
    chat = talk.bench.chat
    chat.send("One")
    answer(engine, n_prompt=100, n=50)
    chat.send("Two")
    answer(engine, n_prompt=180, n=20)
    meter.refresh()
    assert [part.tokens for part in meter.use.shares] == [100, 50, 30, 20]
    assert [segment.size for segment in meter.bar.segments] == [100, 50, 30, 20]
    assert meter.bar.whole == 2048
    assert meter.percent.text() == "10 %"
    assert meter.accessibleName() == "Context: 200 of 2\u2009048 tokens, 10 %"


def test_the_card_tells_the_parts_by_mouse_and_keyboard(
    talk: Talk, meter: ContextMeter, engine: ScriptedEngine
) -> None:
    talk.bench.chat.send("What is a cat?")
    answer(engine, n_prompt=100, n=50)
    meter.refresh()
    QApplication.sendEvent(meter, QEvent(QEvent.Type.Leave))
    talk.composer.field.setFocus()
    meter.setFocus(Qt.FocusReason.TabFocusReason)
    card = meter.card
    assert card is not None
    assert card.isVisible()
    assert card.lines[0][:2] == ("You: What is a cat?", "100")
    assert "You: What is a cat?, 100" in card.accessibleDescription()
    QTest.keyClick(meter, Qt.Key.Key_Right)
    QTest.keyClick(meter, Qt.Key.Key_Right)
    assert meter.bar.marked == 1
    assert meter.accessibleDescription().endswith("50 tokens")
    talk.composer.field.setFocus()
    assert not card.isVisible()


def test_a_nearly_full_context_warns(
    talk: Talk, meter: ContextMeter, engine: ScriptedEngine
) -> None:
    talk.bench.chat.send("One")
    answer(engine, n_prompt=1900, n=20)
    meter.refresh()
    assert {segment.tone for segment in meter.bar.segments} == {"warn"}


def test_above_full_it_says_by_how_many_tokens(
    talk: Talk, meter: ContextMeter, engine: ScriptedEngine
) -> None:
    talk.bench.chat.send("One")
    answer(engine, n_prompt=2048, n=1200)
    meter.refresh()
    assert meter.percent.text() == "1\u2009200 tokens too long"
    assert meter.accessibleName() == (
        "Context: 3\u2009248 of 2\u2009048 tokens, 1\u2009200 tokens too long"
    )


def test_an_answer_that_fills_the_context_is_100_percent(
    talk: Talk, meter: ContextMeter, engine: ScriptedEngine
) -> None:
    """Its last token is drawn behind the last place: n_ctx + 1 in all."""
    talk.bench.chat.send("One")
    answer(engine, n_prompt=1000, n=1049)
    meter.refresh()
    assert meter.use.over == 1
    assert meter.percent.text() == "100 %"


def test_another_model_has_no_speed_yet(
    window: MainWindow, client: ScriptedEngine, tmp_path: Path, qtbot: QtBot
) -> None:
    vitals = window.top.vitals
    assert "143" in vitals.rate.text()
    window.bench.open_model(put(tmp_path / "other.gguf"))
    loads = [r for r in client.asked if isinstance(r, Load)]
    qtbot.waitUntil(lambda: len([r for r in client.asked if isinstance(r, Load)]) > len(loads))
    client.load_done()
    assert vitals.rate.text() == "– t/s"
    assert "143" not in vitals.accessibleName()


def test_while_the_first_token_is_awaited_nothing_is_loading(
    qtbot: QtBot, talk: Talk, engine: ScriptedEngine
) -> None:
    vitals = Vitals(talk.bench)
    qtbot.addWidget(vitals)
    talk.bench.chat.send("Q")
    assert vitals.first.text() == "Waiting for the first token"
    engine.say(Progress(engine.last.id, "prefill", 256, 1024))
    assert (vitals.rate.text(), vitals.first.text()) == ("25 %", "Reading the prompt")
    engine.say(Progress(engine.last.id, "prefill", 1024, 1024))
    assert vitals.first.text() == "Waiting for the first token"


@pytest.mark.parametrize(("done", "left_s"), [(714, 21.2), (999, 5.4), (500, 130.0)])
def test_one_stage_has_one_percentage_and_one_time_left(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, done: int, left_s: float
) -> None:
    bench, client = window.bench, window.bench.engine
    assert isinstance(client, ScriptedEngine)
    bench.open_model("/models/some.gguf")
    client.load_done()
    bench.chat.send("Q")
    client.write("A")
    client.end(n=1)
    bench.open_model("/models/other.gguf")
    bench.session.stage = StageProgress("load", done, 1000, left_s)
    bench.session.stage_changed.emit()
    vitals = window.findChild(Vitals)
    assert isinstance(vitals, Vitals)
    shown = [vitals.rate.text(), window.talk.welcome.work.numbers.text()]
    assert shown[1].startswith(f"{shown[0]} · ")
    left = vitals.first.text().partition("  ·  ")[2]
    assert shown[1].endswith(f"{left} left")
    assert window.talk.notices.texts[-1].endswith(f": {shown[0]}")
