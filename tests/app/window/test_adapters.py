"""Adapters in the window: added to the open model, kept with it, shown, and removed."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog, QLabel
from pytestqt.qtbot import QtBot

from app.widgets.overlays import Banner
from app.window.main_window import MainWindow
from engine.protocol import Load, LoraAdapter
from tests.adapters import drawn, write_adapter
from tests.app.window.test_window import COMMAND, open_model
from tests.goldens.tiny import write_tiny


def said(window: MainWindow) -> list[str]:
    """The texts of all banners."""
    banners = window.talk.notices.findChildren(Banner)
    return [label.text() for one in banners for label in one.findChildren(QLabel)]


def test_adapters_are_added_kept_once_they_fit_and_removed(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    path = write_tiny(tmp_path / "SmolLM2-135M.Q4_1.gguf", "llama")
    client = open_model(window, path)
    halves = drawn({"blk.0.attn_q.weight": (64, 64)})
    first, second = (
        write_adapter(tmp_path / f"{name}.gguf", "llama", halves) for name in ("poems", "code")
    )

    def opens(*lora: Path) -> None:
        qtbot.waitUntil(lambda: asked() == {str(one): 1.0 for one in lora})
        load = client.last_of(Load)
        assert isinstance(load, Load)
        assert (load.path, load.options.lora) == (str(path), {str(one): 1.0 for one in lora})
        named = [LoraAdapter(one.stem, str(one), 1.0, 1, 9) for one in lora]
        client.load_done(adapters=named)
        qtbot.waitUntil(lambda: window.bench.session.model is not None)

    def asked() -> dict[str, float]:
        load = client.last_of(Load)
        assert isinstance(load, Load)
        return load.options.lora

    assert not COMMAND["model.no_adapter"].enabled(window)
    chosen = str(first), ""
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: chosen)
    COMMAND["model.adapter"].run(window)
    assert window.bench.options_for(path).lora == {}  # it may not fit
    opens(first)
    assert window.bench.options_for(path).lora == {str(first): 1.0}
    assert "SmolLM2-135M · Q4_1 + poems" in window.top.model.text()
    window.opener.open(second)
    opens(first, second)
    assert "+ poems, code" in window.top.model.text()
    assert COMMAND["model.no_adapter"].enabled(window)
    first.unlink()
    assert window.bench.options_for(path).lora == {str(second): 1.0}
    COMMAND["model.no_adapter"].run(window)
    opens()
    assert window.bench.options_for(path).lora == {}
    assert "poems" not in window.top.model.text()


def test_an_adapter_without_a_model_says_what_it_is_for(
    window: MainWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    halves = drawn({"blk.0.attn_q.weight": (64, 64)})
    base = {"general.base_model.0.name": "SmolLM2 135M"}
    path = write_adapter(tmp_path / "poems.gguf", "llama", halves, metadata=base)
    window.opener.open(path)
    qtbot.waitUntil(
        lambda: any("poems.gguf is a LoRA adapter for SmolLM2 135M" in t for t in said(window))
    )
