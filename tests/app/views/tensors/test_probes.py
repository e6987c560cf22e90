"""Pinned probes: what an answer tells becomes columns, and nobody asks for what nobody sees."""

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from app.state.tensors import probes
from app.window.main_window import MainWindow
from engine.protocol import Generate, Live, Look, ProbedTokens
from tests.app.helpers.numbers import numbers_live, probed
from tests.app.helpers.scripted import ScriptedEngine


@pytest.fixture
def engine(window: MainWindow, tiny_path: object) -> ScriptedEngine:
    """An answer is being generated, with all layers pinned."""
    window.setProperty("tiny", str(tiny_path))
    numbers_live(window)
    made = window.bench.engine
    assert isinstance(made, ScriptedEngine)
    return made


def test_columns_are_the_tokens_in_order(
    window: MainWindow, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = window.bench.probes
    asked = engine.last_of(Generate)
    assert isinstance(asked, Generate)
    assert asked.live.probes == [r"l_out-\d+"]
    more = probed(asked.id, 40, 3)
    engine.say(more)
    assert len(state.columns) == 43
    last = np.frombuffer(more.rms, "<f4").reshape(3, 30)
    np.testing.assert_array_equal(np.stack([c.rms for c in state.columns])[-3:], last)
    view = window.inspector.page("tensors")
    strip = view.probes.strip  # type: ignore[attr-defined]
    strip.redraw()
    assert strip.cells.shape == (30, 43)
    assert strip.value(29, 42) == last[2, 29]
    view.probes.what.setCurrentIndex(1)  # type: ignore[attr-defined]
    strip.redraw()
    assert strip.value(29, 42) == pytest.approx(9 * last[2, 29])
    for first in range(43, 43 + 2 * probes.MOST, 64):
        engine.say(probed(asked.id, first, 64))
    assert len(state.columns) == probes.MOST


def test_nobody_asks_for_what_nobody_sees(
    window: MainWindow, engine: ScriptedEngine, qtbot: QtBot
) -> None:
    number = engine.last_of(Generate).id

    def wanted() -> Live:
        look = engine.last_of(Look)
        assert isinstance(look, Look)
        assert look.id == number
        return look.live

    window.inspector.show_tab("memory")
    assert wanted().probes == []
    window.inspector.show_tab("tensors")
    assert wanted().probes == [r"l_out-\d+"]
    view = window.inspector.page("tensors")
    view.probes.switch.click()  # type: ignore[attr-defined]
    assert wanted().probes == []
    assert view.probes.pattern.text() == ""  # type: ignore[attr-defined]
    assert "the output of every layer" in view.probes.pattern.placeholderText()  # type: ignore[attr-defined]
    view.probes.switch.click()  # type: ignore[attr-defined]
    assert wanted().probes == [r"l_out-\d+"], "an empty field stands for the usual results"
    view.probes.switch.click()  # type: ignore[attr-defined]
    view.probes.pattern.setText("ffn_out-3")  # type: ignore[attr-defined]
    view.probes.switch.click()  # type: ignore[attr-defined]
    assert wanted().probes == ["ffn_out-3"]
    engine.say(ProbedTokens(number, 50, [], problem="probe: no room"))
    assert "no room" in view.probes.caption.text()  # type: ignore[attr-defined]


def test_a_column_selects_its_token(window: MainWindow, engine: ScriptedEngine) -> None:
    """With its result: what is looked at is the step that read that token."""
    answer = window.bench.chat.answer
    assert answer is not None
    view = window.inspector.page("tensors")
    view.probes.strip.redraw()  # type: ignore[attr-defined]
    view.probes.strip.pointed.emit(4, 7)  # type: ignore[attr-defined]
    now = window.bench.selection.now
    assert now.token == (answer.message.id, answer.begun + 7)
    assert (now.operation, now.layer) == ("l_out-4", 4)
    window.bench.selection.select_operation("l_out-9", 9)
    assert window.bench.selection.now.token == (answer.message.id, answer.begun + 7)
    engine.end(n=40)
    assert window.bench.probes.columns[7].word == (answer.message.id, answer.begun + 7)
