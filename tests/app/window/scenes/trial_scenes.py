"""The window with a change that was tried: both answers, and what each model makes of them."""

from math import log

import numpy as np
from PySide6.QtTest import QTest

from app.window.main_window import MainWindow
from engine.protocol import AnswerScored, Change, ScoreAnswer
from tests.app.helpers.records import memory
from tests.app.helpers.scripted import ScriptedEngine

PLAIN = ("The ", "capital ", "of ", "France ", "is ", "Paris", ", ", "on ", "the ", "Seine", ".")
TRIED = ("The ", "capital ", "of ", "France ", "is ", "a ", "city ", "of ", "the ", "French", ".")
LIKELY = (0.97, 0.93, 0.99, 0.98, 0.9, 0.02, 0.71, 0.31, 0.64, 0.12, 0.5)


def client(window: MainWindow) -> ScriptedEngine:
    made = window.bench.engine
    assert isinstance(made, ScriptedEngine)
    return made


def trial_form(window: MainWindow) -> None:
    """Before anything was tried."""
    window.bench.open_model("/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    client(window).say(memory("planned"), memory("allocated"))
    client(window).load_done()
    assert window.bench.chat.send("What is the capital of France?")
    client(window).write(*PLAIN)
    client(window).end()
    window.bench.selection.select_layer(12)
    window.sheets.show_trial()


def trial(window: MainWindow) -> None:
    """Layer 12 was left out, and each answer is scored by the other model."""
    trial_form(window)
    assert window.bench.trial.start([Change(12)])
    client(window).write(*TRIED)
    client(window).end()
    told = np.array([log(p) for p in LIKELY], "<f4").tobytes()
    for request in [r for r in client(window).asked if isinstance(r, ScoreAnswer)]:
        client(window).say(AnswerScored(request.id, told))
    window.sheets.trial.changed.text.setFocus()
    QTest.qWait(20)


SCENES = (trial_form, trial)
