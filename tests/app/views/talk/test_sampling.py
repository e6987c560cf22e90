"""The sampling panel: each number with the place that it comes from, and the way back."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.defaults import ModelFacts, suggested
from app.state.presets import BUILT_IN, SUGGESTED, OwnSampling
from app.state.workbench import Workbench
from app.theme.theme import Theme
from app.views.talk.sampling import CUSTOM, SamplingPopover, in_words
from engine.protocol import Generate, Load, Loaded, Sampling
from tests.app.helpers.gui import Talk
from tests.app.helpers.scripted import ScriptedEngine

GENERAL: dict[str, str | int | float | bool] = {
    "general.basename": "smollm2",
    "general.size_label": "135M",
    "general.sampling.top_p": 0.85,
}


def load(bench: Workbench, engine: ScriptedEngine, folder: Path) -> Loaded:
    """The model is open, and its file says who it is."""
    asked = engine.last_of(Load)
    assert isinstance(asked, Load)
    path = str(folder / "SmolLM2-135M.gguf")
    loaded = Loaded(
        asked.id, path, "SmolLM2", "llama", "intel:0", "Intel", 2048, 2048, 100, "file",
        general=GENERAL,
    )  # fmt: skip
    engine.say(loaded)
    return loaded


@pytest.fixture
def loaded(bench: Workbench, engine: ScriptedEngine, tmp_path: Path) -> Loaded:
    bench.session.unload()
    bench.session.open(tmp_path / "SmolLM2-135M.gguf")
    return load(bench, engine, tmp_path)


@pytest.fixture
def panel(talk: Talk, loaded: Loaded) -> Iterator[SamplingPopover]:
    popover = SamplingPopover(talk.bench, talk)
    popover.open_above(talk.composer)
    yield popover
    popover.hide()


def origins(panel: SamplingPopover) -> dict[str, str]:
    return {field: number.origin.text() for field, number in panel.numbers.items()}


def test_each_number_says_where_it_comes_from(
    talk: Talk, panel: SamplingPopover, loaded: Loaded
) -> None:
    shown = origins(panel)
    assert shown["temperature"] == shown["repeat_penalty"] == "suggested for SmolLM2"
    assert shown["top_p"] == "from the model's file"
    others = shown.keys() - {"temperature", "repeat_penalty", "top_p"}
    assert all(panel.numbers[field].origin.isHidden() for field in others), "no line at a default"
    assert all(number.back.isHidden() for number in panel.numbers.values())
    spoken = panel.numbers["min_p"].field.accessibleDescription()
    assert spoken.endswith("Now Cutaway's default")
    # The numbers of the window are those that `run` and `serve` take.
    facts = ModelFacts(Path(loaded.path), loaded.architecture, loaded.general, loaded.chat)
    same = suggested(facts).sampling
    assert talk.bench.chat.details.sampling == same
    assert (same.temperature, same.top_p, same.repeat_penalty) == (0.2, 0.85, 1.1)
    assert {f: n.value for f, n in panel.numbers.items()} == {
        f: getattr(same, f) for f in panel.numbers
    }
    assert panel.presets.currentText() == SUGGESTED.name
    assert in_words(talk.bench) == "Temperature 0.2"


def test_a_number_of_ones_own_goes_back(talk: Talk, panel: SamplingPopover) -> None:
    temperature, min_p = panel.numbers["temperature"], panel.numbers["min_p"]
    temperature.field.setValue(0.7)
    assert temperature.origin.text() == "suggested for SmolLM2: 0.20"
    assert temperature.back.toolTip() == "Reset to default (0.20)"
    assert panel.presets.currentText() == CUSTOM
    places = min_p.geometry(), min_p.field.geometry(), panel.inside.sizeHint().height()
    min_p.field.setValue(0.3)
    QApplication.processEvents()
    now = min_p.geometry(), min_p.field.geometry(), panel.inside.sizeHint().height()
    assert now == places, "nothing moves"
    assert min_p.origin.isHidden()
    assert min_p.back.isVisible()
    assert min_p.back.accessibleName() == "Min p: Reset to default (0.05)"
    QTest.mouseClick(temperature.back, Qt.MouseButton.LeftButton)
    assert (temperature.value, temperature.origin.text()) == (0.2, "suggested for SmolLM2")
    assert temperature.back.isHidden()
    min_p.field.setValue(0.05)
    assert min_p.back.isHidden(), "it is at its default"


def test_numbers_are_saved_for_the_model(
    talk: Talk, panel: SamplingPopover, engine: ScriptedEngine
) -> None:
    details = talk.bench.chat.details
    assert not panel.save_button.isEnabled()
    panel.numbers["temperature"].field.setValue(0.5)
    details.set_number("seed", 7)
    assert panel.save_button.isEnabled()
    panel.save_button.click()
    talk.bench.chat.open(None)
    assert panel.numbers["temperature"].origin.text() == "yours, saved for this model"
    assert panel.numbers["temperature"].back.toolTip() == "Reset to default (0.20)"
    panel.numbers["temperature"].field.setValue(0.9)
    assert panel.numbers["temperature"].back.toolTip() == "Reset to default (0.50)"
    details.reset_number("temperature")
    assert details.sampling.temperature == 0.5
    assert details.sampling.seed is None
    assert panel.presets.currentText() == CUSTOM
    panel.presets.setCurrentText(SUGGESTED.name)
    panel.presets.activated.emit(panel.presets.currentIndex())
    assert details.sampling.temperature == 0.2
    details.reset_number("temperature")
    assert details.sampling.temperature == 0.5
    panel.forget_button.click()
    assert details.sampling.temperature == 0.2
    assert details.saved == OwnSampling()
    assert panel.forget_button.isHidden()


def test_a_preset_changes_only_its_own_numbers(talk: Talk, panel: SamplingPopover) -> None:
    details = talk.bench.chat.details
    precise, creative = BUILT_IN[1:]
    details.take_preset(creative)
    assert (details.sampling.top_k, details.sampling.repeat_penalty) == (0, 1.1)
    details.take_preset(precise)
    assert (details.sampling.top_k, details.sampling.top_p) == (40, 0.9)


def test_a_question_sent_while_a_model_loads_takes_its_sampling(
    talk: Talk, engine: ScriptedEngine, tmp_path: Path
) -> None:
    bench = talk.bench
    bench.session.unload()
    bench.session.open(tmp_path / "SmolLM2-135M.gguf")
    assert bench.chat.send("What is the capital of France?")
    load(bench, engine, tmp_path)
    request = engine.last_of(Generate)
    assert isinstance(request, Generate)
    assert request.sampling == structs.replace(
        Sampling(), temperature=0.2, top_p=0.85, repeat_penalty=1.1
    )
    assert request.stop_loops
    assert request.when_full == "stop"


def test_the_program_after_takes_the_same_chat(
    talk: Talk, panel: SamplingPopover, engine: ScriptedEngine
) -> None:
    """Only what a person set is kept with a chat."""
    bench = talk.bench
    bench.chat.details.set_number("top_k", 5)
    bench.chat.send("Q")
    chat = bench.chat.chat_id
    bench.chat.open(None)
    assert bench.chat.details.own == OwnSampling()
    bench.chat.open(chat)
    assert bench.chat.details.own == OwnSampling(top_k=5)


@pytest.mark.parametrize("look", ["light", "dark"])
def test_pictures(panel: SamplingPopover, theme: Theme, folder: Path, look: str) -> None:
    theme.choose("dark" if look == "dark" else "light")
    panel.numbers["min_p"].field.setValue(0.1)
    picture = panel.inside.grab()
    assert picture.save(str(folder / f"sampling-{look}.png"))
    assert os.path.getsize(folder / f"sampling-{look}.png") > 1000
