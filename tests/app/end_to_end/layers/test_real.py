"""Layers of the real models moved by hand among three devices: the answer stays, the rest too."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt

from app.state.presets import AnswerLimits
from app.state.selection import layer_of
from app.window.main_window import MainWindow
from engine.protocol import DumpResults, Loaded, ResultPart, ResultsDumped, Sampling
from engine.units import MIB
from tests.app.end_to_end.person import Person
from tests.app.end_to_end.test_layers import (
    OPTIONS,
    Hand,
    Planner,
    agree,
    held,
    planned_sizes,
    planner,
    three_devices,
    window,
)
from tests.kernels.harness import nmse

__all__ = ["planner", "three_devices", "window"]

pytestmark = [pytest.mark.device, pytest.mark.full, pytest.mark.model_file]
ALL = replace(OPTIONS, device="intel:0,pocl:0,pocl:1", budget={})
PROMPT = "The capital of France is Paris. The capital of Germany is"
TOKENS = 4
PATIENCE_MS = 240_000  # PoCL builds a model's kernels for minutes where none are kept
_ALT, _CTRL = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ControlModifier


class Logits:
    """Of a prompt and greedy tokens behind it, in an empty context, as the engine computes them."""

    def __init__(self, window: MainWindow) -> None:
        heard: Queue[Any] = Queue()
        client = window.bench.engine.join(heard.put)
        asked = DumpResults(0, ["result_output"], prompt=PROMPT, tokens=TOKENS)
        number, parts = client.send(asked), []
        while not isinstance(reply := heard.get(timeout=PATIENCE_MS / 1000), ResultsDumped):
            if getattr(reply, "id", 0) == number:
                assert isinstance(reply, ResultPart), reply
                parts.append(np.frombuffer(reply.data, "<f4"))
        client.leave()
        self.tokens: Sequence[Sequence[int]] = [step.tokens for step in reply.steps]
        self.values = np.concatenate(parts)


@pytest.mark.parametrize(("model", "n_layer"), [("smollm2", 30), ("gemma3", 18)])
def test_a_real_model_answers_alike_wherever_its_layers_are_moved(
    qtbot: object,
    window: MainWindow,
    planner: Planner,
    smollm2_path: Path,
    gemma3_path: Path,
    model: str,
    n_layer: int,
    expected: list[str],
) -> None:
    """Logits are within 1e-4 of before, and what was uploaded is what moved, counted."""
    path = {"smollm2": smollm2_path, "gemma3": gemma3_path}[model]
    options = replace(ALL, place=f"0-{n_layer - 1}=intel:0, out=intel:0")
    expected.append("no chat template")
    person, bench = Person(qtbot, window), window.bench  # type: ignore[arg-type]
    session, layers = bench.session, bench.layers
    window.panes.show_tab("layers")
    hand = Hand(person)
    layers.look_at(path, options)
    person.wait(hand.settled)
    hand.click(hand.tile(0))
    hand.key(Qt.Key.Key_Return, _CTRL)
    person.wait(lambda: session.status == "ready", PATIENCE_MS)
    before = Logits(window)
    assert len(before.tokens) == 1 + TOKENS
    bench.chat.details.set_sampling(Sampling(temperature=0))
    bench.chat.details.set_limits(AnswerLimits(max_tokens=8))
    person.wait(hand.settled)
    for layer, down in ((3, 1), (n_layer // 2 + 2, 2), (n_layer - 1, 1)):
        assert bench.chat.send("What is the capital of France?")
        person.wait(lambda: not bench.chat.busy, PATIENCE_MS)
        hand.click(hand.tile(layer))
        hand.view.chart.close_opened()
        for _ in range(down):
            hand.key(Qt.Key.Key_Down, _ALT)
        person.wait(hand.settled)
        rule, open_rule = layers.draft.rule, session.options.place
        assert not planner(path, rule, ALL).problem
        hand.key(Qt.Key.Key_Return, _CTRL)
        person.wait(lambda: layers.applying.result and not layers.applying.is_busy, PATIENCE_MS)
        assert not layers.applying.failed, layers.applying.result
        assert_only_moved(window, planner, path, open_rule, rule)
        person.wait(hand.settled)
        agree(hand.view, planner(path, rule, ALL))
        assert held(window) == planned_sizes(planner(path, rule, ALL))[0]
        after = Logits(window)
        assert after.tokens == before.tokens
        assert nmse(after.values, before.values) < 1e-4
    assert isinstance(session.model, Loaded)


def assert_only_moved(
    window: MainWindow, planner: Planner, path: Path, before: str, after: str
) -> None:
    """What the view says of the move, against the two plans and the file."""
    lay, lie = (planner(path, rule, ALL).layers for rule in (before, after))
    gone = [n for n, (a, b) in enumerate(zip(lay, lie, strict=True)) if a != b]
    assert gone
    content = window.bench.file.content
    assert content is not None
    mine = [t.size for t in content.tensors if layer_of(t.name, len(lay) - 1) in gone]
    told = window.bench.layers.applying.result
    assert told.startswith(f"{len(mine)} tensors uploaded, {sum(mine) / MIB:.1f} MiB")
    assert "of the chat still cached" in told
